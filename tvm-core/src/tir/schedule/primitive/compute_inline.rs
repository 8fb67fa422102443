//! `compute_inline`: a block's value moves into the places that read it; the block and its buffer vanish.
//!
//! Legal for a complete block that is one store to a whole intermediate buffer, each element once, where nothing that it
//! reads is written later.

use rustc_hash::FxHashMap;

use crate::ir::{BlockId, Var, VarId};
use crate::tir::analysis::with_access_regions;
use crate::tir::schedule::rewrite::{self, drop_alloc, remove_block};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{Block, BlockRealize, Buffer, Mutator, PrimExpr, substitute_expr};

const NAME: &str = "compute_inline";

/// Inlines the block `id` into its consumers.
pub(in crate::tir::schedule) fn compute_inline(
    state: &mut ScheduleState,
    id: BlockId,
) -> Result<(), ScheduleError> {
    let definition = definition(NAME, state, id)?;
    check_inputs_stay(NAME, state, id)?;
    let buffer = definition.buffer.clone();
    let body = remove_block(&state.func().body, id);
    let mut inline = Inline(definition);
    let body = inline.mutate_stmt(&body).unwrap_or(body);
    if rewrite::count_accesses(&body, &buffer) > 0 {
        let message =
            format!("buffer `{}` is named by a block that does not read single elements of it", buffer.name);
        return Err(ScheduleError::illegal(NAME, message).show(state, &[StmtSRef::Block(id)]));
    }
    state.replace_body(body)
}

/// A buffer every element of which is one expression over its indices.
pub(super) struct Definition {
    pub(super) buffer: Buffer,
    /// The axis of each dimension.
    axes: Vec<Option<Var>>,
    value: PrimExpr,
}

impl Definition {
    /// The element at `indices`.
    pub(super) fn at(&self, indices: &[PrimExpr]) -> PrimExpr {
        let axes = self.axes.iter().zip(indices);
        let map: FxHashMap<VarId, PrimExpr> =
            axes.filter_map(|(axis, index)| Some((axis.as_ref()?.id(), index.clone()))).collect();
        substitute_expr(&self.value, &map)
    }
}

/// What block `id` computes, when it is complete, the only writer of an intermediate buffer, and writes all of it.
pub(super) fn definition(
    name: &'static str,
    state: &ScheduleState,
    id: BlockId,
) -> Result<Definition, ScheduleError> {
    let realize = state.get_block(id)?;
    let block = &realize.block;
    let refuse = |why: &str| {
        let err = ScheduleError::illegal(name, format!("block `{}` {why}", block.name));
        Err(err.show(state, &[StmtSRef::Block(id)]))
    };
    analysis::check_reorderable(name, state, realize)?;
    if block.is_reduction() || block.init.is_some() {
        return refuse("is a reduction: its value is not one expression");
    }
    let Some(store) = analysis::single_store(block) else { return refuse("is more than one store") };
    if !block.alloc_buffers.is_empty() || !block.match_buffers.is_empty() {
        return refuse("has buffers of its own");
    }
    if rewrite::binds_names(&store.value) {
        return refuse("binds a name inside its value");
    }
    let buffer = &store.buffer;
    if !rewrite::is_intermediate(state, buffer) {
        return refuse(&format!("writes `{}`, a parameter of the function", buffer.name));
    }
    if rewrite::writers(state, buffer).len() != 1 {
        return refuse(&format!("is not the only one that writes `{}`", buffer.name));
    }
    let Some(axes) = analysis::distinct_axes(block, &store.indices, &buffer.shape) else {
        return refuse("writes to a place that is not one axis in each dimension");
    };
    if !analysis::trailing_axes(block, &axes).is_empty() || !rewrite::covers(state, realize, &axes, buffer)? {
        return refuse(&format!("does not write each element of `{}` once", buffer.name));
    }
    Ok(Definition { buffer: buffer.clone(), axes, value: store.value.clone() })
}

/// Nothing that block `id` reads is written after it.
pub(super) fn check_inputs_stay(
    name: &'static str,
    state: &ScheduleState,
    id: BlockId,
) -> Result<(), ScheduleError> {
    let blocks = rewrite::leaf_blocks(state);
    let inside = |it: &BlockRealize| {
        let sref = StmtSRef::Block(it.block.id);
        it.block.id == id || state.ancestors(sref).any(|outer| outer == StmtSRef::Block(id))
    };
    let at =
        blocks.iter().rposition(|it| inside(it)).ok_or(ScheduleError::UnknownSRef(StmtSRef::Block(id)))?;
    let reads = &state.get_block(id)?.block.reads;
    for later in &blocks[at + 1..] {
        if let Some(write) =
            later.block.writes.iter().find(|write| reads.iter().any(|read| read.buffer == write.buffer))
        {
            let message =
                format!("buffer `{}` is written again by block `{}`", write.buffer.name, later.block.name);
            return Err(ScheduleError::illegal(name, message)
                .show(state, &[StmtSRef::Block(id), StmtSRef::Block(later.block.id)]));
        }
    }
    Ok(())
}

struct Inline(Definition);

impl Mutator for Inline {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let new = self.walk_expr(expr);
        match new.as_ref().unwrap_or(expr) {
            PrimExpr::BufferLoad(load) if load.buffer == self.0.buffer => Some(self.0.at(&load.indices)),
            _ => new,
        }
    }

    fn mutate_block(&mut self, block: &std::sync::Arc<Block>) -> Option<Block> {
        let inner = rewrite::walk_block_body(self, block);
        let without = drop_alloc(inner.as_ref().unwrap_or(block), &self.0.buffer);
        let changed = without.or(inner)?;
        let reads = changed.reads.iter().any(|region| region.buffer == self.0.buffer);
        Some(if reads { with_access_regions(changed) } else { changed })
    }
}
