//! Buffers that match regions of other buffers.

use std::sync::Arc;

use super::{FuncBuilder, Loc};
use crate::script::KernelValue;
use crate::tir::analysis::{extent_between, reads_memory};
use crate::tir::{Buffer, BufferRegion, MatchBufferRegion, PrimExpr, Range};

impl FuncBuilder {
    /// `let name = match_buffer(source[[i, begin..end]]);`: begin and end of each range; a single index has no end, and
    /// stands before the ranges. The dimensions of the buffer are the ranges.
    pub fn match_buffer<const N: usize>(
        &self,
        loc: Loc,
        name: &'static str,
        source: &Buffer,
        region: [(KernelValue, Option<KernelValue>); N],
    ) -> Buffer {
        let points = region.iter().filter(|(_, end)| end.is_none()).count();
        let range = |(begin, end): (KernelValue, Option<KernelValue>)| {
            let min = self.of_axes(begin);
            let extent = end.map_or(PrimExpr::index(1), |end| extent_between(&min, self.of_axes(end)));
            Range { min, extent }
        };
        let region: Arc<[Range]> = region.into_iter().map(range).collect();
        let name_of = &source.name;
        if region.iter().any(|range| reads_memory(&range.min) || reads_memory(&range.extent)) {
            let message = format!("the bounds of the region of `{name_of}` read memory");
            self.error(
                loc,
                message,
                "match a region whose bounds are computed from axes, and index it by what is read",
            );
        }
        let shape: Vec<PrimExpr> = region.iter().skip(points).map(|range| range.extent.clone()).collect();
        let buffer = Buffer::with_scope(name, shape, source.dtype, source.scope);
        let buffer = buffer.renew(|node| node.span = self.span(loc));
        let source = BufferRegion { buffer: source.clone(), region };
        let mut state = self.state.borrow_mut();
        let depth = state.frames.len();
        // The root block is the first.
        let in_block = state.blocks.len() > 1;
        match state.blocks.last_mut().filter(|block| in_block && block.depth == depth) {
            Some(block) => {
                block.match_buffers.push(MatchBufferRegion { buffer: buffer.clone(), source });
            }
            None => {
                drop(state);
                let message = format!("`{name}` matches a region outside of a block");
                self.error(loc, message, "write it at the start of the body of a `block(..)`");
            }
        }
        buffer
    }

    /// The index `value` with the names of other values replaced by these, because a region is matched before the first
    /// statement of its block.
    fn of_axes(&self, value: KernelValue) -> PrimExpr {
        self.without_lets(value.into_index(), |_| true)
    }
}
