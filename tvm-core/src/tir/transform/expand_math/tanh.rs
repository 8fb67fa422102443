//! The hyperbolic tangent: with `e = exp(-2 |x|) - 1`, it is `-e / (2 + e)` and the sign of `x`. The quotient has the
//! digits of `e` where `x` is small, and is exactly 1 where `e` is -1.

use super::exp::exp_minus_one;
use super::steps::Steps;
use crate::tir::PrimExpr;

/// `tanh(x)`
pub(super) fn tanh(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let twice = steps.negative(x) * steps.number(2.0);
    // The result is 1 from 9.02 on.
    let twice = steps.at_least(twice, -20.0);
    let e = exp_minus_one(steps, &twice);
    let e = steps.step("e", e);
    let quotient = steps.step("y", &e / (&e + steps.number(2.0)));
    steps.copy_sign(&quotient, x)
}
