//! The exponential function, and what other functions take from it.
//!
//! An argument `n ln 2 + r` with an integer `n` gives `2^n exp(r)`. Adding 1.5 * 2^23 rounds to an integer, whose
//! low bits then are those of the sum.

use super::steps::Steps;
use crate::tir::PrimExpr;

/// Adding this number rounds to an integer.
const ROUND: f32 = 12_582_912.0;

/// `ln 2 = HIGH + LOW`. `HIGH` has so few bits that its product with an integer below 2^8 is exact.
const HIGH: f32 = 0.693_359_4;
const LOW: f32 = -2.121_944_4e-4;

/// `(exp(r) - 1) / r`, for `|r| <= ln 2 / 2`: minimax of degree 5 (error of `exp` 3e-9) with the term 1.
const NARROW: [f32; 6] = [0.001_381_458_4, 0.008_368_724, 0.041_668_39, 0.166_665_21, 0.499_999_94, 1.0];

/// Where `exp` is below half of the smallest subnormal number. Elements that a mask leaves out are there. A product with a power of
/// two that underflows takes some processors more than 100 cycles, one with 0 none.
const ZERO_BELOW: f32 = -104.0;

/// `exp(x)`
pub(super) fn exp(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let x = steps.at_most(x.clone(), 89.0);
    exp_below(steps, x)
}

/// `exp(x)` for `x <= 89` or NaN.
pub(super) fn exp_below(steps: &mut Steps, x: PrimExpr) -> PrimExpr {
    let x = steps.at_least(x, ZERO_BELOW);
    let (n, rest) = divide(steps, &x);
    let terms = steps.polynomial(&NARROW, &rest);
    let value = steps.mul_add(&terms, &rest, steps.number(1.0));
    let is_zero = x.less_equal(steps.number(ZERO_BELOW));
    steps.scale(is_zero.select(steps.number(0.0), value), n)
}

/// `exp(x) - 1`, for `-80 <= x <= 0` or NaN; small results keep their digits.
pub(super) fn exp_minus_one(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let (n, rest) = divide(steps, x);
    let scale = steps.power_of_two(n);
    let value = steps.polynomial(&NARROW, &rest) * rest;
    steps.mul_add(&value, &scale, &scale - steps.number(1.0))
}

/// The integer `n` and the rest of dividing `x` by `ln 2`.
fn divide(steps: &mut Steps, x: &PrimExpr) -> (PrimExpr, PrimExpr) {
    let sum = steps.mul_add(x, &steps.number(std::f32::consts::LOG2_E), steps.number(ROUND));
    // Not `sum - ROUND`, which fast-math options turn into the product.
    let n = steps.bits(&sum) - steps.int(ROUND.to_bits() as i32);
    let n = steps.step("n", n);
    let times = steps.step("t", n.clone().cast(x.dtype()));
    let rest = steps.mul_add(&times, &steps.number(-HIGH), x.clone());
    let rest = steps.mul_add(&times, &steps.number(-LOW), rest);
    (n, steps.step("r", rest))
}
