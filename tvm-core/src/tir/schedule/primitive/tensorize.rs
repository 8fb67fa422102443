//! `tensorize`: a block, or a loop that becomes one, computes what a tensor intrinsic describes, and gets its implementation.
//!
//! Legal where the body of the block is the description of the intrinsic ([`find`]), on other buffers and from other first
//! elements. The implementation accesses these buffers directly; its statements become blocks. What it writes has no second name. If it sums floats, the sum
//! is one whose order is free: that of a reduction with an init, or whose init was separated.
//!
//! TVM counterpart: `tensorize`. There, the description is matched by blocks and axes, and implementations access buffers through
//! `match_buffer`, with symbolic strides and offsets.

use std::sync::Arc;

use super::blockize::blockize;
use crate::ir::{BlockId, VarId};
use crate::tir::analysis::with_access_regions;
use crate::tir::schedule::rewrite::{Relocate, analyzer_outside};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::tensor_intrin::{Found, TensorIntrin, find};
use crate::tir::transform::{DECOMPOSED, IN_ORDER, order_is_free, renew_defs};
use crate::tir::{
    Block, BlockNames, BlockRealize, Buffer, Mutator, Param, PrimExpr, Range, Stmt, derive_blocks,
};

const NAME: &str = "tensorize";

/// Replaces the body of the block `target`, or of a block around the loop `target`, by the implementation of the intrinsic
/// named `intrin`. Returns the block.
pub(in crate::tir::schedule) fn tensorize(
    state: &mut ScheduleState,
    target: StmtSRef,
    intrin: &str,
) -> Result<BlockId, ScheduleError> {
    let intrin = TensorIntrin::get(intrin).map_err(|err| ScheduleError::argument(NAME, err.to_string()))?;
    match target {
        StmtSRef::Block(id) => replace(state, id, &intrin).map(|()| id),
        StmtSRef::Loop(var) => {
            let mut forked = state.clone();
            let id = around(&mut forked, var)?;
            // Errors show the program as it was.
            replace(&mut forked, id, &intrin).map_err(|err| unshown(err).show(state, &[target]))?;
            *state = forked;
            Ok(id)
        }
    }
}

/// The block that `blockize` puts around the loop.
fn around(state: &mut ScheduleState, var: VarId) -> Result<BlockId, ScheduleError> {
    blockize(state, var).map_err(|err| match err {
        ScheduleError::Illegal { reason, .. } => ScheduleError::Illegal { primitive: NAME, reason },
        other => other,
    })
}

fn unshown(err: ScheduleError) -> ScheduleError {
    match err {
        ScheduleError::Illegal { primitive, mut reason } => {
            reason.outline = None;
            ScheduleError::Illegal { primitive, reason }
        }
        other => other,
    }
}

fn replace(state: &mut ScheduleState, id: BlockId, intrin: &TensorIntrin) -> Result<(), ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let (block, at) = (&realize.block, StmtSRef::Block(id));
    if state.scope_block(at).is_none() {
        return Err(ScheduleError::argument(NAME, "the root block is the whole program"));
    }
    let refuse = |why: String| ScheduleError::illegal(NAME, why).show(state, &[at]);
    if let Some(matched) = block.match_buffers.first() {
        let (name, view) = (&block.name, &matched.buffer.name);
        return Err(refuse(format!("block `{name}` matches `{view}` to a region")));
    }
    let mut analyzer = analyzer_outside(state, at)?;
    block.iter_vars.iter().for_each(|iter| analyzer.bind_range(&iter.var, &iter.dom));
    let found = find(intrin.desc(), &block.body, &analyzer).map_err(|why| {
        refuse(format!("block `{}` does not compute `{}`: {why}", block.name, intrin.name()))
            .help("split and reorder the loops as in the description of the intrinsic")
    })?;
    check_names(intrin, &found).map_err(refuse)?;
    let inner = found.block.as_ref().map_or(block, |it| &it.block);
    let declared = order_is_free(inner);
    if found.sums_floats && !declared {
        return Err(refuse(format!(
            "the sum of block `{}` keeps its order and rounding, which `{}` need not",
            inner.name,
            intrin.name()
        ))
        .help("declare a reduction, with an `init`"));
    }
    let mut names = BlockNames::default();
    let removed: Vec<BlockId> = blocks_of(&block.body).iter().map(|it| it.block.id).collect();
    for other in blocks_of(&state.func().body).iter().filter(|it| !removed.contains(&it.block.id)) {
        names.take(&other.block.name);
    }
    let (body, own) = implementation(intrin, &found);
    let mut blocks = Blocks { names, declared };
    let body = blocks.mutate_stmt(&body).unwrap_or(body);
    // Primitives check loops that run side by side by the blocks in them.
    let body = derive_blocks(&body, blocks.names);
    let new = with_access_regions(Block {
        alloc_buffers: block.alloc_buffers.iter().cloned().chain(own).collect(),
        body,
        ..(**block).clone()
    });
    let new = BlockRealize { block: new.into(), ..(*realize).clone() };
    state.replace(at, new.into())
}

fn blocks_of(stmt: &Stmt) -> Vec<Arc<BlockRealize>> {
    crate::tir::schedule::state::blocks_in(stmt)
}

/// Checks that what the intrinsic writes is not one of its other parameters.
fn check_names(intrin: &TensorIntrin, found: &Found) -> Result<(), String> {
    let params = intrin.desc().params.iter().zip(&found.places);
    for (i, (param, (buffer, _))) in params.enumerate() {
        let others = found.places.iter().enumerate().filter(|(k, _)| *k != i);
        if matches!(param, Param::Out(_)) && others.into_iter().any(|(_, (other, _))| other == buffer) {
            let name = param.name();
            return Err(format!(
                "`{}` is the output `{name}` of the intrinsic and another parameter of it",
                buffer.name
            ));
        }
    }
    Ok(())
}

/// The statements of the implementation, on the buffers of the program, and what they allocate.
fn implementation(intrin: &TensorIntrin, found: &Found) -> (Stmt, Vec<Buffer>) {
    let imp = renew_defs(intrin.imp());
    let (mut body, own) = match &imp.body {
        Stmt::BlockRealize(root) => (root.block.body.clone(), root.block.alloc_buffers.to_vec()),
        other => (other.clone(), Vec::new()),
    };
    for (param, (to, offsets)) in imp.params.iter().zip(&found.places) {
        let Some(from) = param.buffer() else { continue };
        let hidden = offsets.len().saturating_sub(from.ndim());
        let place = |indices: &[PrimExpr]| {
            let last = offsets[hidden..].iter().zip(indices).map(|(offset, index)| moved(offset, index));
            offsets[..hidden].iter().cloned().chain(last).collect()
        };
        let region = |ranges: &[Range]| {
            let last = offsets[hidden..].iter().zip(ranges).map(|(offset, range)| Range {
                min: offset.clone() + &range.min,
                extent: range.extent.clone(),
            });
            offsets[..hidden].iter().cloned().map(Range::point).chain(last).collect()
        };
        let mut relocate = Relocate { from, to, place: &place, region: &region };
        body = relocate.mutate_stmt(&body).unwrap_or(body);
    }
    (body, own)
}

/// `offset + index`, where the index may be a vector.
fn moved(offset: &PrimExpr, index: &PrimExpr) -> PrimExpr {
    match index {
        PrimExpr::Ramp(it) => (offset.clone() + &it.base).ramp(it.stride.clone(), it.lanes),
        _ => offset.clone().broadcast(index.dtype().lanes()) + index,
    }
}

/// Gives blocks names that the program does not have. With `declared`, the order of their sums is free.
struct Blocks {
    names: BlockNames,
    declared: bool,
}

impl Mutator for Blocks {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let name = self.names.unique(&block.name);
        let inside = self.walk_block(block).unwrap_or_else(|| (**block).clone());
        let sums = self.declared && block.is_reduction() && block.init.is_none();
        let annotations = match sums && block.annotations.get(IN_ORDER).is_none() {
            true => inside.annotations.clone().with(DECOMPOSED, true),
            false => inside.annotations.clone(),
        };
        Some(Block { name, annotations, ..inside })
    }
}
