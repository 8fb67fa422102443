//! Calls of tensor programs and packed functions from graph functions.

use std::any::TypeId;
use std::panic::Location;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::frame::{emit, fail, frame, span_of, type_of};
use super::{GraphValue, IntoItem, Item, item};
use crate::ir::{Attrs, BaseFunc, GlobalVar, IrError, Span, Type, VarId};
use crate::relax::{Arg, Call, Callee};
use crate::script::PrimFuncDef;
use crate::tir::{Param, PrimExpr, PrimFunc, substitute_expr};

/// `call_tir(kernel, (x, w))`: inputs, then scalars. The types of the outputs follow from the kernel's signature and these
/// inputs, unless they are written: `call_tir(kernel, (x, w), Tensor::<f32, n>)`.
#[track_caller]
pub fn call_tir<P: PrimFuncDef + 'static>(args: impl IntoItem, ret: Option<Type>) -> GraphValue {
    call_program::<P>(list(item(args)), false, ret, span_of(Location::caller()))
}

/// `call_tir_inplace(kernel, (x, w), y)`: inputs and scalars, then the values that the outputs start with. The results are
/// new tensors, in the memory of those values where nothing else uses it, and otherwise in copies.
#[track_caller]
pub fn call_tir_inplace<P: PrimFuncDef + 'static>(
    args: impl IntoItem,
    initial: impl IntoItem,
    ret: Option<Type>,
) -> GraphValue {
    let (mut items, initial) = (list(item(args)), list(item(initial)));
    items.extend(initial);
    call_program::<P>(items, true, ret, span_of(Location::caller()))
}

fn call_program<P: PrimFuncDef + 'static>(
    items: Vec<Item>,
    inplace: bool,
    ret: Option<Type>,
    span: Span,
) -> GraphValue {
    let Some((gv, func)) = program::<P>(&span) else { return GraphValue::poison() };
    match bind(&func, items, inplace, ret) {
        Ok(Some((args, ret))) => {
            let callee = if inplace { Callee::TirInplace(gv) } else { Callee::Tir(gv) };
            let (attrs, ret) = (Attrs::new(), Some(ret));
            emit(Call { callee, args, attrs, ret, span: span.clone() }.into(), &span)
        }
        Ok(None) => GraphValue::poison(),
        Err(err) => fail(err, &span),
    }
}

/// The arguments `(x, y)`; a single one needs no tuple.
pub(super) fn list(args: Item) -> Vec<Item> {
    match args {
        Item::List(items) => items,
        Item::Value(value) => match value.arg() {
            Some(Arg::Tuple(fields)) => {
                fields.iter().map(|field| Item::Value(GraphValue::from_arg(field.clone()))).collect()
            }
            _ => vec![Item::Value(value)],
        },
        single => vec![single],
    }
}

/// Adds a tensor program to the current module.
pub fn include_tir<P: PrimFuncDef + 'static>() {
    program::<P>(&Span::none());
}

fn program<P: PrimFuncDef + 'static>(span: &Span) -> Option<(GlobalVar, Arc<PrimFunc>)> {
    let key = TypeId::of::<P>();
    let known = frame(|frame| {
        let gv = frame.defs.get(&key)?.clone();
        let func = frame.builder.module().prim_func(&gv)?.clone();
        Some((gv, func))
    });
    if let Some(Some(known)) = known {
        return Some(known);
    }
    match P::prim_func() {
        Ok(func) => frame(|frame| {
            let func = Arc::new(func);
            let gv = frame.builder.module_mut().add(func.name.clone(), BaseFunc::Prim(func.clone()));
            frame.defs.insert(key, gv.clone());
            (gv, func)
        }),
        Err(err) => {
            fail(err, span);
            None
        }
    }
}

/// Arguments of a call and its result type.
type Bound = (Arc<[Arg]>, Type);

/// The arguments of the call and its result type; `None` when an argument is poisoned.
fn bind(
    func: &PrimFunc,
    items: Vec<Item>,
    inplace: bool,
    ret: Option<Type>,
) -> Result<Option<Bound>, IrError> {
    let err = |message: String| IrError::new(format!("`{}`: {message}", func.name), &Span::none());
    let (tensors, scalars) = (
        func.params.iter().filter(|param| matches!(param, Param::In(_))),
        func.params.iter().filter(|param| matches!(param, Param::Scalar(_))),
    );
    let outputs = func.params.iter().filter(|param| inplace && matches!(param, Param::Out(_)));
    let inputs: Vec<&Param> = tensors.chain(scalars).chain(outputs).collect();
    if inputs.len() != items.len() {
        return Err(err(format!("expected {} arguments, got {}", inputs.len(), items.len())));
    }
    let mut dims: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
    let mut args = Vec::new();
    for (param, it) in inputs.iter().zip(items) {
        match param {
            Param::In(buffer) | Param::Out(buffer) => {
                let Some(arg) = super::value::to_value(it).arg().cloned() else { return Ok(None) };
                let ty = type_of(&arg);
                let Some(tensor) = ty.as_tensor() else {
                    return Err(err(format!("argument `{}`: expected a tensor, got {ty}", buffer.name)));
                };
                if tensor.ndim().is_some_and(|ndim| ndim != buffer.ndim())
                    || tensor.dtype.is_some_and(|it| it != buffer.dtype)
                {
                    let message = format!(
                        "argument `{}`: expected {} of rank {}, got {ty}",
                        buffer.name,
                        buffer.dtype,
                        buffer.ndim()
                    );
                    return Err(err(message));
                }
                let extents = tensor.known_shape().into_iter().flatten();
                for (axis, (extent, got)) in buffer.shape.iter().zip(extents).enumerate() {
                    match extent {
                        PrimExpr::Var(var) if !dims.contains_key(&var.id()) => {
                            dims.insert(var.id(), got.clone());
                        }
                        _ => {
                            let expected = substitute_expr(extent, &dims);
                            let (Some(a), Some(b)) = (expected.as_int(), got.as_int()) else { continue };
                            if a != b {
                                return Err(err(format!(
                                    "argument `{}`: axis {axis} is {b}, expected {a}",
                                    buffer.name
                                )));
                            }
                        }
                    }
                }
                args.push(arg);
            }
            Param::Scalar(var) => {
                let value = super::function::value_of_type(it, Some(&Type::Prim(var.dtype())))?;
                let Some(arg) = value.arg().cloned() else { return Ok(None) };
                if let Arg::Prim(value) = &arg {
                    dims.insert(var.id(), value.clone());
                }
                args.push(arg);
            }
        }
    }
    if let Some(ret) = ret {
        return Ok(Some((args.into(), ret)));
    }
    let mut outputs = Vec::new();
    for buffer in func.outputs() {
        let shape: Vec<PrimExpr> = buffer.shape.iter().map(|extent| substitute_expr(extent, &dims)).collect();
        let own = func.symbolic_dims();
        if let Some(dim) = own
            .iter()
            .find(|dim| !dims.contains_key(&dim.id()) && shape.iter().any(|it| it.as_var() == Some(dim)))
        {
            let message =
                format!("dimension `{}` of output `{}` is not in the inputs", dim.name(), buffer.name);
            return Err(err(message).help("pass it as a scalar parameter of the kernel"));
        }
        outputs.push(Type::tensor(shape, buffer.dtype));
    }
    let ret = if outputs.len() == 1 { outputs.remove(0) } else { Type::Tuple(outputs.into()) };
    Ok(Some((args.into(), ret)))
}

/// `call_packed("name", (x, y), Tensor::<f32, n>)`: calls a registered function that returns its result; without a type,
/// nothing is known about the result.
#[track_caller]
pub fn call_packed(name: &str, args: impl IntoItem, ret: Option<Type>) -> GraphValue {
    packed(Callee::Packed(name.into()), args, ret, span_of(Location::caller()))
}

/// `call_dps_packed("name", (x, y), Tensor::<f32, n>)`: calls a registered function that fills its outputs.
#[track_caller]
pub fn call_dps_packed(name: &str, args: impl IntoItem, ret: Type) -> GraphValue {
    packed(Callee::DpsPacked(name.into()), args, Some(ret), span_of(Location::caller()))
}

fn packed(callee: Callee, args: impl IntoItem, ret: Option<Type>, span: Span) -> GraphValue {
    let values: Option<Vec<Arg>> =
        list(item(args)).into_iter().map(|it| super::value::to_value(it).arg().cloned()).collect();
    let Some(args) = values else { return GraphValue::poison() };
    emit(Call { callee, args: args.into(), attrs: Attrs::new(), ret, span: span.clone() }.into(), &span)
}
