//! The blocks of a program in order, listed once per version of the program.

use std::sync::Arc;

use super::ScheduleState;
use crate::support::with_stack;
use crate::tir::schedule::analysis;
use crate::tir::{BlockRealize, Stmt};

/// Blocks in program order.
#[derive(Debug)]
pub(super) struct Blocks {
    all: Vec<Arc<BlockRealize>>,
    leaves: Vec<Arc<BlockRealize>>,
}

impl ScheduleState {
    /// All blocks, in program order.
    pub fn blocks(&self) -> &[Arc<BlockRealize>] {
        &self.listed().all
    }

    /// The blocks that hold no other block, in program order. A block that does more than its nested blocks declare counts
    /// as a leaf; its nested blocks do not.
    pub(crate) fn leaf_blocks(&self) -> &[Arc<BlockRealize>] {
        &self.listed().leaves
    }

    fn listed(&self) -> &Blocks {
        self.blocks.get_or_init(|| {
            let mut leaves = Vec::new();
            collect_leaves(&self.func.body, &mut leaves);
            Arc::new(Blocks { all: blocks_in(&self.func.body), leaves })
        })
    }
}

fn collect_leaves(stmt: &Stmt, leaves: &mut Vec<Arc<BlockRealize>>) {
    for it in analysis::child_blocks(stmt) {
        if analysis::is_plain(&it.block) && !analysis::child_blocks(&it.block.body).is_empty() {
            collect_leaves(&it.block.body, leaves);
        } else {
            leaves.push(it);
        }
    }
}

/// The blocks in `stmt`, including `stmt` itself, in program order.
pub(in crate::tir::schedule) fn blocks_in(stmt: &Stmt) -> Vec<Arc<BlockRealize>> {
    fn walk(stmt: &Stmt, out: &mut Vec<Arc<BlockRealize>>) {
        out.extend(stmt.as_block_realize().cloned());
        with_stack(|| stmt.children().into_iter().for_each(|stmt| walk(stmt, out)));
    }
    let mut out = Vec::new();
    walk(stmt, &mut out);
    out
}
