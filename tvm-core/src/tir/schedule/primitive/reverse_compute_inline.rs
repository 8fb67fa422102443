//! `reverse_compute_inline`: an element-wise consumer moves into the block that produces what it reads.
//!
//! Legal if both are complete blocks of one store, and the consumer reads the intermediate buffer with one tuple of
//! indices, one axis in each dimension; axes of extent 1 may be left out. The consumer must be the only reader, cover the
//! whole buffer after it is written, and stand in the producer's scope.

use rustc_hash::FxHashMap;

use super::compute_inline::{check_read_after, definition};
use crate::ir::{BlockId, Var, VarId};
use crate::tir::analysis::{same_indices, with_access_regions};
use crate::tir::schedule::rewrite::{self, drop_alloc_everywhere, remove_block, with_block};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferLoad, BufferRegion, BufferStore, IterKind, IterVar, Mutator, PrimExpr,
    Visitor, substitute_expr, walk_expr,
};

const NAME: &str = "reverse_compute_inline";

/// Inlines the block `id` into its producer.
pub(in crate::tir::schedule) fn reverse_compute_inline(
    state: &mut ScheduleState,
    id: BlockId,
) -> Result<(), ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let marked = [StmtSRef::Block(id)];
    let refuse = |why: String| {
        Err(ScheduleError::illegal(NAME, format!("block `{}` {why}", block.name)).show(state, &marked))
    };
    analysis::check_reorderable(NAME, state, &realize)?;
    let Some(store) = analysis::single_store(block) else { return refuse("is more than one store".into()) };
    if block.is_reduction() || block.init.is_some() {
        return refuse("is a reduction".into());
    }
    let leaves = state.leaf_blocks();
    let producers: Vec<_> = leaves
        .iter()
        .filter(|it| it.block.id != id)
        .filter(|it| {
            it.block.writes.iter().any(|write| block.reads.iter().any(|read| read.buffer == write.buffer))
        })
        .collect();
    let [producer] = producers[..] else {
        return refuse(format!("reads what {} blocks produce; one is expected", producers.len()));
    };
    let scope = |id: BlockId| state.scope_block(StmtSRef::Block(id));
    if scope(id) != scope(producer.block.id) {
        return refuse(format!("is in another scope than block `{}`", producer.block.name));
    }
    let made = definition(NAME, state, producer.block.id)?;
    let readers =
        leaves.iter().filter(|it| it.block.reads.iter().any(|read| read.buffer == made.buffer)).count();
    if readers != 1 {
        return refuse(format!("is not the only reader of `{}`", made.buffer.name));
    }
    let loads = loads_of(&store.value, &made.buffer);
    if loads.is_empty() || !loads.iter().all(|load| same_indices(&load.indices, &loads[0].indices)) {
        return refuse(format!("does not read `{}` at one place", made.buffer.name));
    }
    let Some(axes) = covering_axes(state, &realize, &loads[0].indices, &made.buffer)? else {
        return refuse(format!("does not read each element of `{}` once", made.buffer.name));
    };
    check_nothing_between(NAME, state, producer.block.id, id)?;
    check_read_after(NAME, state, producer.block.id, &[&made.buffer, &store.buffer])?;
    let Some(source) = analysis::single_store(&producer.block) else {
        return refuse("has a producer of more than one store".into());
    };
    let map = values_of_axes(block, &axes, &source.indices);
    let inlined = ReplaceLoad(&made.buffer, source.value.clone()).apply(&substitute_expr(&store.value, &map));
    let new = BufferStore {
        value: inlined,
        indices: store.indices.iter().map(|index| substitute_expr(index, &map)).collect(),
        ..store.clone()
    };
    let body = remove_block(state, id);
    let body = with_block(&body, producer.block.id, |block| {
        with_access_regions(Block { body: new.into(), ..block.clone() })
    });
    state.replace_body(drop_alloc_everywhere(&body, &made.buffer))
}

/// The axis that each of `indices` is, where the block reads all of `buffer` there, once. Its other axes have extent 1.
pub(super) fn covering_axes(
    state: &ScheduleState,
    realize: &BlockRealize,
    indices: &[PrimExpr],
    buffer: &Buffer,
) -> Result<Option<Vec<Option<Var>>>, ScheduleError> {
    let block = &realize.block;
    let is_unit = |axis: &&IterVar| {
        axis.kind == IterKind::Spatial && axis.dom.min.is_const(0) && axis.dom.extent.is_const(1)
    };
    let Some(axes) = analysis::distinct_axes(block, indices, &buffer.shape) else { return Ok(None) };
    let fits = analysis::trailing_axes(block, &axes).iter().all(is_unit)
        && rewrite::covers(state, realize, &axes, buffer)?;
    Ok(fits.then_some(axes))
}

/// The value of each axis of `block` where `axes`, which [`covering_axes`] gave, have the values `indices`.
pub(super) fn values_of_axes(
    block: &Block,
    axes: &[Option<Var>],
    indices: &[PrimExpr],
) -> FxHashMap<VarId, PrimExpr> {
    let mut map: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
    let mut units = analysis::trailing_axes(block, axes).into_iter();
    for (axis, index) in axes.iter().zip(indices) {
        // An axis of extent 1 that does not occur is the index of a dimension that is read at 0: both are 0.
        if let Some(axis) = axis.as_ref().or_else(|| units.next().map(|it| &it.var)) {
            map.insert(axis.id(), index.clone());
        }
    }
    map.extend(units.map(|it| (it.var.id(), PrimExpr::int(0, it.var.dtype()))));
    map
}

/// Checks that moving the consumer to the producer changes no value. No other block writes what the consumer writes,
/// and no earlier block reads it. No block after the producer writes what the consumer reads, nor does a block that
/// runs again, in a loop around the producer, before the consumer does.
pub(super) fn check_nothing_between(
    name: &'static str,
    state: &ScheduleState,
    producer: BlockId,
    consumer: BlockId,
) -> Result<(), ScheduleError> {
    let blocks = state.leaf_blocks();
    let mut around = Vec::new();
    for var in state.loops_above(StmtSRef::Block(producer)) {
        let node = state.get_for(var)?;
        if !rewrite::holds(&node.body, StmtSRef::Block(consumer)) {
            around.push(node.clone());
        }
    }
    let consumer = blocks.iter().position(|it| it.block.id == consumer).unwrap_or(0);
    let block = &blocks[consumer].block;
    for (i, other) in blocks.iter().enumerate().filter(|(i, _)| *i != consumer) {
        let touches = |regions: &[BufferRegion], buffers: &[BufferRegion]| {
            regions.iter().any(|region| buffers.iter().any(|it| it.buffer == region.buffer))
        };
        let is_producer = other.block.id == producer;
        let after_producer = blocks.iter().take(i).any(|it| it.block.id == producer);
        let again = || around.iter().any(|it| rewrite::holds(&it.body, StmtSRef::Block(other.block.id)));
        let conflict = touches(&other.block.writes, &block.writes)
            || (i < consumer && touches(&other.block.reads, &block.writes))
            || (!is_producer && touches(&other.block.writes, &block.reads) && (after_producer || again()));
        if conflict {
            let message =
                format!("block `{}` uses a buffer that block `{}` uses too", other.block.name, block.name);
            return Err(ScheduleError::illegal(name, message)
                .show(state, &[StmtSRef::Block(other.block.id), StmtSRef::Block(block.id)]));
        }
    }
    Ok(())
}

pub(super) fn loads_of(expr: &PrimExpr, buffer: &Buffer) -> Vec<BufferLoad> {
    struct Loads<'a>(&'a Buffer, Vec<BufferLoad>);
    impl Visitor for Loads<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if let PrimExpr::BufferLoad(load) = expr
                && load.buffer == *self.0
            {
                self.1.push((**load).clone());
            }
            walk_expr(self, expr);
        }
    }
    let mut loads = Loads(buffer, Vec::new());
    loads.visit_expr(expr);
    loads.1
}

struct ReplaceLoad<'a>(&'a Buffer, PrimExpr);

impl ReplaceLoad<'_> {
    fn apply(&mut self, expr: &PrimExpr) -> PrimExpr {
        self.mutate_expr(expr).unwrap_or_else(|| expr.clone())
    }
}

impl Mutator for ReplaceLoad<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::BufferLoad(load) if load.buffer == *self.0 => Some(self.1.clone()),
            _ => self.walk_expr(expr),
        }
    }
}
