//! Conditions that are known to hold, and proofs of others from them and from the ranges of variables.
//!
//! A proof shows that a linear sum over `i64` is not negative: by constant bounds, by a known condition that differs
//! from it by something not negative, or by putting the worst end of a symbolic range in the place of a variable.
//!
//! TVM counterpart: `ConstraintContext`, `TransitiveComparisonAnalyzer`, `CanProveGreaterEqual`.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::const_int_bound::Bounds;
use super::same::{Key, same};
use super::sum::{LinearSum, Monomial, Products, const_int};
use super::{Analyzer, ConstIntBound, ModularSet};
use crate::support::with_stack;
use crate::tir::{Binary, BinaryOp, Callee, Intrinsic, PrimExpr, arithmetic, bitwise, logical};

/// How many ranges and known conditions one proof may use in a row.
const DEPTH: u32 = 6;
/// How many sums one proof may look at.
const BUDGET: u32 = 64;
/// Larger sums are only proved by constant bounds.
const MAX_TERMS: usize = 24;

/// Conditions that hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Sums that are not negative.
    sums: Vec<LinearSum>,
    /// Conditions as written.
    truths: Vec<PrimExpr>,
    bounds: FxHashMap<Key, ConstIntBound>,
    modulars: FxHashMap<Key, ModularSet>,
}

impl Facts {
    pub(super) fn is_empty(&self) -> bool {
        self.truths.is_empty()
    }

    /// From here on `condition` holds.
    pub(super) fn assume(&mut self, condition: &PrimExpr) {
        match condition {
            PrimExpr::Binary(it) if it.op == BinaryOp::And => {
                self.assume(&it.a);
                self.assume(&it.b);
                return;
            }
            PrimExpr::Not(it) => {
                if let Some(negated) = negate(&it.value) {
                    return self.assume(&negated);
                }
            }
            PrimExpr::Call(it) if it.callee == Callee::Intrinsic(Intrinsic::Likely) => {
                return self.assume(&it.args[0]);
            }
            PrimExpr::Binary(it) if it.a.dtype() == DataType::I64 => match it.op {
                BinaryOp::Lt => self.assume_sum(&it.b, &it.a, 1),
                BinaryOp::Le => self.assume_sum(&it.b, &it.a, 0),
                BinaryOp::Gt => self.assume_sum(&it.a, &it.b, 1),
                BinaryOp::Ge => self.assume_sum(&it.a, &it.b, 0),
                BinaryOp::Eq => {
                    self.assume_sum(&it.a, &it.b, 0);
                    self.assume_sum(&it.b, &it.a, 0);
                    self.assume_remainder(it);
                }
                BinaryOp::Ne | arithmetic!() | logical!() | bitwise!() => {}
            },
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Binary(_)
            | PrimExpr::Select(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_)
            | PrimExpr::Call(_) => {}
        }
        self.truths.push(condition.clone());
    }

    /// `large - small - margin >= 0`.
    fn assume_sum(&mut self, large: &PrimExpr, small: &PrimExpr, margin: i64) {
        let mut sum = LinearSum::of(large, Products::Expand).minus(&LinearSum::of(small, Products::Expand));
        sum.constant = sum.constant.wrapping_sub(margin);
        let single = sum.terms().next().filter(|_| sum.terms().count() == 1);
        if let Some((monomial, c)) = single
            && let Some(atom) = monomial.as_atom()
            && let (Some(c_abs), Some(minus)) = (c.checked_abs(), sum.constant.checked_neg())
        {
            // c * atom >= -constant
            let bound = if c > 0 {
                ConstIntBound::new(-(-minus).div_euclid(c_abs), ConstIntBound::POS_INF)
            } else {
                ConstIntBound::new(ConstIntBound::NEG_INF, sum.constant.div_euclid(c_abs))
            };
            let known = self.bounds.entry(Key(atom.clone())).or_insert(ConstIntBound::EVERYTHING);
            *known = known.intersect(bound);
        }
        self.sums.push(sum);
    }

    /// `floormod(x, c) == r`.
    fn assume_remainder(&mut self, it: &Binary) {
        if let (PrimExpr::Binary(rem), Some(base)) = (&it.a, it.b.as_int())
            && rem.op == BinaryOp::FloorMod
            && let Some(coeff) = rem.b.as_int().filter(|&coeff| coeff > 0)
        {
            let known = self.modulars.entry(Key(rem.a.clone())).or_insert(ModularSet::EVERYTHING);
            *known = known.intersect(ModularSet::new(coeff, base));
        }
    }

    pub(super) fn atom_bound(&self, atom: &PrimExpr, bound: ConstIntBound) -> ConstIntBound {
        if self.bounds.is_empty() {
            return bound;
        }
        self.bounds.get(&Key(atom.clone())).map_or(bound, |known| known.intersect(bound))
    }

    pub(super) fn atom_modular(&self, atom: &PrimExpr, set: ModularSet) -> ModularSet {
        if self.modulars.is_empty() {
            return set;
        }
        self.modulars.get(&Key(atom.clone())).map_or(set, |known| known.intersect(set))
    }

    /// Bounds of a sum that differs from known ones (or their opposites) by a constant.
    pub(super) fn sum_bound(&self, analyzer: &Analyzer, expr: &PrimExpr) -> ConstIntBound {
        let sum = LinearSum::of(expr, Products::Expand);
        let mut bound = sum_bound(analyzer, &sum);
        for fact in &self.sums {
            if let Some(distance) = sum.minus(fact).as_constant() {
                bound = bound.intersect(ConstIntBound::new(distance, ConstIntBound::POS_INF));
            }
            let mut opposite = sum.clone();
            opposite.add(fact, 1);
            if let Some(distance) = opposite.as_constant() {
                bound = bound.intersect(ConstIntBound::new(ConstIntBound::NEG_INF, distance));
            }
        }
        bound
    }
}

/// The negation of a comparison, or of a disjunction.
pub(super) fn negate(condition: &PrimExpr) -> Option<PrimExpr> {
    match condition {
        PrimExpr::Not(it) => Some(it.value.clone()),
        PrimExpr::Binary(it) => {
            if it.op == BinaryOp::Or {
                return Some((!it.a.clone()).and(!it.b.clone()));
            }
            let op = negated_comparison(it.op)?;
            // A comparison with NaN and its opposite are both false.
            (!it.a.dtype().is_float()).then(|| crate::tir::binary(op, it.a.clone(), it.b.clone()))
        }
        _ => None,
    }
}

/// The comparison that holds when `op` does not (of integers).
pub(super) fn negated_comparison(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Le => BinaryOp::Gt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        _ => return None,
    })
}

/// Constant bounds of a sum, term by term.
pub(super) fn sum_bound(analyzer: &Analyzer, sum: &LinearSum) -> ConstIntBound {
    let mut bounds = Bounds::new(analyzer);
    sum.terms().fold(ConstIntBound::point(sum.constant), |total, (monomial, c)| {
        total.add(monomial_bound(&mut bounds, monomial).mul(ConstIntBound::point(c)))
    })
}

fn monomial_bound(bounds: &mut Bounds<'_>, monomial: &Monomial) -> ConstIntBound {
    let product = |a: ConstIntBound, b: &PrimExpr| a.mul(bounds.of(b));
    monomial.atoms().fold(ConstIntBound::point(1), product)
}

impl Analyzer {
    /// True only if `condition` always holds: what simplification alone does not show.
    pub(super) fn proves(&self, condition: &PrimExpr) -> bool {
        if self.facts().truths.iter().any(|truth| same(truth, condition)) {
            return true;
        }
        with_stack(|| match condition {
            PrimExpr::IntImm(it) => it.value != 0,
            PrimExpr::Not(it) => negate(&it.value).is_some_and(|negated| self.proves(&negated)),
            PrimExpr::Call(it) if it.callee == Callee::Intrinsic(Intrinsic::Likely) => {
                self.proves(&it.args[0])
            }
            PrimExpr::Binary(it) => match it.op {
                BinaryOp::And => self.proves(&it.a) && self.proves(&it.b),
                BinaryOp::Or => self.proves(&it.a) || self.proves(&it.b),
                BinaryOp::Lt => self.proves_at_least(&it.b, &it.a, 1),
                BinaryOp::Le => self.proves_at_least(&it.b, &it.a, 0),
                BinaryOp::Gt => self.proves_at_least(&it.a, &it.b, 1),
                BinaryOp::Ge => self.proves_at_least(&it.a, &it.b, 0),
                BinaryOp::Eq => {
                    self.proves_at_least(&it.a, &it.b, 0) && self.proves_at_least(&it.b, &it.a, 0)
                }
                BinaryOp::Ne => {
                    self.proves_at_least(&it.a, &it.b, 1)
                        || self.proves_at_least(&it.b, &it.a, 1)
                        || self.proves_remainders_differ(it)
                }
                arithmetic!() | bitwise!() => false,
            },
            PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Select(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_)
            | PrimExpr::Call(_) => false,
        })
    }

    fn proves_remainders_differ(&self, it: &Binary) -> bool {
        it.a.dtype() == DataType::I64 && { self.modular_set(&(&it.a - &it.b)).base != 0 }
    }

    /// `sum >= 0`, of `i64`.
    pub(super) fn proves_sum_nonneg(&self, sum: &LinearSum) -> bool {
        self.proves_nonneg(sum, DEPTH, &mut { BUDGET })
    }

    /// `large - small >= margin`.
    pub(super) fn proves_at_least(&self, large: &PrimExpr, small: &PrimExpr, margin: i64) -> bool {
        if !large.dtype().is_scalar() || !large.dtype().is_integer() {
            return false;
        }
        if large.dtype() != DataType::I64 {
            // Differences of other types wrap.
            let (large, small) = (self.const_int_bound(large), self.const_int_bound(small));
            return small.max < ConstIntBound::POS_INF && large.min.saturating_sub(margin) >= small.max;
        }
        let mut sum = LinearSum::of(large, Products::Expand).minus(&LinearSum::of(small, Products::Expand));
        sum.constant = sum.constant.wrapping_sub(margin);
        self.proves_sum_nonneg(&sum)
    }

    /// `sum >= 0`.
    fn proves_nonneg(&self, sum: &LinearSum, depth: u32, budget: &mut u32) -> bool {
        if sum_bound(self, sum).min >= 0 {
            return true;
        }
        *budget = budget.saturating_sub(1);
        if depth == 0 || *budget == 0 || sum.terms().count() > MAX_TERMS {
            return false;
        }
        let facts = self.facts();
        let by_fact = facts.sums.iter().any(|fact| {
            let rest = sum.minus(fact);
            rest.terms().count() < sum.terms().count().max(fact.terms().count())
                && (sum_bound(self, &rest).min >= 0
                    || facts.sums.len() < 8 && self.proves_nonneg(&rest, depth.min(3) - 1, budget))
        });
        by_fact || self.proves_by_range(sum, depth, budget)
    }

    /// Puts the end of a range in the place of an atom, where the sum is smallest.
    fn proves_by_range(&self, sum: &LinearSum, depth: u32, budget: &mut u32) -> bool {
        let mut tried: Vec<Key> = Vec::new();
        for (monomial, _) in sum.terms() {
            for atom in monomial.atoms() {
                let key = Key(atom.clone());
                if tried.contains(&key) {
                    continue;
                }
                tried.push(key);
                let (low, high) = self.symbolic_bounds(atom);
                let Some((slope, rest)) = sum.split_linear(atom) else { continue };
                if let Some(worst) = self.worst_quotient(atom, &slope, &rest)
                    && self.proves_nonneg(&worst, depth - 1, budget)
                {
                    return true;
                }
                if low.is_none() && high.is_none() {
                    continue;
                }
                let sign = sum_bound(self, &slope);
                let end = if sign.min >= 0 || low.is_some() && self.proves_nonneg(&slope, depth - 1, budget) {
                    low
                } else if sign.max <= 0
                    || high.is_some() && self.proves_nonneg(&slope.negated(), depth - 1, budget)
                {
                    high
                } else {
                    continue;
                };
                for end in end.iter().flatten() {
                    let mut worst = rest.clone();
                    worst.add(&slope.product(&LinearSum::of(end, Products::Expand)), 1);
                    if self.proves_nonneg(&worst, depth - 1, budget) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// A lower bound of `slope * atom + rest` where `atom` is `f // n`, `n` is positive and divides `slope`:
    /// `f // n * n` is at most `f` and at least `f - n + 1`.
    fn worst_quotient(&self, atom: &PrimExpr, slope: &LinearSum, rest: &LinearSum) -> Option<LinearSum> {
        let PrimExpr::Binary(it) = atom else { return None };
        if it.op != BinaryOp::FloorDiv || self.const_int_bound(&it.b).min <= 0 {
            return None;
        }
        let by = LinearSum::of(&it.b, Products::Expand);
        let scale = match by.as_constant() {
            Some(by) if by > 0 && slope.terms().all(|(_, c)| c % by == 0) && slope.constant % by == 0 => {
                slope.divided_by(by)
            }
            Some(_) => return None,
            None => {
                let single = by.constant == 0 && by.terms().count() == 1 && slope.constant == 0;
                let (monomial, c) = by.terms().next().filter(|_| single)?;
                let divides = |(it, k): (&Monomial, i64)| it.divide(monomial).is_some() && k % c == 0;
                slope.terms().all(divides).then(|| slope.divided_by_floor(c, monomial))?
            }
        };
        let sign = sum_bound(self, &scale);
        let mut dividend = LinearSum::of(&it.a, Products::Expand);
        if sign.min >= 0 {
            dividend.add(&by, -1);
            dividend.constant = dividend.constant.wrapping_add(1);
        } else if sign.max > 0 {
            return None;
        }
        let mut worst = rest.clone();
        worst.add(&scale.product(&dividend), 1);
        Some(worst)
    }

    /// Expressions that `atom` is never below, and never above.
    fn symbolic_bounds(&self, atom: &PrimExpr) -> (Option<Vec<PrimExpr>>, Option<Vec<PrimExpr>>) {
        match atom {
            PrimExpr::Var(var) => match self.info(var).and_then(|info| info.range.as_ref()) {
                Some((min, max)) => (Some(vec![min.clone()]), Some(vec![max.clone()])),
                None => (None, None),
            },
            PrimExpr::Binary(it) => match it.op {
                BinaryOp::Min => (None, Some(vec![it.a.clone(), it.b.clone()])),
                BinaryOp::Max => (Some(vec![it.a.clone(), it.b.clone()]), None),
                BinaryOp::FloorMod if const_int(&it.b).is_none() && self.const_int_bound(&it.b).min > 0 => {
                    (Some(vec![PrimExpr::index(0)]), Some(vec![&it.b - 1i64]))
                }
                // x // c is at most x / c: what it is multiplied with decides whether that helps.
                _ => (None, None),
            },
            _ => (None, None),
        }
    }
}
