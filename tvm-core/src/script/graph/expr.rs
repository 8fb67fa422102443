//! Expressions that are not operator functions: bindings without a computation, tuple fields, cells, operators by name,
//! constants.

use std::panic::Location;

use super::frame::{emit, fail, span_of};
use super::value::to_value;
use super::{Args, GraphValue, Item};
use crate::ir::{IrError, Span};
use crate::relax::{Arg, Expr};

/// The arguments, if there are `N` of them, all by position; otherwise reports an error.
fn exact<const N: usize>(name: &str, args: Args, span: &Span) -> Option<[Item; N]> {
    let (got, named) = (args.items.len(), args.named.len());
    let items = args.items.try_into().ok().filter(|_| named == 0);
    if items.is_none() {
        let message = format!("`{name}` takes {N} arguments by position, got {got} and {named} by name");
        fail(IrError::new(message, span), span);
    }
    items
}

macro_rules! expressions {
    ($($(#[$doc:meta])* $name:ident[$($arg:ident),*] => $expr:expr;)*) => {
        $($(#[$doc])*
        #[track_caller]
        pub fn $name(args: Args) -> GraphValue {
            let span = span_of(Location::caller());
            let Some([$($arg),*]) = exact(stringify!($name), args, &span) else { return GraphValue::poison() };
            $(let Some($arg) = to_value($arg).arg().cloned() else { return GraphValue::poison() };)*
            emit($expr, &span)
        })*
    };
}

expressions! {
    /// `bind(x)`: binds what needs no computation to a variable of its own: another variable, a constant, a tuple, a shape.
    bind[value] => Expr::Arg(value);
    /// `ref_create(x)`: a mutable cell that holds `x`.
    ref_create[value] => Expr::RefCreate(value);
    /// `ref_read(cell)`: the content of a cell.
    ref_read[cell] => Expr::RefRead(cell);
    /// `ref_write(cell, x)`: stores `x` in a cell.
    ref_write[cell, value] => Expr::RefWrite(cell, value);
}

/// `tuple_get_item((x, y), 0)`: a field of a tuple, which may be a tuple expression; for a variable, `t.0` is the same.
#[track_caller]
pub fn tuple_get_item(args: Args) -> GraphValue {
    let span = span_of(Location::caller());
    let Some([tuple, index]) = exact("tuple_get_item", args, &span) else { return GraphValue::poison() };
    let index = if let Item::Int(index) = index { usize::try_from(index).ok() } else { None };
    match (to_value(tuple).arg(), index) {
        (Some(tuple), Some(index)) => emit(Expr::TupleGetItem(tuple.clone(), index), &span),
        (Some(_), None) => fail(IrError::new("the index of a field is a number", &span), &span),
        (None, _) => GraphValue::poison(),
    }
}

/// `call_op("nn.relu", x)`: calls an operator by its full name; the program may have registered the operator itself.
#[track_caller]
pub fn call_op(mut args: Args) -> GraphValue {
    let span = span_of(Location::caller());
    if let Some(Item::Str(name)) = args.items.first() {
        let name = name.clone();
        args.items.remove(0);
        return super::ops::emit_op(&name, args, &span);
    }
    let err = IrError::new("the first argument of `call_op` is the operator's name", &span);
    fail(err.help("write call_op(\"nn.relu\", x)"), &span)
}

/// `constant::<f32, 64>("0000803f..")`: a tensor, given as the hexadecimal digits of its bytes.
#[track_caller]
pub fn constant_bytes(dtype: tvm_runtime::DataType, shape: &[i64], digits: &str) -> GraphValue {
    let span = span_of(Location::caller());
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    let made = match bytes {
        Some(bytes) if digits.len().is_multiple_of(2) => {
            tvm_runtime::Tensor::from_bytes(&bytes, shape, dtype).map_err(|err| err.to_string())
        }
        _ => Err("two hexadecimal digits are expected for each byte".to_string()),
    };
    match made {
        Ok(tensor) => GraphValue::from_arg(Arg::Const(tensor)),
        Err(err) => fail(IrError::new(format!("constant: {err}"), &span), &span),
    }
}

/// `constant::<f32, 2>([1.0, 2.0])`: a tensor, given as its elements.
#[track_caller]
pub fn constant<T: tvm_runtime::Element>(shape: &[i64], data: Vec<T>) -> GraphValue {
    let span = span_of(Location::caller());
    match tvm_runtime::Tensor::from_vec(data, shape) {
        Ok(tensor) => GraphValue::from_arg(Arg::Const(tensor)),
        Err(err) => fail(IrError::new(format!("constant: {err}"), &span), &span),
    }
}
