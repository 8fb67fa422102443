//! Modular sets: what is known of an integer's remainder.
//!
//! TVM counterpart: `ModularSetAnalyzer`.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::Analyzer;
use super::same::Memo;
use crate::ir::VarId;
use crate::support::with_stack;
use crate::tir::{BinaryOp, Callee, Intrinsic, PrimExpr, bitwise, comparison, logical};

/// The values `coeff * k + base` for integers `k`: `0 <= base < coeff`, or `coeff` is 0 and `base` the one value.
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

    /// The smallest set that has the values of both.
    pub fn union(self, other: ModularSet) -> ModularSet {
        let Some(distance) = self.base.checked_sub(other.base) else { return ModularSet::EVERYTHING };
        ModularSet::new(gcd(gcd(self.coeff, other.coeff), distance), self.base)
    }

    /// Values of both, as far as one set can say: the finer one.
    pub fn intersect(self, other: ModularSet) -> ModularSet {
        match (self.coeff, other.coeff) {
            (0, _) => self,
            (_, 0) => other,
            (a, b) if a >= b => self,
            _ => other,
        }
    }

    fn add(self, other: ModularSet) -> ModularSet {
        match self.base.checked_add(other.base) {
            Some(base) => ModularSet::new(gcd(self.coeff, other.coeff), base),
            None => ModularSet::EVERYTHING,
        }
    }

    fn neg(self) -> ModularSet {
        ModularSet::new(self.coeff, self.base.wrapping_neg())
    }

    fn mul(self, other: ModularSet) -> ModularSet {
        let product = |a: i64, b: i64| a.checked_mul(b);
        let (pq, pm, qn) = (
            product(self.coeff, other.coeff),
            product(self.coeff, other.base),
            product(other.coeff, self.base),
        );
        match (pq, pm, qn, product(self.base, other.base)) {
            (Some(pq), Some(pm), Some(qn), Some(base)) => ModularSet::new(gcd(pq, gcd(pm, qn)), base),
            _ => ModularSet::EVERYTHING,
        }
    }
}

/// Greatest common divisor; not negative.
pub(super) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

/// One query.
pub(super) struct Modulars<'a> {
    analyzer: &'a Analyzer,
    memo: Memo<ModularSet>,
    lets: FxHashMap<VarId, ModularSet>,
}

impl<'a> Modulars<'a> {
    pub(super) fn new(analyzer: &'a Analyzer) -> Modulars<'a> {
        Modulars { analyzer, memo: Memo::default(), lets: FxHashMap::default() }
    }

    /// The set of `expr` (of every lane).
    pub(super) fn of(&mut self, expr: &PrimExpr) -> ModularSet {
        if let Some(set) = self.memo.get(expr) {
            return set;
        }
        let set = with_stack(|| self.node(expr));
        self.memo.insert(expr, set);
        set
    }

    fn node(&mut self, expr: &PrimExpr) -> ModularSet {
        let everything = ModularSet::EVERYTHING;
        // Sums of other types wrap, which keeps only powers of two; index arithmetic is what matters.
        let index = expr.dtype().scalar() == DataType::I64;
        match expr {
            PrimExpr::IntImm(it) => ModularSet::point(it.value),
            PrimExpr::Var(var) => {
                self.lets.get(&var.id()).copied().unwrap_or_else(|| self.analyzer.var_modular(var))
            }
            PrimExpr::Cast(it) if index && it.value.dtype().is_int() => self.of(&it.value),
            PrimExpr::Binary(it) if index => {
                let (a, b) = (self.of(&it.a), self.of(&it.b));
                match it.op {
                    BinaryOp::Add => a.add(b),
                    BinaryOp::Sub => a.add(b.neg()),
                    BinaryOp::Mul => a.mul(b),
                    BinaryOp::FloorDiv | BinaryOp::Div if b.coeff == 0 && a.is_multiple_of(b.base) => {
                        ModularSet::new(a.coeff / b.base, a.base / b.base)
                    }
                    BinaryOp::FloorMod if b.coeff == 0 && b.base > 0 => {
                        let coeff = gcd(a.coeff, b.base);
                        if a.coeff % b.base == 0 {
                            ModularSet::point(a.base.rem_euclid(b.base))
                        } else {
                            ModularSet::new(coeff, a.base)
                        }
                    }
                    BinaryOp::Min | BinaryOp::Max => a.union(b),
                    BinaryOp::Shl if b.coeff == 0 && (0..62).contains(&b.base) => {
                        a.mul(ModularSet::point(1 << b.base))
                    }
                    BinaryOp::BitAnd if b.coeff == 0 && b.base < 0 && is_power_of_two(b.base) => {
                        ModularSet::new(-b.base, 0)
                    }
                    BinaryOp::FloorDiv
                    | BinaryOp::Div
                    | BinaryOp::Mod
                    | BinaryOp::FloorMod
                    | comparison!()
                    | logical!()
                    | bitwise!() => everything,
                }
            }
            PrimExpr::Select(it) => self.of(&it.true_value).union(self.of(&it.false_value)),
            PrimExpr::Broadcast(it) => self.of(&it.value),
            PrimExpr::Ramp(it) if index => {
                let stride = self.of(&it.stride);
                let steps = if stride.coeff == 0 { ModularSet::new(stride.base, 0) } else { everything };
                self.of(&it.base).add(steps)
            }
            PrimExpr::Let(it) => {
                let value = self.of(&it.value);
                self.lets.insert(it.var.id(), value);
                self.of(&it.body)
            }
            PrimExpr::Call(it) => match it.callee {
                Callee::Intrinsic(Intrinsic::IfThenElse) => self.of(&it.args[1]).union(self.of(&it.args[2])),
                Callee::Intrinsic(Intrinsic::Likely) => self.of(&it.args[0]),
                Callee::Intrinsic(_) | Callee::PureExtern(_) | Callee::Extern(_) => everything,
            },
            PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::Binary(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Shuffle(_) => everything,
        }
    }
}

/// True for minus a power of two.
fn is_power_of_two(value: i64) -> bool {
    value.unsigned_abs().is_power_of_two() && value != i64::MIN
}
