//! Pads the strides of allocated buffers as the writers of the buffers ask for.
//!
//! A block with the annotation [`BUFFER_DIM_ALIGN`] asks for an alignment of buffers that it writes; the schedule primitive
//! `storage_align` sets it. The annotation is a list of integers, four for each alignment: the position of the buffer
//! among those that the block writes, an axis, a factor and an offset. The stride of the axis becomes the smallest number
//! that is congruent to the offset modulo the factor, and not less than the row-major stride.
//!
//! TVM counterpart: the part of `CompactBufferAllocation` that handles `buffer_dim_align`.
//! Requires: no blocks; [`lower_opaque_block`](super::lower_opaque_block) has moved the alignments to the allocations.
//! Ensures: no allocation has an alignment. A buffer whose address is taken, or that has strides, stays compact.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::context::analyzer_for;
use super::util::body_pass;
use crate::arith::Analyzer;
use crate::ir::{Attrs, BufferId};
use crate::pass::Pass;
use crate::tir::analysis::Addresses;
use crate::tir::{AllocBuffer, Block, Buffer, Mutator, PrimExpr, Stmt, Visitor, walk_block};

/// Annotation of a block: alignments of the buffers that it writes.
pub const BUFFER_DIM_ALIGN: &str = "buffer_dim_align";

/// The largest factor of an alignment.
pub(in crate::tir) const LARGEST_FACTOR: i64 = 1 << 16;

/// Pads strides.
pub fn align_storage() -> Pass {
    body_pass("AlignStorage", |func| {
        let mut fixed = Addresses::default();
        fixed.visit_stmt(&func.body);
        let analyzer = analyzer_for(func);
        Align { analyzer, fixed: fixed.0, new: FxHashMap::default() }.mutate_stmt(&func.body)
    })
}

/// The stride of an axis is congruent to an offset modulo a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::tir) struct DimAlign {
    pub(in crate::tir) axis: usize,
    pub(in crate::tir) factor: i64,
    pub(in crate::tir) offset: i64,
}

impl DimAlign {
    /// The alignment of a buffer of `ndim` dimensions; `None` if it is none.
    pub(in crate::tir) fn new(axis: i64, factor: i64, offset: i64, ndim: usize) -> Option<DimAlign> {
        let axis = usize::try_from(axis).ok().filter(|&axis| axis < ndim)?;
        let sound = (1..=LARGEST_FACTOR).contains(&factor) && (0..factor).contains(&offset);
        sound.then_some(DimAlign { axis, factor, offset })
    }

    /// `stride`, or the next number that is aligned.
    fn pad(self, stride: PrimExpr) -> PrimExpr {
        (stride + (self.factor - 1 - self.offset)).floordiv(self.factor) * self.factor + self.offset
    }
}

/// The alignments that `block` asks for.
pub(super) fn alignments(block: &Block) -> Vec<(&Buffer, DimAlign)> {
    let known = block.annotations.ints(BUFFER_DIM_ALIGN).unwrap_or_default();
    let read = |group: &[i64]| {
        let &[at, axis, factor, offset] = group else { return None };
        let buffer = &block.writes.get(usize::try_from(at).ok()?)?.buffer;
        Some((buffer, DimAlign::new(axis, factor, offset, buffer.ndim())?))
    };
    known.chunks_exact(4).filter_map(read).collect()
}

/// The alignments that the blocks in `stmt` ask for, as annotations of the allocations of the buffers.
pub(super) fn alignments_in(stmt: &Stmt) -> FxHashMap<BufferId, Attrs> {
    struct Collect(FxHashMap<BufferId, Vec<i64>>);
    impl Visitor for Collect {
        fn visit_expr(&mut self, _: &PrimExpr) {}
        fn visit_block(&mut self, block: &Block) {
            for (buffer, DimAlign { axis, factor, offset }) in alignments(block) {
                self.0.entry(buffer.id).or_default().extend([axis as i64, factor, offset]);
            }
            walk_block(self, block);
        }
    }
    let mut collect = Collect(FxHashMap::default());
    collect.visit_stmt(stmt);
    let attrs = |(id, dims): (BufferId, Vec<i64>)| (id, Attrs::new().with(BUFFER_DIM_ALIGN, dims));
    collect.0.into_iter().map(attrs).collect()
}

/// The alignments of `buffer` in the annotation `dims` of its allocation.
fn dims_of(dims: &[i64], buffer: &Buffer) -> Vec<DimAlign> {
    let read = |dim: &[i64]| {
        let &[axis, factor, offset] = dim else { return None };
        DimAlign::new(axis, factor, offset, buffer.ndim())
    };
    dims.chunks_exact(3).filter_map(read).collect()
}

/// An upper bound of the number of elements of `buffer`, which has the alignments `dims`.
pub(super) fn most_elements(buffer: &Buffer, dims: &Attrs) -> PrimExpr {
    let dims = dims_of(&dims.ints(BUFFER_DIM_ALIGN).unwrap_or_default(), buffer);
    let extents = buffer.shape.iter().enumerate().rev();
    extents.fold(PrimExpr::index(1), |row_major, (axis, extent)| {
        let padding = dims.iter().filter(|dim| dim.axis == axis).map(|dim| dim.factor).max();
        (row_major + padding.unwrap_or(0)) * extent
    })
}

/// `stmt` without alignments; `None` when it has none.
pub(super) fn without_alignments(stmt: &Stmt) -> Option<Stmt> {
    struct Remove;
    impl Mutator for Remove {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }
        fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
            let inner = self.walk_block(block);
            if block.annotations.get(BUFFER_DIM_ALIGN).is_none() {
                return inner;
            }
            let mut block = inner.unwrap_or_else(|| (**block).clone());
            block.annotations.remove(BUFFER_DIM_ALIGN);
            Some(block)
        }
    }
    Remove.mutate_stmt(stmt)
}

struct Align {
    analyzer: Analyzer,
    /// Buffers whose elements must stay where they are.
    fixed: FxHashSet<BufferId>,
    new: FxHashMap<BufferId, Buffer>,
}

impl Align {
    /// The buffer of `alloc` with padded strides; `None` if its strides are aligned.
    fn padded(&self, alloc: &AllocBuffer) -> Option<Buffer> {
        let buffer = &alloc.buffer;
        let dims = alloc.annotations.ints(BUFFER_DIM_ALIGN)?;
        if self.fixed.contains(&buffer.id) || !buffer.strides.is_empty() || buffer.elem_offset.is_some() {
            return None;
        }
        let dims = dims_of(&dims, buffer);
        let (mut strides, mut row_major, mut changed) = (Vec::new(), PrimExpr::index(1), false);
        for (axis, extent) in buffer.shape.iter().enumerate().rev() {
            // Of several alignments of one axis, the last one counts.
            let stride = match dims.iter().rfind(|dim| dim.axis == axis) {
                Some(dim) => self.analyzer.simplify(&dim.pad(row_major.clone())),
                None => row_major.clone(),
            };
            changed |= !self.analyzer.can_prove_equal(&stride, &row_major);
            row_major = self.analyzer.simplify(&(stride.clone() * extent));
            strides.insert(0, stride);
        }
        changed.then(|| buffer.renew(|node| node.strides = strides.into()))
    }
}

impl Mutator for Align {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::AllocBuffer(alloc) = stmt else { return self.walk_stmt(stmt) };
        alloc.annotations.get(BUFFER_DIM_ALIGN)?;
        let buffer = self.padded(alloc);
        self.new.extend(buffer.iter().map(|buffer| (alloc.buffer.id, buffer.clone())));
        let mut annotations = alloc.annotations.clone();
        annotations.remove(BUFFER_DIM_ALIGN);
        Some(AllocBuffer { buffer: buffer.unwrap_or_else(|| alloc.buffer.clone()), annotations }.into())
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        self.new.get(&buffer.id).cloned()
    }
}
