//! What blocks do: computed once per block, and shared by all versions of the program that hold the block.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ScheduleState;
use crate::ir::BufferId;
use crate::tir::{Block, Buffer, PrimExpr, Stmt, Visitor, walk_block, walk_expr, walk_stmt};

/// What one block does that holds no other block.
#[derive(Debug)]
pub(super) struct BlockFacts {
    /// The block. As it is shared with the program, a change of the program makes another node.
    block: Arc<Block>,
    /// Number of accesses of each buffer.
    accesses: FxHashMap<BufferId, usize>,
}

impl BlockFacts {
    pub(super) fn of(block: &Arc<Block>) -> BlockFacts {
        let mut count = Count { accesses: FxHashMap::default(), known: None };
        count.visit_block(block);
        BlockFacts { block: block.clone(), accesses: count.accesses }
    }
}

impl ScheduleState {
    /// Computes the facts of `block` again, if there were facts of an earlier version of it.
    pub(super) fn renew_facts(&mut self, block: &Arc<Block>) {
        if let Some(facts) = self.facts.get_mut(&block.id) {
            *facts = Arc::new(BlockFacts::of(block));
        }
    }

    /// Number of loads, stores and `match_buffer`s of `buffer` in `body`, which may be another version of the program.
    pub(in crate::tir::schedule) fn count_accesses(&self, body: &Stmt, buffer: &Buffer) -> usize {
        let mut count = Count { accesses: FxHashMap::default(), known: Some((self, buffer)) };
        count.visit_stmt(body);
        count.accesses.remove(&buffer.id).unwrap_or_default()
    }

    /// Number of accesses of `buffer` in `block`, if they were counted.
    pub(in crate::tir::schedule) fn known_accesses(&self, block: &Block, buffer: &Buffer) -> Option<usize> {
        let facts = self.facts.get(&block.id).filter(|it| std::ptr::eq(&*it.block, block))?;
        Some(facts.accesses.get(&buffer.id).copied().unwrap_or_default())
    }
}

/// Counts accesses: of all buffers, or of one, with the facts of a state.
struct Count<'a> {
    accesses: FxHashMap<BufferId, usize>,
    known: Option<(&'a ScheduleState, &'a Buffer)>,
}

impl Count<'_> {
    fn add(&mut self, buffer: &Buffer, count: usize) {
        *self.accesses.entry(buffer.id).or_default() += count;
    }
}

impl Visitor for Count<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr {
            self.add(&load.buffer, 1);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt {
            self.add(&store.buffer, 1);
        }
        walk_stmt(self, stmt);
    }

    fn visit_block(&mut self, block: &Block) {
        if let Some((state, buffer)) = self.known
            && let Some(count) = state.known_accesses(block, buffer)
        {
            return self.add(buffer, count);
        }
        block.match_buffers.iter().for_each(|it| self.add(&it.source.buffer, 1));
        walk_block(self, block);
    }
}
