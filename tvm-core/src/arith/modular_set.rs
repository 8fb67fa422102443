//! Modular sets: what is known about the remainder of an integer.
//!
//! TVM counterpart: `ModularSetAnalyzer`.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::Analyzer;
use super::bounds::Bounds;
use crate::ir::VarId;
use crate::ir::tensor_program::{
    Binary, BinaryOp, Intrinsic, PrimCallee, PrimExpr, bitwise, comparison, logical,
};
use crate::support::with_stack;

/// The values `coeff * k + base` for integers `k`: `0 <= base < coeff`, or `coeff` is 0 and `base` is the only value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModularSet {
    /// Distance between values; not negative.
    pub coeff: i64,
    /// One of the values.
    pub base: i64,
}

impl ModularSet {
    /// All integers.
    pub const EVERYTHING: ModularSet = ModularSet { coeff: 1, base: 0 };

    /// The values `coeff * k + base`.
    pub fn new(coeff: i64, base: i64) -> ModularSet {
        match coeff.checked_abs() {
            None => ModularSet::EVERYTHING,
            Some(0) => ModularSet { coeff: 0, base },
            Some(coeff) => ModularSet { coeff, base: base.rem_euclid(coeff) },
        }
    }

    /// The one value `value`.
    pub const fn point(value: i64) -> ModularSet {
        ModularSet { coeff: 0, base: value }
    }

    /// True when `value` is in the set.
    pub fn contains(self, value: i64) -> bool {
        if self.coeff == 0 {
            return value == self.base;
        }
        i128::from(value).wrapping_sub(i128::from(self.base)).rem_euclid(i128::from(self.coeff)) == 0
    }

    /// True when every value is a multiple of `divisor`.
    pub fn is_multiple_of(self, divisor: i64) -> bool {
        divisor != 0
            && self.coeff.checked_rem(divisor) == Some(0)
            && self.base.checked_rem(divisor) == Some(0)
    }

    /// The values `coeff * k + base`; all integers if the normalised parameters do not fit an `i64`.
    fn wide(coeff: i128, base: i128) -> ModularSet {
        let coeff = coeff.abs();
        let base = if coeff == 0 { base } else { base.rem_euclid(coeff) };
        match (i64::try_from(coeff), i64::try_from(base)) {
            (Ok(coeff), Ok(base)) => ModularSet { coeff, base },
            _ => ModularSet::EVERYTHING,
        }
    }

    fn parts(self) -> (i128, i128) {
        (self.coeff.into(), self.base.into())
    }

    /// The smallest set that contains the values of both.
    pub fn union(self, other: ModularSet) -> ModularSet {
        let ((a, x), (b, y)) = (self.parts(), other.parts());
        ModularSet::wide(gcd(gcd(a, b), x - y), x)
    }

    /// The finer of the two sets; it contains all values that are in both.
    pub fn intersect(self, other: ModularSet) -> ModularSet {
        match (self.coeff, other.coeff) {
            (0, _) => self,
            (_, 0) => other,
            (a, b) if a >= b => self,
            _ => other,
        }
    }

    fn add(self, other: ModularSet) -> ModularSet {
        let ((a, x), (b, y)) = (self.parts(), other.parts());
        ModularSet::wide(gcd(a, b), x + y)
    }

    fn neg(self) -> ModularSet {
        ModularSet::wide(self.coeff.into(), -i128::from(self.base))
    }

    fn mul(self, other: ModularSet) -> ModularSet {
        let ((a, x), (b, y)) = (self.parts(), other.parts());
        ModularSet::wide(gcd(a * b, gcd(a * y, b * x)), x * y)
    }

    /// The set after wrapping to `bits` bits.
    fn wrapped(self, bits: u8) -> ModularSet {
        ModularSet::wide(gcd(self.coeff.into(), 1 << bits.min(62)), self.base.into())
    }
}

/// Greatest common divisor; not negative.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// One query.
pub(super) struct Modulars<'a> {
    analyzer: &'a Analyzer,
    bounds: Bounds<'a>,
    lets: FxHashMap<VarId, ModularSet>,
}

impl<'a> Modulars<'a> {
    pub(super) fn new(analyzer: &'a Analyzer) -> Modulars<'a> {
        Modulars { analyzer, bounds: Bounds::new(analyzer), lets: FxHashMap::default() }
    }

    /// The set of `expr`; of a vector, the set of every lane.
    pub(super) fn of(&mut self, expr: &PrimExpr) -> ModularSet {
        let known = self.analyzer.cache().modulars.get(expr);
        known.unwrap_or_else(|| {
            let set = with_stack(|| self.node(expr));
            self.analyzer.cache().modulars.insert(expr, set);
            set
        })
    }

    fn node(&mut self, expr: &PrimExpr) -> ModularSet {
        let everything = ModularSet::EVERYTHING;
        let dtype = expr.dtype();
        if dtype.is_float() || dtype.scalar() == DataType::U64 {
            return everything;
        }
        match expr {
            PrimExpr::IntImm(it) => ModularSet::point(it.value),
            PrimExpr::Var(var) => {
                self.lets.get(&var.id()).copied().unwrap_or_else(|| self.analyzer.var_modular(var))
            }
            PrimExpr::Cast(it) if it.value.dtype().is_integer() && !dtype.is_bool() => {
                let set = self.of(&it.value);
                if self.bounds.of(&it.value).fits(dtype) { set } else { set.wrapped(dtype.bits()) }
            }
            PrimExpr::Binary(it) => {
                let set = self.binary(it);
                let wraps = !self.bounds.unwrapped(it).is_some_and(|bound| bound.fits(dtype));
                if wraps { set.wrapped(dtype.bits()) } else { set }
            }
            PrimExpr::Select(it) => self.of(&it.true_value).union(self.of(&it.false_value)),
            PrimExpr::Broadcast(it) => self.of(&it.value),
            PrimExpr::Ramp(it) => {
                let stride = self.of(&it.stride);
                let set = self
                    .of(&it.base)
                    .add(ModularSet::new(stride.coeff, 0).union(stride).union(ModularSet::point(0)));
                set.wrapped(dtype.bits())
            }
            PrimExpr::Let(it) => {
                let value = self.of(&it.value);
                self.lets.insert(it.var.id(), value);
                self.of(&it.body)
            }
            PrimExpr::Call(it) => match it.callee {
                PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                    self.of(&it.args[1]).union(self.of(&it.args[2]))
                }
                PrimCallee::Intrinsic(Intrinsic::Likely) => self.of(&it.args[0]),
                PrimCallee::Intrinsic(_) | PrimCallee::PureExtern(_) => everything,
            },
            PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Shuffle(_) => everything,
        }
    }

    /// The set of `a op b` before it wraps.
    fn binary(&mut self, it: &Binary) -> ModularSet {
        let (a, b) = (self.of(&it.a), self.of(&it.b));
        let by = if b.coeff == 0 { b.base } else { 0 };
        match it.op {
            BinaryOp::Add => a.add(b),
            BinaryOp::Sub => a.add(b.neg()),
            BinaryOp::Mul => a.mul(b),
            BinaryOp::FloorDiv | BinaryOp::Div if a.is_multiple_of(by) => {
                let ((coeff, base), by) = (a.parts(), i128::from(by));
                ModularSet::wide(coeff / by, base / by)
            }
            BinaryOp::FloorMod if by > 0 && a.coeff % by == 0 => ModularSet::point(a.base.rem_euclid(by)),
            BinaryOp::FloorMod if by > 0 => ModularSet::wide(gcd(a.coeff.into(), by.into()), a.base.into()),
            BinaryOp::Min | BinaryOp::Max => a.union(b),
            BinaryOp::Shl if b.coeff == 0 && (0..i64::from(it.a.dtype().bits()).min(62)).contains(&by) => {
                a.mul(ModularSet::point(1 << by))
            }
            BinaryOp::BitAnd if is_power_of_two(by) => ModularSet::new(by, 0),
            BinaryOp::FloorDiv
            | BinaryOp::Div
            | BinaryOp::Mod
            | BinaryOp::FloorMod
            | comparison!()
            | logical!()
            | bitwise!() => ModularSet::EVERYTHING,
        }
    }
}

/// True when `-value` is a power of two.
fn is_power_of_two(value: i64) -> bool {
    value < 0 && value.unsigned_abs().is_power_of_two() && value != i64::MIN
}
