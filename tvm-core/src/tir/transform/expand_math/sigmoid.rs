//! The logistic function, from the exponential of `-|x|`: it does not overflow, and small results keep their digits.

use super::exp::exp_below;
use super::steps::Steps;
use crate::tir::PrimExpr;

/// `1 / (1 + exp(-x))`
pub(super) fn sigmoid(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let size = steps.negative(x);
    let e = exp_below(steps, size);
    let e = steps.step("e", e);
    let negative = x.clone().less(steps.number(0.0));
    negative.select(e.clone(), steps.number(1.0)) / (steps.number(1.0) + e)
}
