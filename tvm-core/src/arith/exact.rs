//! Exact sums: the linear sum that equals an expression as an integer, where overflow is excluded.
//!
//! Modulo `2^bits`, every expression equals its linear sum. If the bounds of the sum fit the type, the two are the same
//! integer, even if partial sums overflow.

use super::bounds::Bounds;
use super::same::any_node;
use super::sum::{LinearSum, Monomial, Products};
use super::{Analyzer, ConstIntBound};
use crate::ir::tensor_program::{BinaryOp, PrimExpr};

impl Analyzer {
    /// The sum of integers that equals `expr`. Where sums inside may overflow, the result is `expr` as one atom.
    pub(super) fn exact_sum(&self, expr: &PrimExpr, products: Products) -> LinearSum {
        self.unwrapped(LinearSum::of(expr, products)).unwrap_or_else(|| LinearSum::atom(expr))
    }

    /// The sum of integers that equals `sum`, which is modulo `2^bits`; `None` where values of `sum` may wrap by
    /// different multiples of `2^bits`.
    fn unwrapped(&self, sum: LinearSum) -> Option<LinearSum> {
        let dtype = sum.dtype;
        let bound = sum_bound(self, &sum);
        if bound.fits(dtype) {
            return Some(sum.into_integers(0));
        }
        if !bound.is_finite() {
            return None;
        }
        let range = ConstIntBound::of_dtype(dtype);
        let turn = 1i128 << dtype.bits();
        let shift = -(bound.min - range.min).div_euclid(turn) * turn;
        (bound.max + shift <= range.max).then(|| sum.into_integers(shift))
    }

    /// True only if no sum, difference or product in `expr` overflows.
    pub(super) fn is_exact(&self, expr: &PrimExpr) -> bool {
        let mut bounds = Bounds::new(self);
        !any_node(expr, &mut |it| match it {
            PrimExpr::Binary(it) if matches!(it.op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul) => {
                !bounds.unwrapped(it).is_some_and(|bound| bound.fits(it.a.dtype()))
            }
            _ => false,
        })
    }

    /// `a * b`; `None` where it may overflow.
    pub(super) fn exact_product(&self, a: &PrimExpr, b: &PrimExpr) -> Option<PrimExpr> {
        let product = self.const_int_bound(a).mul(self.const_int_bound(b));
        product.fits(a.dtype()).then(|| self.simplify(&(a * b)))
    }

    /// An expression with the value of `sum`, a sum of integers; `None` where it may overflow.
    pub(super) fn to_exact_expr(&self, sum: &LinearSum) -> Option<PrimExpr> {
        (sum.is_known() && sum_bound(self, sum).fits(sum.dtype)).then(|| sum.to_expr())
    }
}

/// Constant bounds of a sum of integers, term by term.
pub(super) fn sum_bound(analyzer: &Analyzer, sum: &LinearSum) -> ConstIntBound {
    if !sum.is_known() {
        return ConstIntBound::EVERYTHING;
    }
    let mut bounds = Bounds::new(analyzer);
    sum.terms().fold(ConstIntBound::point(sum.constant), |total, (monomial, c)| {
        total.add(monomial_bound(&mut bounds, monomial).mul(ConstIntBound::point(c)))
    })
}

fn monomial_bound(bounds: &mut Bounds<'_>, monomial: &Monomial) -> ConstIntBound {
    let product = |a: ConstIntBound, b: &PrimExpr| a.mul(bounds.of(b));
    monomial.atoms().fold(ConstIntBound::point(1), product)
}
