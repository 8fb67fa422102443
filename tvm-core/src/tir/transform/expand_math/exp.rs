//! The exponential function, and what other functions take from it.
//!
//! An argument `k n ln 2 + r` with an integer `n` gives `2^(k n) exp(r)`. Adding 1.5 * 2^23 rounds to an integer, whose
//! low bits then are those of the sum; shifted into the exponent, they are `2^n`.

use super::steps::Steps;
use crate::tir::{BinaryOp, PrimExpr, binary};

/// Adding this number rounds to an integer.
const ROUND: f32 = 12_582_912.0;

/// `ln 2 = HIGH + LOW`. `HIGH` has so few bits that its product with an integer below 2^8 is exact.
const HIGH: f32 = 0.693_359_4;
const LOW: f32 = -2.121_944_4e-4;

/// `exp(r)`, for `|r| <= ln 2`: minimax of degree 7 (error 1.4e-8) with the terms `1 + r`.
const WIDE: [f32; 8] =
    [0.000_196_118_02, 0.001_410_430_4, 0.008_336_099, 0.041_661_277, 0.166_666_15, 0.500_000_36, 1.0, 1.0];

/// `(exp(r) - 1) / r`, for `|r| <= ln 2 / 2`: minimax of degree 5 (error of `exp` 3e-9) with the term 1.
const NARROW: [f32; 6] = [0.001_381_458_4, 0.008_368_724, 0.041_668_39, 0.166_665_21, 0.499_999_94, 1.0];

/// `exp(x)`. `k` is 2, so that the scale is multiplied twice: the result may be subnormal or beyond the range of scales.
pub(super) fn exp(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let x = steps.at_most(x.clone(), 89.0);
    exp_below(steps, x)
}

/// `exp(x)` for `x <= 89` or NaN.
pub(super) fn exp_below(steps: &mut Steps, x: PrimExpr) -> PrimExpr {
    // The result at the limit is below half of the smallest subnormal number.
    let x = steps.at_least(x, -104.0);
    let (scale, rest) = divide(steps, &x, 2.0);
    let value = steps.polynomial(&WIDE, &rest);
    value * &scale * scale
}

/// `exp(x) - 1`, for `-80 <= x <= 0` or NaN; small results keep their digits.
pub(super) fn exp_minus_one(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let (scale, rest) = divide(steps, x, 1.0);
    let value = steps.polynomial(&NARROW, &rest) * rest;
    steps.mul_add(&value, &scale, &scale - steps.number(1.0))
}

/// `2^n` and the rest of dividing `x` by `k ln 2`.
fn divide(steps: &mut Steps, x: &PrimExpr, k: f32) -> (PrimExpr, PrimExpr) {
    let factor = steps.number(std::f32::consts::LOG2_E / k);
    let sum = steps.mul_add(x, &factor, steps.number(ROUND));
    let sum = steps.step("s", sum);
    // Not `sum - ROUND`, which fast-math options turn into the product.
    let n = (steps.bits(&sum) - steps.int(ROUND.to_bits() as i32)).cast(x.dtype());
    let n = steps.step("n", n);
    let rest = steps.mul_add(&n, &steps.number(-k * HIGH), x.clone());
    let rest = steps.mul_add(&n, &steps.number(-k * LOW), rest);
    let rest = steps.step("r", rest);
    let exponent = binary(BinaryOp::Shl, steps.bits(&sum), steps.int(23));
    let scale = steps.float(exponent + steps.int(127 << 23));
    (steps.step("p", scale), rest)
}
