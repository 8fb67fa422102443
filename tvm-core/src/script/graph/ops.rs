//! Calls of operators: arguments by position fill the operator's arguments, then its attributes.
//!
//! A call by name goes through [`NamedCall`], where a user's function hides the operator of the same name.

use std::iter::Peekable;
use std::panic::Location;
use std::sync::Arc;
use std::vec::IntoIter;

pub use super::expr::{bind, call_op, ref_create, ref_read, ref_write, tuple_get_item};
pub use super::function::call_global;

use super::frame::{emit, fail, span_of};
use super::value::to_value;
use super::{Args, At, GraphValue, Item, NamedCall, Outcome};
use crate::ir::{ArgKind, AttrKind, AttrValue, Attrs, IrError, Op, OpRegistry, Span};
use crate::relax::op::device::PLACE;
use crate::relax::{Arg, Call, Callee};

/// Binds a call of the operator `name` (with or without its `nn.` or `image.`).
pub(super) fn emit_op(name: &str, args: Args, span: &Span) -> GraphValue {
    let Some(op) = find(name) else {
        return match Op::get(name) {
            Err(err) => fail(err, span),
            Ok(_) => GraphValue::poison(),
        };
    };
    match bind_args(op, args) {
        Ok(Some((args, attrs))) => {
            emit(Call { callee: Callee::Op(op), args, attrs, ret: None, span: span.clone() }.into(), span)
        }
        Ok(None) => GraphValue::poison(),
        Err(err) => fail(err, span),
    }
}

/// Operator families, whose names the functions of their operators leave out.
const FAMILIES: [&str; 3] = ["", "nn.", "image."];

fn find(name: &str) -> Option<Op> {
    let renamed =
        || OpRegistry::BUILT_IN.iter().flat_map(|table| table.iter()).find(|op| op.function == Some(name));
    let full = || FAMILIES.iter().find_map(|family| Op::get(&format!("{family}{name}")).ok());
    full().or_else(|| Op::get(renamed()?.name).ok())
}

/// The function that calls the operator `op`, if there is one.
pub(crate) fn function_of(op: Op) -> Option<&'static str> {
    let name = op.function.unwrap_or(op.name);
    let calls = |function: &&&str| name.ends_with(**function) && find(function) == Some(op);
    NAMES.iter().find(calls).copied()
}

/// Arguments and attributes of a call.
type Bound = (Arc<[Arg]>, Attrs);

/// The arguments and attributes of a call; `None` when an argument is poisoned.
fn bind_args(op: Op, args: Args) -> Result<Option<Bound>, IrError> {
    let mut items = args.items.into_iter().peekable();
    let bound = bind_items(op, &mut items)?;
    let attrs = bind_attrs(op, items, args.named)?;
    Ok(bound.map(|args| (args.into(), attrs)))
}

fn wrong_use(op: Op, message: String) -> IrError {
    IrError::new(format!("`{}`: {message}", op.name), &Span::none())
}

/// The arguments, taken from the front of `items`; `None` when one is poisoned.
fn bind_items(op: Op, items: &mut Peekable<IntoIter<Item>>) -> Result<Option<Vec<Arg>>, IrError> {
    let err = |message| wrong_use(op, message);
    let mut bound: Vec<Option<Arg>> = Vec::new();
    for def in op.args {
        let Some(next) = items.peek() else {
            if matches!(def.kind, ArgKind::Optional | ArgKind::Variadic) {
                continue;
            }
            return Err(err(format!("argument `{}` is missing", def.name)));
        };
        let wrong = |expected: &str| {
            err(format!("argument `{}`: expected {expected}, got {}", def.name, next.kind()))
        };
        match (def.kind, next) {
            (ArgKind::Optional, Item::Value(_)) | (ArgKind::Any, _) => {
                bound.extend(items.next().map(|it| to_value(it).arg().cloned()))
            }
            (ArgKind::Optional, _) => {}
            (ArgKind::Tensor, Item::Value(_) | Item::Float(_) | Item::Int(_) | Item::Bool(_)) => {
                bound.extend(items.next().map(|it| to_value(it).arg().cloned()));
            }
            (ArgKind::Variadic, Item::List(list)) => {
                bound.push(to_value(Item::List(list.clone())).arg().cloned());
                items.next();
            }
            (ArgKind::Variadic, Item::Value(_)) => {
                while let Some(Item::Value(value)) = items.peek() {
                    bound.push(value.arg().cloned());
                    items.next();
                }
            }
            (ArgKind::Shape, Item::List(list)) => {
                let dims = list
                    .iter()
                    .map(Item::to_dim)
                    .collect::<Option<Vec<_>>>()
                    .ok_or_else(|| wrong("a list of dimensions"))?;
                bound.push(Some(Arg::Shape(dims.into())));
                items.next();
            }
            (ArgKind::Shape, Item::Value(value)) => {
                bound.push(value.arg().cloned());
                items.next();
            }
            (ArgKind::Prim, Item::Float(value)) => {
                bound.push(Some(Arg::Prim(crate::tir::PrimExpr::float(*value, tvm_runtime::DataType::F32))));
                items.next();
            }
            (ArgKind::Prim, Item::Value(value)) if value.is_scalar() => {
                bound.push(value.arg().cloned());
                items.next();
            }
            (ArgKind::Prim, it) => {
                bound.push(Some(Arg::Prim(it.to_dim().ok_or_else(|| wrong("a number"))?)));
                items.next();
            }
            (ArgKind::Tensor, _) => return Err(wrong("a tensor")),
            (ArgKind::Variadic, _) => return Err(wrong("a list of tensors")),
            (ArgKind::Shape, _) => return Err(wrong("a shape like [n, 10]")),
        }
    }
    Ok(bound.into_iter().collect())
}

/// The attributes: `items` by position, then `named`.
fn bind_attrs(
    op: Op,
    items: impl Iterator<Item = Item>,
    named: Vec<(&'static str, Item)>,
) -> Result<Attrs, IrError> {
    let err = |message| wrong_use(op, message);
    let mut attrs = Attrs::new();
    let mut names = op.attrs.iter();
    for it in items {
        let Some(def) = names.next() else {
            return Err(err(format!("too many arguments: it takes {}", op.args.len() + op.attrs.len())));
        };
        attrs.set(
            def.name,
            attr(def.kind, &it)
                .ok_or_else(|| err(format!("attribute `{}` cannot be {}", def.name, it.kind())))?,
        );
    }
    for (name, it) in named {
        let def = op.attrs.iter().find(|def| def.name == name);
        // Every operator can say where it computes.
        let kind = def.map(|def| def.kind).or_else(|| (name == PLACE).then_some(AttrKind::Str));
        let Some(kind) = kind else {
            let names: Vec<&str> = op.attrs.iter().map(|def| def.name).collect();
            let help = match crate::support::nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if names.is_empty() => "it has no attributes".into(),
                None => format!("its attributes are {}", names.join(", ")),
            };
            return Err(err(format!("unknown attribute `{name}`")).help(help));
        };
        attrs.set(
            name,
            attr(kind, &it).ok_or_else(|| err(format!("attribute `{name}` cannot be {}", it.kind())))?,
        );
    }
    Ok(attrs)
}

/// The value of an attribute of kind `kind`. A single string or float becomes a list of one; a single integer stays an
/// integer, because some operators distinguish it from a list (`split`).
fn attr(kind: AttrKind, it: &Item) -> Option<AttrValue> {
    let value = it.to_attr().filter(|value| is_of_kind(kind, value))?;
    Some(match (kind, value) {
        (_, AttrValue::List(items)) => AttrValue::List(items),
        (AttrKind::Floats | AttrKind::Strs, single) => AttrValue::List(Arc::new([single])),
        (_, value) => value,
    })
}

/// Whether an attribute of kind `kind` can have this value; lists may be nested.
fn is_of_kind(kind: AttrKind, value: &AttrValue) -> bool {
    match (kind, value) {
        (_, AttrValue::List(items)) => items.iter().all(|it| is_of_kind(kind, it)),
        (AttrKind::Bool, value) => matches!(value, AttrValue::Bool(_)),
        (AttrKind::Int | AttrKind::Ints, value) => matches!(value, AttrValue::Int(_)),
        (AttrKind::Float | AttrKind::Floats, value) => {
            matches!(value, AttrValue::Float(_) | AttrValue::Int(_))
        }
        (AttrKind::Str | AttrKind::Strs, value) => matches!(value, AttrValue::Str(_)),
        (AttrKind::DType, value) => matches!(value, AttrValue::DType(_)),
    }
}

macro_rules! ops {
    ($($name:ident)*) => {
        /// Names of the functions that call an operator.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("The operator `", stringify!($name), "`.")]
            #[track_caller]
            pub fn $name(args: Args) -> GraphValue {
                emit_op(stringify!($name), args, &span_of(Location::caller()))
            }
        )*

        impl<F: Fn(Args, At) -> R, R: Outcome> NamedCall<F> {
            $(
                #[doc = concat!("What `", stringify!($name), "` is in the module.")]
                #[track_caller]
                pub fn $name(&self) -> R {
                    self.call(Location::caller())
                }
            )*
        }

        /// Types named like the operators: a name resolves to its type here if the module has nothing of that name.
        #[allow(non_camel_case_types, reason = "named like the operators")]
        pub mod names {
            $(
                #[doc = concat!("The operator `", stringify!($name), "`.")]
                pub struct $name {}
            )*
        }

        #[allow(clippy::should_implement_trait, reason = "named like the operators; Rust's traits call them")]
        impl GraphValue {
            $(
                #[doc = concat!("The operator `", stringify!($name), "` with this as the first argument.")]
                #[track_caller]
                pub fn $name(self, mut args: Args) -> GraphValue {
                    args.items.insert(0, Item::Value(self));
                    emit_op(stringify!($name), args, &span_of(Location::caller()))
                }
            )*
        }
    };
}

ops! {
    abs acos acosh asin asinh atan atanh ceil clip cos cosh erf exp floor isfinite isinf isnan log log1p logical_not
    negative round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc bitwise_not
    add subtract multiply divide floor_divide power maximum minimum equal not_equal less less_equal greater
    greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
    matmul sum mean max min prod std variance argmax argmin
    relu leakyrelu prelu gelu silu softplus softmax log_softmax dropout batch_norm layer_norm rms_norm instance_norm lrn
    conv1d conv2d max_pool2d avg_pool2d adaptive_avg_pool2d batch_flatten pad
    to_vdevice reshape flatten expand_dims squeeze permute_dims concat stack split tile repeat flip broadcast_to take
    layout_transform gather_elements gather_nd scatter_elements scatter_nd strided_slice astype shape_of
    full full_like zeros zeros_like ones ones_like arange eye tril triu one_hot resize2d select
}
