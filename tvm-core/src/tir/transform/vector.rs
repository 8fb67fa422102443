//! Vector arithmetic that keeps ramps in ramp form.

use std::sync::Arc;

use crate::tir::{BinaryOp, PrimExpr, Ramp, binary};

fn scalar(expr: &PrimExpr) -> Option<PrimExpr> {
    match expr {
        PrimExpr::Broadcast(it) => Some(it.value.clone()),
        _ if expr.dtype().is_scalar() => Some(expr.clone()),
        _ => None,
    }
}

fn ramp(base: PrimExpr, stride: PrimExpr, lanes: u16) -> PrimExpr {
    if stride.is_const(0) {
        base.broadcast(lanes)
    } else {
        PrimExpr::Ramp(Arc::new(Ramp { base, stride, lanes }))
    }
}

/// `a + b`
pub(super) fn add(a: PrimExpr, b: PrimExpr) -> PrimExpr {
    match (&a, &b, scalar(&a), scalar(&b)) {
        (PrimExpr::Ramp(x), PrimExpr::Ramp(y), _, _) => {
            ramp(x.base.clone() + &y.base, x.stride.clone() + &y.stride, x.lanes)
        }
        (PrimExpr::Ramp(x), _, _, Some(b)) => ramp(x.base.clone() + b, x.stride.clone(), x.lanes),
        (_, PrimExpr::Ramp(y), Some(a), _) => ramp(a + &y.base, y.stride.clone(), y.lanes),
        (_, _, Some(x), Some(y)) => (x + y).broadcast(a.dtype().lanes().max(b.dtype().lanes())),
        _ => binary(BinaryOp::Add, a, b),
    }
}

/// `a - b`
pub(super) fn sub(a: PrimExpr, b: PrimExpr) -> PrimExpr {
    match (&a, &b, scalar(&a), scalar(&b)) {
        (PrimExpr::Ramp(x), PrimExpr::Ramp(y), _, _) => {
            ramp(x.base.clone() - &y.base, x.stride.clone() - &y.stride, x.lanes)
        }
        (PrimExpr::Ramp(x), _, _, Some(b)) => ramp(x.base.clone() - b, x.stride.clone(), x.lanes),
        (_, PrimExpr::Ramp(y), Some(a), _) => {
            ramp(a - &y.base, PrimExpr::int(0, y.stride.dtype()) - &y.stride, y.lanes)
        }
        (_, _, Some(x), Some(y)) => (x - y).broadcast(a.dtype().lanes().max(b.dtype().lanes())),
        _ => binary(BinaryOp::Sub, a, b),
    }
}

/// `a * b`
pub(super) fn mul(a: PrimExpr, b: PrimExpr) -> PrimExpr {
    match (&a, &b, scalar(&a), scalar(&b)) {
        (PrimExpr::Ramp(x), _, _, Some(b)) => ramp(x.base.clone() * &b, x.stride.clone() * b, x.lanes),
        (_, PrimExpr::Ramp(y), Some(a), _) => ramp(a.clone() * &y.base, a * &y.stride, y.lanes),
        (_, _, Some(x), Some(y)) => (x * y).broadcast(a.dtype().lanes().max(b.dtype().lanes())),
        _ => binary(BinaryOp::Mul, a, b),
    }
}
