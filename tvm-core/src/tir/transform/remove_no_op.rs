//! Removes statements that do nothing.
//!
//! TVM counterpart: `RemoveNoOp`.
//! Ensures: no empty loop, branch or sequence inside a sequence, no evaluation of a pure expression, no allocation of a
//! buffer that nothing accesses.

use rustc_hash::FxHashSet;

use super::util::body_pass;
use crate::ir::BufferId;
use crate::pass::Pass;
use crate::tir::{
    Effect, IfThenElse, Mutator, PrimCallee, PrimExpr, Stmt, Visitor, any_expr, walk_expr, walk_stmt,
};

/// Removes statements without effect.
pub fn remove_no_op() -> Pass {
    body_pass("RemoveNoOp", |func| {
        let mut used = Used::default();
        used.visit_stmt(&func.body);
        RemoveNoOp { used: used.0 }.mutate_stmt(&func.body)
    })
}

#[derive(Default)]
struct Used(FxHashSet<BufferId>);

impl Visitor for Used {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr {
            self.0.insert(load.buffer.id);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt {
            self.0.insert(store.buffer.id);
        }
        walk_stmt(self, stmt);
    }
}

struct RemoveNoOp {
    used: FxHashSet<BufferId>,
}

fn is_nop(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::SeqStmt(stmts) if stmts.is_empty())
}

/// True when evaluating `expr` has no side effect.
pub(super) fn is_pure(expr: &PrimExpr) -> bool {
    !any_expr(expr, &mut |expr| match expr {
        PrimExpr::Call(call) => match &call.callee {
            PrimCallee::Intrinsic(intrinsic) => intrinsic.effect() == Effect::UpdateState,
            PrimCallee::PureExtern(_) => false,
        },
        _ => false,
    })
}

impl Mutator for RemoveNoOp {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let nothing = match walked.as_ref().unwrap_or(stmt) {
            Stmt::For(it) => it.extent.as_int().is_some_and(|n| n <= 0) || is_nop(&it.body),
            Stmt::IfThenElse(it) => match &it.else_case {
                Some(other) if is_nop(other) => {
                    let it = IfThenElse { else_case: None, ..(**it).clone() };
                    return Some(if is_nop(&it.then_case) { Stmt::nop() } else { it.into() });
                }
                Some(_) => false,
                None => is_nop(&it.then_case),
            },
            Stmt::Evaluate(it) => is_pure(&it.value),
            Stmt::AllocBuffer(it) => !self.used.contains(&it.buffer.id),
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::DeclBuffer(_)
            | Stmt::AssertStmt(_) => false,
        };
        if nothing { Some(Stmt::nop()) } else { walked }
    }
}
