//! `cache_read`: a block, and the other readers in its scope, read a copy of a buffer.
//!
//! The copy is a block of its own, placed after the buffer's last writer and before its first reader; `compute_at` moves
//! it to where it is needed.

use std::sync::Arc;

use crate::arith::IntervalSet;
use crate::ir::BlockId;
use crate::tir::analysis::reads_memory;
use crate::tir::schedule::analysis::Iteration;
use crate::tir::schedule::rewrite::{self, insert_in_scope, redirect, top_level_index, unique_block_name};
use crate::tir::schedule::{BufferArg, ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferRegion, For, IterKind, IterVar, PrimExpr, Range, Scope, Stmt,
};

const NAME: &str = "cache_read";

/// Copies the buffer `which`, one of those that block `id` reads, to `scope`. Returns the copying block.
pub(in crate::tir::schedule) fn cache_read(
    state: &mut ScheduleState,
    id: BlockId,
    which: &BufferArg,
    scope: Scope,
) -> Result<BlockId, ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let region = which.find(NAME, (&realize.block.name, "reads"), &realize.block.reads)?;
    let buffer = region.buffer.clone();
    let marked = [StmtSRef::Block(id)];
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &marked));
    let Some(scope_block) = state.scope_block(StmtSRef::Block(id)) else {
        return Err(ScheduleError::argument(NAME, "the root block has no buffers to cache"));
    };
    if rewrite::writers(state, &buffer).iter().any(|it| it.block.id == id) {
        return refuse(format!("block `{}` writes `{}` itself", realize.block.name, buffer.name));
    }
    let position = |it: &BlockRealize| top_level_index(state, scope_block, StmtSRef::Block(it.block.id));
    let reads = |it: &BlockRealize| it.block.reads.iter().any(|read| read.buffer == buffer);
    let readers: Vec<_> =
        rewrite::siblings(state, StmtSRef::Block(id))?.into_iter().filter(|it| reads(it)).collect();
    let Some(first_reader) = readers.iter().filter_map(|it| position(it)).min() else {
        return refuse(format!("no block of this scope reads `{}`", buffer.name));
    };
    if let Some(writer) =
        rewrite::writers(state, &buffer).iter().find(|it| position(it).is_none_or(|at| at >= first_reader))
    {
        return refuse(format!(
            "block `{}` writes `{}` among or after its readers",
            writer.block.name, buffer.name
        ));
    }
    if rewrite::is_intermediate(state, &buffer) && !is_written_whole(state, &buffer)? {
        return refuse(format!(
            "no block is known to write all of `{}`: the copy would read elements that were never written",
            buffer.name
        ));
    }
    let copy = in_scope(&buffer, scope);
    let name = unique_block_name(state, &copy.name);
    let is_root = scope_block == state.root();
    let needed = if is_root { None } else { needed_region(state, &readers, &buffer)? };
    let (block, nest) = copy_nest(&name, &buffer, &copy, needed.as_deref().unwrap_or(&full(&buffer)));
    let body = insert_in_scope(&state.func().body, scope_block, first_reader, nest, &copy);
    let body = if is_root || needed.is_some() { body } else { read_all(state, &body, scope_block, &buffer) };
    let body = readers.iter().fold(body, |body, it| redirect(&body, it.block.id, &buffer, &copy));
    state.replace_body(body)?;
    Ok(block)
}

/// The region of `buffer` that `readers` read in one iteration of the block around them; `None` if it is not known to be
/// inside of the buffer.
fn needed_region(
    state: &ScheduleState,
    readers: &[Arc<BlockRealize>],
    buffer: &Buffer,
) -> Result<Option<Vec<Range>>, ScheduleError> {
    let Some(first) = readers.first() else { return Ok(None) };
    let analyzer = Iteration::of(state, None, first)?.analyzer;
    let needed = analysis::box_read(state, None, readers, buffer)?;
    let ranges = needed.unwrap_or_default().into_iter().zip(buffer.shape.iter()).map(|(set, extent)| {
        let whole = IntervalSet::from_range(&Range::from_extent(extent.clone()));
        let ends = [set.min.as_ref()?, set.max.as_ref()?];
        let fits = set.is_subset_of(&whole, &analyzer) && !ends.into_iter().any(reads_memory);
        set.to_range(&analyzer).filter(|_| fits)
    });
    Ok(ranges.collect())
}

/// `body`, where block `scope` and the blocks around it but the root declare that they read all of `buffer`.
pub(super) fn read_all(state: &ScheduleState, body: &Stmt, scope: BlockId, buffer: &Buffer) -> Stmt {
    let around = state.ancestors(StmtSRef::Block(scope)).chain([StmtSRef::Block(scope)]);
    let blocks = around.filter_map(|it| if let StmtSRef::Block(id) = it { Some(id) } else { None });
    blocks.filter(|id| *id != state.root()).fold(body.clone(), |body, id| {
        rewrite::with_block(&body, id, |block| {
            let own = block.alloc_buffers.contains(buffer);
            let others = block.reads.iter().filter(|read| own || read.buffer != *buffer).cloned();
            let all = (!own).then(|| BufferRegion { buffer: buffer.clone(), region: full(buffer).into() });
            Block { reads: others.chain(all).collect(), ..block.clone() }
        })
    })
}

/// True when some block is known to write every element of `buffer`.
pub(super) fn is_written_whole(state: &ScheduleState, buffer: &Buffer) -> Result<bool, ScheduleError> {
    for writer in rewrite::writers(state, buffer) {
        for write in writer.block.writes.iter().filter(|write| write.buffer == *buffer) {
            let indices: Vec<PrimExpr> = write.region.iter().map(|range| range.min.clone()).collect();
            let points = write.region.iter().all(|range| range.extent.is_const(1));
            let axes = analysis::distinct_axes(&writer.block, &indices, &buffer.shape).filter(|_| points);
            if let Some(axes) = axes
                && rewrite::covers(state, writer, &axes, buffer)?
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A compact buffer in `scope` for a copy of `buffer`.
pub(super) fn in_scope(buffer: &Buffer, scope: Scope) -> Buffer {
    buffer.renew(|node| {
        node.name = format!("{}_{}", buffer.name, scope.name().replace('.', "_")).into();
        node.scope = scope;
        node.strides = [].into();
        node.elem_offset = None;
    })
}

/// The range `0..extent` for every dimension.
fn full(buffer: &Buffer) -> Vec<Range> {
    buffer.shape.iter().cloned().map(Range::from_extent).collect()
}

/// Loops over `region` around a block that copies `from` to `to`.
pub(super) fn copy_nest(name: &str, from: &Buffer, to: &Buffer, region: &[Range]) -> (BlockId, Stmt) {
    nest_over(name, region, |at| Stmt::store(to, at.to_vec(), from.load(at.to_vec())))
}

/// Loops over `region` around a block of spatial axes, with the body that `body` makes of its axes.
pub(super) fn nest_over(
    name: &str,
    region: &[Range],
    body: impl FnOnce(&[PrimExpr]) -> Stmt,
) -> (BlockId, Stmt) {
    let vars = |prefix: &str| -> Vec<crate::ir::Var> {
        (0..region.len()).map(|i| crate::ir::Var::index(format!("{prefix}{i}"))).collect()
    };
    let (loops, axes) = (vars("ax"), vars("v"));
    let indices: Vec<PrimExpr> = axes.iter().map(PrimExpr::from).collect();
    let iter_vars: Vec<IterVar> = axes
        .iter()
        .zip(region)
        .map(|(var, range)| IterVar { var: var.clone(), dom: range.clone(), kind: IterKind::Spatial })
        .collect();
    let block = Block { iter_vars: iter_vars.into(), ..Block::new(name, body(&indices)) };
    let block = crate::tir::analysis::with_access_regions(block);
    let id = block.id;
    let realize = BlockRealize {
        iter_values: loops.iter().zip(region).map(|(var, range)| &range.min + PrimExpr::from(var)).collect(),
        predicate: PrimExpr::bool(true),
        block: block.into(),
    };
    let nest = loops.iter().zip(region).rev().fold(Stmt::from(realize), |body, (var, range)| {
        For::serial(var.clone(), range.extent.clone(), body).into()
    });
    (id, nest)
}
