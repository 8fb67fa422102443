//! Methods of [`Schedule`] that change buffers: copies, memories and layouts.

use super::super::handle::Handle;
use super::super::instruction::InstructionKind;
use super::super::{BlockRV, BufferArg, LoopRV, Result, SRef, Schedule};
use crate::tir::Scope;

impl Schedule {
    /// Makes `block`, and the other readers in its scope, read a copy of `buffer` in `scope`. `buffer` is a name, or a
    /// position among the buffers that the block reads. Returns the copying block.
    ///
    /// # Errors
    /// When the buffer is written among or after its readers.
    pub fn cache_read(
        &mut self,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        scope: Scope,
    ) -> Result<BlockRV> {
        self.one_block(InstructionKind::CacheRead { buffer: buffer.into(), scope }, &[block.handle()])
    }

    /// Makes `block` write `buffer` through a copy in `scope`. `buffer` is a name, or a position among the buffers that
    /// the block writes. Returns the block that copies back.
    ///
    /// # Errors
    /// When other blocks write the buffer too.
    pub fn cache_write(
        &mut self,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        scope: Scope,
    ) -> Result<BlockRV> {
        self.one_block(InstructionKind::CacheWrite { buffer: buffer.into(), scope }, &[block.handle()])
    }

    /// Makes `block` read a copy of `buffer` in `scope` of which each iteration of `target` fills what it needs: a tile.
    /// This is [`cache_read`](Self::cache_read) and [`compute_at`](Self::compute_at), or neither; traces have both.
    /// `buffer` is a name, or a position among the buffers that the block reads. Returns the copying block.
    ///
    /// TVM counterpart: `read_at`.
    ///
    /// # Errors
    /// Those of both primitives: when the buffer is written among or after its readers, or read outside of `target`.
    pub fn read_at(
        &mut self,
        target: LoopRV,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        scope: Scope,
    ) -> Result<BlockRV> {
        self.all_or_nothing(|s| {
            let copy = s.cache_read(block, buffer, scope)?;
            s.compute_at(copy, target).map(|()| copy)
        })
    }

    /// Makes `block` write `buffer` through a copy in `scope` which each iteration of `target` copies back: a tile.
    /// This is [`cache_write`](Self::cache_write) and [`reverse_compute_at`](Self::reverse_compute_at), or neither; traces
    /// have both. `buffer` is a name, or a position among the buffers that the block writes. Returns the block that copies
    /// back.
    ///
    /// TVM counterpart: `write_at`.
    ///
    /// # Errors
    /// Those of both primitives: when other blocks write the buffer too, or an iteration of `target` leaves values unfinished.
    pub fn write_at(
        &mut self,
        target: LoopRV,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        scope: Scope,
    ) -> Result<BlockRV> {
        self.all_or_nothing(|s| {
            let copy = s.cache_write(block, buffer, scope)?;
            s.reverse_compute_at(copy, target).map(|()| copy)
        })
    }

    /// Several primitives as one: if one of them is refused, the schedule stays as it is.
    fn all_or_nothing<T>(&mut self, steps: impl FnOnce(&mut Schedule) -> Result<T>) -> Result<T> {
        let mut fork = self.clone();
        let done = steps(&mut fork)?;
        *self = fork;
        Ok(done)
    }

    /// Computes expressions that occur at least `uses` times in the indices of the loads of `block` before its loops, into
    /// buffers in `scope` that the block then loads; the largest expressions first. Returns the blocks that compute them;
    /// none if no expression occurs so often.
    ///
    /// TVM counterpart: `cache_index`.
    ///
    /// # Errors
    /// When the block holds other blocks.
    pub fn cache_index(&mut self, block: BlockRV, scope: Scope, uses: usize) -> Result<Vec<BlockRV>> {
        let blocks = self.run(InstructionKind::CacheIndex { scope, uses }, &[block.handle()])?;
        Ok(blocks.into_iter().filter_map(Handle::block).collect())
    }

    /// Makes `block` access a copy of `buffer` that has one dimension for each axis of the block that occurs in the indices:
    /// the windows of a convolution become the rows of a matrix. `buffer` is a name, or a position among the buffers that
    /// `block` writes, followed by those that it reads. What the block reads is copied before its loops, and what it writes is
    /// copied back after them. Returns the copying block.
    ///
    /// TVM counterpart: `reindex`.
    ///
    /// # Errors
    /// When the accesses of the block have different indices, or an element of the copy may have no value.
    pub fn reindex(&mut self, block: BlockRV, buffer: impl Into<BufferArg>) -> Result<BlockRV> {
        self.one_block(InstructionKind::Reindex { buffer: buffer.into() }, &[block.handle()])
    }

    /// Gives `buffer`, which blocks of the program write and read, another layout; all accesses change with it. `buffer` is
    /// a name, or a position among the buffers that `block` writes, followed by those that it reads. `from` is a capital
    /// letter for each of its axes, and `to` the new [`Layout`](crate::tir::Layout): `("KN", "NK16n")` turns 64 × 96
    /// elements into 6 × 64 × 16.
    ///
    /// # Errors
    /// When the buffer is a parameter, or blocks do not divide an axis.
    pub fn transform_layout(
        &mut self,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        from: &str,
        to: &str,
    ) -> Result<()> {
        let (buffer, from, to) = (buffer.into(), from.to_string(), to.to_string());
        self.run(InstructionKind::TransformLayout { buffer, from, to }, &[block.handle()]).map(|_| ())
    }

    /// Moves `buffer`, which the program allocates, to the memory `scope`; all accesses follow. `buffer` is a name, or a
    /// position among the buffers that `block` writes, followed by those that it reads.
    ///
    /// TVM counterpart: `set_scope`.
    ///
    /// # Errors
    /// When the buffer is a parameter; when loops would run side by side that may not with a buffer in this memory; when
    /// GPU threads are to share a buffer that may be read before it is written.
    pub fn set_scope(&mut self, block: BlockRV, buffer: impl Into<BufferArg>, scope: Scope) -> Result<()> {
        self.run(InstructionKind::SetScope { buffer: buffer.into(), scope }, &[block.handle()]).map(|_| ())
    }

    /// Asks lowering for a stride of `axis` that is congruent to `offset` modulo `factor`, by padding: rows of a tile that
    /// start in other cache lines or banks, say. `buffer`, which the program allocates, is a name, or a position among the
    /// buffers that `block` writes; a negative axis counts from the end. Accesses stay as they are.
    ///
    /// TVM counterpart: `storage_align`.
    ///
    /// # Errors
    /// When the buffer is a parameter, or has strides or a second name; when there is no such axis; when the factor is not
    /// positive or larger than 65536, or the offset is not below the factor.
    pub fn storage_align(
        &mut self,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        axis: i64,
        factor: i64,
        offset: i64,
    ) -> Result<()> {
        let kind = InstructionKind::StorageAlign { buffer: buffer.into(), axis, factor, offset };
        self.run(kind, &[block.handle()]).map(|_| ())
    }
}
