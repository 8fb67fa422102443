//! The module being built on this thread, and the errors found so far.

use std::any::TypeId;
use std::cell::RefCell;
use std::panic::Location;

use rustc_hash::FxHashMap;
use tvm_runtime::DimBound;

use super::GraphValue;
use crate::ir::{Diagnostic, GlobalVar, IRModule, IrError, Span, Type, Var};
use crate::relax::{Arg, BlockBuilder, Expr};
use crate::tir::PrimExpr;

/// One module under construction: its builder, the definitions added so far, the problems found.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) builder: BlockBuilder,
    /// Definitions that have a global variable already, finished or not.
    pub(super) defs: FxHashMap<TypeId, GlobalVar>,
    pub(super) problems: Vec<Diagnostic>,
}

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` with a fresh frame over `module`; returns the resulting module, or all problems.
pub(super) fn with_frame<R>(module: IRModule, f: impl FnOnce() -> R) -> Result<(IRModule, R), IrError> {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            FRAMES.with_borrow_mut(|frames| frames.pop());
        }
    }
    let frame = Frame { builder: BlockBuilder::new(module), ..Frame::default() };
    FRAMES.with_borrow_mut(|frames| frames.push(frame));
    let guard = Guard;
    let res = f();
    let frame = FRAMES.with_borrow_mut(|frames| frames.last_mut().map(std::mem::take)).unwrap_or_default();
    drop(guard);
    if frame.problems.is_empty() {
        Ok((frame.builder.into_module(), res))
    } else {
        Err(IrError(frame.problems))
    }
}

/// Runs `f` on the innermost frame; `None` outside of a definition.
pub(super) fn frame<R>(f: impl FnOnce(&mut Frame) -> R) -> Option<R> {
    FRAMES.with_borrow_mut(|frames| frames.last_mut().map(f))
}

/// The caller's place in the user's source.
pub(super) fn span_of(location: &Location<'_>) -> Span {
    Span::rust(location.file(), location.line(), location.column())
}

/// Records a problem; returns the poisoned value that stands for the failed expression.
pub(super) fn fail(err: IrError, span: &Span) -> GraphValue {
    frame(|frame| frame.problems.extend(err.at(span).0));
    GraphValue::poison()
}

/// Binds `expr`; a poisoned value when it is ill-typed.
pub(super) fn emit(expr: Expr, span: &Span) -> GraphValue {
    match frame(|frame| frame.builder.emit(UNNAMED, expr, span)) {
        Some(Ok(var)) => GraphValue::from_arg(Arg::Var(var)),
        Some(Err(err)) => fail(err, span),
        None => GraphValue::poison(),
    }
}

/// Type of an argument in the current module.
pub(super) fn type_of(arg: &Arg) -> Type {
    frame(|frame| frame.builder.type_of(arg)).unwrap_or(Type::Object)
}

/// A fresh symbolic dimension.
pub fn dim(name: &str, bound: Option<DimBound>) -> PrimExpr {
    PrimExpr::Var(Var::index(name).within(bound))
}

/// Name of a variable that the source has not named yet.
pub(super) const UNNAMED: &str = "lv";

/// `let name = value;`: gives the name to the variable that holds the value, if that is the last one bound and unnamed.
pub fn named(name: &str, value: impl super::IntoItem) -> GraphValue {
    let value = super::value::to_value(value);
    rename(&value, name, None).unwrap_or(value)
}

/// `let name: ty = value;`: a variable of that type, which the value must have.
#[track_caller]
pub fn typed(name: &str, ty: Type, value: impl super::IntoItem) -> GraphValue {
    let span = span_of(Location::caller());
    let value = super::value::to_value(value);
    if let Some(renamed) = rename(&value, name, Some(ty.clone())) {
        return renamed;
    }
    let Some(arg) = value.arg().cloned() else { return value };
    rename(&emit(Expr::Arg(arg), &span), name, Some(ty)).unwrap_or_else(GraphValue::poison)
}

fn rename(value: &GraphValue, name: &str, ty: Option<Type>) -> Option<GraphValue> {
    let var = value.arg()?.as_var().filter(|var| var.name() == UNNAMED)?;
    let renamed = frame(|frame| frame.builder.rename_last(var, name, ty)).flatten()?;
    Some(GraphValue::from_arg(Arg::Var(renamed)))
}

/// The `N` fields of a tuple.
#[track_caller]
pub fn untuple<const N: usize>(value: impl super::IntoItem) -> [GraphValue; N] {
    let span = span_of(Location::caller());
    let value = super::value::to_value(value);
    let Some(arg) = value.arg().cloned() else { return std::array::from_fn(|_| GraphValue::poison()) };
    if let Some(fields) = type_of(&arg).as_tuple()
        && fields.len() != N
    {
        let message = format!("expected a tuple of {N} fields, got {}", fields.len());
        let poison = fail(IrError::new(message, &span), &span);
        return std::array::from_fn(|_| poison.clone());
    }
    std::array::from_fn(|i| match &arg {
        Arg::Tuple(fields) => {
            fields.get(i).map_or_else(GraphValue::poison, |field| GraphValue::from_arg(field.clone()))
        }
        _ => emit(Expr::TupleGetItem(arg.clone(), i), &span),
    })
}
