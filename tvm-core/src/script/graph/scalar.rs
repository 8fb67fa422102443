//! Scalars: extents, elements of shapes, and the values of scalar parameters.

use std::panic::Location;

use super::GraphValue;
use super::frame::{fail, span_of};
use crate::ir::{IrError, Type};
use crate::relax::Arg;
use crate::tir::PrimExpr;

/// What a name in a scalar expression may stand for: a dimension, or a value that is a scalar.
pub trait ToScalar {
    /// The expression.
    #[track_caller]
    fn to_scalar(&self) -> PrimExpr;
}

impl ToScalar for PrimExpr {
    fn to_scalar(&self) -> PrimExpr {
        self.clone()
    }
}

impl ToScalar for GraphValue {
    fn to_scalar(&self) -> PrimExpr {
        match self.arg() {
            Some(Arg::Prim(value)) => return value.clone(),
            Some(Arg::Var(var)) if matches!(var.ty(), Type::Prim(_)) => return var.into(),
            _ => {}
        }
        if !self.is_poison() {
            let span = span_of(Location::caller());
            fail(IrError::new("only a dimension or a scalar can stand here", &span), &span);
        }
        PrimExpr::index(0)
    }
}

/// The scalar expression that a name stands for.
#[track_caller]
pub fn scalar(it: &impl ToScalar) -> PrimExpr {
    it.to_scalar()
}

/// `prim(n * 2)`: a scalar as a value.
pub fn prim(value: PrimExpr) -> GraphValue {
    GraphValue::from_arg(Arg::Prim(value))
}

/// `shape([n, 4])`: a shape as a value.
pub fn shape(values: Vec<PrimExpr>) -> GraphValue {
    GraphValue::from_arg(Arg::Shape(values.into()))
}
