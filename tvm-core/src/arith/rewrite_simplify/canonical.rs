//! Simplification by linear form: sums, divisions of sums, comparisons of sums.
//!
//! `(i * 8 + j) // 8` is `i` where `0 <= j < 8`; `f // n * n + f % n` is `f`; `4 * i + 4 * j < 10` is `i + j < 3`.
//!
//! TVM counterpart: `CanonicalSimplifier`.

use super::Simplifier;
use crate::arith::exact::sum_bound;
use crate::arith::facts::negate;
use crate::arith::modular_set::gcd;
use crate::arith::same::unchanged;
use crate::arith::sum::{LinearSum, Monomial, Products};
use crate::arith::{Analyzer, ConstIntBound};
use crate::ir::tensor_program::{Binary, BinaryOp, PrimExpr, binary};

/// The terms of longer sums are collected, but not recombined.
const MAX_RECOMBINED: usize = 64;

/// `coeff * monomial`: a divisor of sums of integers.
struct Divisor {
    coeff: i128,
    monomial: Monomial,
}

impl Divisor {
    /// `expr` as a divisor. A sum of several terms counts as one atom, without the number that divides all of it. `None` for
    /// a constant that is not positive.
    fn of(analyzer: &Analyzer, expr: &PrimExpr) -> Option<Divisor> {
        let sum = analyzer.exact_sum(expr, Products::Keep);
        if let Some(coeff) = sum.as_constant() {
            return (coeff > 0).then(|| Divisor { coeff, monomial: Monomial::default() });
        }
        let single = sum.constant == 0 && sum.terms().count() == 1;
        match sum.terms().next() {
            Some((monomial, coeff)) if single && coeff > 0 => {
                Some(Divisor { coeff, monomial: monomial.clone() })
            }
            _ => {
                let coeff = sum.terms().fold(gcd(0, sum.constant), |g, (_, c)| gcd(g, c));
                let whole = || (1, expr.clone());
                let (coeff, atom) = match coeff > 1 && sum.is_known() {
                    true => {
                        analyzer.to_exact_expr(&sum.divided_by(coeff)).map_or_else(whole, |it| (coeff, it))
                    }
                    false => whole(),
                };
                Some(Divisor { coeff, monomial: Monomial::atom(atom) })
            }
        }
    }

    /// The terms of the divisor, if it is one atom times a number and the atom is a sum.
    fn terms(&self, analyzer: &Analyzer) -> Option<LinearSum> {
        let sum = analyzer.exact_sum(self.monomial.as_atom()?, Products::Keep);
        let several = sum.is_known() && (sum.terms().count() > 1 || sum.constant != 0);
        several.then(|| {
            let mut scaled = sum.empty();
            scaled.add(&sum, self.coeff);
            scaled
        })
    }

    fn is_const(&self) -> bool {
        self.monomial.degree() == 0
    }

    /// The remainder of `dividend`, if it is known.
    fn remainder(&self, analyzer: &Analyzer, dividend: &PrimExpr) -> Option<i128> {
        let set = analyzer.modular_set(dividend);
        let known = self.is_const() && i128::from(set.coeff) % self.coeff == 0;
        known.then(|| i128::from(set.base).rem_euclid(self.coeff))
    }

    /// The divisor as a sum of the same kind as `like`.
    fn to_sum(&self, like: &LinearSum) -> LinearSum {
        let mut sum = like.empty();
        sum.add_term(self.monomial.clone(), self.coeff);
        sum
    }

    /// `(q, r)` with `sum = q * self + r`: `q` takes the terms that are multiples, or together make multiples.
    fn split(&self, analyzer: &Analyzer, sum: &LinearSum) -> (LinearSum, LinearSum) {
        let (q, r) = self.split_terms(sum);
        match self.terms(analyzer).and_then(|terms| multiples(&r, &terms)) {
            Some((more, r)) => {
                let mut sum = q;
                sum.add(&more, 1);
                (sum, r)
            }
            None => (q, r),
        }
    }

    fn split_terms(&self, sum: &LinearSum) -> (LinearSum, LinearSum) {
        let (mut q, mut r) = (sum.empty(), sum.empty());
        for (monomial, c) in sum.terms() {
            match monomial.divide(&self.monomial) {
                Some(rest) if c % self.coeff == 0 => q.add_term(rest, c / self.coeff),
                _ => r.add_term(monomial.clone(), c),
            }
        }
        if self.is_const() {
            q.add_constant(sum.constant.div_euclid(self.coeff));
            r.add_constant(sum.constant.rem_euclid(self.coeff));
        } else {
            r.add_constant(sum.constant);
        }
        (q, r)
    }

    /// The number `k` such that `k * self <= r < (k + 1) * self` always.
    fn quotient(&self, analyzer: &Analyzer, r: &LinearSum) -> Option<i128> {
        if self.is_const() {
            let bound = sum_bound(analyzer, r);
            let k = bound.min.div_euclid(self.coeff);
            if bound.is_finite() && k == bound.max.div_euclid(self.coeff) {
                return Some(k);
            }
        }
        if !analyzer.proves_sum_nonneg(r) {
            return None;
        }
        let mut room = self.terms(analyzer).unwrap_or_else(|| self.to_sum(r)).minus(r);
        room.add_constant(-1);
        analyzer.proves_sum_nonneg(&room).then_some(0)
    }

    /// A common divisor of this divisor and every term of `r`: a number, and atoms when `r` has no constant. The number
    /// need not divide the constant of `r`, unless this divisor may be negative. The atoms are positive in `context`.
    fn common(&self, analyzer: &Analyzer, r: &LinearSum, context: &PrimExpr) -> Option<Divisor> {
        let positive = sum_bound(analyzer, &self.to_sum(r)).min > 0;
        let constant = if positive { 0 } else { r.constant };
        let coeff = r.terms().fold(gcd(self.coeff, constant), |g, (_, c)| gcd(g, c));
        let mut monomial = Monomial::default();
        for atom in self.monomial.atoms().filter(|_| r.constant == 0) {
            let more = monomial.times(&Monomial::atom(atom.clone()));
            if r.terms().all(|(it, _)| it.divide(&more).is_some())
                && self.monomial.divide(&more).is_some()
                && analyzer.proves_positive(atom, context)
            {
                monomial = more;
            }
        }
        (coeff > 1 || monomial.degree() > 0).then_some(Divisor { coeff, monomial })
    }

    /// `self / by`, where `by` divides `self`.
    fn over(&self, by: &Divisor, like: &LinearSum) -> PrimExpr {
        let rest = self.monomial.divide(&by.monomial).unwrap_or_default();
        Divisor { coeff: self.coeff / by.coeff, monomial: rest }.to_sum(like).to_expr()
    }
}

/// Terms of a quotient at most.
const MAX_QUOTIENT: usize = 8;

/// `(q, r)` with `sum = q * divisor + r`, where `r` is a constant: `n * h + 2 * n` is `n * (h + 2)`.
fn multiples(sum: &LinearSum, divisor: &LinearSum) -> Option<(LinearSum, LinearSum)> {
    let (lead, by) = divisor.terms().max_by_key(|(monomial, _)| monomial.degree())?;
    let (mut q, mut r) = (sum.empty(), sum.clone());
    for _ in 0..MAX_QUOTIENT {
        if r.terms().next().is_none() {
            return r.is_known().then_some((q, r));
        }
        let multiple =
            |(monomial, c): (&Monomial, i128)| Some((monomial.divide(lead)?, c / by)).filter(|_| c % by == 0);
        let (monomial, c) = r.terms().find_map(multiple)?;
        let mut part = sum.empty();
        part.add_term(monomial, c);
        r.add(&divisor.product(&part), -1);
        q.add(&part, 1);
    }
    None
}

/// The number of quotients and remainders in a sum, and the number of its terms.
fn size(sum: &LinearSum) -> (usize, usize) {
    let divides = |atom: &PrimExpr| match atom {
        PrimExpr::Binary(it) => matches!(it.op, BinaryOp::FloorDiv | BinaryOp::FloorMod),
        _ => false,
    };
    let divisions = sum.terms().flat_map(|(monomial, _)| monomial.atoms()).filter(|atom| divides(atom));
    (divisions.count(), sum.terms().count())
}

/// A sum whose value is zero, in which an atom of interest has the coefficient `-factor`.
struct Zero {
    sum: LinearSum,
    factor: i128,
    /// Adding it removes a division.
    exact: bool,
}

impl Simplifier<'_> {
    /// Simplifies a sum: simplifies its terms, collects them and puts them together again.
    pub(super) fn sum(&mut self, expr: &PrimExpr) -> PrimExpr {
        let sum = LinearSum::with_atoms(expr, Products::Keep, &mut |atom| self.simplify(atom));
        let sum = self.recombine(sum);
        let res = sum.to_expr();
        if unchanged(&res, expr) { expr.clone() } else { res }
    }

    /// Combines quotients and remainders that belong together, as long as that leaves fewer of them, or fewer terms.
    fn recombine(&mut self, mut sum: LinearSum) -> LinearSum {
        if sum.terms().count() > MAX_RECOMBINED {
            return sum;
        }
        while let Some(shorter) = self.shorter(&sum) {
            sum = shorter;
        }
        sum
    }

    fn shorter(&mut self, sum: &LinearSum) -> Option<LinearSum> {
        let before = size(sum);
        for (monomial, c) in sum.terms() {
            for atom in monomial.atoms() {
                let PrimExpr::Binary(it) = atom else { continue };
                let zeros = match it.op {
                    BinaryOp::FloorMod => self.zeros(atom, it),
                    BinaryOp::FloorDiv => self.exact(atom, it).into_iter().collect(),
                    _ => continue,
                };
                let rest = monomial.divide(&Monomial::atom(atom.clone()))?;
                for zero in zeros.into_iter().filter(|zero| c % zero.factor == 0) {
                    let mut scale = LinearSum::zero(sum.dtype);
                    scale.add_term(rest.clone(), c / zero.factor);
                    let mut next = sum.clone();
                    next.add(&zero.sum.product(&scale), 1);
                    if size(&next) < before || zero.exact {
                        return Some(next);
                    }
                }
            }
        }
        None
    }

    /// Sums whose value is zero and in which the remainder `atom` occurs.
    fn zeros(&mut self, atom: &PrimExpr, it: &Binary) -> Vec<Zero> {
        let linear = |expr: &PrimExpr| LinearSum::of(expr, Products::Keep);
        let mut res = Vec::new();
        // f - f // n * n - f % n
        if self.is_nonzero(&it.b, &it.a) {
            let quotient = self.simplify(&binary(BinaryOp::FloorDiv, it.a.clone(), it.b.clone()));
            let mut sum = linear(&it.a);
            sum.add(&linear(&quotient).product(&linear(&it.b)), -1);
            sum.add(&linear(atom), -1);
            res.push(Zero { sum, factor: 1, exact: false });
        }
        // f % (a * b) - f % a - f // a % b * a
        if let PrimExpr::Binary(inner) = &it.a
            && inner.op == BinaryOp::FloorDiv
            && let (Some(a), Some(b)) = (inner.b.as_int(), it.b.as_int())
            && a > 0
            && b > 0
            && it.a.dtype().is_int()
            && let Some(product) = a.checked_mul(b)
            && ConstIntBound::point(product.into()).fits(it.a.dtype())
        {
            let rem = |by: i64| linear(&inner.a.clone().floormod(by));
            let mut sum = rem(product);
            sum.add(&rem(a), -1);
            sum.add(&linear(atom), -i128::from(a));
            res.push(Zero { sum, factor: a.into(), exact: false });
        }
        res
    }

    /// True only if `expr` is not 0 wherever `context` has a value.
    fn is_nonzero(&self, expr: &PrimExpr, context: &PrimExpr) -> bool {
        !self.analyzer.const_int_bound(expr).contains(0) || self.analyzer.proves_positive(expr, context)
    }

    /// The zero sum `f - f // n * n`, if `f` is a multiple of the constant `n`.
    fn exact(&self, atom: &PrimExpr, it: &Binary) -> Option<Zero> {
        let by = it.b.as_int().filter(|&by| by > 1)?;
        let multiple = self.analyzer.modular_set(&it.a).is_multiple_of(by);
        multiple.then(|| {
            let mut sum = LinearSum::of(&it.a, Products::Keep);
            sum.add_term(Monomial::atom(atom.clone()), -i128::from(by));
            Zero { sum, factor: by.into(), exact: true }
        })
    }

    /// Moves the terms of the dividend that are multiples of the divisor out of the division.
    pub(super) fn floordiv(&mut self, it: &Binary) -> Option<PrimExpr> {
        if !it.a.dtype().is_int() {
            return None;
        }
        let divisor = Divisor::of(&self.analyzer, &it.b)?;
        let dividend = self.analyzer.exact_sum(&it.a, Products::Keep);
        let (mut q, mut r) = divisor.split(&self.analyzer, &dividend);
        if let Some(k) = divisor.quotient(&self.analyzer, &r) {
            q.add_constant(k);
            return Some(q.to_expr());
        }
        // The known remainder of the dividend does not change the quotient.
        if let Some(rest) = divisor.remainder(&self.analyzer, &it.a).filter(|&rest| rest <= r.constant) {
            r.add_constant(-rest);
        }
        let whole = q.as_constant() == Some(0);
        if !whole && !self.is_nonzero(&it.b, &it.a) {
            return None;
        }
        let (below, by) = match divisor.common(&self.analyzer, &r, &it.a) {
            Some(common) => (r.divided_by_floor(common.coeff, &common.monomial), divisor.over(&common, &r)),
            None => (r, it.b.clone()),
        };
        let rest = binary(BinaryOp::FloorDiv, self.analyzer.to_exact_expr(&below)?, by);
        let res = if whole { rest } else { q.to_expr() + rest };
        (!unchanged(&res, &binary(BinaryOp::FloorDiv, it.a.clone(), it.b.clone()))).then_some(res)
    }

    /// Drops the terms of the dividend that are multiples of the divisor.
    pub(super) fn floormod(&mut self, it: &Binary) -> Option<PrimExpr> {
        if !it.a.dtype().is_int() {
            return None;
        }
        let divisor = Divisor::of(&self.analyzer, &it.b)?;
        let dividend = self.analyzer.exact_sum(&it.a, Products::Keep);
        let (_, mut r) = divisor.split(&self.analyzer, &dividend);
        if let Some(k) = divisor.quotient(&self.analyzer, &r) {
            let multiple = divisor.to_sum(&r);
            r.add(&multiple, -k);
            return Some(r.to_expr());
        }
        if let Some(known) = divisor.remainder(&self.analyzer, &it.a) {
            let mut rest = r.empty();
            rest.add_constant(known);
            return Some(rest.to_expr());
        }
        let res = match divisor.common(&self.analyzer, &r, &it.a) {
            Some(common) => {
                let below = r.divided_by_floor(common.coeff, &common.monomial);
                let below = self.analyzer.to_exact_expr(&below)?;
                let inner = binary(BinaryOp::FloorMod, below, divisor.over(&common, &r));
                let mut res = LinearSum::of(&inner, Products::Keep).product(&common.to_sum(&r));
                res.add_constant(r.constant.rem_euclid(common.coeff));
                res.to_expr()
            }
            None => binary(BinaryOp::FloorMod, self.analyzer.to_exact_expr(&r)?, it.b.clone()),
        };
        (!unchanged(&res, &binary(BinaryOp::FloorMod, it.a.clone(), it.b.clone()))).then_some(res)
    }

    /// Decides a comparison, or removes what both sides have in common.
    pub(super) fn compare(&self, expr: &PrimExpr, it: &Binary) -> Option<PrimExpr> {
        let dtype = it.a.dtype();
        if !dtype.is_integer() {
            return None;
        }
        let truth = |value: bool| PrimExpr::bool(value).broadcast(dtype.lanes());
        if dtype.is_scalar() {
            if self.analyzer.proves(expr) {
                return Some(truth(true));
            }
            if negate(expr).is_some_and(|opposite| self.analyzer.proves(&opposite)) {
                return Some(truth(false));
            }
        }
        let equality = matches!(it.op, BinaryOp::Eq | BinaryOp::Ne);
        let wrapped = LinearSum::of(&it.a, Products::Keep).minus(&LinearSum::of(&it.b, Products::Keep));
        if let Some(value) = wrapped.as_constant().filter(|_| equality) {
            return Some(truth((value == 0) == (it.op == BinaryOp::Eq)));
        }
        if !dtype.is_int() {
            return None;
        }
        let exact = |expr| self.analyzer.exact_sum(expr, Products::Keep);
        let mut sum = exact(&it.a).minus(&exact(&it.b));
        if let Some(value) = sum.as_constant() {
            return Some(truth(if it.op == BinaryOp::Lt { value < 0 } else { value <= 0 }));
        }
        let g = sum.terms().fold(0, |g, (_, c)| gcd(g, c));
        if g > 1 {
            let constant = match it.op {
                BinaryOp::Lt => sum.constant.div_euclid(g),
                BinaryOp::Le => -(-sum.constant).div_euclid(g),
                _ if sum.constant % g != 0 => return Some(truth(it.op == BinaryOp::Ne)),
                _ => sum.constant / g,
            };
            sum = sum.divided_by(g);
            sum.constant = constant;
        }
        let (mut a, mut b) = (sum.empty(), sum.empty());
        for (monomial, c) in sum.terms() {
            let side = if c > 0 { &mut a } else { &mut b };
            side.add_term(monomial.clone(), c.abs());
        }
        if a.as_constant().is_some() {
            a.add_constant(sum.constant);
        } else {
            b.add_constant(-sum.constant);
        }
        if equality && a.as_constant().is_some() {
            std::mem::swap(&mut a, &mut b);
        }
        let side = |sum: &LinearSum| self.analyzer.to_exact_expr(sum);
        let res = binary(it.op, side(&a)?, side(&b)?);
        (!unchanged(&res, expr)).then_some(res)
    }
}
