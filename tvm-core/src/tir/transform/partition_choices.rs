//! Divides loops at the iterations where a stored value changes from one alternative of a condition to the other.
//!
//! `for j in vectorized(114) { y[j] = if i >= 1 && j >= 1 && j < 113 { x[j - 1] } else { 0.0 } }`, as padding is written,
//! becomes a loop over the 112 elements that are copied and loops over the elements on either side of them, under the
//! condition `i >= 1`; where it fails, one loop stores zeros. So vectors carry no conditions. Loops of symbolic extents, as those
//! that join rows, are divided in the same way.
//!
//! TVM counterpart: part of `LoopPartition`.
//! Requires: statements without blocks, simplified conditions.

use tvm_runtime::DataType;

use super::context::{conjuncts, reads};
use super::convert_ssa::convert;
use super::renew_stmt;
use crate::arith::{Analyzer, detect_linear_equation, same};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::{conjunction, slack};
use crate::tir::{
    BinaryOp, BufferStore, For, ForKind, IfThenElse, Intrinsic, Mutator, PrimCallee, PrimExpr, PrimFunc,
    Stmt, any_expr, substitute_stmt, uses_var,
};

/// The largest extent of an unrolled loop whose iterations are divided one by one.
const MAX_UNROLLED: i64 = 4;

/// Larger constants could make the arithmetic of a condition wrap.
const MAX_CONSTANT: u64 = 1 << 40;

/// Divides loops over vectors, or of any length, whose body stores one of two values.
pub fn partition_choices() -> Pass {
    prim_func_pass("PartitionChoices", |func, _, _| -> Result<_, crate::ir::IrError> {
        Ok(PartitionChoices.mutate_stmt(&func.body).map(|body| {
            let body = convert(func, &body).unwrap_or(body);
            PrimFunc { body, ..func.clone() }
        }))
    })
}

struct PartitionChoices;

impl Mutator for PartitionChoices {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                let iterations = unrolled(node);
                let whole = iterations.as_ref().unwrap_or(stmt);
                divided(node).or_else(|| self.walk_stmt(whole)).or(iterations)
            }
            _ => self.walk_stmt(stmt),
        }
    }
}

/// The iterations of a short unrolled loop one by one, if their vectors carry conditions that depend on its variable.
fn unrolled(node: &For) -> Option<Stmt> {
    let extent = node.extent.as_int().filter(|extent| (1..=MAX_UNROLLED).contains(extent))?;
    let (ForKind::Unrolled, Stmt::For(inner)) = (node.kind, &node.body) else { return None };
    let Stmt::BufferStore(store) = &inner.body else { return None };
    let PrimExpr::Call(call) = &store.value else { return None };
    let chooses = call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse);
    let depends = call.args.first().is_some_and(|condition| uses_var(condition, &node.loop_var));
    if !chooses || !depends || inner.kind != ForKind::Vectorized {
        return None;
    }
    let iteration = |i: i64| {
        let value = &node.min + i;
        renew_stmt(&substitute_stmt(&node.body, &[(node.loop_var.id(), value)].into_iter().collect()))
    };
    Some(Stmt::seq((0..extent).map(iteration)))
}

/// The loop as loops that store one of the two values each; `None` if it is of another form. Loops are vectors, or those of any
/// length, which compilers make vectors of.
fn divided(node: &For) -> Option<Stmt> {
    let Stmt::BufferStore(store) = &node.body else { return None };
    let PrimExpr::Call(call) = &store.value else { return None };
    let chooses = call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse);
    let of_kind = match node.kind {
        ForKind::Vectorized => node.extent.as_int().is_some(),
        ForKind::Serial => node.extent.as_int().is_none() && node.loop_var.dtype() == DataType::I64,
        ForKind::Parallel | ForKind::Unrolled | ForKind::ThreadBinding(_) => false,
    };
    if !chooses || !of_kind || !node.min.is_const(0) {
        return None;
    }
    let [condition, then, other] = &*call.args else { return None };
    if reads(condition) || store.indices.iter().any(reads) {
        return None;
    }
    let extent = &node.extent;
    let (mut outside, mut begin, mut end) = (Vec::new(), zero_of(node), extent.clone());
    for part in conjuncts(condition) {
        if !uses_var(&part, &node.loop_var) {
            outside.push(part);
            continue;
        }
        match limit_of(&part, node)? {
            Limit::From(first) => begin = begin.max(first),
            Limit::Before(last) => end = end.min(last),
        }
    }
    let begin = begin.min(extent);
    let end = end.max(&begin);
    if outside.is_empty() && begin.is_const(0) && same(&end, extent) {
        return None;
    }
    let part = |begin: &PrimExpr, end: &PrimExpr, value: &PrimExpr| {
        let empty = matches!((begin.as_int(), end.as_int()), (Some(begin), Some(end)) if begin >= end);
        let store = BufferStore { value: value.clone(), ..(**store).clone() };
        (!empty).then(|| iterations(node, begin, end, &store.into()))
    };
    let zero = zero_of(node);
    let parts = [part(&zero, &begin, other), part(&begin, &end, then), part(&end, extent, other)];
    let inside = Stmt::seq(parts.into_iter().flatten());
    if outside.is_empty() {
        return Some(inside);
    }
    let else_case = part(&zero, extent, other);
    let span = node.span.clone();
    Some(IfThenElse { condition: conjunction(outside), then_case: inside, else_case, span }.folded())
}

fn zero_of(node: &For) -> PrimExpr {
    PrimExpr::int(0, node.loop_var.dtype())
}

/// Iterations `begin..end` of a loop with another body, which is divided as well.
fn iterations(node: &For, begin: &PrimExpr, end: &PrimExpr, body: &Stmt) -> Stmt {
    let var = node.loop_var.renew();
    let value = if begin.is_const(0) { PrimExpr::from(&var) } else { PrimExpr::from(&var) + begin };
    let body = substitute_stmt(body, &[(node.loop_var.id(), value)].into_iter().collect());
    let part = For { loop_var: var, extent: end - begin, body, ..node.clone() };
    divided(&part).unwrap_or_else(|| part.into())
}

/// In which iterations a condition holds.
enum Limit {
    From(PrimExpr),
    Before(PrimExpr),
}

/// In which iterations of `node` the condition holds, if that is a range.
fn limit_of(condition: &PrimExpr, node: &For) -> Option<Limit> {
    let slack = slack(condition).filter(|it| it.dtype() == DataType::I64)?;
    let linear = detect_linear_equation(&slack, std::slice::from_ref(&node.loop_var), &Analyzer::new())?;
    let step = linear.coefficients[0].as_int().filter(|it| it.unsigned_abs() <= 1 << 20)?;
    // The condition is `base + step * var >= 1`.
    match (linear.base.as_int(), step) {
        (_, 0) => None,
        (Some(base), _) if base.unsigned_abs() > MAX_CONSTANT => None,
        (Some(base), 1..) => Some(Limit::From((1 - base + step - 1).div_euclid(step).max(0).into())),
        (Some(base), _) => Some(Limit::Before(((base - 1).div_euclid(-step) + 1).max(0).into())),
        (None, 1 | -1) if !is_total(&linear.base) => None,
        (None, 1) => Some(Limit::From(PrimExpr::index(1) - linear.base)),
        (None, -1) => Some(Limit::Before(linear.base)),
        (None, _) => None,
    }
}

/// True if the expression has a value even where the loop has no iterations: it divides by numbers alone.
fn is_total(expr: &PrimExpr) -> bool {
    let divides = |it: &PrimExpr| {
        matches!(it, PrimExpr::Binary(it)
            if matches!(it.op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod)
                && it.b.as_int().is_none_or(|divisor| divisor == 0))
    };
    !any_expr(expr, &mut |it| divides(it))
}
