//! Removes blocks, and loops of one iteration.
//!
//! TVM counterpart: `LowerOpaqueBlock`.
//! Requires: blocks without axes, inits and matched buffers. Ensures: no `BlockRealize`; a block's buffers are
//! allocated before its body, with the alignments that writers ask for, and its predicate is an `if`.

use rustc_hash::FxHashMap;

use super::align_storage::alignments_in;
use super::util::{body_pass, one_iteration};
use crate::ir::{Attrs, BufferId};
use crate::pass::Pass;
use crate::tir::{AllocBuffer, Buffer, For, ForKind, IfThenElse, Mutator, Stmt};

/// Replaces blocks by their bodies.
pub fn lower_opaque_block() -> Pass {
    body_pass("LowerOpaqueBlock", |func| without_blocks(&func.body))
}

/// `body` without blocks, none of which has axes; `None` when nothing changes.
pub(super) fn without_blocks(body: &Stmt) -> Option<Stmt> {
    LowerOpaqueBlock { aligned: alignments_in(body) }.mutate_stmt(body)
}

struct LowerOpaqueBlock {
    /// The alignments of buffers, as annotations of their allocations.
    aligned: FxHashMap<BufferId, Attrs>,
}

impl Mutator for LowerOpaqueBlock {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::BlockRealize(realize) = stmt {
            let block = &realize.block;
            let alloc = |buffer: &Buffer| {
                let annotations = self.aligned.get(&buffer.id).cloned().unwrap_or_default();
                Stmt::from(AllocBuffer { buffer: buffer.clone(), annotations })
            };
            let allocs: Vec<Stmt> = block.alloc_buffers.iter().map(alloc).collect();
            let body = self.mutate_stmt(&block.body).unwrap_or_else(|| block.body.clone());
            let body = Stmt::seq(allocs.into_iter().chain([body]));
            let (condition, span) = (realize.predicate.clone(), block.span.clone());
            return Some(IfThenElse { condition, then_case: body, else_case: None, span }.folded());
        }
        if let Stmt::For(node) = stmt
            && node.extent.is_const(1)
            && !matches!(node.kind, ForKind::ThreadBinding(_))
        {
            let For { loop_var, min, body, .. } = &**node;
            let body = self.mutate_stmt(body).unwrap_or_else(|| body.clone());
            return Some(one_iteration(loop_var, min, &body));
        }
        self.walk_stmt(stmt)
    }
}
