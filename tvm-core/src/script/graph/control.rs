//! Branches, dataflow blocks, checked casts.

use std::panic::Location;
use std::sync::Arc;

use super::frame::{emit, fail, frame, span_of};
use super::value::to_value;
use super::{GraphValue, IntoItem};
use crate::ir::{IrError, Type};
use crate::relax::{Arg, Body, Expr, If};

/// Runs `build` in a scope of its own; `None` when its value is poisoned.
pub(super) fn scope(build: impl FnOnce() -> GraphValue, expected: Option<&Type>) -> Option<Body> {
    frame(|frame| frame.builder.begin_scope())?;
    let ret = build().arg_of_type(expected);
    let body = frame(|frame| frame.builder.end_scope(ret.clone().unwrap_or(Arg::Tuple(Arc::new([])))))?;
    ret.map(|_| body)
}

/// `if cond { then } else { otherwise }`.
#[track_caller]
pub fn if_(
    cond: impl IntoItem,
    then: impl FnOnce() -> GraphValue,
    otherwise: impl FnOnce() -> GraphValue,
) -> GraphValue {
    let span = span_of(Location::caller());
    let cond = to_value(cond);
    let arms = (scope(then, None), scope(otherwise, None));
    match (cond.arg(), arms) {
        (Some(cond), (Some(then_branch), Some(else_branch))) => {
            let branch = If { cond: cond.clone(), then_branch, else_branch, span: span.clone() };
            emit(Expr::If(Arc::new(branch)), &span)
        }
        _ => GraphValue::poison(),
    }
}

/// `dataflow(|| { .. })`: bindings that are pure and without control flow.
pub fn dataflow(build: impl FnOnce() -> GraphValue) -> GraphValue {
    frame(|frame| frame.builder.end_block(false));
    let value = build();
    frame(|frame| frame.builder.end_block(true));
    value
}

/// `match_cast(x, Tensor::<f32, n>)`: checked at run time; binds the dimensions of the type that are new.
#[track_caller]
pub fn match_cast(value: impl IntoItem, ty: Type) -> GraphValue {
    let span = span_of(Location::caller());
    let value = to_value(value);
    match value.arg() {
        Some(arg) => {
            match frame(|frame| frame.builder.emit_match_cast(super::frame::UNNAMED, arg.clone(), ty, &span))
            {
                Some(var) => GraphValue::from_arg(Arg::Var(var)),
                None => fail(IrError::new("`match_cast` outside of a graph function", &span), &span),
            }
        }
        None => GraphValue::poison(),
    }
}
