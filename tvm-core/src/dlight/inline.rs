//! Inlines element-wise blocks into the element-wise blocks that read them: what stays are reductions, and at most one
//! element-wise block between two of them. What a block reads at several places is computed once, unless it is cheap.

use std::sync::Arc;

use super::analysis::BlockInfo;
use crate::arith::Analyzer;
use crate::tir::analysis::same_indices;
use crate::tir::schedule::{Schedule, ScheduleError};
use crate::tir::{Block, BlockRealize, Buffer, BufferLoad, IterKind, PrimExpr, any_expr, for_each_load};

/// Number of operations that may be computed again.
pub(super) const AGAIN: usize = 8;

/// Number of operations up to which expressions grow. A chain of blocks each of which reads the one before twice would become
/// an expression with exponentially many, even if those at one place are computed once.
const LARGEST: usize = 512;

/// Inlines every element-wise block all of whose readers are element-wise. The accesses of the buffer that goes must be
/// provably in bounds: else the program is to report the buffer. The blocks `kept` stay: the rule for their reader places them.
pub(super) fn inline(s: &mut Schedule, kept: &[&str]) {
    let mut refused: Vec<Arc<str>> = kept.iter().map(|&name| name.into()).collect();
    loop {
        let blocks = s.state().leaf_blocks();
        let Some(next) = blocks.iter().find(|it| !refused.contains(&it.block.name) && may_go(it, blocks))
        else {
            return;
        };
        let name = next.block.name.clone();
        let mut fork = s.clone();
        match fork.block(&name).and_then(|block| fork.compute_inline(block)) {
            Ok(()) => *s = fork,
            Err(_) => refused.push(name),
        }
    }
}

/// True if the block and all readers of its result, one at least, are element-wise, and access the result in bounds.
fn may_go(realize: &BlockRealize, blocks: &[Arc<BlockRealize>]) -> bool {
    let Some(store) = realize.block.body.as_buffer_store() else { return false };
    let mut readers =
        blocks.iter().filter(|it| it.block.reads.iter().any(|read| read.buffer == store.buffer)).peekable();
    readers.peek().is_some()
        && is_element_wise(realize)
        && in_bounds(&realize.block, &store.indices, &store.buffer)
        && readers.all(|reader| {
            let mut places: Vec<Arc<BufferLoad>> = Vec::new();
            let mut loads = 0usize;
            for_each_load(&reader.block.body, &mut |load| {
                let same = |it: &Arc<BufferLoad>| same_indices(&it.indices, &load.indices);
                loads += usize::from(load.buffer == store.buffer);
                if load.buffer == store.buffer && !places.iter().any(same) {
                    places.push(load.clone());
                }
            });
            is_element_wise(reader)
                && places.iter().all(|load| in_bounds(&reader.block, &load.indices, &load.buffer))
                && operations(&store.value) * places.len().saturating_sub(1) <= AGAIN
                && (loads < 2 || operations(&store.value).saturating_mul(loads) <= LARGEST)
        })
}

/// The number of blocks that read the result of the element-wise block `name`, if it and they access the result in bounds.
pub(super) fn readers_in_bounds(s: &Schedule, name: &str) -> Option<usize> {
    let blocks = s.state().leaf_blocks();
    let realize = blocks.iter().find(|it| &*it.block.name == name).filter(|it| is_element_wise(it))?;
    let store = realize.block.body.as_buffer_store()?;
    let mut readers = 0;
    let mut inside = in_bounds(&realize.block, &store.indices, &store.buffer);
    for reader in blocks.iter().filter(|it| it.block.reads.iter().any(|read| read.buffer == store.buffer)) {
        readers += 1;
        for_each_load(&reader.block.body, &mut |load| {
            inside &= load.buffer != store.buffer || in_bounds(&reader.block, &load.indices, &load.buffer);
        });
    }
    (inside && readers > 0).then_some(readers)
}

/// The number of operations in an expression, those of indices included.
pub(super) fn operations(expr: &PrimExpr) -> usize {
    let mut count = 0;
    any_expr(expr, &mut |it| {
        count += usize::from(!matches!(it, PrimExpr::Var(_) | PrimExpr::IntImm(_) | PrimExpr::FloatImm(_)));
        false
    });
    count
}

/// True if the block is one store and all of its axes are spatial.
fn is_element_wise(realize: &BlockRealize) -> bool {
    let block = &realize.block;
    let spatial = block.iter_vars.iter().all(|axis| axis.kind == IterKind::Spatial);
    spatial && block.init.is_none() && block.body.as_buffer_store().is_some()
}

/// True if an access with these indices stays in `buffer` wherever the axes of `block` are in their domains.
pub(super) fn in_bounds(block: &Block, indices: &[PrimExpr], buffer: &Buffer) -> bool {
    let mut analyzer = Analyzer::of_indices(&*buffer.shape);
    block.iter_vars.iter().for_each(|axis| analyzer.bind_range(&axis.var, &axis.dom));
    indices.iter().zip(buffer.shape.iter()).all(|(index, extent)| {
        analyzer.can_prove_less_equal(&PrimExpr::index(0), index) && analyzer.can_prove_less(index, extent)
    })
}

/// Moves the element-wise block that reads the result, if there is one, into the block that writes the tiles; true if it did.
pub(super) fn inline_epilogue(s: &mut Schedule, info: &BlockInfo) -> Result<bool, ScheduleError> {
    let Some(store) = &info.store else { return Ok(false) };
    let reader = s
        .state()
        .leaf_blocks()
        .iter()
        .find(|it| {
            it.block.name != info.name && it.block.reads.iter().any(|read| read.buffer == store.buffer)
        })
        .map(|it| it.block.name.clone());
    if let Some(name) = reader {
        let mut fork = s.clone();
        let reader = fork.block(&name)?;
        if fork.reverse_compute_inline(reader).is_ok() {
            *s = fork;
            return Ok(true);
        }
    }
    Ok(false)
}
