//! The simplifier. It works bottom-up: sums by linear form, every other operator by its table of rules.
//!
//! Each node is rewritten until no rule applies, a bounded number of times. Nodes that occur more than once are
//! simplified once.
//!
//! TVM counterpart: `RewriteSimplifier`, `CanonicalSimplifier`.

mod add;
mod canonical;
mod compare;
mod div_mod;
mod float;
mod floordiv;
mod floormod;
mod logic;
mod min_max;
mod mul;
mod select;
mod sub;

use std::borrow::Cow;

use tvm_runtime::DataType;

use super::bounds::Bounds;
use super::pattern::{Domain, Rule};
use super::same::{Memo, same, unchanged};
use super::sum::is_sum;
use super::{Analyzer, ConstIntBound};
use crate::ir::tensor_program::{
    Binary, BinaryOp, Cast, Intrinsic, Let, Mutator, PrimCall, PrimCallee, PrimExpr, binary, bitwise,
    comparison, logical,
};
use crate::support::with_stack;

/// Maximum number of successive rewrites of one node and its results.
const MAX_REWRITES: u32 = 24;
/// Maximum number of nested conditions, of selects and conjunctions, that are assumed together.
const MAX_CONDITIONS: u32 = 8;

/// The rules for expressions with the operator `op` at their head. The rules of the second table are for operands that
/// are comparisons.
fn tables(op: BinaryOp) -> (&'static [Rule], &'static [Rule]) {
    match op {
        BinaryOp::Add => (add::ADD, &[]),
        BinaryOp::Sub => (sub::SUB, &[]),
        BinaryOp::Mul => (mul::MUL, &[]),
        BinaryOp::Div => (div_mod::DIV, &[]),
        BinaryOp::Mod => (div_mod::MOD, &[]),
        BinaryOp::FloorDiv => (floordiv::FLOORDIV, &[]),
        BinaryOp::FloorMod => (floormod::FLOORMOD, &[]),
        BinaryOp::Min => (min_max::MIN, &[]),
        BinaryOp::Max => (min_max::MAX, &[]),
        BinaryOp::Eq => (compare::EQ, &[]),
        BinaryOp::Ne => (compare::NE, &[]),
        BinaryOp::Lt => (compare::LT, &[]),
        BinaryOp::Le => (compare::LE, &[]),
        BinaryOp::Gt => (compare::GT, &[]),
        BinaryOp::Ge => (compare::GE, &[]),
        BinaryOp::And => (logic::AND, logic::AND_COMPARE),
        BinaryOp::Or => (logic::OR, logic::OR_COMPARE),
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr => (&[], &[]),
    }
}

/// All rules of all tables.
#[cfg(test)]
pub(super) fn all_rules() -> impl Iterator<Item = &'static Rule> {
    use BinaryOp::*;
    let ops = [Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, Eq, Ne, Lt, Le, Gt, Ge, And, Or];
    let of_ops = ops.into_iter().flat_map(|op| tables(op).0.iter().chain(tables(op).1));
    of_ops.chain(logic::NOT).chain(logic::NOT_BOOL).chain(select::SELECT).chain(select::SELECT_BOOL)
}

/// The queries that conditions of rules may make, for an expression that is rewritten.
pub(super) struct Prover<'a> {
    pub(super) analyzer: &'a Analyzer,
    pub(super) expr: &'a PrimExpr,
}

impl Prover<'_> {
    fn bound(&self, expr: &PrimExpr) -> ConstIntBound {
        self.analyzer.const_int_bound(expr)
    }

    fn nonneg(&self, expr: &PrimExpr) -> bool {
        self.bound(expr).min >= 0
    }

    fn nonpos(&self, expr: &PrimExpr) -> bool {
        self.bound(expr).max <= 0
    }

    fn positive(&self, expr: &PrimExpr) -> bool {
        self.analyzer.proves_positive(expr, self.expr)
    }

    fn nonzero(&self, expr: &PrimExpr) -> bool {
        !self.bound(expr).contains(0) || self.positive(expr)
    }

    fn le(&self, a: &PrimExpr, b: &PrimExpr) -> bool {
        self.analyzer.proves_at_least(b, a, 0)
    }

    fn is_multiple(&self, expr: &PrimExpr, of: &PrimExpr) -> bool {
        of.as_int().is_some_and(|of| self.analyzer.modular_set(expr).is_multiple_of(of))
    }

    /// True when `it` does not overflow.
    pub(super) fn is_exact(&self, it: &Binary) -> bool {
        match it.op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv => {
                let bound = Bounds::new(self.analyzer).unwrapped(it);
                bound.is_some_and(|bound| bound.fits(it.a.dtype()))
            }
            BinaryOp::Mod | BinaryOp::FloorMod | BinaryOp::Min | BinaryOp::Max => true,
            comparison!() | logical!() | bitwise!() => true,
        }
    }
}

/// One simplification: what is known, and the results for nodes.
pub(super) struct Simplifier<'a> {
    analyzer: Cow<'a, Analyzer>,
    memo: Memo<PrimExpr>,
    conditions: u32,
    rewrites: u32,
}

impl<'a> Simplifier<'a> {
    pub(super) fn new(analyzer: &'a Analyzer) -> Simplifier<'a> {
        Simplifier { analyzer: Cow::Borrowed(analyzer), memo: Memo::default(), conditions: 0, rewrites: 0 }
    }

    /// `expr`, simplified.
    pub(super) fn simplify(&mut self, expr: &PrimExpr) -> PrimExpr {
        if matches!(expr, PrimExpr::Var(_) | PrimExpr::IntImm(_) | PrimExpr::FloatImm(_)) {
            return self.node(expr);
        }
        if let Some(res) = self.memo.get(expr) {
            return res;
        }
        let res = with_stack(|| self.node(expr));
        self.memo.insert(expr, res.clone());
        // The result is simple: it is not traversed again when it is part of an expression that is rewritten.
        self.memo.insert(&res, res.clone());
        res
    }

    fn node(&mut self, expr: &PrimExpr) -> PrimExpr {
        let res = match expr {
            PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) => return expr.clone(),
            PrimExpr::Var(var) => {
                let info = self.analyzer.info(var);
                return info.and_then(|info| info.value.clone()).unwrap_or_else(|| expr.clone());
            }
            PrimExpr::Let(it) => return self.let_expr(it),
            PrimExpr::Select(it) => {
                let condition = self.simplify(&it.condition);
                if condition.as_int().is_some() {
                    return self.simplify(&condition.select(it.true_value.clone(), it.false_value.clone()));
                }
                let (a, b) = self.arms(&condition, &it.true_value, &it.false_value);
                condition.select(a, b)
            }
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                return self.if_then_else(expr, it);
            }
            PrimExpr::Binary(it) if it.op == BinaryOp::And => {
                let a = self.simplify(&it.a);
                let b = self.under(&a, &it.b);
                binary(BinaryOp::And, a, b)
            }
            _ if is_sum(expr) => self.sum(expr),
            _ => self.walk_expr(expr).unwrap_or_else(|| expr.clone()),
        };
        match self.rewrite(&res) {
            Some(next) if self.rewrites < MAX_REWRITES => {
                self.rewrites += 1;
                let next = self.simplify(&next);
                self.rewrites -= 1;
                next
            }
            Some(next) => next,
            None => res,
        }
    }

    /// One rewrite of the node `expr`, whose operands are simplified.
    fn rewrite(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let PrimExpr::Binary(it) = expr else { return self.rewrite_other(expr) };
        let dtype = it.a.dtype();
        if let (PrimExpr::Broadcast(a), PrimExpr::Broadcast(b)) = (&it.a, &it.b) {
            return Some(binary(it.op, a.value.clone(), b.value.clone()).broadcast(a.lanes));
        }
        if dtype.is_float() {
            return float::fold(it).or_else(|| self.apply(tables(it.op).0, expr, dtype));
        }
        let res = match it.op {
            BinaryOp::FloorDiv => self.floordiv(it),
            BinaryOp::FloorMod => self.floormod(it),
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le => self.compare(expr, it),
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Mod
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::Gt
            | BinaryOp::Ge
            | logical!()
            | bitwise!() => None,
        };
        let (table, of_comparisons) = tables(it.op);
        res.or_else(|| self.apply(table, expr, dtype)).or_else(|| {
            let (PrimExpr::Binary(a), PrimExpr::Binary(b)) = (&it.a, &it.b) else { return None };
            let dtype = a.a.dtype();
            let both = a.op.is_comparison() && b.op.is_comparison() && dtype == b.a.dtype();
            if both { self.apply(of_comparisons, expr, dtype) } else { None }
        })
    }

    fn rewrite_other(&self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Not(it) => {
                if let PrimExpr::Broadcast(inner) = &it.value {
                    return Some((!inner.value.clone()).broadcast(inner.lanes));
                }
                let compared = match &it.value {
                    PrimExpr::Binary(inner) if inner.op.is_comparison() => inner.a.dtype(),
                    _ => DataType::BOOL,
                };
                self.apply(logic::NOT, expr, compared)
                    .or_else(|| self.apply(logic::NOT_BOOL, expr, DataType::BOOL))
            }
            PrimExpr::Select(it) => {
                let dtype = it.true_value.dtype();
                if it.condition.dtype().lanes() != dtype.lanes() {
                    return None;
                }
                let of_bools = if dtype.is_bool() { select::SELECT_BOOL } else { &[] };
                let compared = match &it.condition {
                    PrimExpr::Binary(inner) if inner.op.is_comparison() => inner.a.dtype(),
                    _ => dtype,
                };
                // Comparisons of floats do not order NaN: only rules for every type apply then.
                let dtype = if compared.is_float() { compared } else { dtype };
                self.apply(of_bools, expr, dtype).or_else(|| self.apply(select::SELECT, expr, dtype))
            }
            PrimExpr::Cast(it) => self.cast(it),
            PrimExpr::Ramp(it) if it.stride.is_const(0) => Some(it.base.clone().broadcast(it.lanes)),
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
                it.args[0].as_int().map(|_| it.args[0].clone())
            }
            _ => None,
        }
    }

    /// The result of the first rule of `table` that changes `expr`.
    fn apply(&self, table: &'static [Rule], expr: &PrimExpr, dtype: DataType) -> Option<PrimExpr> {
        let allowed = |domain| match domain {
            Domain::Any => true,
            Domain::Int => dtype.is_integer() || dtype.is_bool(),
            Domain::Exact => dtype.is_int(),
        };
        let prover = Prover { analyzer: &self.analyzer, expr };
        let rules = table.iter().filter(|rule| allowed(rule.domain));
        rules.filter_map(|rule| (rule.apply)(expr, dtype, &prover)).find(|res| !unchanged(res, expr))
    }

    /// Removes a cast to another type and back, if no value is lost.
    fn cast(&self, it: &Cast) -> Option<PrimExpr> {
        let PrimExpr::Cast(inner) = &it.value else { return None };
        let (from, via) = (inner.value.dtype(), inner.dtype);
        let kept = from == it.dtype && from.is_integer() && via.is_integer() && {
            self.analyzer.const_int_bound(&inner.value).to_finite().fits(via)
        };
        kept.then(|| inner.value.clone())
    }

    fn let_expr(&mut self, it: &Let) -> PrimExpr {
        let value = self.simplify(&it.value);
        let simple =
            value.as_int().is_some() || value.as_var().is_some() || matches!(value, PrimExpr::FloatImm(_));
        // The name is bound only once: facts about it are harmless outside of the `let`.
        let analyzer = self.analyzer.to_mut();
        if simple {
            analyzer.bind_value(&it.var, &value);
            return self.simplify(&it.body);
        }
        if value.dtype().is_integer() {
            let (bound, modular) = (analyzer.const_int_bound(&value), analyzer.modular_set(&value));
            analyzer.bind_bound(&it.var, bound);
            analyzer.bind_modular(&it.var, modular);
        }
        let body = self.simplify(&it.body);
        PrimExpr::Let(std::sync::Arc::new(Let { var: it.var.clone(), value, body }))
    }

    fn if_then_else(&mut self, expr: &PrimExpr, it: &PrimCall) -> PrimExpr {
        let condition = self.simplify(&it.args[0]);
        match condition.as_int() {
            Some(0) => return self.simplify(&it.args[2]),
            Some(_) => return self.simplify(&it.args[1]),
            None => {}
        }
        let (a, b) = self.arms(&condition, &it.args[1], &it.args[2]);
        if same(&a, &b) {
            return a;
        }
        let args = [condition, a, b];
        if args.iter().zip(it.args.iter()).all(|(new, old)| new.ptr_eq(old)) {
            return expr.clone();
        }
        PrimExpr::Call(std::sync::Arc::new(it.with_args(args)))
    }

    /// Simplifies both arms of a choice, each under the condition that selects it.
    fn arms(&mut self, condition: &PrimExpr, a: &PrimExpr, b: &PrimExpr) -> (PrimExpr, PrimExpr) {
        (self.under(condition, a), self.under(&!condition.clone(), b))
    }

    /// Simplifies `expr`, where `condition` holds.
    fn under(&mut self, condition: &PrimExpr, expr: &PrimExpr) -> PrimExpr {
        let leaf = !matches!(
            expr,
            PrimExpr::Binary(_)
                | PrimExpr::Select(_)
                | PrimExpr::Cast(_)
                | PrimExpr::Not(_)
                | PrimExpr::Call(_)
        );
        if leaf || self.conditions >= MAX_CONDITIONS || !condition.dtype().is_scalar() {
            return self.simplify(expr);
        }
        let mut inner = self.inner();
        inner.conditions += 1;
        inner.analyzer.to_mut().enter_constraint(condition);
        inner.simplify(expr)
    }

    fn inner(&self) -> Simplifier<'static> {
        Simplifier {
            analyzer: Cow::Owned(self.analyzer.as_ref().clone()),
            memo: Memo::default(),
            conditions: self.conditions,
            rewrites: self.rewrites,
        }
    }
}

impl Mutator for Simplifier<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let res = self.simplify(expr);
        (!res.ptr_eq(expr)).then_some(res)
    }
}
