//! The simplifier: bottom-up; sums to linear form, other operators by rules.
//!
//! TVM counterpart: `RewriteSimplifier`, `CanonicalSimplifier`.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::Analyzer;
use super::same::address;
use super::sum::{LinearSum, Products, is_sum};
use crate::support::with_stack;
use crate::tir::{Mutator, PrimExpr};

/// One simplification: what is known, and what shared nodes became.
pub(super) struct Simplifier<'a> {
    analyzer: Cow<'a, Analyzer>,
    memo: FxHashMap<usize, (PrimExpr, PrimExpr)>,
}

impl<'a> Simplifier<'a> {
    pub(super) fn new(analyzer: &'a Analyzer) -> Simplifier<'a> {
        Simplifier { analyzer: Cow::Borrowed(analyzer), memo: FxHashMap::default() }
    }

    /// `expr`, simplified.
    pub(super) fn simplify(&mut self, expr: &PrimExpr) -> PrimExpr {
        let Some(key) = address(expr) else { return with_stack(|| self.node(expr)) };
        if let Some((_, res)) = self.memo.get(&key) {
            return res.clone();
        }
        let res = with_stack(|| self.node(expr));
        self.memo.insert(key, (expr.clone(), res.clone()));
        res
    }

    fn node(&mut self, expr: &PrimExpr) -> PrimExpr {
        if let PrimExpr::Var(var) = expr {
            let value = self.analyzer.info(var).and_then(|info| info.value.clone());
            return value.unwrap_or_else(|| expr.clone());
        }
        if is_sum(expr) {
            let sum = LinearSum::with_atoms(expr, Products::Keep, &mut |atom| self.simplify(atom));
            return sum.to_expr();
        }
        let expr = self.walk_expr(expr).unwrap_or_else(|| expr.clone());
        self.decide(&expr).unwrap_or(expr)
    }

    /// A comparison of constant bounds.
    fn decide(&self, expr: &PrimExpr) -> Option<PrimExpr> {
        let PrimExpr::Binary(it) = expr else { return None };
        if !it.op.is_comparison() || it.a.dtype() != DataType::I64 {
            return None;
        }
        if self.analyzer.proves(expr) {
            return Some(PrimExpr::bool(true));
        }
        let opposite = super::prove::negate(expr)?;
        self.analyzer.proves(&opposite).then(|| PrimExpr::bool(false))
    }
}

impl Mutator for Simplifier<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let res = self.simplify(expr);
        (!res.ptr_eq(expr)).then_some(res)
    }
}
