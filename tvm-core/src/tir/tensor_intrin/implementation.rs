//! What implementations of intrinsics may do. `tensorize` puts their statements into a program and makes what they access
//! elements of its buffers: so they load and store elements, and know nothing else about the memory of their parameters.

use crate::tir::{
    Block, Effect, ForKind, Intrinsic, PrimCallee, PrimExpr, PrimFunc, Scope, Stmt, Visitor, walk_block,
    walk_expr, walk_stmt,
};

/// Checks `imp`; the error is the end of a sentence about it.
pub(super) fn check(imp: &PrimFunc) -> Result<(), String> {
    let mut check = Check(None);
    if imp.body.as_block_realize().is_none_or(|root| !root.block.iter_vars.is_empty()) {
        return Err("has no root block".into());
    }
    check.visit_stmt(&imp.body);
    check.0.map_or(Ok(()), Err)
}

struct Check(Option<String>);

impl Check {
    fn refuse(&mut self, why: String) {
        self.0.get_or_insert(why);
    }

    fn scope(&mut self, scope: Scope) {
        match scope {
            Scope::Global | Scope::Local => {}
            Scope::Shared | Scope::SharedDyn | Scope::Warp => {
                self.refuse("allocates memory that threads share".into());
            }
        }
    }
}

impl Visitor for Check {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Call(call) = expr {
            let plain = match &call.callee {
                PrimCallee::Intrinsic(Intrinsic::AddressOf) => false,
                PrimCallee::Intrinsic(Intrinsic::Prefetch | Intrinsic::PrefetchL2) => true,
                PrimCallee::Intrinsic(it) => it.effect() == Effect::Pure,
                PrimCallee::PureExtern(_) => true,
            };
            if !plain {
                self.refuse(format!("calls `{expr}`, which is more than arithmetic"));
            }
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) => match node.kind {
                ForKind::Serial | ForKind::Unrolled | ForKind::Vectorized => {}
                ForKind::Parallel | ForKind::ThreadBinding(_) => {
                    self.refuse(format!("runs loop `{}` on several threads", node.loop_var.name()));
                }
            },
            Stmt::AllocBuffer(it) => self.scope(it.buffer.scope),
            Stmt::DeclBuffer(it) => self.refuse(format!("declares `{}`", it.buffer.name)),
            Stmt::AssertStmt(_) => self.refuse("may fail".into()),
            Stmt::While(_) => self.refuse("has a `while` loop".into()),
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::Bind(_)
            | Stmt::Evaluate(_) => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_block(&mut self, block: &Block) {
        if let Some(matched) = block.match_buffers.first() {
            self.refuse(format!("matches `{}` to a region", matched.buffer.name));
        }
        block.alloc_buffers.iter().for_each(|it| self.scope(it.scope));
        walk_block(self, block);
    }
}
