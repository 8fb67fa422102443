//! `compute_inline`: the value of a block replaces the loads of its buffer; the block and the buffer are removed.
//!
//! Legal for a complete block that consists of one store, writes each element of an intermediate buffer once, and reads
//! nothing that is written later. Nothing reads the buffer before it is written.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{BlockId, Var, VarId};
use crate::tir::analysis::with_access_regions;
use crate::tir::schedule::rewrite::{self, drop_alloc, remove_block};
use crate::tir::schedule::state::blocks_in;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::transform::is_covered_in;
use crate::tir::{Block, BlockRealize, Buffer, BufferRegion, Mutator, PrimExpr, Stmt, substitute_expr};

const NAME: &str = "compute_inline";

/// Inlines the block `id` into its consumers.
pub(in crate::tir::schedule) fn compute_inline(
    state: &mut ScheduleState,
    id: BlockId,
) -> Result<(), ScheduleError> {
    let definition = definition(NAME, state, id)?;
    check_inputs_stay(NAME, state, id)?;
    let buffer = definition.buffer.clone();
    check_read_after(NAME, state, id, &[&buffer])?;
    let scope = state.scope_block(StmtSRef::Block(id));
    let in_scope = |it: &Arc<BlockRealize>| {
        state.ancestors(StmtSRef::Block(it.block.id)).any(|outer| Some(outer) == scope.map(StmtSRef::Block))
    };
    if let Some(reader) = rewrite::readers(state, &buffer).into_iter().find(|it| !in_scope(it)) {
        let message = format!("`{}` is read by block `{}`, in another scope", buffer.name, reader.block.name);
        return Err(ScheduleError::illegal(NAME, message).show(state, &[StmtSRef::Block(id)]));
    }
    let body = remove_block(state, id);
    let mut inline = Inline::new(definition, state);
    let body = inline.mutate_stmt(&body).unwrap_or(body);
    if state.count_accesses(&body, &buffer) > 0 {
        let message =
            format!("buffer `{}` is named by a block that does not read single elements of it", buffer.name);
        return Err(ScheduleError::illegal(NAME, message).show(state, &[StmtSRef::Block(id)]));
    }
    state.replace_body(body)
}

/// A buffer, with the expression over its indices that gives each element.
pub(super) struct Definition {
    pub(super) buffer: Buffer,
    /// The axis that indexes each dimension.
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

/// The definition of the buffer that block `id` computes. The block must be complete, be the only writer of an
/// intermediate buffer, and write all of it.
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

/// Checks that what block `id` writes, the first of `buffers` and all of it, is read after it is written. In loops around
/// the block and a reader, this must be known for all of `buffers`.
pub(super) fn check_read_after(
    name: &'static str,
    state: &ScheduleState,
    id: BlockId,
    buffers: &[&Buffer],
) -> Result<(), ScheduleError> {
    let [buffer, ..] = buffers else { return Ok(()) };
    let leaves = state.leaf_blocks();
    let place = |id: BlockId| leaves.iter().position(|it| it.block.id == id);
    let around: Vec<StmtSRef> =
        state.loops_above(StmtSRef::Block(id)).into_iter().map(StmtSRef::Loop).collect();
    let mut together = false;
    for reader in rewrite::readers(state, buffer) {
        let sref = StmtSRef::Block(reader.block.id);
        if place(reader.block.id) < place(id) {
            let message =
                format!("block `{}` reads `{}` before it is written", reader.block.name, buffer.name);
            return Err(ScheduleError::illegal(name, message).show(state, &[sref, StmtSRef::Block(id)]));
        }
        together |= state.ancestors(sref).any(|outer| around.contains(&outer));
    }
    if !together {
        return Ok(());
    }
    match buffers.iter().find(|buffer| !is_covered_in(state.func(), None, buffer)) {
        Some(buffer) => {
            let message = format!("`{}` is not known to be written before it is read", buffer.name);
            Err(ScheduleError::illegal(name, message).show(state, &[StmtSRef::Block(id)]))
        }
        None => Ok(()),
    }
}

/// Checks that nothing that block `id` reads is written after it: neither by a later block, nor in a later iteration of
/// a loop around it.
pub(super) fn check_inputs_stay(
    name: &'static str,
    state: &ScheduleState,
    id: BlockId,
) -> Result<(), ScheduleError> {
    let blocks = state.leaf_blocks();
    let realize = state.get_block(id)?;
    let inside: Vec<BlockId> =
        blocks_in(&Stmt::BlockRealize(realize.clone())).iter().map(|it| it.block.id).collect();
    let is_inside = |it: &BlockRealize| inside.contains(&it.block.id);
    let at =
        blocks.iter().rposition(|it| is_inside(it)).ok_or(ScheduleError::UnknownSRef(StmtSRef::Block(id)))?;
    for (i, other) in blocks.iter().enumerate().filter(|(_, it)| !is_inside(it)) {
        for write in other.block.writes.iter() {
            for read in realize.block.reads.iter().filter(|read| read.buffer == write.buffer) {
                if i > at || is_written_again(state, realize, read, other, write)? {
                    let message = format!(
                        "buffer `{}` is written again by block `{}`",
                        write.buffer.name, other.block.name
                    );
                    return Err(ScheduleError::illegal(name, message)
                        .show(state, &[StmtSRef::Block(id), StmtSRef::Block(other.block.id)]));
                }
            }
        }
    }
    Ok(())
}

/// True when, in some loop around both blocks, `other` may overwrite in one iteration what `realize` read in an earlier
/// one, and the result of `realize` may be used outside of the iteration that computed it.
fn is_written_again(
    state: &ScheduleState,
    realize: &BlockRealize,
    read: &BufferRegion,
    other: &BlockRealize,
    write: &BufferRegion,
) -> Result<bool, ScheduleError> {
    for var in state.loops_above(StmtSRef::Block(realize.block.id)) {
        let node = state.get_for(var)?;
        let holds = |it: &BlockRealize| rewrite::holds(&node.body, StmtSRef::Block(it.block.id));
        if !holds(other) || analysis::same_iteration(state, node, (other, write), (realize, read))? {
            continue;
        }
        for made in realize.block.writes.iter() {
            for reader in rewrite::readers(state, &made.buffer) {
                for used in reader.block.reads.iter().filter(|it| it.buffer == made.buffer) {
                    if !holds(reader)
                        || !analysis::same_iteration(state, node, (realize, made), (reader, used))?
                    {
                        return Ok(true);
                    }
                }
            }
        }
    }
    Ok(false)
}

struct Inline {
    definition: Definition,
    /// The leaf blocks that may name the buffer.
    readers: FxHashSet<BlockId>,
    /// What holds these blocks, or the block that allocates the buffer. Loops and blocks outside of the readers declare
    /// what they read: nothing else is visited there.
    around: FxHashSet<StmtSRef>,
    inside_reader: bool,
}

impl Inline {
    fn new(definition: Definition, state: &ScheduleState) -> Inline {
        let buffer = &definition.buffer;
        let names = |it: &&Arc<BlockRealize>| state.known_accesses(&it.block, buffer) != Some(0);
        let owns = |it: &&Arc<BlockRealize>| it.block.alloc_buffers.contains(buffer);
        let readers = state.leaf_blocks().iter().filter(names).map(|it| it.block.id);
        let readers: FxHashSet<BlockId> = readers.collect();
        let owner = state.blocks().iter().filter(owns).map(|it| it.block.id);
        let around = owner.chain(readers.iter().copied()).map(StmtSRef::Block);
        let around = around.flat_map(|it| state.ancestors(it).chain([it])).collect();
        Inline { definition, readers, around, inside_reader: false }
    }
}

impl Mutator for Inline {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let new = self.walk_expr(expr);
        match new.as_ref().unwrap_or(expr) {
            PrimExpr::BufferLoad(load) if load.buffer == self.definition.buffer => {
                Some(self.definition.at(&load.indices))
            }
            _ => new,
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let skipped = StmtSRef::of(stmt).is_some_and(|sref| !self.around.contains(&sref));
        if skipped && !self.inside_reader { None } else { self.walk_stmt(stmt) }
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let inside = self.inside_reader;
        self.inside_reader |= self.readers.contains(&block.id);
        let inner = rewrite::walk_block_body(self, block);
        self.inside_reader = inside;
        let buffer = &self.definition.buffer;
        let without = drop_alloc(inner.as_ref().unwrap_or(block), buffer);
        let changed = without.or(inner)?;
        let reads = changed.reads.iter().any(|region| region.buffer == *buffer);
        Some(if reads { with_access_regions(changed) } else { changed })
    }
}
