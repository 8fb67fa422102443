//! Turns the init of a block into a guarded statement before its body.
//!
//! TVM counterpart: `LowerInitBlock`.
//! Ensures: no block has an init; it runs in the first iteration of the reduction axes, and where there is none, once
//! if the block asks for it ([`INIT_IF_EMPTY`](super::INIT_IF_EMPTY)).

use std::sync::Arc;

use super::empty_reduction::init_empty_reductions;
use super::util::body_pass;
use crate::pass::Pass;
use crate::tir::{Block, IterKind, Mutator, PrimExpr, Stmt};

/// `init { a }; body` becomes `if first iteration { a }; body`.
pub fn lower_init_block() -> Pass {
    body_pass("LowerInitBlock", |func| {
        let complete = init_empty_reductions(func);
        LowerInitBlock.mutate_stmt(complete.as_ref().unwrap_or(&func.body)).or(complete)
    })
}

struct LowerInitBlock;

impl Mutator for LowerInitBlock {
    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let walked = self.walk_block(block);
        let Some(init) = &walked.as_ref().unwrap_or(block).init else { return walked };
        let first = block
            .iter_vars
            .iter()
            .filter(|iter| iter.kind == IterKind::Reduce)
            .map(|iter| PrimExpr::from(&iter.var).equal(&iter.dom.min))
            .reduce(|a, b| a.and(b));
        let guarded = match first {
            Some(first) => Stmt::if_then_else(first, init.clone(), None),
            None => init.clone(),
        };
        let mut block = walked.clone().unwrap_or_else(|| (**block).clone());
        block.body = Stmt::seq([guarded, block.body]);
        block.init = None;
        Some(block)
    }
}
