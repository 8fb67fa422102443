//! Conversion to integers of 8 and 16 bits, and back.

use tvm_runtime::DataType;

use super::steps::Steps;
use crate::tir::{Binary, BinaryOp, Cast, Intrinsic, PrimCallee, PrimExpr};

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

/// As [`integer`], for whole numbers of the range or NaN.
pub(super) fn integer_of_whole(steps: &mut Steps, x: &PrimExpr, range: (i128, i128)) -> PrimExpr {
    let number = whole(steps, x, range);
    let low_bits = steps.step("w", number + steps.number(LOW_BITS));
    steps.bits(&low_bits)
}

/// The value that `cast` makes a narrow integer, then an `i32` and a float again, with the range of the narrow type: its elements
/// are whole numbers of that range, or NaN.
pub(super) fn there_and_back(cast: &Cast) -> Option<(&PrimExpr, (i128, i128))> {
    let PrimExpr::Cast(wide) = &cast.value else { return None };
    let PrimExpr::Cast(narrow) = &wide.value else { return None };
    let (from, range) = (narrow.value.dtype(), narrow.dtype.int_range()?);
    let types = from == cast.dtype && from.scalar() == DataType::F32 && wide.dtype.scalar() == DataType::I32;
    let fits =
        types && from.lanes() > 1 && narrow.dtype.bits() <= 16 && is_whole_within(&narrow.value, range);
    fits.then_some((&narrow.value, range))
}

/// `x`, whose elements are whole numbers or NaN, with 0 for NaN and for `-0`, as the integers have it.
pub(super) fn whole(steps: &mut Steps, x: &PrimExpr, (low, _): (i128, i128)) -> PrimExpr {
    let zero = steps.number(0.0);
    if low == 0 {
        return x.clone().greater(zero.clone()).select(x.clone(), zero);
    }
    x.clone().equal(x.clone()).select(x.clone() + zero.clone(), zero)
}

/// True for whole numbers that are limited to a part of the range.
pub(super) fn is_whole_within(value: &PrimExpr, (low, high): (i128, i128)) -> bool {
    let limits = |it: &Binary| (it.op, whole_number(&it.b));
    let PrimExpr::Binary(outer) = value else { return false };
    let PrimExpr::Binary(inner) = &outer.a else { return false };
    let (least, most) = match (limits(inner), limits(outer)) {
        ((BinaryOp::Max, Some(least)), (BinaryOp::Min, Some(most)))
        | ((BinaryOp::Min, Some(most)), (BinaryOp::Max, Some(least))) => (least, most),
        _ => return false,
    };
    low as f64 <= least && least <= most && most <= high as f64 && is_whole(&inner.a)
}

/// True for rounded numbers, perhaps plus a whole one.
fn is_whole(value: &PrimExpr) -> bool {
    match value {
        PrimExpr::Call(call) => {
            let rounds = [Intrinsic::Round, Intrinsic::Floor, Intrinsic::Ceil, Intrinsic::Trunc];
            rounds.iter().any(|it| call.callee == PrimCallee::Intrinsic(*it))
        }
        PrimExpr::Binary(it) if it.op == BinaryOp::Add => is_whole(&it.a) && whole_number(&it.b).is_some(),
        _ => false,
    }
}

/// The value of a constant that is a whole number, in all lanes.
fn whole_number(value: &PrimExpr) -> Option<f64> {
    let value = if let PrimExpr::Broadcast(it) = value { &it.value } else { value };
    let PrimExpr::FloatImm(value) = value else { return None };
    (value.value.fract() == 0.0).then_some(value.value)
}
