//! Constant bounds of integer expressions.
//!
//! Arithmetic on `i64`, the index type, is taken not to overflow; on other types a result that may leave the type's
//! range is bounded by the type alone.
//!
//! TVM counterpart: `ConstIntBoundAnalyzer`.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::Analyzer;
use super::same::Memo;
use crate::ir::VarId;
use crate::support::with_stack;
use crate::tir::{Binary, BinaryOp, Call, Callee, Intrinsic, PrimExpr, comparison, logical};

/// `min <= value <= max`; the ends [`ConstIntBound::NEG_INF`] and [`ConstIntBound::POS_INF`] mean unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstIntBound {
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
}

const NEG_INF: i64 = ConstIntBound::NEG_INF;
const POS_INF: i64 = ConstIntBound::POS_INF;

impl ConstIntBound {
    /// No lower bound.
    pub const NEG_INF: i64 = -i64::MAX;
    /// No upper bound.
    pub const POS_INF: i64 = i64::MAX;
    /// Nothing is known.
    pub const EVERYTHING: ConstIntBound = ConstIntBound { min: NEG_INF, max: POS_INF };

    /// `min..=max`.
    pub const fn new(min: i64, max: i64) -> ConstIntBound {
        ConstIntBound { min, max }
    }

    /// The one value `value`.
    pub const fn point(value: i64) -> ConstIntBound {
        ConstIntBound { min: value, max: value }
    }

    /// All values of `dtype`; unbounded for `i64` and what is no integer, from 0 up for `u64`.
    pub fn of_dtype(dtype: DataType) -> ConstIntBound {
        match dtype.int_range() {
            Some((low, high)) => ConstIntBound::new(clamp(low), clamp(high)),
            None => ConstIntBound::EVERYTHING,
        }
    }

    /// The value, if there is only one.
    pub fn as_point(self) -> Option<i64> {
        (self.min == self.max).then_some(self.min)
    }

    /// The smallest bound that holds for values of either.
    pub fn union(self, other: ConstIntBound) -> ConstIntBound {
        ConstIntBound::new(self.min.min(other.min), self.max.max(other.max))
    }

    /// Holds for values of both.
    pub fn intersect(self, other: ConstIntBound) -> ConstIntBound {
        ConstIntBound::new(self.min.max(other.min), self.max.min(other.max))
    }

    /// True when `value` is not excluded.
    pub fn contains(self, value: i64) -> bool {
        (self.min == NEG_INF || self.min <= value) && (self.max == POS_INF || value <= self.max)
    }

    /// Bounds of `-value`.
    fn neg(self) -> ConstIntBound {
        ConstIntBound::new(-self.max, -self.min)
    }

    pub(super) fn add(self, other: ConstIntBound) -> ConstIntBound {
        ConstIntBound::new(add(self.min, other.min, NEG_INF), add(self.max, other.max, POS_INF))
    }

    pub(super) fn mul(self, other: ConstIntBound) -> ConstIntBound {
        corners(self, other, mul)
    }

    /// The smallest interval of multiples of 1 around `value / by` rounded down.
    fn floordiv(self, by: ConstIntBound) -> ConstIntBound {
        per_sign(by, |by| corners(self, by, floordiv))
    }

    fn floormod(self, by: ConstIntBound) -> ConstIntBound {
        if let Some(d) = by.as_point()
            && d != 0
            && is_finite(self.min)
            && is_finite(self.max)
            && self.min.div_euclid(d.abs()) == self.max.div_euclid(d.abs())
            && d > 0
        {
            return ConstIntBound::new(self.min.rem_euclid(d), self.max.rem_euclid(d));
        }
        per_sign(by, |by| {
            if by.min > 0 {
                let max = if by.max == POS_INF { POS_INF } else { by.max - 1 };
                ConstIntBound::new(0, if self.min >= 0 { max.min(self.max) } else { max })
            } else {
                let min = if by.min == NEG_INF { NEG_INF } else { by.min + 1 };
                ConstIntBound::new(if self.max <= 0 { min.max(self.min) } else { min }, 0)
            }
        })
    }

    fn div(self, by: ConstIntBound) -> ConstIntBound {
        per_sign(by, |by| corners(self, by, div))
    }

    fn rem(self, by: ConstIntBound) -> ConstIntBound {
        let largest = per_sign(by, |by| if by.min > 0 { by } else { by.neg() }).max;
        let most = if largest == POS_INF { POS_INF } else { (largest - 1).max(0) };
        let min = if self.min >= 0 { 0 } else { self.min.max(-most) };
        ConstIntBound::new(min, if self.max <= 0 { 0 } else { self.max.min(most) })
    }
}

fn is_finite(value: i64) -> bool {
    value > NEG_INF && value < POS_INF
}

fn clamp(value: i128) -> i64 {
    value.clamp(i128::from(NEG_INF), i128::from(POS_INF)) as i64
}

fn add(a: i64, b: i64, inf: i64) -> i64 {
    if a == inf || b == inf { inf } else { clamp(i128::from(a) + i128::from(b)) }
}

fn mul(a: i64, b: i64) -> i64 {
    clamp(i128::from(a) * i128::from(b))
}

fn div(a: i64, b: i64) -> i64 {
    match (is_finite(a), is_finite(b)) {
        (_, true) if !is_finite(a) => mul(a, b.signum()),
        (true, false) => 0,
        _ => a / b,
    }
}

fn floordiv(a: i64, b: i64) -> i64 {
    match (is_finite(a), is_finite(b)) {
        (false, true) => mul(a, b.signum()),
        (true, false) => -i64::from((a < 0) != (b < 0) && a != 0),
        _ => a / b - i64::from(a % b != 0 && (a < 0) != (b < 0)),
    }
}

/// Bounds of a function that is monotone in each argument: it is extreme at the corners.
fn corners(a: ConstIntBound, b: ConstIntBound, f: fn(i64, i64) -> i64) -> ConstIntBound {
    let values = [f(a.min, b.min), f(a.min, b.max), f(a.max, b.min), f(a.max, b.max)];
    values.into_iter().map(ConstIntBound::point).reduce(ConstIntBound::union).expect("four corners")
}

/// `f` for the negative and the positive divisors of `by` (zero divides nothing).
fn per_sign(by: ConstIntBound, f: impl Fn(ConstIntBound) -> ConstIntBound) -> ConstIntBound {
    let negative = ConstIntBound::new(by.min, by.max.min(-1));
    let positive = ConstIntBound::new(by.min.max(1), by.max);
    match (negative.min <= negative.max, positive.min <= positive.max) {
        (true, true) => f(negative).union(f(positive)),
        (true, false) => f(negative),
        (false, true) => f(positive),
        (false, false) => ConstIntBound::EVERYTHING,
    }
}

/// One query: bounds of shared nodes are computed once.
pub(super) struct Bounds<'a> {
    analyzer: &'a Analyzer,
    memo: Memo<ConstIntBound>,
    lets: FxHashMap<VarId, ConstIntBound>,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(analyzer: &'a Analyzer) -> Bounds<'a> {
        Bounds { analyzer, memo: Memo::default(), lets: FxHashMap::default() }
    }

    /// Bounds of `expr` (of every lane).
    pub(super) fn of(&mut self, expr: &PrimExpr) -> ConstIntBound {
        if let Some(bound) = self.memo.get(expr) {
            return bound;
        }
        let bound = with_stack(|| self.node(expr));
        self.memo.insert(expr, bound);
        bound
    }

    fn node(&mut self, expr: &PrimExpr) -> ConstIntBound {
        let dtype = expr.dtype();
        if !dtype.is_integer() && !dtype.is_bool() {
            return ConstIntBound::EVERYTHING;
        }
        let range = ConstIntBound::of_dtype(dtype);
        let bound = match expr {
            // The pattern of a large u64 is not its value.
            PrimExpr::IntImm(it) if dtype == DataType::U64 && it.value < 0 => range,
            PrimExpr::IntImm(it) => ConstIntBound::point(it.value.max(NEG_INF)),
            PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) => range,
            PrimExpr::Var(var) => {
                let local = self.lets.get(&var.id()).copied();
                local.unwrap_or_else(|| self.analyzer.var_bound(var)).intersect(range)
            }
            PrimExpr::Cast(it) => {
                let from = it.value.dtype();
                if !from.is_integer() && !from.is_bool() {
                    return range;
                }
                let value = self.of(&it.value);
                let nonzero = value.min > 0 || value.max < 0;
                match (from.scalar(), dtype.scalar()) {
                    (_, DataType::BOOL) => {
                        if nonzero {
                            ConstIntBound::point(1)
                        } else {
                            range
                        }
                    }
                    (DataType::U64, DataType::I64) if value.max == POS_INF => range,
                    _ => value,
                }
            }
            PrimExpr::Not(_) => range,
            PrimExpr::Binary(it) => self.binary(it),
            PrimExpr::Select(it) => self.of(&it.true_value).union(self.of(&it.false_value)),
            PrimExpr::BufferLoad(_) => range,
            PrimExpr::Ramp(it) => {
                let step = self.of(&it.stride).mul(ConstIntBound::new(0, i64::from(it.lanes) - 1));
                self.of(&it.base).add(step)
            }
            PrimExpr::Broadcast(it) => self.of(&it.value),
            PrimExpr::Shuffle(it) => {
                it.vectors.iter().map(|it| self.of(it)).reduce(ConstIntBound::union).unwrap_or(range)
            }
            PrimExpr::Let(it) => {
                let value = self.of(&it.value);
                self.lets.insert(it.var.id(), value);
                self.of(&it.body)
            }
            PrimExpr::Call(it) => self.call(it, range),
        };
        // What may wrap is bounded by its type alone; i64 does not wrap.
        let wraps = match dtype.scalar() {
            DataType::I64 => false,
            DataType::U64 => bound.min < 0 || bound.max == POS_INF && expr.as_var().is_none(),
            _ => bound.min < range.min || bound.max > range.max,
        };
        if wraps { range } else { self.analyzer.fact_bound(expr, bound) }
    }

    fn binary(&mut self, it: &Binary) -> ConstIntBound {
        let truth = ConstIntBound::new(0, 1);
        let (a, b) = (self.of(&it.a), self.of(&it.b));
        match it.op {
            BinaryOp::Add => a.add(b),
            BinaryOp::Sub => a.add(b.neg()),
            BinaryOp::Mul => a.mul(b),
            BinaryOp::Div => a.div(b),
            BinaryOp::Mod => a.rem(b),
            BinaryOp::FloorDiv => a.floordiv(b),
            BinaryOp::FloorMod => a.floormod(b),
            BinaryOp::Min => ConstIntBound::new(a.min.min(b.min), a.max.min(b.max)),
            BinaryOp::Max => ConstIntBound::new(a.min.max(b.min), a.max.max(b.max)),
            comparison!() | logical!() => truth,
            BinaryOp::BitAnd => match (a.min >= 0, b.min >= 0) {
                (true, true) => ConstIntBound::new(0, a.max.min(b.max)),
                (true, false) => ConstIntBound::new(0, a.max),
                (false, true) => ConstIntBound::new(0, b.max),
                (false, false) => ConstIntBound::of_dtype(it.a.dtype()),
            },
            BinaryOp::BitOr | BinaryOp::BitXor => {
                let most = a.max.max(b.max);
                if a.min >= 0 && b.min >= 0 && most < 1 << 62 {
                    ConstIntBound::new(0, ((most + 1) as u64).next_power_of_two() as i64 - 1)
                } else {
                    ConstIntBound::of_dtype(it.a.dtype())
                }
            }
            BinaryOp::Shl => match b.as_point() {
                Some(bits @ 0..62) => a.mul(ConstIntBound::point(1 << bits)),
                _ => ConstIntBound::of_dtype(it.a.dtype()),
            },
            BinaryOp::Shr if b.min >= 0 && b.max < 62 && it.a.dtype().scalar() != DataType::U64 => {
                a.floordiv(ConstIntBound::new(1 << b.min, 1 << b.max))
            }
            BinaryOp::Shr => ConstIntBound::of_dtype(it.a.dtype()),
        }
    }

    fn call(&mut self, it: &Call, range: ConstIntBound) -> ConstIntBound {
        let Callee::Intrinsic(intrinsic) = it.callee else { return range };
        let bits = || it.args.first().map_or(64, |arg| i64::from(arg.dtype().bits()));
        match intrinsic {
            Intrinsic::IfThenElse => self.of(&it.args[1]).union(self.of(&it.args[2])),
            Intrinsic::Likely => self.of(&it.args[0]),
            Intrinsic::PopCount | Intrinsic::Clz => ConstIntBound::new(0, bits()),
            Intrinsic::ArgNdim | Intrinsic::ArgShape => ConstIntBound::new(0, POS_INF),
            _ => range,
        }
    }
}
