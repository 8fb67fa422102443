//! Conditions that are known to hold.
//!
//! TVM counterpart: `ConstraintContext`.

use rustc_hash::FxHashMap;

use super::exact::sum_bound;
use super::same::Key;
use super::sum::{LinearSum, Products};
use super::{Analyzer, ConstIntBound, ModularSet};
use crate::ir::tensor_program::{
    Binary, BinaryOp, Intrinsic, PrimCallee, PrimExpr, arithmetic, bitwise, logical,
};

/// Maximum number of conditions; further ones are ignored.
const MAX_FACTS: usize = 64;
/// Maximum number of terms of a non-negative sum from which bounds of its terms are derived.
const MAX_BOUNDED: usize = 8;

/// The conditions that an analyzer assumes.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Sums of integers that are known not to be negative.
    pub(super) sums: Vec<LinearSum>,
    /// Conditions as written.
    pub(super) truths: Vec<PrimExpr>,
    bounds: FxHashMap<Key, ConstIntBound>,
    modulars: FxHashMap<Key, ModularSet>,
}

impl Facts {
    pub(super) fn is_empty(&self) -> bool {
        self.truths.is_empty()
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

    /// Bounds of a sum of integers, using known sums that differ from it or from its negation by a constant.
    pub(super) fn sum_bound(&self, analyzer: &Analyzer, sum: &LinearSum) -> ConstIntBound {
        let mut bound = sum_bound(analyzer, sum);
        // The terms must cancel one by one.
        let terms = sum.terms().count();
        for fact in self.sums.iter().filter(|fact| fact.terms().count() == terms) {
            if let Some(distance) = sum.minus(fact).as_constant() {
                bound = bound.intersect(ConstIntBound::at_least(distance));
            }
            let mut opposite = sum.clone();
            opposite.add(fact, 1);
            if let Some(distance) = opposite.as_constant() {
                bound = bound.intersect(ConstIntBound::at_most(distance));
            }
        }
        bound
    }
}

impl Analyzer {
    /// Assumes `condition` from here on.
    pub(super) fn assume(&mut self, condition: &PrimExpr) {
        let mut todo = vec![condition.clone()];
        while let Some(condition) = todo.pop() {
            if self.facts().truths.len() >= MAX_FACTS {
                return;
            }
            match &condition {
                PrimExpr::Binary(it) if it.op == BinaryOp::And => {
                    todo.extend([it.b.clone(), it.a.clone()]);
                    continue;
                }
                PrimExpr::Not(it) => {
                    if let Some(negated) = negate(&it.value) {
                        todo.push(negated);
                        continue;
                    }
                }
                PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
                    todo.push(it.args[0].clone());
                    continue;
                }
                PrimExpr::Binary(it) if it.a.dtype().is_integer() && it.a.dtype().is_scalar() => {
                    self.assume_comparison(it);
                }
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
            self.facts_mut().truths.push(condition);
        }
    }

    fn assume_comparison(&mut self, it: &Binary) {
        match it.op {
            BinaryOp::Lt => self.assume_at_least(&it.b, &it.a, 1),
            BinaryOp::Le => self.assume_at_least(&it.b, &it.a, 0),
            BinaryOp::Gt => self.assume_at_least(&it.a, &it.b, 1),
            BinaryOp::Ge => self.assume_at_least(&it.a, &it.b, 0),
            BinaryOp::Eq => {
                self.assume_at_least(&it.a, &it.b, 0);
                self.assume_at_least(&it.b, &it.a, 0);
                self.assume_remainder(it);
            }
            BinaryOp::Ne => {
                // A value that is not less and not equal is greater.
                let (a, b) = (self.const_int_bound(&it.a), self.const_int_bound(&it.b));
                if a.min >= b.max {
                    self.assume_at_least(&it.a, &it.b, 1);
                } else if b.min >= a.max {
                    self.assume_at_least(&it.b, &it.a, 1);
                }
            }
            arithmetic!() | logical!() | bitwise!() => {}
        }
    }

    /// Assumes `large - small >= margin`.
    fn assume_at_least(&mut self, large: &PrimExpr, small: &PrimExpr, margin: i128) {
        let exact = |expr| self.exact_sum(expr, Products::Expand);
        let mut sum = exact(large).minus(&exact(small));
        sum.add_constant(-margin);
        let mut known = Vec::new();
        if sum.is_known() && sum.terms().count() <= MAX_BOUNDED {
            for (monomial, c) in sum.terms() {
                let Some(atom) = monomial.as_atom() else { continue };
                // c * atom >= -rest
                let mut rest = sum.clone();
                rest.add_term(monomial.clone(), -c);
                let most = ConstIntBound::point(sum_bound(self, &rest).max);
                let end = most.floordiv(ConstIntBound::point(c.abs())).max;
                let bound = if c > 0 { ConstIntBound::at_least(-end) } else { ConstIntBound::at_most(end) };
                known.push((Key(atom.clone()), bound));
            }
        }
        let single = sum.terms().count() <= 1 && !known.is_empty();
        let facts = self.facts_mut();
        for (atom, bound) in known {
            let known = facts.bounds.entry(atom).or_insert(ConstIntBound::EVERYTHING);
            *known = known.intersect(bound);
        }
        if !single {
            facts.sums.push(sum);
        }
    }

    /// Assumes `it`, if it has the form `floormod(x, c) == r`.
    fn assume_remainder(&mut self, it: &Binary) {
        if let (PrimExpr::Binary(rem), Some(base)) = (&it.a, it.b.as_int())
            && rem.op == BinaryOp::FloorMod
            && !rem.a.dtype().is_uint()
            && let Some(coeff) = rem.b.as_int().filter(|&coeff| coeff > 0)
        {
            let known = self.facts_mut().modulars.entry(Key(rem.a.clone())).or_insert(ModularSet::EVERYTHING);
            *known = known.intersect(ModularSet::new(coeff, base));
        }
    }
}

/// The negation of a comparison, a disjunction or a negation; `None` for other conditions.
pub(super) fn negate(condition: &PrimExpr) -> Option<PrimExpr> {
    match condition {
        PrimExpr::Not(it) => Some(it.value.clone()),
        PrimExpr::Binary(it) => {
            if it.op == BinaryOp::Or {
                return Some((!it.a.clone()).and(!it.b.clone()));
            }
            let op = negated_comparison(it.op)?;
            // A comparison with NaN and its opposite are both false.
            (!it.a.dtype().is_float())
                .then(|| crate::ir::tensor_program::binary(op, it.a.clone(), it.b.clone()))
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
