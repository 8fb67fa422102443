//! Constant bounds of integers, and arithmetic on them.
//!
//! Bounds are mathematical integers: those of `u64` go up to `2^64 - 1`.
//!
//! TVM counterpart: `ConstIntBound`.

use tvm_runtime::DataType;

/// `min <= value <= max`.
///
/// The ends [`ConstIntBound::NEG_INF`] and [`ConstIntBound::POS_INF`] belong to *index* variables: symbolic dimensions,
/// and variables that count up to them. They stand for a number of the magnitude of an index; sums and products of such
/// numbers are assumed not to overflow `i64`. The ends of data are finite: the limits of its type, if nothing more is
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstIntBound {
    /// Smallest value.
    pub min: i128,
    /// Largest value.
    pub max: i128,
}

const NEG_INF: i128 = ConstIntBound::NEG_INF;
const POS_INF: i128 = ConstIntBound::POS_INF;

/// An unknown end. No type has numbers this large.
const UNKNOWN: i128 = 1 << 100;
/// Indices are less than this; adding a number up to this to an index does not overflow.
const INDEX_LIMIT: i128 = 1 << 62;
/// Multiplying an index by a number up to this does not overflow.
const FACTOR_LIMIT: i128 = 1 << 31;

impl ConstIntBound {
    /// The lower end of an index that may be any negative number.
    pub const NEG_INF: i128 = -(1 << 120);
    /// The upper end of an index that may be any positive number.
    pub const POS_INF: i128 = 1 << 120;
    /// The bound of a value about which nothing is known.
    pub const EVERYTHING: ConstIntBound = ConstIntBound { min: -UNKNOWN, max: UNKNOWN };
    /// The bound of an index.
    pub const INDEX: ConstIntBound = ConstIntBound { min: NEG_INF, max: POS_INF };

    /// `min..=max`.
    pub const fn new(min: i128, max: i128) -> ConstIntBound {
        ConstIntBound { min, max }
    }

    /// The one value `value`.
    pub const fn point(value: i128) -> ConstIntBound {
        ConstIntBound { min: value, max: value }
    }

    /// From `min` up.
    pub(super) const fn at_least(min: i128) -> ConstIntBound {
        ConstIntBound { min, max: UNKNOWN }
    }

    /// Up to `max`.
    pub(super) const fn at_most(max: i128) -> ConstIntBound {
        ConstIntBound { min: -UNKNOWN, max }
    }

    /// All values of `dtype`; [`EVERYTHING`](Self::EVERYTHING) if it is neither an integer nor a bool.
    pub fn of_dtype(dtype: DataType) -> ConstIntBound {
        if dtype.is_bool() {
            return ConstIntBound::new(0, 1);
        }
        match dtype.int_range() {
            Some((low, high)) => ConstIntBound::new(low, high),
            None => ConstIntBound::EVERYTHING,
        }
    }

    /// The value, if there is only one.
    pub fn as_point(self) -> Option<i128> {
        (self.min == self.max).then_some(self.min)
    }

    /// True when both ends are known numbers.
    pub fn is_finite(self) -> bool {
        is_finite(self.min) && is_finite(self.max)
    }

    /// The smallest bound that holds for the values of both bounds.
    pub fn union(self, other: ConstIntBound) -> ConstIntBound {
        ConstIntBound::new(-loose(-self.min, -other.min), loose(self.max, other.max))
    }

    /// A bound that holds for every value that satisfies both bounds.
    pub fn intersect(self, other: ConstIntBound) -> ConstIntBound {
        ConstIntBound::new(-tight(-self.min, -other.min), tight(self.max, other.max))
    }

    /// True when `value` is not excluded.
    pub fn contains(self, value: impl Into<i128>) -> bool {
        (self.min..=self.max).contains(&value.into())
    }

    /// True when every value within the bound is a value of `dtype`; an index is a value of `i64`.
    pub fn fits(self, dtype: DataType) -> bool {
        let ConstIntBound { min, max } = ConstIntBound::of_dtype(dtype);
        let index = dtype.scalar() == DataType::I64;
        (self.min >= min || index && self.min == NEG_INF) && (self.max <= max || index && self.max == POS_INF)
    }

    /// Replaces the ends of an index by the limits of `i64`.
    pub(super) fn to_finite(self) -> ConstIntBound {
        let all = ConstIntBound::of_dtype(DataType::I64);
        let min = if self.min == NEG_INF { all.min } else { self.min };
        ConstIntBound::new(min, if self.max == POS_INF { all.max } else { self.max })
    }

    /// Bounds of `-value`.
    pub(super) fn neg(self) -> ConstIntBound {
        ConstIntBound::new(-self.max, -self.min)
    }

    pub(super) fn add(self, other: ConstIntBound) -> ConstIntBound {
        ConstIntBound::new(-sum(-self.min, -other.min), sum(self.max, other.max))
    }

    pub(super) fn mul(self, other: ConstIntBound) -> ConstIntBound {
        corners(self, other, mul)
    }

    /// Bounds of the smaller of two values.
    pub(super) fn lesser(self, other: ConstIntBound) -> ConstIntBound {
        ConstIntBound::new(-loose(-self.min, -other.min), tight(self.max, other.max))
    }

    /// Bounds of the larger of two values.
    pub(super) fn larger(self, other: ConstIntBound) -> ConstIntBound {
        ConstIntBound::new(-tight(-self.min, -other.min), loose(self.max, other.max))
    }

    /// Bounds of `value / by` rounded down. The result is 0 where `by` is 0, here and in the next three functions.
    pub(super) fn floordiv(self, by: ConstIntBound) -> ConstIntBound {
        per_sign(by, |by| corners(self, by, floordiv))
    }

    pub(super) fn floormod(self, by: ConstIntBound) -> ConstIntBound {
        if let Some(d) = by.as_point()
            && d > 0
            && self.is_finite()
            && self.min.div_euclid(d) == self.max.div_euclid(d)
        {
            return ConstIntBound::new(self.min.rem_euclid(d), self.max.rem_euclid(d));
        }
        per_sign(by, |by| {
            if by.min < 0 {
                return self.neg().floormod(by.neg()).neg();
            }
            let most = below(by.max);
            ConstIntBound::new(0, if self.min >= 0 { tight(most, self.max.max(0)) } else { most })
        })
    }

    pub(super) fn div(self, by: ConstIntBound) -> ConstIntBound {
        per_sign(by, |by| corners(self, by, div))
    }

    pub(super) fn rem(self, by: ConstIntBound) -> ConstIntBound {
        let most = below(loose(by.max, -by.min)).max(0);
        let min = if self.min >= 0 { 0 } else { -tight(-self.min, most) };
        ConstIntBound::new(min, if self.max <= 0 { 0 } else { tight(self.max, most) })
    }
}

/// The upper end of the numbers less than a number whose upper end is `end`.
fn below(end: i128) -> i128 {
    if is_finite(end) { end - 1 } else { end }
}

fn is_finite(value: i128) -> bool {
    value.abs() < UNKNOWN
}

/// The upper end of numbers that have at least one of the two upper ends.
fn loose(a: i128, b: i128) -> i128 {
    match (a, b) {
        (POS_INF, POS_INF) => POS_INF,
        (POS_INF, it) | (it, POS_INF) if it <= FACTOR_LIMIT => POS_INF,
        (POS_INF, it) | (it, POS_INF) => it.max(INDEX_LIMIT),
        _ => a.max(b),
    }
}

/// The upper end of numbers that have both upper ends.
fn tight(a: i128, b: i128) -> i128 {
    match (a, b) {
        (POS_INF, it) | (it, POS_INF) => {
            if it > FACTOR_LIMIT {
                POS_INF
            } else {
                it
            }
        }
        _ => a.min(b),
    }
}

/// The sum of two upper ends.
fn sum(a: i128, b: i128) -> i128 {
    match (a, b) {
        (POS_INF, POS_INF) => POS_INF,
        (POS_INF, it) | (it, POS_INF) if it <= FACTOR_LIMIT => POS_INF,
        (POS_INF, it) | (it, POS_INF) => (INDEX_LIMIT + it).min(UNKNOWN),
        _ if a.max(b) >= UNKNOWN => UNKNOWN,
        _ => (a.max(-UNKNOWN) + b.max(-UNKNOWN)).max(-UNKNOWN),
    }
}

fn mul(a: i128, b: i128) -> i128 {
    let sign = a.signum() * b.signum();
    let index = |it: i128| it.abs() == POS_INF;
    match (is_finite(a), is_finite(b)) {
        _ if sign == 0 => 0,
        (true, true) => a.saturating_mul(b).clamp(-UNKNOWN, UNKNOWN),
        (false, false) if index(a) && index(b) => sign * POS_INF,
        (false, true) if index(a) && b.abs() <= FACTOR_LIMIT => sign * POS_INF,
        (true, false) if index(b) && a.abs() <= FACTOR_LIMIT => sign * POS_INF,
        _ => sign * UNKNOWN,
    }
}

fn div(a: i128, b: i128) -> i128 {
    match (is_finite(a), is_finite(b)) {
        (true, true) => a / b,
        (true, false) => 0,
        (false, _) => a * b.signum(),
    }
}

fn floordiv(a: i128, b: i128) -> i128 {
    match (is_finite(a), is_finite(b)) {
        (true, true) => a / b - i128::from(a % b != 0 && (a < 0) != (b < 0)),
        (true, false) => -i128::from((a < 0) != (b < 0) && a != 0),
        (false, _) => a * b.signum(),
    }
}

/// Bounds of a function that is monotone in each argument: its extremes are at the corners.
fn corners(a: ConstIntBound, b: ConstIntBound, f: fn(i128, i128) -> i128) -> ConstIntBound {
    let [p, q, r, s] =
        [f(a.min, b.min), f(a.min, b.max), f(a.max, b.min), f(a.max, b.max)].map(ConstIntBound::point);
    p.union(q).union(r).union(s)
}

/// The union of `f` for the negative divisors of `by`, `f` for the positive ones, and 0 for the divisor 0.
fn per_sign(by: ConstIntBound, f: impl Fn(ConstIntBound) -> ConstIntBound) -> ConstIntBound {
    let negative = (by.min < 0).then(|| f(ConstIntBound::new(by.min, by.max.min(-1))));
    let positive = (by.max > 0).then(|| f(ConstIntBound::new(by.min.max(1), by.max)));
    let zero = (by.min <= 0 && by.max >= 0).then_some(ConstIntBound::point(0));
    let all = [negative, positive, zero].into_iter().flatten().reduce(ConstIntBound::union);
    all.unwrap_or(ConstIntBound::EVERYTHING)
}
