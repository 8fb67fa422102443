//! Conversion to integers of 8 and 16 bits, and back.

use tvm_runtime::DataType;

use super::quotient::Reciprocal;
use super::steps::{Cpu, Steps};
use crate::tir::{Binary, BinaryOp, Cast, Intrinsic, PrimCallee, PrimExpr};

/// `1.5 * 2^23`: the lowest bits of its sum with a small whole number are those of the number.
const LOW_BITS: f32 = 12_582_912.0;

/// The whole number that a rounded number is moved by is smaller, so that limits of 16 bits stay small without it.
const MOST_MOVED: f64 = 65_536.0;

/// The range of the integers of 8 or 16 bits that a vector of f32 is converted to; `None` for other conversions.
pub(super) fn range_of(cast: &Cast) -> Option<(i128, i128)> {
    let (from, to) = (cast.value.dtype(), cast.dtype);
    let narrow = to.bits() <= 16 && !to.is_bool() && from.scalar() == DataType::F32 && from.lanes() > 1;
    to.int_range().filter(|_| narrow)
}

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

/// A number that is rounded to the next whole one, the even one of two, then perhaps moved by a whole number, and limited.
pub(super) struct Rounded<'a> {
    /// The number before it is rounded.
    number: &'a PrimExpr,
    moved: f64,
    limits: (f64, f64),
    range: (i128, i128),
}

impl Rounded<'_> {
    /// `None` if `value` is no such number, or is not limited to a part of `range`, which has 16 bits at most.
    pub(super) fn of(value: &PrimExpr, range: (i128, i128)) -> Option<Rounded<'_>> {
        let (mut number, limits) = limited(value, range)?;
        let mut moved = 0.0;
        while let PrimExpr::Binary(sum) = number {
            moved += whole_number(&sum.b).filter(|_| sum.op == BinaryOp::Add)?;
            number = &sum.a;
        }
        let PrimExpr::Call(call) = number else { return None };
        let fits = call.callee == PrimCallee::Intrinsic(Intrinsic::Round) && moved.abs() < MOST_MOVED;
        fits.then_some(Rounded { number: call.args.first()?, moved, limits, range })
    }

    /// A number that becomes the same integer as the one before it is rounded, in fewer operations.
    ///
    /// The greater of a number and 0 is not needed if less than 0 becomes the lower limit. A vector of quotients by a constant takes
    /// several times as long as two products, which replace it where the CPU fuses one with a sum.
    pub(super) fn number(&self, cpu: Cpu) -> PrimExpr {
        let PrimExpr::Binary(quotient) = self.number else { return self.number.clone() };
        let Some(by) = number(&quotient.b).filter(|_| quotient.op == BinaryOp::Div) else {
            return self.number.clone();
        };
        let mut of = &quotient.a;
        if let PrimExpr::Binary(it) = of
            && it.op == BinaryOp::Max
            && by > 0.0
            && self.limits.0 >= self.moved
            && number(&it.b) == Some(0.0)
        {
            of = &it.a;
        }
        let reciprocal = Reciprocal::of(by as f32).filter(|it| it.rounds_like_division(self.range));
        let Some(by) = reciprocal.filter(|_| cpu.mul_add == Intrinsic::Fma) else {
            return of.clone() / quotient.b.clone();
        };
        by.product(of, cpu)
    }

    /// An `i32` whose lowest 16 bits are the number, where `x` is the number before it is rounded; 0 for NaN.
    pub(super) fn integer(&self, steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
        let bits = self.bits(steps, x, self.moved as i32);
        self.unless_nan(x, bits, steps.int(0))
    }

    /// The number, 0 for NaN, plus the whole number `by`.
    pub(super) fn float(&self, steps: &mut Steps, x: &PrimExpr, by: i32) -> PrimExpr {
        let number = self.bits(steps, x, self.moved as i32 + by - LOW_BITS.to_bits() as i32);
        self.unless_nan(x, number, steps.int(by)).cast(x.dtype())
    }

    /// The bits of the sum of [`LOW_BITS`] and the number before it is moved, plus `by`.
    ///
    /// The limits are whole, so that it is the same to limit first. Then the sum rounds.
    fn bits(&self, steps: &mut Steps, x: &PrimExpr, by: i32) -> PrimExpr {
        let (least, most) = self.limits;
        let limit = steps.number((least - self.moved) as f32);
        // NaN is not greater than the limit.
        let within = x.clone().greater(limit.clone()).select(x.clone(), limit);
        let within = steps.step("c", within);
        let within = steps.at_most(within, (most - self.moved) as f32);
        let low_bits = steps.step("w", within + steps.number(LOW_BITS));
        let bits = steps.bits(&low_bits);
        if by == 0 { bits } else { bits + steps.int(by) }
    }

    /// `value`, or `zero` where `x` is NaN: [`Rounded::bits`] takes the least number for it.
    fn unless_nan(&self, x: &PrimExpr, value: PrimExpr, zero: PrimExpr) -> PrimExpr {
        if self.limits.0 == 0.0 { value } else { x.clone().equal(x.clone()).select(value, zero) }
    }
}

/// A number that becomes a narrow integer, then an `i32`, perhaps plus a whole number, and a float again.
pub(super) struct ThereAndBack<'a> {
    /// The number: a whole one of `range`, or NaN.
    pub(super) number: &'a PrimExpr,
    /// The range of the narrow type.
    pub(super) range: (i128, i128),
    /// What is added to the integer.
    pub(super) by: i32,
}

impl ThereAndBack<'_> {
    pub(super) fn of(cast: &Cast) -> Option<ThereAndBack<'_>> {
        let (wide, by) = match &cast.value {
            PrimExpr::Binary(it) if it.op == BinaryOp::Add => (&it.a, whole_integer(&it.b)?),
            PrimExpr::Binary(it) if it.op == BinaryOp::Sub => (&it.a, -whole_integer(&it.b)?),
            wide => (wide, 0),
        };
        let PrimExpr::Cast(wide) = wide else { return None };
        let PrimExpr::Cast(narrow) = &wide.value else { return None };
        let (from, range) = (narrow.value.dtype(), narrow.dtype.int_range()?);
        let types =
            from == cast.dtype && from.scalar() == DataType::F32 && wide.dtype.scalar() == DataType::I32;
        let fits =
            types && from.lanes() > 1 && narrow.dtype.bits() <= 16 && is_whole_within(&narrow.value, range);
        fits.then_some(ThereAndBack { number: &narrow.value, range, by })
    }
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
pub(super) fn is_whole_within(value: &PrimExpr, range: (i128, i128)) -> bool {
    limited(value, range).is_some_and(|(number, _)| is_whole(number))
}

/// The number that is limited to a part of the range by whole numbers, and these.
fn limited(value: &PrimExpr, (low, high): (i128, i128)) -> Option<(&PrimExpr, (f64, f64))> {
    let limits = |it: &Binary| (it.op, whole_number(&it.b));
    let PrimExpr::Binary(outer) = value else { return None };
    let PrimExpr::Binary(inner) = &outer.a else { return None };
    let (least, most) = match (limits(inner), limits(outer)) {
        ((BinaryOp::Max, Some(least)), (BinaryOp::Min, Some(most)))
        | ((BinaryOp::Min, Some(most)), (BinaryOp::Max, Some(least))) => (least, most),
        _ => return None,
    };
    let fits = low as f64 <= least && least <= most && most <= high as f64;
    fits.then_some((&inner.a, (least, most)))
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
    number(value).filter(|it| it.fract() == 0.0)
}

/// The value of an integer constant in all lanes, if it is so small that its sums with narrow integers are exact as floats.
fn whole_integer(value: &PrimExpr) -> Option<i32> {
    let value = if let PrimExpr::Broadcast(it) = value { &it.value } else { value };
    let value = value.as_int()?;
    i32::try_from(value).ok().filter(|it| f64::from(*it).abs() < MOST_MOVED)
}

/// The value of a constant, in all lanes.
pub(super) fn number(value: &PrimExpr) -> Option<f64> {
    let value = if let PrimExpr::Broadcast(it) = value { &it.value } else { value };
    if let PrimExpr::FloatImm(value) = value { Some(value.value) } else { None }
}
