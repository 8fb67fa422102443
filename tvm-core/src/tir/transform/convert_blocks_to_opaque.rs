//! Replaces the axes of blocks by their values.
//!
//! TVM counterpart: `ConvertBlocksToOpaque`.
//! Requires: no inits ([`lower_init_block`](super::lower_init_block)). Ensures: no block has axes; a value that
//! reads memory is evaluated once, before the body.

use std::sync::Arc;

use super::context::reads;
use super::util::{DeepSubstitute, body_pass};
use crate::pass::Pass;
use crate::tir::{Bind, Block, BlockRealize, Buffer, BufferRegion, Mutator, PrimExpr, Stmt};

/// Removes the axes of blocks.
pub fn convert_blocks_to_opaque() -> Pass {
    body_pass("ConvertBlocksToOpaque", |func| without_axes(&func.body))
}

/// `body` with the axes of blocks replaced by their values; `None` when there are no axes.
pub(super) fn without_axes(body: &Stmt) -> Option<Stmt> {
    ToOpaque::default().mutate_stmt(body)
}

#[derive(Default)]
struct ToOpaque(DeepSubstitute);

impl Mutator for ToOpaque {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        self.0.mutate_expr(expr)
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        self.0.mutate_buffer(buffer)
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::BlockRealize(realize) = stmt else { return self.walk_stmt(stmt) };
        if realize.block.iter_vars.is_empty() {
            return self.walk_stmt(stmt);
        }
        let mut named = Vec::new();
        for (iter, value) in realize.block.iter_vars.iter().zip(realize.iter_values.iter()) {
            let value = self.mutate_expr(value).unwrap_or_else(|| value.clone());
            if reads(&value) {
                named.push(Bind { var: iter.var.clone(), value }.into());
            } else {
                self.0.vars.insert(iter.var.id(), value);
            }
        }
        let predicate = self.mutate_expr(&realize.predicate).unwrap_or_else(|| realize.predicate.clone());
        let mut block = Block { iter_vars: Arc::new([]), ..(*realize.block).clone() };
        if !named.is_empty() {
            // Evaluated once: writes of the body do not change the axes. Access regions cannot use these variables, and no
            // later pass reads them: they become whole buffers.
            let whole =
                |regions: &[BufferRegion]| regions.iter().map(|it| BufferRegion::full(&it.buffer)).collect();
            (block.reads, block.writes) = (whole(&block.reads), whole(&block.writes));
            block.body = Stmt::seq(named.into_iter().chain([block.body]));
        }
        let block = Arc::new(block);
        let block = self.mutate_block(&block).map_or(block, Arc::new);
        Some(BlockRealize { iter_values: Arc::new([]), predicate, block }.into())
    }
}
