//! Copies the tiles of the next step of a loop into shared memory while the threads compute the present one.
//!
//! ```text
//! for k in 0..n (software_pipeline) {           copy(a0, 0);
//!     alloc a, shared;                          for s in 0..(n + 1) / 2 {
//!     copy(a, k);                                   if 2 s + 1 < n { copy(a1, 2 s + 1); }
//!     compute(a);                                   compute(a0);
//! }                                                 if 2 s + 1 < n {
//!                                                       if 2 s + 2 < n { copy(a0, 2 s + 2); }
//!                                                       compute(a1);
//! ```
//!
//! `copy` is what a step does before it reads shared memory of its own: it writes this memory alone, and reads nothing that the
//! loop writes. Each shared buffer of a step becomes two, and a step waits at one barrier instead of two: those before it have
//! read what it overwrites. Stores of plain copies are [asynchronous](super::async_copies).
//!
//! TVM counterpart: `InjectSoftwarePipeline`.
//! Requires: kernels without barriers, in which elements of shared memory are written before they are read. Ensures: no loop has the
//! annotation. A loop that has not this form, or that may have less than two iterations by its constant extent, stays as it is.

#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;

use super::async_copies::{Accesses, Asynchronous};
use super::renew_defs::Renew;
use super::util::DeepSubstitute;
use crate::ir::BufferId;
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::is_shared;
use crate::tir::{AllocBuffer, For, ForKind, IfThenElse, Mutator, PrimExpr, PrimFunc, Stmt};

/// Annotation of a loop in a kernel: what a step copies to shared memory may be copied while the threads compute the step before.
pub const SOFTWARE_PIPELINE: &str = "software_pipeline";

/// Copies the tiles of the next step while the threads compute the present one, in loops with the annotation.
pub fn software_pipeline() -> Pass {
    prim_func_pass("SoftwarePipeline", |func, _, _| -> Result<_, crate::ir::IrError> {
        let body = Pipelines.mutate_stmt(&func.body);
        Ok(body.map(|body| PrimFunc { body, ..func.clone() }))
    })
}

struct Pipelines;

impl Mutator for Pipelines {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let Stmt::For(node) = walked.as_ref().unwrap_or(stmt) else { return walked };
        if node.kind != ForKind::Serial || node.annotations.get(SOFTWARE_PIPELINE).is_none() {
            return walked;
        }
        let mut plain = (**node).clone();
        plain.annotations.remove(SOFTWARE_PIPELINE);
        Some(Step::of(&plain).map_or_else(|| plain.clone().into(), |step| step.pipelined(&plain)))
    }
}

/// The parts of an iteration.
struct Step {
    /// The shared memory that the copies fill.
    tiles: Vec<AllocBuffer>,
    copies: Stmt,
    /// All else.
    rest: Stmt,
}

impl Step {
    fn of(node: &For) -> Option<Step> {
        if node.extent.as_int().is_some_and(|extent| extent < 2) {
            return None;
        }
        let Stmt::SeqStmt(stmts) = &node.body else { return None };
        let (mut tiles, mut others): (Vec<AllocBuffer>, Vec<Stmt>) = (Vec::new(), Vec::new());
        for stmt in stmts.iter() {
            match stmt {
                Stmt::AllocBuffer(alloc) if is_shared(alloc.buffer.scope) => tiles.push((**alloc).clone()),
                other => others.push(other.clone()),
            }
        }
        let own: Vec<BufferId> = tiles.iter().map(|it| it.buffer.id).collect();
        let copies = others.iter().take_while(|it| Accesses::of(it).fills(&own)).count();
        let rest = Stmt::seq(others.split_off(copies));
        let copies = Stmt::seq(others);
        let (copied, computed) = (Accesses::of(&copies), Accesses::of(&rest));
        let apart = |ids: &[BufferId]| ids.iter().all(|id| !computed.writes.contains(id));
        let fits = own.iter().all(|id| copied.writes.contains(id))
            && !own.is_empty()
            && computed.plain
            && apart(&copied.writes)
            && apart(&copied.reads);
        fits.then(|| Step { copies: Asynchronous.mutate_stmt(&copies).unwrap_or(copies), tiles, rest })
    }

    fn pipelined(&self, node: &For) -> Stmt {
        let mut others = self.tiles.clone();
        let mut stage = Renew::default();
        for alloc in &mut others {
            alloc.buffer = stage.define_buffer(&alloc.buffer);
        }
        // The part `stmt` of iteration `at`, with a renewed copy of what it binds; `odd` iterations use the other buffers.
        let part = |stmt: &Stmt, at: &PrimExpr, odd: bool| {
            let stmt = DeepSubstitute::stmt(FxHashMap::from_iter([(node.loop_var.id(), at.clone())]), stmt);
            let mut renew = if odd { stage.clone() } else { Renew::default() };
            renew.mutate_stmt(&stmt).unwrap_or(stmt)
        };
        let dtype = node.loop_var.dtype();
        let constant = node.extent.as_int();
        let end = &node.min + &node.extent;
        let guard = |condition: PrimExpr, then_case: Stmt| -> Stmt {
            IfThenElse { condition, then_case, else_case: None, span: node.span.clone() }.into()
        };
        let twice = node.loop_var.renew();
        let even = &node.min + &twice * 2;
        let odd = even.clone() + 1;
        let next = even.clone() + 2;
        let first = part(&self.copies, &node.min, false);
        let first = match constant {
            Some(_) => first,
            None => guard(node.extent.clone().greater_equal(1), first),
        };
        let copy_odd = part(&self.copies, &odd, true);
        let copy_next = guard(next.clone().less(end.clone()), part(&self.copies, &next, false));
        let second = Stmt::seq([copy_next, part(&self.rest, &odd, true)]);
        let is_even = constant.is_some_and(|extent| extent % 2 == 0);
        let last = |stmt: Stmt| if is_even { stmt } else { guard(odd.clone().less(end.clone()), stmt) };
        let body = Stmt::seq([last(copy_odd), part(&self.rest, &even, false), last(second)]);
        let extent = match constant {
            Some(extent) => PrimExpr::int(extent / 2 + extent % 2, dtype),
            None => (node.extent.clone() + 1).floordiv(2),
        };
        let steps = For { loop_var: twice, min: PrimExpr::int(0, dtype), extent, body, ..node.clone() };
        let allocs = self.tiles.iter().chain(&others).cloned().map(Stmt::from);
        Stmt::seq(allocs.chain([first, steps.into()]))
    }
}
