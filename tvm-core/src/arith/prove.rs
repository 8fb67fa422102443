//! Proofs of conditions from known conditions and from the ranges of variables.
//!
//! A proof shows that a linear sum of integers is not negative: by constant bounds, by a known non-negative sum that
//! differs from it by something not negative, or by replacing a variable with the worst end of its symbolic range.
//!
//! TVM counterpart: `TransitiveComparisonAnalyzer`, `CanProveGreaterEqual`.

use super::Analyzer;
use super::exact::sum_bound;
use super::facts::negate;
use super::same::{Key, any_node, same};
use super::sum::{LinearSum, Monomial, Products, const_int};
use crate::ir::Var;
use crate::ir::tensor_program::{Binary, BinaryOp, Intrinsic, PrimCallee, PrimExpr, arithmetic, bitwise};
use crate::support::with_stack;

/// Maximum number of ranges and known conditions that a proof uses in a row.
const DEPTH: u32 = 6;
/// Maximum number of sums that a proof examines.
const BUDGET: u32 = 64;
/// Maximum number of terms; larger sums are only proved by constant bounds.
const MAX_TERMS: usize = 24;
/// Maximum number of nodes of an expression that are searched for variables, whose ranges are not empty.
const MAX_CONTEXT: u32 = 256;

impl Analyzer {
    /// True only if `condition` always holds. Meant for conditions that simplification alone does not prove.
    pub(super) fn proves(&self, condition: &PrimExpr) -> bool {
        if self.facts().truths.iter().any(|truth| same(truth, condition)) {
            return true;
        }
        with_stack(|| match condition {
            PrimExpr::IntImm(it) => it.value != 0,
            PrimExpr::Not(it) => negate(&it.value).is_some_and(|negated| self.proves(&negated)),
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
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
        it.a.dtype().is_integer() && !self.modular_set(&(&it.a - &it.b)).contains(0)
    }

    /// True only if `sum >= 0`, for a sum of integers.
    pub(super) fn proves_sum_nonneg(&self, sum: &LinearSum) -> bool {
        self.proves_nonneg(sum, DEPTH, &mut { BUDGET })
    }

    /// True only if `large - small >= margin`.
    pub(super) fn proves_at_least(&self, large: &PrimExpr, small: &PrimExpr, margin: i128) -> bool {
        if !large.dtype().is_scalar() || !large.dtype().is_integer() {
            return false;
        }
        let exact = |expr| self.exact_sum(expr, Products::Expand);
        let mut sum = exact(large).minus(&exact(small));
        sum.add_constant(-margin);
        self.proves_sum_nonneg(&sum)
    }

    /// True only if `expr` is positive wherever `context` has a value: there, the variables of `context` have ranges
    /// that are not empty.
    pub(super) fn proves_positive(&self, expr: &PrimExpr, context: &PrimExpr) -> bool {
        if self.const_int_bound(expr).min > 0 {
            return true;
        }
        let sum = self.exact_sum(expr, Products::Keep);
        let positive = |monomial: &Monomial, c: i128| {
            c > 0 && monomial.atoms().all(|atom| self.is_positive_atom(atom, context))
        };
        let mut terms = sum.terms();
        match (terms.next(), terms.next()) {
            (Some((monomial, c)), None) => sum.constant >= 0 && positive(monomial, c),
            _ => false,
        }
    }

    /// Like [`proves_positive`](Self::proves_positive), for an atom that is not a sum: it is bounded by a positive
    /// constant, or is a factor of the extent of a range in `context`.
    fn is_positive_atom(&self, atom: &PrimExpr, context: &PrimExpr) -> bool {
        let min = self.const_int_bound(atom).min;
        if min != 0 {
            return min > 0;
        }
        let (mut nodes, mut found) = (0, false);
        any_node(context, &mut |it| {
            nodes += 1;
            found = it.as_var().is_some_and(|var| self.is_factor_of_extent(atom, var));
            found || nodes == MAX_CONTEXT
        });
        found
    }

    /// True when `var` has a range whose extent is a product with the factor `atom`, or such a product divided into parts.
    fn is_factor_of_extent(&self, atom: &PrimExpr, var: &Var) -> bool {
        let Some((min, max)) = self.info(var).and_then(|info| info.range.as_ref()) else { return false };
        let exact = |end| self.exact_sum(end, Products::Expand);
        let mut extent = exact(max).minus(&exact(min));
        extent.add_constant(1);
        // The factors of a sum of one term, without a constant that is `most` at most.
        let factor = |sum: &LinearSum, most: i128| {
            let mut terms = sum.terms();
            let (Some((monomial, c)), None) = (terms.next(), terms.next()) else { return None };
            (sum.is_known() && c > 0 && sum.constant <= most).then(|| monomial.clone())
        };
        let Some(monomial) = factor(&extent, 0) else { return false };
        let is = |monomial: &Monomial| monomial.atoms().any(|it| same(it, atom));
        let of_parts = || {
            let PrimExpr::Binary(it) = monomial.as_atom()? else { return None };
            let size = const_int(&it.b).filter(|&size| it.op == BinaryOp::FloorDiv && size > 0)?;
            // The quotient is 1 or more, so the dividend is `size` or more.
            factor(&exact(&it.a), i128::from(size) - 1).map(|monomial| is(&monomial))
        };
        is(&monomial) || of_parts() == Some(true)
    }

    /// True only if `sum >= 0`; uses at most `depth` steps in a row, and as many sums as `budget` allows.
    fn proves_nonneg(&self, sum: &LinearSum, depth: u32, budget: &mut u32) -> bool {
        if sum_bound(self, sum).min >= 0 {
            return true;
        }
        *budget = budget.saturating_sub(1);
        if depth == 0 || *budget == 0 || !sum.is_known() || sum.terms().count() > MAX_TERMS {
            return false;
        }
        let facts = self.facts();
        // The difference has fewer terms than the larger of both only if a term cancels.
        let by_multiple = |fact: &LinearSum, scale: i128, budget: &mut u32| {
            let mut rest = sum.clone();
            rest.add(fact, -scale);
            rest.terms().count() < sum.terms().count().max(fact.terms().count())
                && (sum_bound(self, &rest).min >= 0
                    || facts.sums.len() < 8 && self.proves_nonneg(&rest, depth.min(3) - 1, budget))
        };
        let by_fact = facts
            .sums
            .iter()
            .any(|fact| sum.multiples_in(fact).into_iter().any(|scale| by_multiple(fact, scale, budget)));
        by_fact || self.proves_by_range(sum, depth, budget)
    }

    /// Replaces an atom with the end of its range for which the sum is smallest.
    fn proves_by_range(&self, sum: &LinearSum, depth: u32, budget: &mut u32) -> bool {
        let mut atoms: Vec<Key> = Vec::new();
        for (monomial, _) in sum.terms() {
            for atom in monomial.atoms() {
                let key = Key(atom.clone());
                if !atoms.contains(&key) {
                    atoms.push(key);
                }
            }
        }
        // Quotients first: the sum that replaces one often is a known condition.
        for Key(atom) in &atoms {
            if let Some((slope, rest)) = sum.split_at(atom)
                && let Some(worst) = self.worst_quotient(atom, &slope, &rest)
                && self.proves_nonneg(&worst, depth - 1, budget)
            {
                return true;
            }
        }
        for Key(atom) in &atoms {
            let (low, high) = self.symbolic_bounds(atom);
            if low.is_none() && high.is_none() {
                continue;
            }
            let Some((slope, rest)) = sum.split_at(atom) else { continue };
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
                worst.add(&slope.product(&self.exact_sum(end, Products::Expand)), 1);
                if self.proves_nonneg(&worst, depth - 1, budget) {
                    return true;
                }
            }
        }
        false
    }

    /// A sum that is not negative only if `slope * atom + rest` is not, where `atom` is `f // n` and `n` is positive. If `n` divides
    /// `slope`, it is a lower bound: `f // n * n` is at most `f` and at least `f - n + 1`. A slope of 1 or -1 needs no such loss:
    /// `f // n + rest >= 0` where `f + n rest >= 0`, and `rest - f // n >= 0` where `n rest + n - 1 - f >= 0`.
    fn worst_quotient(&self, atom: &PrimExpr, slope: &LinearSum, rest: &LinearSum) -> Option<LinearSum> {
        let PrimExpr::Binary(it) = atom else { return None };
        if it.op != BinaryOp::FloorDiv || !self.proves_positive(&it.b, &it.a) {
            return None;
        }
        let by = self.exact_sum(&it.b, Products::Expand);
        if let Some(sign @ (1 | -1)) = slope.as_constant() {
            let mut scaled = rest.product(&by);
            scaled.add(&self.exact_sum(&it.a, Products::Expand), sign);
            if sign < 0 {
                scaled.add(&by, 1);
                scaled.add_constant(-1);
            }
            return Some(scaled);
        }
        let scale = match by.as_constant() {
            Some(by) if by > 0 && slope.terms().all(|(_, c)| c % by == 0) && slope.constant % by == 0 => {
                slope.divided_by(by)
            }
            Some(_) => return None,
            None => {
                let single = by.constant == 0 && by.terms().count() == 1 && slope.constant == 0;
                let (monomial, c) = by.terms().next().filter(|_| single)?;
                let divides = |(it, k): (&Monomial, i128)| it.divide(monomial).is_some() && k % c == 0;
                slope.terms().all(divides).then(|| slope.divided_by_floor(c, monomial))?
            }
        };
        let sign = sum_bound(self, &scale);
        let mut dividend = self.exact_sum(&it.a, Products::Expand);
        if sign.min >= 0 {
            dividend.add(&by, -1);
            dividend.add_constant(1);
        } else if sign.max > 0 {
            return None;
        }
        let mut worst = rest.clone();
        worst.add(&scale.product(&dividend), 1);
        Some(worst)
    }

    /// Lower bounds of `atom`, and upper bounds: `atom` is never below, or above, any of them.
    fn symbolic_bounds(&self, atom: &PrimExpr) -> (Option<Vec<PrimExpr>>, Option<Vec<PrimExpr>>) {
        match atom {
            PrimExpr::Var(var) => match self.info(var).and_then(|info| info.range.as_ref()) {
                Some((min, max)) => (Some(vec![min.clone()]), Some(vec![max.clone()])),
                None => (None, None),
            },
            PrimExpr::Binary(it) => match it.op {
                BinaryOp::Min => (None, Some(vec![it.a.clone(), it.b.clone()])),
                BinaryOp::Max => (Some(vec![it.a.clone(), it.b.clone()]), None),
                BinaryOp::FloorMod if const_int(&it.b).is_none() && self.proves_positive(&it.b, &it.a) => {
                    (Some(vec![PrimExpr::int(0, it.b.dtype())]), Some(vec![&it.b - 1i64]))
                }
                // `x // c` is at most `x / c`: whether that helps depends on the factor it is multiplied with.
                _ => (None, None),
            },
            _ => (None, None),
        }
    }
}
