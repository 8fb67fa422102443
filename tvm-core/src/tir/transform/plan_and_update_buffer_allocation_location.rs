//! Moves each allocation into the loop that contains all uses of the buffer.
//!
//! TVM counterpart: `PlanAndUpdateBufferAllocationLocation`.
//! Requires: no blocks. Ensures: a buffer is allocated in the innermost body of a loop or `while` that contains all its
//! accesses and in which every iteration writes each element before reading it (see [`coverage`](super::coverage)).
//! Memory that GPU threads share stays outside the loops over these threads.

use super::context::{analyzer_for, enter_loop};
use super::coverage::is_covered;
use super::util::{accesses, body_pass};
use crate::arith::Analyzer;
use crate::pass::Pass;
use crate::tir::{
    AllocBuffer, Buffer, Evaluate, For, ForKind, IfThenElse, Mutator, PrimExpr, Scope, Stmt, ThreadTag, While,
};

/// Moves allocations inwards.
pub fn plan_and_update_buffer_allocation_location() -> Pass {
    body_pass("PlanAndUpdateBufferAllocationLocation", |func| {
        Plan { analyzer: analyzer_for(func) }.mutate_stmt(&func.body)
    })
}

struct Plan {
    analyzer: Analyzer,
}

impl Mutator for Plan {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::For(node) = stmt {
            enter_loop(&mut self.analyzer, node);
        }
        let Stmt::SeqStmt(stmts) = stmt else { return self.walk_stmt(stmt) };
        let mut stmts = stmts.to_vec();
        let mut changed = false;
        let mut at = 0;
        while at < stmts.len() {
            if let Stmt::AllocBuffer(alloc) = &stmts[at]
                && let Some((user, new)) = self.sink(alloc, &stmts[at + 1..])
            {
                stmts[at + 1 + user] = new;
                stmts.remove(at);
                changed = true;
            } else {
                at += 1;
            }
        }
        let stmt = if changed { Stmt::seq(stmts) } else { stmt.clone() };
        let walked = self.walk_stmt(&stmt);
        if changed { Some(walked.unwrap_or(stmt)) } else { walked }
    }
}

impl Plan {
    /// The only one of `stmts` that uses the buffer of `alloc`: its index, and the statement with the allocation moved into
    /// it.
    fn sink(&self, alloc: &AllocBuffer, stmts: &[Stmt]) -> Option<(usize, Stmt)> {
        let mut users = stmts.iter().enumerate().filter(|(_, stmt)| accesses(stmt, &alloc.buffer));
        let (Some((at, user)), None) = (users.next(), users.next()) else { return None };
        Some((at, descend(&self.analyzer, alloc, user)?))
    }
}

/// `stmt` with `alloc` inside it; `None` if that is not possible.
fn descend(analyzer: &Analyzer, alloc: &AllocBuffer, stmt: &Stmt) -> Option<Stmt> {
    let buffer = &alloc.buffer;
    match stmt {
        Stmt::For(node) => {
            if !may_enter(buffer.scope, node.kind) {
                return None;
            }
            let mut analyzer = analyzer.clone();
            enter_loop(&mut analyzer, node);
            Some(For { body: enter(&analyzer, alloc, &node.body)?, ..(**node).clone() }.into())
        }
        Stmt::While(node) => {
            if reads(&node.condition, buffer) {
                return None;
            }
            Some(While { body: enter(analyzer, alloc, &node.body)?, ..(**node).clone() }.into())
        }
        Stmt::SeqStmt(stmts) => {
            let mut users = stmts.iter().enumerate().filter(|(_, stmt)| accesses(stmt, buffer));
            let (Some((at, user)), None) = (users.next(), users.next()) else { return None };
            let mut stmts = stmts.to_vec();
            stmts[at] = descend(analyzer, alloc, user)?;
            Some(Stmt::seq(stmts))
        }
        Stmt::IfThenElse(node) => {
            let used_in = |stmt: &Stmt| accesses(stmt, buffer);
            let new = match (&node.then_case, &node.else_case) {
                _ if reads(&node.condition, buffer) => return None,
                (then_case, else_case) if !else_case.as_ref().is_some_and(used_in) => {
                    IfThenElse { then_case: descend(analyzer, alloc, then_case)?, ..(**node).clone() }
                }
                (then_case, Some(else_case)) if !used_in(then_case) => {
                    let else_case = Some(descend(analyzer, alloc, else_case)?);
                    IfThenElse { else_case, ..(**node).clone() }
                }
                _ => return None,
            };
            Some(new.into())
        }
        Stmt::BufferStore(_)
        | Stmt::BlockRealize(_)
        | Stmt::Bind(_)
        | Stmt::AllocBuffer(_)
        | Stmt::DeclBuffer(_)
        | Stmt::Evaluate(_)
        | Stmt::AssertStmt(_) => None,
    }
}

/// `body`, which is run several times, with `alloc` inside it; `None` if its runs share the buffer.
fn enter(analyzer: &Analyzer, alloc: &AllocBuffer, body: &Stmt) -> Option<Stmt> {
    // The runs of a body share nothing if those of a loop in it that holds all accesses do not.
    descend(analyzer, alloc, body).or_else(|| {
        let covered = is_covered(analyzer, &alloc.buffer, body);
        covered.then(|| Stmt::seq([alloc.clone().into(), body.clone()]))
    })
}

fn reads(expr: &PrimExpr, buffer: &Buffer) -> bool {
    accesses(&Evaluate { value: expr.clone() }.into(), buffer)
}

/// True when memory of `scope` may be allocated anew in every iteration of a loop of this kind.
pub(in crate::tir) fn may_enter(scope: Scope, kind: ForKind) -> bool {
    let thread = match kind {
        ForKind::ThreadBinding(tag) => tag,
        ForKind::Serial | ForKind::Parallel | ForKind::Unrolled => return true,
        ForKind::Vectorized => return false,
    };
    let block = matches!(thread, ThreadTag::BlockIdxX | ThreadTag::BlockIdxY | ThreadTag::BlockIdxZ);
    match scope {
        Scope::Global => false,
        Scope::Shared | Scope::SharedDyn | Scope::Warp => block,
        Scope::Local => true,
    }
}
