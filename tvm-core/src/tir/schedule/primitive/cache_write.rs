//! `cache_write`: a block writes to a new buffer, and a new block copies the result to the original buffer.

use super::cache_read::{copy_nest, in_scope};
use crate::ir::BlockId;
use crate::tir::schedule::rewrite::{self, insert_in_scope, redirect, top_level_index, unique_block_name};
use crate::tir::schedule::{BufferArg, ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{BlockRealize, Buffer, PrimExpr, Range, Scope};

const NAME: &str = "cache_write";

/// Makes block `id` write buffer `which` through a new buffer in `scope`. Returns the copying block.
pub(in crate::tir::schedule) fn cache_write(
    state: &mut ScheduleState,
    id: BlockId,
    which: &BufferArg,
    scope: Scope,
) -> Result<BlockId, ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let region = which.find(NAME, (&block.name, "writes"), &block.writes)?;
    let buffer = region.buffer.clone();
    let (scope_block, at) = check_copy_back(NAME, state, &realize, &buffer)?;
    let indices: Vec<PrimExpr> = region.region.iter().map(|range| range.min.clone()).collect();
    let points = region.region.iter().all(|range| range.extent.is_const(1));
    let axes = analysis::distinct_axes(block, &indices, &buffer.shape).filter(|_| points);
    let Some(axes) = axes else {
        let why = format!("block `{}` writes to a place that is not one axis in each dimension", block.name);
        return Err(ScheduleError::illegal(NAME, why).show(state, &[StmtSRef::Block(id)]));
    };
    let dom = |axis: &Option<crate::ir::Var>| {
        let iter = axis.as_ref().and_then(|var| block.iter_vars.iter().find(|iter| iter.var == *var));
        iter.map_or_else(|| Range::from_extent(1), |iter| iter.dom.clone())
    };
    let written: Vec<Range> = axes.iter().map(dom).collect();
    let cache = in_scope(&buffer, scope);
    let name = unique_block_name(state, &cache.name);
    let (copy, nest) = copy_nest(&name, &cache, &buffer, &written);
    let body = redirect(&state.func().body, id, &buffer, &cache);
    state.replace_body(insert_in_scope(&body, scope_block, at + 1, nest, &cache))?;
    Ok(copy)
}

/// Checks that a copy after the nest of the block can give `buffer` the values that the block gives it now. Returns the block
/// around it, and the position of the nest in that block.
pub(super) fn check_copy_back(
    name: &'static str,
    state: &ScheduleState,
    realize: &BlockRealize,
    buffer: &Buffer,
) -> Result<(BlockId, usize), ScheduleError> {
    let block = &realize.block;
    let marked = [StmtSRef::Block(block.id)];
    let refuse = |why: String| Err(ScheduleError::illegal(name, why).show(state, &marked));
    let Some(scope_block) = state.scope_block(marked[0]) else {
        return Err(ScheduleError::argument(name, "the root block has no buffers to cache"));
    };
    if rewrite::writers(state, buffer).len() != 1 {
        return refuse(format!("block `{}` is not the only one that writes `{}`", block.name, buffer.name));
    }
    analysis::check_reorderable(name, state, realize).map_err(|err| err.show(state, &marked))?;
    if block.is_reduction() && block.init.is_none() {
        return refuse(format!("block `{}` updates values that were there before", block.name));
    }
    if !analysis::covers_domain(state, realize)? {
        return Err(ScheduleError::illegal(
            name,
            format!(
                "block `{}` is not known to run for every value of its axes: the copy would write elements of `{}` that \
                 the block does not",
                block.name, buffer.name
            ),
        )
        .help("bind each axis to a loop, or to a split or fusion of loops, over its whole range")
        .show(state, &marked));
    }
    let Some(at) = top_level_index(state, scope_block, marked[0]) else {
        return refuse(format!("block `{}` is not in a plain sequence", block.name));
    };
    let later = |it: &BlockRealize| {
        top_level_index(state, scope_block, StmtSRef::Block(it.block.id)).is_some_and(|place| place > at)
    };
    let early = |it: &&&std::sync::Arc<BlockRealize>| it.block.id != block.id && !later(it);
    match rewrite::readers(state, buffer).iter().find(early) {
        None => Ok((scope_block, at)),
        Some(reader) => refuse(format!(
            "block `{}` reads `{}` before the nest of block `{}` ends",
            reader.block.name, buffer.name, block.name
        )),
    }
}
