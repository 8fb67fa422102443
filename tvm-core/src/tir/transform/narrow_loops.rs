//! Shortens loops of constant extent to the iterations in which their body does something.
//!
//! `for j in 0..32 { if j < 11 { … } }` becomes `for j in 0..11 { … }`, so that vectors and unrolled copies carry no condition.
//! A condition that does not depend on the loop moves out of it. A store of `if c { value } else { what is there }` becomes `if c { store of value }`,
//! unless `c` depends on a vectorized loop, whose lanes would need a mask.
//!
//! TVM counterpart: part of `LoopPartition`.
//! Requires: statements without blocks, simplified conditions.

use std::sync::Arc;

use tvm_runtime::DataType;

use super::context::{conjuncts, reads};
use super::util::body_pass;
use crate::arith::{Analyzer, detect_linear_equation};
use crate::ir::Var;
use crate::pass::Pass;
use crate::tir::analysis::{conjunction, is_total, loads_element, slack};
use crate::tir::{
    BufferStore, For, ForKind, IfThenElse, Intrinsic, Mutator, PrimCallee, PrimExpr, Stmt, uses_var,
};

/// Shortens loops whose body is conditional.
pub fn narrow_loops() -> Pass {
    body_pass("NarrowLoops", |func| NarrowLoops::default().mutate_stmt(&func.body))
}

#[derive(Default)]
struct NarrowLoops {
    /// Variables of the vectorized loops around the statement.
    lanes: Vec<Var>,
}

impl NarrowLoops {
    /// The store as a statement under the condition of its value.
    fn conditional(&self, store: &BufferStore) -> Option<Stmt> {
        let PrimExpr::Call(call) = &store.value else { return None };
        let (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [condition, value, old]) =
            (&call.callee, &*call.args)
        else {
            return None;
        };
        let of_lanes = self.lanes.iter().any(|it| uses_var(condition, it));
        if of_lanes || store.predicate.is_some() || reads(condition) || !loads_element(old, store) {
            return None;
        }
        let then_case = BufferStore { value: value.clone(), ..store.clone() }.into();
        let (condition, span) = (condition.clone(), store.span.clone());
        Some(IfThenElse { condition, then_case, else_case: None, span }.into())
    }
}

impl Mutator for NarrowLoops {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let is_lane = |it: &&Arc<For>| it.kind == ForKind::Vectorized;
        let lane = if let Stmt::For(node) = stmt { Some(node).filter(is_lane) } else { None };
        self.lanes.extend(lane.map(|it| it.loop_var.clone()));
        let walked = self.walk_stmt(stmt);
        self.lanes.truncate(self.lanes.len() - usize::from(lane.is_some()));
        match walked.as_ref().unwrap_or(stmt) {
            Stmt::For(node) => narrowed(node).or(walked),
            Stmt::BufferStore(store) => self.conditional(store).or(walked),
            Stmt::IfThenElse(outer) => joined(outer).or(walked),
            _ => walked,
        }
    }
}

/// Two conditions, one directly in the other, as one.
fn joined(outer: &IfThenElse) -> Option<Stmt> {
    let (Stmt::IfThenElse(inner), None) = (&outer.then_case, &outer.else_case) else { return None };
    // The inner condition may be evaluated where the outer one fails.
    let fits = inner.else_case.is_none() && !reads(&inner.condition) && is_total(&inner.condition);
    let condition = outer.condition.clone().and(inner.condition.clone());
    fits.then(|| IfThenElse { condition, ..(**inner).clone() }.into())
}

/// `node` without the conditions around its whole body that end it early, or do not depend on it.
fn narrowed(node: &For) -> Option<Stmt> {
    let (Stmt::IfThenElse(branch), Some(extent), true) =
        (&node.body, node.extent.as_int(), node.min.is_const(0))
    else {
        return None;
    };
    if branch.else_case.is_some()
        || matches!(node.kind, ForKind::ThreadBinding(_))
        || reads(&branch.condition)
    {
        return None;
    }
    let (mut outside, mut inside, mut end) = (Vec::new(), Vec::new(), extent);
    for part in conjuncts(&branch.condition) {
        if !uses_var(&part, &node.loop_var) {
            outside.push(part);
        } else if let Some(limit) = end_of(&part, node) {
            end = end.min(limit);
        } else {
            inside.push(part);
        }
    }
    if outside.is_empty() && end == extent {
        return None;
    }
    let branch = IfThenElse { condition: conjunction(inside), ..(**branch).clone() };
    let extent = PrimExpr::int(end.max(0), node.loop_var.dtype());
    let shorter = For { extent, body: branch.folded(), ..node.clone() };
    let span = node.span.clone();
    Some(
        IfThenElse { condition: conjunction(outside), then_case: shorter.into(), else_case: None, span }
            .folded(),
    )
}

/// The iteration of `node` from which on `condition` fails, and before which it holds.
fn end_of(condition: &PrimExpr, node: &For) -> Option<i64> {
    let slack = slack(condition).filter(|it| it.dtype() == DataType::I64)?;
    let linear = detect_linear_equation(&slack, std::slice::from_ref(&node.loop_var), &Analyzer::new())?;
    let step = linear.coefficients[0].as_int().filter(|&it| it < 0)?.checked_neg()?;
    // Larger constants could make the arithmetic of the condition wrap.
    let base = linear.base.as_int().filter(|base| base.unsigned_abs() <= 1 << 40 && step <= 1 << 20)?;
    Some((base - 1).div_euclid(step) + 1)
}
