//! The natural logarithm.
//!
//! A number `2^n (1 + f)` with `1 + f` between the root of 1/2 and the root of 2 gives `n ln 2 + log(1 + f)` (as in
//! Cephes, `logf`; the polynomial is shorter).

use super::steps::Steps;
use crate::tir::{BinaryOp, PrimExpr, binary};

/// `(log(1 + f) - f + f^2 / 2) / f^3`: minimax of degree 7 for the relative error of the logarithm (6e-9).
const TERMS: [f32; 8] = [
    -0.076_344_974,
    0.127_615_78,
    -0.131_601_83,
    0.142_017_57,
    -0.166_233_57,
    0.200_012_27,
    -0.250_008_2,
    0.333_333_3,
];

/// The bits of the root of 1/2.
const ROOT: i32 = 0x3f35_04f3;

/// `log(x)`: -inf for zeros, NaN for negative numbers.
pub(super) fn log(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    // The bits of a subnormal number continue those of normal ones, with negative exponents.
    let scaled = steps.bits(&(x * steps.number((1 << 23) as f32))) - steps.int(23 << 23);
    let bits = x.clone().less(steps.number(f32::MIN_POSITIVE)).select(scaled, steps.bits(x));
    let bits = steps.step("i", bits);
    let exponent = binary(BinaryOp::Shr, &bits - steps.int(ROOT), steps.int(23));
    let exponent = steps.step("e", exponent);
    let fraction = steps.float(bits - binary(BinaryOp::Shl, exponent.clone(), steps.int(23)));
    let f = steps.step("f", fraction - steps.number(1.0));
    let n = steps.step("n", exponent.cast(f.dtype()));
    let square = steps.step("z", &f * &f);
    let sum = steps.polynomial(&TERMS, &f) * &f;
    let sum = steps.mul_add(&sum, &square, &n * steps.number(-2.121_944_4e-4));
    let sum = steps.mul_add(&square, &steps.number(-0.5), sum);
    let value = steps.mul_add(&n, &steps.number(0.693_359_4), f + sum);
    let value = steps.step("y", value);
    // Infinity and NaN are their own logarithms.
    let value = x.clone().less(steps.number(f32::INFINITY)).select(value, x.clone());
    let value = x.clone().less(steps.number(0.0)).select(steps.number(f32::NAN), value);
    x.clone().equal(steps.number(0.0)).select(steps.number(f32::NEG_INFINITY), value)
}
