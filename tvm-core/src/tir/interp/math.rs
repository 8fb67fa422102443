//! Numeric functions that `std` lacks, and the rounding of each float type.

use std::f64::consts::PI;

use tvm_runtime::{DTypeCode, DataType};

use crate::support::{to_bf16, to_f16};

/// The error function, to a few units in the last place.
///
/// Abramowitz and Stegun, *Handbook of Mathematical Functions*: below 2 the series 7.1.6, whose terms are all
/// positive; from 2 on the continued fraction 7.1.14 of the complement, which is small there.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() || a < 1e-150 {
        return x * (2.0 / PI.sqrt());
    }
    if a >= 6.0 {
        return 1f64.copysign(x);
    }
    let scale = (-a * a).exp() / PI.sqrt();
    let res = if a < 2.0 {
        let (mut term, mut sum, mut n) = (2.0 * a, 2.0 * a, 1.0);
        while term > sum * 1e-17 {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        scale * sum
    } else {
        let fraction = (1..=80).rev().fold(a, |below, k| a + 0.5 * f64::from(k) / below);
        1.0 - scale / fraction
    };
    res.copysign(x)
}

/// `value` rounded to the float type `dtype`.
pub(super) fn round_to(value: f64, dtype: DataType) -> f64 {
    match (dtype.code(), dtype.bits()) {
        (DTypeCode::Float, 32) => f64::from(value as f32),
        (DTypeCode::Float, 16) => to_f16(value).to_f64(),
        (DTypeCode::BFloat, _) => to_bf16(value).to_f64(),
        _ => value,
    }
}

/// The smaller of `a` and `b`; NaN if either is, `a` if they are equal.
pub(super) fn min(a: f64, b: f64) -> f64 {
    if b < a || b.is_nan() { b } else { a }
}

/// The larger of `a` and `b`; NaN if either is, `a` if they are equal.
pub(super) fn max(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::erf;

    #[test]
    #[expect(clippy::excessive_precision, reason = "the values are exact to more digits than f64 has")]
    fn erf_has_full_precision() {
        // Values computed with 50 digits.
        let cases = [
            (1e-10, 1.128379167095512574e-10),
            (0.1, 0.11246291601828489220),
            (0.5, 0.52049987781304653768),
            (1.0, 0.84270079294971486934),
            (1.9, 0.99279042923525746995),
            (2.0, 0.99532226501895273416),
            (2.1, 0.99702053334366701449),
            (3.0, 0.99997790950300141456),
            (5.0, 0.99999999999846254020),
            (7.0, 1.0),
        ];
        for (x, want) in cases {
            for (got, want) in [(erf(x), want), (erf(-x), -want)] {
                assert!(
                    (got - want).abs() <= 8.0 * f64::EPSILON * want.abs(),
                    "erf({x}) = {got}, not {want}"
                );
            }
        }
        assert_eq!(erf(0.0).to_bits(), 0f64.to_bits());
        assert_eq!(erf(-0.0).to_bits(), (-0f64).to_bits());
        assert!(erf(f64::NAN).is_nan());
        assert_eq!(erf(f64::NEG_INFINITY), -1.0);
    }
}
