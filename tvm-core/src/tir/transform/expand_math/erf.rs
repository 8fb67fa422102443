//! The error function: `1 - exp(-a R(a))` of `a = |x|`, and the sign of `x`. `R` is a polynomial, so there is one range
//! and no division; `exp(..) - 1` keeps the digits of small results.

use super::exp::exp_minus_one;
use super::steps::Steps;
use crate::tir::PrimExpr;

/// `-R(a)` without its constant, for `a <= 3.93`: minimax of degree 8 to `log(1 - erf(a)) / a` for the relative error of
/// the result (4e-9).
const TERMS: [f32; 8] = [
    9.256_266e-6,
    -0.000_117_641_28,
    0.000_632_836_9,
    -0.001_667_027_5,
    0.000_160_396_11,
    0.019_153_064,
    -0.102_777_83,
    -0.636_619_4,
];

/// `-R(0)`, and what is lost by rounding it.
const FIRST: f32 = -std::f32::consts::FRAC_2_SQRT_PI;
const FIRST_LOW: f32 = 5.411_989_4e-8;

/// `erf(x)`
pub(super) fn erf(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let a = steps.magnitude(x);
    // The result is 1 from 3.92 on.
    let a = steps.at_most(a, 4.0);
    let terms = steps.polynomial(&TERMS, &a);
    let terms = steps.mul_add(&terms, &a, steps.number(FIRST_LOW));
    let exponent = steps.mul_add(&a, &steps.number(FIRST), terms * &a);
    let exponent = steps.step("w", exponent);
    let value = exp_minus_one(steps, &exponent);
    let value = steps.step("y", value);
    steps.copy_sign(&value, x)
}
