//! What linear form decides: sums, division of sums, comparison of sums.
//!
//! `(i * 8 + j) // 8` is `i` where `0 <= j < 8`; `f // n * n + f % n` is `f`; `4 * i + 4 * j < 10` is `i + j < 3`.
//!
//! TVM counterpart: `CanonicalSimplifier`.

use tvm_runtime::DataType;

use super::Simplifier;
use crate::arith::modular_set::gcd;
use crate::arith::prove::sum_bound;
use crate::arith::same::same;
use crate::arith::sum::{LinearSum, Monomial, Products};
use crate::arith::{Analyzer, ConstIntBound};
use crate::tir::{Binary, BinaryOp, PrimExpr, binary};

/// Sums with more terms than this are only added up.
const MAX_RECOMBINED: usize = 64;

/// `coeff * monomial`, what sums are divided by.
struct Divisor {
    coeff: i64,
    monomial: Monomial,
}

impl Divisor {
    /// `expr` as a divisor; one that is a sum of several terms counts as an atom. `None` for zero.
    fn of(expr: &PrimExpr) -> Option<Divisor> {
        let sum = LinearSum::of(expr, Products::Keep);
        if let Some(coeff) = sum.as_constant() {
            return (coeff > 0).then(|| Divisor { coeff, monomial: Monomial::default() });
        }
        let single = sum.constant == 0 && sum.terms().count() == 1;
        match sum.terms().next() {
            Some((monomial, coeff)) if single && coeff > 0 => {
                Some(Divisor { coeff, monomial: monomial.clone() })
            }
            _ => Some(Divisor { coeff: 1, monomial: Monomial::atom(sum.to_expr()) }),
        }
    }

    fn is_const(&self) -> bool {
        self.monomial.degree() == 0
    }

    fn to_sum(&self, dtype: DataType) -> LinearSum {
        let mut sum = LinearSum::zero(dtype);
        sum.add_term(self.monomial.clone(), self.coeff);
        sum
    }

    /// `(q, r)` with `sum = q * self + r`: `q` takes the terms that are multiples.
    fn split(&self, sum: &LinearSum) -> (LinearSum, LinearSum) {
        let (mut q, mut r) = (LinearSum::zero(sum.dtype), LinearSum::zero(sum.dtype));
        for (monomial, c) in sum.terms() {
            match monomial.divide(&self.monomial) {
                Some(rest) if c % self.coeff == 0 => q.add_term(rest, c / self.coeff),
                _ => r.add_term(monomial.clone(), c),
            }
        }
        r.constant = sum.constant;
        if self.is_const() {
            q.add_term(Monomial::default(), sum.constant.div_euclid(self.coeff));
            r.constant = sum.constant.rem_euclid(self.coeff);
        }
        (q, r)
    }

    /// The number `k` such that `k * self <= r < (k + 1) * self` always.
    fn quotient(&self, analyzer: &Analyzer, r: &LinearSum) -> Option<i64> {
        if self.is_const() {
            let bound = sum_bound(analyzer, r);
            let finite = bound.min > ConstIntBound::NEG_INF && bound.max < ConstIntBound::POS_INF;
            let k = bound.min.div_euclid(self.coeff);
            if finite && k == bound.max.div_euclid(self.coeff) {
                return Some(k);
            }
        }
        let mut room = self.to_sum(r.dtype).minus(r);
        room.constant = room.constant.wrapping_sub(1);
        (analyzer.proves_sum_nonneg(r) && analyzer.proves_sum_nonneg(&room)).then_some(0)
    }

    /// What divides both this and every term of `r`: a number, and atoms when `r` has no constant. The number need
    /// not divide the constant of `r`, unless this may be negative.
    fn common(&self, analyzer: &Analyzer, r: &LinearSum) -> Option<Divisor> {
        let positive = sum_bound(analyzer, &self.to_sum(r.dtype)).min > 0;
        let constant = if positive { 0 } else { r.constant };
        let coeff = r.terms().fold(gcd(self.coeff, constant), |g, (_, c)| gcd(g, c));
        let mut monomial = Monomial::default();
        for atom in self.monomial.atoms().filter(|_| r.constant == 0) {
            let more = monomial.times(&Monomial::atom(atom.clone()));
            if r.terms().all(|(it, _)| it.divide(&more).is_some()) && self.monomial.divide(&more).is_some() {
                monomial = more;
            }
        }
        (coeff > 1 || monomial.degree() > 0).then_some(Divisor { coeff, monomial })
    }

    /// `self / by`, which divides it.
    fn over(&self, by: &Divisor, dtype: DataType) -> PrimExpr {
        let rest = self.monomial.divide(&by.monomial).unwrap_or_default();
        Divisor { coeff: self.coeff / by.coeff, monomial: rest }.to_sum(dtype).to_expr()
    }
}

/// A sum that is zero; an atom of interest has the coefficient `-factor` in it.
struct Zero {
    sum: LinearSum,
    factor: i64,
    /// Adding it removes a division.
    exact: bool,
}

impl Simplifier<'_> {
    /// A sum: its terms simplified, collected and put together again.
    pub(super) fn sum(&mut self, expr: &PrimExpr) -> PrimExpr {
        let sum = LinearSum::with_atoms(expr, Products::Keep, &mut |atom| self.simplify(atom));
        let sum = self.recombine(sum);
        let res = sum.to_expr();
        if same(&res, expr) { expr.clone() } else { res }
    }

    /// Puts quotients and remainders together that belong together, while that makes the sum shorter.
    fn recombine(&mut self, mut sum: LinearSum) -> LinearSum {
        if sum.dtype.scalar() != DataType::I64 || sum.terms().count() > MAX_RECOMBINED {
            return sum;
        }
        while let Some(shorter) = self.shorter(&sum) {
            sum = shorter;
        }
        sum
    }

    fn shorter(&mut self, sum: &LinearSum) -> Option<LinearSum> {
        let count = sum.terms().count();
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
                    if next.terms().count() < count || zero.exact {
                        return Some(next);
                    }
                }
            }
        }
        None
    }

    /// Sums that are zero and in which the remainder `atom` occurs.
    fn zeros(&mut self, atom: &PrimExpr, it: &Binary) -> Vec<Zero> {
        let linear = |expr: &PrimExpr| LinearSum::of(expr, Products::Keep);
        // f - f // n * n - f % n
        let quotient = self.simplify(&binary(BinaryOp::FloorDiv, it.a.clone(), it.b.clone()));
        let mut sum = linear(&it.a);
        sum.add(&linear(&quotient).product(&linear(&it.b)), -1);
        sum.add(&linear(atom), -1);
        let mut res = vec![Zero { sum, factor: 1, exact: false }];
        // f % (a * b) - f % a - f // a % b * a
        if let PrimExpr::Binary(inner) = &it.a
            && inner.op == BinaryOp::FloorDiv
            && let (Some(a), Some(b)) = (inner.b.as_int(), it.b.as_int())
            && a > 0
            && b > 0
            && let Some(product) = a.checked_mul(b)
        {
            let rem = |by: i64| linear(&binary(BinaryOp::FloorMod, inner.a.clone(), PrimExpr::index(by)));
            let mut sum = rem(product);
            sum.add(&rem(a), -1);
            sum.add(&linear(atom), -a);
            res.push(Zero { sum, factor: a, exact: false });
        }
        res
    }

    /// `f - f // n * n`, where `f` is a multiple of the number `n`.
    fn exact(&self, atom: &PrimExpr, it: &Binary) -> Option<Zero> {
        let by = it.b.as_int().filter(|&by| by > 1)?;
        let multiple = self.analyzer.modular_set(&it.a).is_multiple_of(by);
        multiple.then(|| {
            let mut sum = LinearSum::of(&it.a, Products::Keep);
            sum.add_term(Monomial::atom(atom.clone()), -by);
            Zero { sum, factor: by, exact: true }
        })
    }

    /// The terms of the dividend that are multiples of the divisor leave the division.
    pub(super) fn floordiv(&mut self, it: &Binary) -> Option<PrimExpr> {
        if it.a.dtype().scalar() != DataType::I64 {
            return None;
        }
        let divisor = Divisor::of(&it.b)?;
        let dividend = LinearSum::of(&it.a, Products::Keep);
        let (mut q, r) = divisor.split(&dividend);
        if let Some(k) = divisor.quotient(&self.analyzer, &r) {
            q.add_term(Monomial::default(), k);
            return Some(q.to_expr());
        }
        let (below, by) = match divisor.common(&self.analyzer, &r) {
            Some(common) => {
                (r.divided_by_floor(common.coeff, &common.monomial), divisor.over(&common, r.dtype))
            }
            None => (r, it.b.clone()),
        };
        let rest = binary(BinaryOp::FloorDiv, below.to_expr(), by);
        let res = if q.as_constant() == Some(0) { rest } else { q.to_expr() + rest };
        (!same(&res, &binary(BinaryOp::FloorDiv, it.a.clone(), it.b.clone()))).then_some(res)
    }

    /// The terms of the dividend that are multiples of the divisor do not matter.
    pub(super) fn floormod(&mut self, it: &Binary) -> Option<PrimExpr> {
        if it.a.dtype().scalar() != DataType::I64 {
            return None;
        }
        let divisor = Divisor::of(&it.b)?;
        let dividend = LinearSum::of(&it.a, Products::Keep);
        let (_, mut r) = divisor.split(&dividend);
        if let Some(k) = divisor.quotient(&self.analyzer, &r) {
            r.add(&divisor.to_sum(r.dtype), -k);
            return Some(r.to_expr());
        }
        if divisor.is_const() {
            let set = self.analyzer.modular_set(&r.to_expr());
            if set.coeff % divisor.coeff == 0 {
                return Some(LinearSum::constant(set.base.rem_euclid(divisor.coeff), r.dtype).to_expr());
            }
        }
        let res = match divisor.common(&self.analyzer, &r) {
            Some(common) => {
                let below = r.divided_by_floor(common.coeff, &common.monomial);
                let inner = binary(BinaryOp::FloorMod, below.to_expr(), divisor.over(&common, r.dtype));
                let mut res = LinearSum::of(&inner, Products::Keep).product(&common.to_sum(r.dtype));
                res.add_term(Monomial::default(), r.constant.rem_euclid(common.coeff));
                res.to_expr()
            }
            None => binary(BinaryOp::FloorMod, r.to_expr(), it.b.clone()),
        };
        (!same(&res, &binary(BinaryOp::FloorMod, it.a.clone(), it.b.clone()))).then_some(res)
    }

    /// A comparison: decided, or what both sides have in common removed.
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
            if crate::arith::prove::negate(expr).is_some_and(|opposite| self.analyzer.proves(&opposite)) {
                return Some(truth(false));
            }
        }
        let left = LinearSum::of(&it.a, Products::Keep);
        let mut sum = left.minus(&LinearSum::of(&it.b, Products::Keep));
        let equality = matches!(it.op, BinaryOp::Eq | BinaryOp::Ne);
        if let Some(value) = sum.as_constant().filter(|_| equality) {
            return Some(truth((value == 0) == (it.op == BinaryOp::Eq)));
        }
        if dtype.scalar() != DataType::I64 {
            return None;
        }
        let g = sum.terms().fold(0, |g, (_, c)| gcd(g, c));
        if g > 1 {
            let constant = match it.op {
                BinaryOp::Lt => sum.constant.div_euclid(g),
                BinaryOp::Le => -(sum.constant.wrapping_neg()).div_euclid(g),
                _ if sum.constant % g != 0 => return Some(truth(it.op == BinaryOp::Ne)),
                _ => sum.constant / g,
            };
            sum = sum.divided_by(g);
            sum.constant = constant;
        }
        let (mut a, mut b) = (LinearSum::zero(sum.dtype), LinearSum::zero(sum.dtype));
        for (monomial, c) in sum.terms() {
            if c > 0 {
                a.add_term(monomial.clone(), c)
            } else {
                b.add_term(monomial.clone(), c.wrapping_neg())
            }
        }
        if a.terms.is_empty() {
            a.constant = sum.constant;
        } else {
            b.constant = sum.constant.wrapping_neg();
        }
        if equality && a.terms.is_empty() {
            std::mem::swap(&mut a, &mut b);
        }
        let res = binary(it.op, a.to_expr(), b.to_expr());
        (!same(&res, expr)).then_some(res)
    }
}
