//! Shortens loops of constant extent to the iterations in which their body does something.
//!
//! `for j in 0..32 { if j < 11 { … } }` becomes `for j in 0..11 { … }`, so that vectors and unrolled copies carry no condition.
//! A condition that does not depend on the loop moves out of it.
//!
//! TVM counterpart: part of `LoopPartition`.
//! Requires: statements without blocks, simplified conditions.

use tvm_runtime::DataType;

use super::context::{conjuncts, reads};
use super::util::body_pass;
use crate::arith::{Analyzer, detect_linear_equation};
use crate::pass::Pass;
use crate::tir::analysis::{conjunction, slack};
use crate::tir::{For, ForKind, IfThenElse, Mutator, PrimExpr, Stmt, uses_var};

/// Shortens loops whose body is conditional.
pub fn narrow_loops() -> Pass {
    body_pass("NarrowLoops", |func| NarrowLoops.mutate_stmt(&func.body))
}

struct NarrowLoops;

impl Mutator for NarrowLoops {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        match walked.as_ref().unwrap_or(stmt) {
            Stmt::For(node) => narrowed(node).or(walked),
            _ => walked,
        }
    }
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
