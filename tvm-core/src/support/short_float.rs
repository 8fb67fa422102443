//! Rounding to half precision in one step on every CPU (`f16::from_f64` may round twice, through `f32`).

use half::{bf16, f16};

/// `value` rounded to the nearest `f16`, ties to even.
pub fn to_f16(value: f64) -> f16 {
    f16::from_f32(to_odd(value))
}

/// `value` rounded to the nearest `bf16`, ties to even.
pub fn to_bf16(value: f64) -> bf16 {
    bf16::from_f32(to_odd(value))
}

/// `value` as `f32`, rounded to the neighbour with an odd last bit, so that rounding the result to a narrower type
/// equals rounding `value` to that type.
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    if back == value || value.is_nan() || near.is_infinite() || near.to_bits() & 1 == 1 {
        near
    } else if back.abs() > value.abs() {
        f32::from_bits(near.to_bits() - 1)
    } else {
        f32::from_bits(near.to_bits() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_happens_once() {
        // Slightly above the midpoint of 1 and the next f16; as f32 it is the midpoint, which would round to 1.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(to_f16(above).to_f64(), 1.0 + 2f64.powi(-10));
        assert_eq!(to_f16(-above).to_f64(), -1.0 - 2f64.powi(-10));
        assert_eq!(to_bf16(1.0 + 2f64.powi(-8) + 2f64.powi(-40)).to_f64(), 1.0 + 2f64.powi(-7));
        assert_eq!(to_f16(65520.0).to_f64(), f64::INFINITY);
        assert!(to_f16(f64::NAN).is_nan());
        assert_eq!(to_f16(-1e-30).to_bits(), 0x8000);
    }
}
