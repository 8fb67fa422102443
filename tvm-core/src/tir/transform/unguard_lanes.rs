//! Computes whole vectors where a condition excludes lanes that nobody reads.
//!
//! Of a loop that was split with a remainder, the last vector is computed under a condition such as `j_0 * 32 + j_1 < n`. A
//! buffer of its own, such as a tile in registers, may have room for all lanes. If each of its accesses is under the same
//! condition on its last index, then what its other elements hold does not matter. So statements that compute such elements
//! from one another lose the condition: they have one form, without branches, for whole and for partial vectors. Where the
//! buffer is filled from elsewhere, all elements become zero first.
//!
//! TVM counterpart: none; `pad_einsum` in a schedule comes near.

use rustc_hash::FxHashMap;

use super::context::{conjuncts, reads};
use super::util::body_pass;
use crate::arith::{Analyzer, detect_linear_equation, same};
use crate::ir::{BufferId, Var};
use crate::pass::Pass;
use crate::tir::analysis::{conjunction, slack};
use crate::tir::{
    Buffer, BufferStore, For, ForKind, IfThenElse, Intrinsic, Mutator, PrimCallee, PrimExpr, Stmt, Visitor,
    any_expr, uses_var, walk_expr, walk_stmt,
};

/// Removes conditions on lanes of vectorized loops that compute elements of buffers of their own.
/// Requires: no blocks.
pub fn unguard_lanes() -> Pass {
    body_pass("UnguardLanes", |func| {
        let mut collect = Collect::default();
        collect.visit_stmt(&func.body);
        let limits = collect.buffers.into_iter().filter_map(|(id, it)| {
            let limit = it.limits?.into_iter().next()?;
            Some((id, limit))
        });
        let mut unguard = Unguard { limits: limits.collect(), loops: Vec::new(), filled: Vec::new() };
        // The first walk finds which buffers are read without their condition.
        unguard.mutate_stmt(&func.body)?;
        unguard.mutate_stmt(&func.body)
    })
}

/// What is known of an allocated buffer.
struct Private {
    /// Number of variables in scope where it is allocated.
    outside: usize,
    /// The numbers below which the last index is known to be at every access so far; `None` before the first access.
    limits: Option<Vec<PrimExpr>>,
}

/// Finds the limits of all allocated buffers.
#[derive(Default)]
struct Collect {
    /// The variables in scope.
    scope: Vec<Var>,
    loops: Vec<For>,
    conditions: Vec<PrimExpr>,
    buffers: FxHashMap<BufferId, Private>,
}

impl Collect {
    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr]) {
        let Some(private) = self.buffers.get(&buffer.id) else { return };
        let inside = &self.scope[private.outside.min(self.scope.len())..];
        let mut found = Vec::new();
        if let Some((var, from)) = lane(buffer, indices, &self.loops) {
            let limits = self.conditions.iter().filter_map(|it| limit(it, &var, from));
            found.extend(limits.filter(|limit| !inside.iter().any(|var| uses_var(limit, var))));
        }
        if let Some(private) = self.buffers.get_mut(&buffer.id) {
            let known = private.limits.take();
            private.limits = Some(match known {
                Some(known) => known.into_iter().filter(|it| found.iter().any(|new| same(it, new))).collect(),
                None => found,
            });
        }
    }
}

/// The variable of the loop that drives the last index, and the number that is added to it, if the index is in bounds in all
/// iterations.
fn lane(buffer: &Buffer, indices: &[PrimExpr], loops: &[For]) -> Option<(Var, i64)> {
    let (index, extent) = (indices.last()?, buffer.shape.last()?.as_int()?);
    let node = loops.iter().rfind(|node| uses_var(index, &node.loop_var))?;
    let from = offset(index, &node.loop_var)?;
    let fits = (0..=extent).contains(&from) && node.extent.as_int()? <= extent - from;
    (fits && node.min.is_const(0)).then(|| (node.loop_var.clone(), from))
}

/// `c` of the index `var + c`.
fn offset(index: &PrimExpr, var: &Var) -> Option<i64> {
    let linear = detect_linear_equation(index, std::slice::from_ref(var), &Analyzer::new())?;
    linear.base.as_int().filter(|_| linear.coefficients[0].is_const(1))
}

/// The `l` for which `condition` states that `var + from < l`.
fn limit(condition: &PrimExpr, var: &Var, from: i64) -> Option<PrimExpr> {
    let slack = slack(condition).filter(|slack| !reads(slack))?;
    let linear = detect_linear_equation(&slack, std::slice::from_ref(var), &Analyzer::new())?;
    linear.coefficients[0].is_const(-1).then(|| Analyzer::new().simplify(&(linear.base + from)))
}

impl Visitor for Collect {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::BufferLoad(load) => self.access(&load.buffer, &load.indices),
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf) => {
                if let Some(PrimExpr::BufferLoad(load)) = call.args.first() {
                    self.buffers.remove(&load.buffer.id);
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) => {
                self.visit_expr(&node.min);
                self.visit_expr(&node.extent);
                self.scope.push(node.loop_var.clone());
                self.loops.push((**node).clone());
                let before = self.scope.len();
                self.visit_stmt(&node.body);
                self.scope.truncate(before - 1);
                self.loops.pop();
            }
            Stmt::IfThenElse(node) => {
                self.visit_expr(&node.condition);
                let before = self.conditions.len();
                self.conditions.extend(conjuncts(&node.condition));
                self.visit_stmt(&node.then_case);
                self.conditions.truncate(before);
                node.else_case.iter().for_each(|it| self.visit_stmt(it));
            }
            Stmt::Bind(node) => {
                self.visit_expr(&node.value);
                self.scope.push(node.var.clone());
            }
            Stmt::AllocBuffer(node) => {
                let private = Private { outside: self.scope.len(), limits: None };
                self.buffers.insert(node.buffer.id, private);
            }
            Stmt::BufferStore(store) => {
                self.access(&store.buffer, &store.indices);
                walk_stmt(self, stmt);
            }
            _ => walk_stmt(self, stmt),
        }
    }
}

struct Unguard {
    limits: FxHashMap<BufferId, PrimExpr>,
    loops: Vec<For>,
    /// Buffers that statements without condition read: all their elements must be written.
    filled: Vec<BufferId>,
}

impl Unguard {
    /// Where in the conditions the one is that excludes elements of the buffer that `store` writes.
    fn guard(&self, store: &BufferStore, conditions: &[PrimExpr]) -> Option<(Var, usize)> {
        let wanted = self.limits.get(&store.buffer.id)?;
        let (var, from) = lane(&store.buffer, &store.indices, &self.loops)?;
        let is_guard = |it: &PrimExpr| limit(it, &var, from).is_some_and(|it| same(&it, wanted));
        conditions.iter().position(is_guard).map(|at| (var, at))
    }

    /// The buffers with limits that `store` reads, if it may be computed for all values of `var`.
    fn operands(&self, store: &BufferStore, var: &Var) -> Option<Vec<BufferId>> {
        let vectorized = |node: &For| node.loop_var == *var && node.kind == ForKind::Vectorized;
        if !self.loops.iter().any(vectorized) || !store.buffer.dtype.is_float() {
            return None;
        }
        let others = store.indices.split_last()?.1;
        let (mut operands, mut possible) = (Vec::new(), !others.iter().any(|index| uses_var(index, var)));
        any_expr(&store.value, &mut |it| {
            match it {
                PrimExpr::BufferLoad(load) if load.indices.iter().any(|index| uses_var(index, var)) => {
                    let place = lane(&load.buffer, &load.indices, &self.loops);
                    possible &= self.limits.contains_key(&load.buffer.id)
                        && place.is_some_and(|(lane, _)| lane == *var)
                        && load
                            .indices
                            .split_last()
                            .is_some_and(|(_, it)| !it.iter().any(|it| uses_var(it, var)));
                    operands.push(load.buffer.id);
                }
                PrimExpr::Call(call) => possible &= matches!(call.callee, PrimCallee::Intrinsic(_)),
                PrimExpr::Binary(it) => possible &= it.a.dtype().is_float(),
                _ => {}
            }
            !possible
        });
        possible.then_some(operands)
    }
}

impl Mutator for Unguard {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let node = match stmt {
            Stmt::For(node) => {
                self.loops.push((**node).clone());
                let walked = self.walk_stmt(stmt);
                self.loops.pop();
                return walked;
            }
            Stmt::IfThenElse(node) if node.else_case.is_none() => node,
            _ => return self.walk_stmt(stmt),
        };
        let Stmt::BufferStore(store) = &node.then_case else { return self.walk_stmt(stmt) };
        let mut conditions = conjuncts(&node.condition);
        let (var, at) = self.guard(store, &conditions)?;
        let guard = conditions.remove(at);
        let outer = IfThenElse { condition: conjunction(conditions), ..(**node).clone() };
        if let Some(operands) = self.operands(store, &var) {
            self.filled.extend(operands);
            return Some(outer.folded());
        }
        if !self.filled.contains(&store.buffer.id) {
            return None;
        }
        let zero = PrimExpr::constant(0.0, store.buffer.dtype);
        let zeros = BufferStore { value: zero, ..(**store).clone() };
        let filled = IfThenElse { condition: guard, ..(**node).clone() };
        Some(IfThenElse { then_case: Stmt::seq([zeros.into(), filled.into()]), ..outer }.folded())
    }
}
