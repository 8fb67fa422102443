//! The facade of `arith`: records what is known about variables and conditions, and answers queries.
//!
//! TVM counterpart: `arith::Analyzer`, `ConstraintContext`.

use std::cell::{RefCell, RefMut};

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::bounds::Bounds;
use super::exact::sum_bound;
use super::facts::Facts;
use super::int_set::{DomMap, IntervalSet, SetEval};
use super::modular_set::Modulars;
use super::rewrite_simplify::Simplifier;
use super::same::{Memo, any_node};
use super::sum::Products;
use super::{ConstIntBound, ModularSet};
use crate::ir::tensor_program::{BinaryOp, PrimExpr, Range, binary};
use crate::ir::{Var, VarId};

/// What is known about one variable.
#[derive(Clone, Debug)]
pub(super) struct VarInfo {
    pub(super) bound: ConstIntBound,
    pub(super) modular: ModularSet,
    /// Symbolic bounds, both inclusive.
    pub(super) range: Option<(PrimExpr, PrimExpr)>,
    /// The value it is bound to.
    pub(super) value: Option<PrimExpr>,
}

/// Records facts about variables and conditions; simplifies and proves with them.
#[derive(Clone, Debug, Default)]
pub struct Analyzer {
    vars: FxHashMap<VarId, VarInfo>,
    facts: Facts,
    cache: Cache,
}

/// Results for nodes that were queried; valid until the analyzer learns something. A clone starts empty.
#[derive(Debug, Default)]
struct Cache(RefCell<Answers>);

/// Results by node.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) bounds: Memo<ConstIntBound>,
    pub(super) modulars: Memo<ModularSet>,
}

impl Clone for Cache {
    fn clone(&self) -> Cache {
        Cache::default()
    }
}

impl Analyzer {
    /// An analyzer that knows nothing.
    pub fn new() -> Analyzer {
        Analyzer::default()
    }

    /// An analyzer that treats every `i64` variable of `exprs` as an index.
    pub fn of_indices<'a>(exprs: impl IntoIterator<Item = &'a PrimExpr>) -> Analyzer {
        let mut analyzer = Analyzer::new();
        for expr in exprs {
            any_node(expr, &mut |it| {
                if let Some(var) = it.as_var().filter(|var| var.dtype() == DataType::I64) {
                    analyzer.bind_index(var);
                }
                false
            });
        }
        analyzer
    }

    /// An analyzer that knows that each index that is a variable is below its extent.
    pub fn of_extents(indices: &[PrimExpr], extents: &[PrimExpr]) -> Analyzer {
        let mut analyzer = Analyzer::new();
        for (index, extent) in indices.iter().zip(extents) {
            if let Some(var) = index.as_var() {
                analyzer.bind_range(var, &Range::from_extent(extent.clone()));
            }
        }
        analyzer
    }

    /// Binds `var` to `value`: simplification replaces the variable with the value.
    pub fn bind_value(&mut self, var: &Var, value: &PrimExpr) {
        let value = self.simplify(value);
        let (bound, modular) = (self.const_int_bound(&value), self.modular_set(&value));
        self.learn(var, VarInfo { bound, modular, range: None, value: Some(value) });
    }

    /// Binds `var` to `range`, which is not empty. A range of one value binds the value.
    pub fn bind_range(&mut self, var: &Var, range: &Range) {
        let (min, extent) = (self.simplify(&range.min), self.simplify(&range.extent));
        if extent.is_const(1) {
            return self.bind_value(var, &min);
        }
        let mut last = self.exact_sum(&extent, Products::Keep);
        // A variable of an empty range has no value: the extent is positive here.
        let positive = sum_bound(self, &last).intersect(ConstIntBound::at_least(1));
        last.add(&self.exact_sum(&min, Products::Keep), 1);
        last.add_constant(-1);
        let (low, high) = (self.const_int_bound(&min), sum_bound(self, &last));
        let steps = positive.add(ConstIntBound::point(-1));
        let bound = ConstIntBound::new(low.min, low.add(steps).intersect(high).max);
        // Data may wrap around at the limits of its type.
        let (bound, range) = if bound.fits(var.dtype()) {
            (bound, Some((min, self.simplify(&last.to_expr()))))
        } else {
            (ConstIntBound::of_dtype(var.dtype()), None)
        };
        self.learn(var, VarInfo { bound, modular: ModularSet::EVERYTHING, range, value: None });
    }

    /// Declares `var` a symbolic dimension: an `i64` that is not negative, and within its bounds.
    pub fn bind_dim(&mut self, var: &Var) {
        self.bind_bound(var, ConstIntBound::new(0, ConstIntBound::POS_INF));
        self.bind_own_bound(var);
    }

    /// Adds the fact that `var` is within its bounds, if it has bounds.
    pub fn bind_own_bound(&mut self, var: &Var) {
        if let Some(bound) = var.bound() {
            let least = bound.min().into();
            let range = bound.max().map(|most| ConstIntBound::new(least, most.into()));
            self.bind_bound(var, range.unwrap_or(ConstIntBound::at_least(least)));
            let (modulus, remainder) = bound.modulo();
            self.bind_modular(var, ModularSet::new(modulus, remainder));
        }
    }

    /// Declares `var` an index: an `i64` that may be negative.
    pub fn bind_index(&mut self, var: &Var) {
        self.bind_bound(var, ConstIntBound::INDEX);
    }

    /// Adds the fact that `var` lies within `bound`.
    pub fn bind_bound(&mut self, var: &Var, bound: ConstIntBound) {
        let info = self.info_mut(var);
        info.bound = info.bound.intersect(bound);
    }

    /// Adds the fact that `var` lies in `set`.
    pub fn bind_modular(&mut self, var: &Var, set: ModularSet) {
        let info = self.info_mut(var);
        info.modular = info.modular.intersect(set);
    }

    fn learn(&mut self, var: &Var, info: VarInfo) {
        self.vars.insert(var.id(), info);
        self.forget();
    }

    /// Drops the cached results; called when something changes.
    fn forget(&mut self) {
        let answers = self.cache.0.get_mut();
        answers.bounds.clear();
        answers.modulars.clear();
    }

    fn info_mut(&mut self, var: &Var) -> &mut VarInfo {
        self.forget();
        self.vars.entry(var.id()).or_insert(VarInfo {
            bound: ConstIntBound::of_dtype(var.dtype()),
            modular: ModularSet::EVERYTHING,
            range: None,
            value: None,
        })
    }

    /// Assumes `condition` from here on. To assume it only for a while, see [`Analyzer::with_constraint`].
    pub fn enter_constraint(&mut self, condition: &PrimExpr) {
        self.assume(condition);
    }

    /// The result of `f` for an analyzer that also knows that `condition` holds.
    pub fn with_constraint<R>(&self, condition: &PrimExpr, f: impl FnOnce(&Analyzer) -> R) -> R {
        let mut inner = self.clone();
        inner.enter_constraint(condition);
        f(&inner)
    }

    /// An equal expression that is simpler, as far as the rules go.
    pub fn simplify(&self, expr: &PrimExpr) -> PrimExpr {
        Simplifier::new(self).simplify(expr)
    }

    /// True only if `condition` always holds; false when it does not, or when this cannot be shown.
    pub fn can_prove(&self, condition: &PrimExpr) -> bool {
        self.simplify(condition).is_const(1) || self.proves(condition)
    }

    /// True only if `a` and `b` are always equal.
    pub fn can_prove_equal(&self, a: &PrimExpr, b: &PrimExpr) -> bool {
        a.dtype() == b.dtype()
            && (super::same(a, b) || self.can_prove(&binary(BinaryOp::Eq, a.clone(), b.clone())))
    }

    /// True only if `a < b` always.
    pub fn can_prove_less(&self, a: &PrimExpr, b: &PrimExpr) -> bool {
        self.can_prove(&binary(BinaryOp::Lt, a.clone(), b.clone()))
    }

    /// True only if `a <= b` always.
    pub fn can_prove_less_equal(&self, a: &PrimExpr, b: &PrimExpr) -> bool {
        self.can_prove(&binary(BinaryOp::Le, a.clone(), b.clone()))
    }

    /// Constant bounds of `expr`, both inclusive.
    pub fn const_int_bound(&self, expr: &PrimExpr) -> ConstIntBound {
        let bound = Bounds::new(self).of(expr);
        if self.facts.is_empty() || !expr.dtype().is_integer() || !expr.dtype().is_scalar() {
            return bound;
        }
        self.facts.sum_bound(self, &self.exact_sum(expr, Products::Expand)).intersect(bound)
    }

    /// What is known about the remainder of `expr` by constants.
    pub fn modular_set(&self, expr: &PrimExpr) -> ModularSet {
        Modulars::new(self).of(expr)
    }

    /// An interval that contains every value of `expr` when the variables of `dom` take any value of their sets. Other
    /// variables stay symbolic.
    pub fn int_set(&self, expr: &PrimExpr, dom: &DomMap) -> IntervalSet {
        SetEval::new(self, dom).of(expr)
    }

    /// Like [`int_set`](Self::int_set), for every value of `range`.
    pub fn range_set(&self, range: &Range, dom: &DomMap) -> IntervalSet {
        let (first, last) = (&range.min, &range.min + &range.extent - 1);
        IntervalSet { min: self.int_set(first, dom).min, max: self.int_set(&last, dom).max }
    }

    pub(super) fn info(&self, var: &Var) -> Option<&VarInfo> {
        self.vars.get(&var.id())
    }

    pub(super) fn var_bound(&self, var: &Var) -> ConstIntBound {
        let bound = self.info(var).map_or_else(|| ConstIntBound::of_dtype(var.dtype()), |info| info.bound);
        self.facts.atom_bound(&PrimExpr::from(var), bound)
    }

    pub(super) fn var_modular(&self, var: &Var) -> ModularSet {
        let known = self.info(var).map_or(ModularSet::EVERYTHING, |info| info.modular);
        self.facts.atom_modular(&PrimExpr::from(var), known)
    }

    pub(super) fn fact_bound(&self, expr: &PrimExpr, bound: ConstIntBound) -> ConstIntBound {
        self.facts.atom_bound(expr, bound)
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The cached results. The borrow must end before another result is computed.
    pub(super) fn cache(&self) -> RefMut<'_, Answers> {
        self.cache.0.borrow_mut()
    }

    pub(super) fn facts_mut(&mut self) -> &mut Facts {
        self.forget();
        &mut self.facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_sums_and_proofs() {
        let mut analyzer = Analyzer::new();
        let [i, j, n] = ["i", "j", "n"].map(Var::index);
        analyzer.bind_dim(&n);
        analyzer.bind_range(&i, &Range::from_extent(&n));
        analyzer.bind_range(&j, &Range::from_extent(8));
        let flat = &i * 8i64 + &j;
        assert_eq!(analyzer.const_int_bound(&flat), ConstIntBound::new(0, ConstIntBound::POS_INF));
        assert!(analyzer.can_prove_less(&flat, &(&n * 8i64)));
        assert!(!analyzer.can_prove_less(&flat, &(&n * 8i64 - 1)));
        assert!(analyzer.can_prove_equal(&(&flat * 4i64 - &i * 32i64), &(&j * 4i64)));
        assert!(analyzer.simplify(&(&flat - &i * 8i64)).ptr_eq(&PrimExpr::from(&j)));
        let tail = flat.clone().less(100);
        assert!(!analyzer.can_prove_less(&flat, &PrimExpr::index(101)));
        assert!(analyzer.with_constraint(&tail, |it| it.can_prove_less(&flat, &PrimExpr::index(101))));
        assert_eq!(analyzer.modular_set(&(&i * 8i64 + 3)), ModularSet::new(8, 3));
        let dom = DomMap::from_iter([(i.id(), IntervalSet::from_range(&Range::from_extent(&n)))]);
        let set = analyzer.int_set(&(&i * 4i64 + &j), &dom);
        assert!(analyzer.can_prove_equal(&set.max.unwrap(), &(&n * 4i64 - 4 + &j)));
    }
}
