//! Conversion to integers of 8 and 16 bits.

use tvm_runtime::DataType;

use super::steps::Steps;
use crate::tir::{Intrinsic, PrimExpr};

/// `1.5 * 2^23`: the lowest bits of its sum with a small whole number are those of the number.
const LOW_BITS: f32 = 12_582_912.0;

/// An `i32` whose lowest 16 bits are the whole number next to `x` towards 0, or the limit of the range next to it; 0 for NaN.
pub(super) fn integer(steps: &mut Steps, x: &PrimExpr, (low, high): (i128, i128)) -> PrimExpr {
    let below = steps.at_most(x.clone(), high as f32);
    let least = steps.number(low as f32);
    // NaN is not at least the limit.
    let within = below.clone().greater_equal(least.clone()).select(below, least);
    let within = steps.step("c", within);
    let whole = within.unary(Intrinsic::Trunc);
    let low_bits = steps.step("w", whole + steps.number(LOW_BITS));
    let bits = steps.bits(&low_bits);
    if low == 0 {
        return bits;
    }
    let bits = steps.step("b", bits);
    let is_number = x.clone().equal(x.clone());
    is_number.select(bits, PrimExpr::int(0, DataType::I32).broadcast(x.dtype().lanes()))
}
