//! Extrema as the language defines them, and the rounding of each float type.

use tvm_runtime::{DTypeCode, DataType};

use crate::support::{to_bf16, to_f16};

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
