//! Checks that apply to the calls of all operators: number and kinds of arguments, attributes.

use tvm_runtime::Device;

use super::device::PLACE;
use crate::ir::{ArgDef, ArgKind, AttrKind, AttrValue, InferContext, IrError, Type};
use crate::relax::analysis::show_type;

/// Checks the arguments and attributes of a call against the operator's definition, and reports all problems at once.
///
/// # Errors
/// Too few or too many arguments, an argument of a wrong kind, an unknown, missing or ill-typed attribute.
pub fn check_call(ctx: &InferContext<'_>) -> Result<(), IrError> {
    let mut problems = Vec::new();
    check_args(ctx, &mut problems);
    check_attrs(ctx, &mut problems);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(IrError(problems.into_iter().flat_map(|it| it.0).collect()))
    }
}

fn check_args(ctx: &InferContext<'_>, problems: &mut Vec<IrError>) {
    let defs = ctx.op.args;
    let variadic = defs.last().is_some_and(|def| def.kind == ArgKind::Variadic);
    let least = defs.iter().filter(|def| !matches!(def.kind, ArgKind::Optional | ArgKind::Variadic)).count();
    let most = if variadic { usize::MAX } else { defs.len() };
    let got = ctx.types.len();
    if !(least..=most).contains(&got) {
        let names: Vec<&str> = defs.iter().map(|def| def.name).collect();
        let expected = match (least == most, variadic) {
            (true, _) => least.to_string(),
            (false, true) => format!("at least {least}"),
            (false, false) => format!("{least} to {most}"),
        };
        let message = format!("expected {expected} arguments ({}), got {got}", names.join(", "));
        problems.push(ctx.error(message));
        return;
    }
    for (i, ty) in ctx.types.iter().enumerate() {
        let Some(def) = defs.get(i).or(defs.last()) else { continue };
        if let Some(expected) = misfit(def, ty) {
            let message = format!("argument `{}` is {expected}, got {}", def.name, show_type(ty));
            problems.push(ctx.error(message));
        }
    }
}

/// A description of what `def` accepts, when `ty` is something else.
fn misfit(def: &ArgDef, ty: &Type) -> Option<&'static str> {
    let tensors = |types: &[Type]| types.iter().all(|ty| matches!(ty, Type::Tensor(_)));
    let (fits, expected) = match (def.kind, ty) {
        (ArgKind::Any, _) => (true, ""),
        (ArgKind::Tensor | ArgKind::Optional, _) => (matches!(ty, Type::Tensor(_)), "a tensor"),
        (ArgKind::Variadic, Type::Tuple(fields)) => (tensors(fields), "tensors"),
        (ArgKind::Variadic, _) => (matches!(ty, Type::Tensor(_)), "tensors"),
        (ArgKind::Shape, _) => (matches!(ty, Type::Shape(_)), "a shape"),
        (ArgKind::Prim, _) => (matches!(ty, Type::Prim(_)), "a scalar"),
    };
    (!fits).then_some(expected)
}

fn check_attrs(ctx: &InferContext<'_>, problems: &mut Vec<IrError>) {
    for (name, value) in ctx.attrs.iter() {
        match ctx.op.attrs.iter().find(|def| def.name == name) {
            Some(def) if fits(def.kind, value) => {}
            Some(def) => {
                let message = format!("attribute `{name}` is {}, got {value:?}", describe(def.kind));
                problems.push(ctx.error(message));
            }
            None if name == PLACE => match value {
                AttrValue::Str(device) if device.parse::<Device>().is_ok() => {}
                other => problems
                    .push(ctx.error(format!("attribute `{PLACE}` is the name of a device, got {other:?}"))),
            },
            None => {
                let err = ctx.error(format!("there is no attribute `{name}`"));
                let names = || ctx.op.attrs.iter().map(|def| def.name);
                problems.push(match crate::support::nearest(name, names()) {
                    Some(near) => err.help(format!("did you mean `{near}`?")),
                    None if names().next().is_none() => err.help("it takes none"),
                    None => err.help(format!("it takes {}", names().collect::<Vec<_>>().join(", "))),
                });
            }
        }
    }
    for def in ctx.op.attrs.iter().filter(|def| def.required && ctx.attrs.get(def.name).is_none()) {
        problems.push(ctx.error(format!("attribute `{}` ({}) is missing", def.name, describe(def.kind))));
    }
}

/// Largest magnitude of an integer attribute. Positions, extents and counts are far smaller, so arithmetic on them is safe.
const LIMIT: i64 = 1 << 31;

fn fits(kind: AttrKind, value: &AttrValue) -> bool {
    let int = |it: &AttrValue| matches!(it, AttrValue::Int(it) if (-LIMIT..=LIMIT).contains(it));
    let list = |ok: fn(&AttrValue) -> bool| matches!(value, AttrValue::List(it) if it.iter().all(ok));
    match kind {
        AttrKind::Bool => matches!(value, AttrValue::Bool(_) | AttrValue::Int(0 | 1)),
        AttrKind::Int => int(value),
        AttrKind::Float => matches!(value, AttrValue::Float(_) | AttrValue::Int(_)),
        AttrKind::Str => matches!(value, AttrValue::Str(_)),
        AttrKind::DType => matches!(value, AttrValue::DType(_)),
        // A single integer stands for a list of one.
        AttrKind::Ints => int(value) || matches!(value, AttrValue::List(it) if it.iter().all(int)),
        AttrKind::Floats => list(|it| matches!(it, AttrValue::Float(_) | AttrValue::Int(_))),
        AttrKind::Strs => list(|it| matches!(it, AttrValue::Str(_))),
    }
}

const fn describe(kind: AttrKind) -> &'static str {
    match kind {
        AttrKind::Bool => "a flag",
        AttrKind::Int => "an integer of at most 2^31",
        AttrKind::Float => "a float",
        AttrKind::Str => "a string",
        AttrKind::DType => "a data type",
        AttrKind::Ints => "a list of integers of at most 2^31",
        AttrKind::Floats => "a list of floats",
        AttrKind::Strs => "a list of strings",
    }
}
