//! `transform_layout`: a buffer between blocks has its axes in another order, or divided into blocks.
//!
//! All accesses change with it; the loops and blocks stay as they are.
//!
//! TVM counterpart: `transform_layout`, with a [`Layout`] in place of an index map.

use std::sync::Arc;

use crate::arith::Analyzer;
use crate::ir::BlockId;
use crate::tir::schedule::rewrite;
use crate::tir::schedule::{BufferArg, ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{
    Block, Buffer, BufferLoad, BufferRegion, BufferStore, Layout, LayoutAxis, Mutator, PrimExpr, Range, Stmt,
};

const NAME: &str = "transform_layout";

/// Gives the buffer `which`, one of those that block `id` writes or reads, the layout `to`; its axes now are `from`.
pub(in crate::tir::schedule) fn transform_layout(
    state: &mut ScheduleState,
    id: BlockId,
    which: &BufferArg,
    from: &str,
    to: &str,
) -> Result<(), ScheduleError> {
    let block = &state.get_block(id)?.block;
    let regions: Vec<BufferRegion> = block.writes.iter().chain(block.reads.iter()).cloned().collect();
    let buffer = which.find(NAME, (&block.name, "accesses"), &regions)?.buffer.clone();
    let parse = |text: &str| text.parse::<Layout>().map_err(|why| ScheduleError::argument(NAME, why));
    let (plain, layout) = (parse(from)?, parse(to)?);
    if plain.axes().iter().any(|axis| axis.factor.is_some()) || !layout.is_of(from) {
        let why =
            format!("`{from}` names each axis of the buffer once, and `{to}` has the same capital letters");
        return Err(ScheduleError::argument(NAME, why));
    }
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &[StmtSRef::Block(id)]));
    let (name, rank) = (&buffer.name, buffer.shape.len());
    if plain.ndim() != rank {
        return refuse(format!("`{name}` has {rank} axes, and `{from}` has {}", plain.ndim()));
    }
    if !rewrite::is_intermediate(state, &buffer) {
        return refuse(format!("`{name}` is a parameter: callers rely on its layout"));
    }
    rewrite::check_plain_layout(NAME, state, id, &buffer)?;
    let analyzer = rewrite::dims_analyzer(state);
    for (letter, extent) in from.chars().zip(buffer.shape.iter()) {
        let block = layout.block(letter);
        let rest = extent.clone().floormod(block).equal(0);
        if block > 1 && !analyzer.can_prove(&rest) {
            return refuse(format!("blocks of {block} do not divide the extent {extent} of axis {letter}"));
        }
    }
    let Some(shape) = layout.shape(from, &buffer.shape) else {
        return refuse(format!("`{to}` does not divide the shape of `{name}`"));
    };
    let new = buffer.renew(|node| node.shape = shape.into());
    let mut transform = TransformLayout { from: buffer, to: new, letters: from, layout, analyzer };
    match transform.mutate_stmt(&state.func().body) {
        Some(body) => state.replace_body(body),
        None => Ok(()),
    }
}

struct TransformLayout<'a> {
    from: Buffer,
    to: Buffer,
    letters: &'a str,
    layout: Layout,
    analyzer: Analyzer,
}

impl TransformLayout<'_> {
    fn indices(&self, indices: &[PrimExpr]) -> Arc<[PrimExpr]> {
        let indices = self.layout.index(self.letters, indices);
        indices.iter().map(|index| self.analyzer.simplify(index)).collect()
    }

    fn region(&self, region: &BufferRegion) -> BufferRegion {
        let part = |axis: &LayoutAxis| {
            let range = &region.region[self.letters.find(axis.letter).unwrap_or(0)];
            let min = self.analyzer.simplify(&axis.index(&range.min));
            let extent = match axis.factor {
                _ if range.extent.is_const(1) => PrimExpr::index(1),
                Some(factor) => return Range::from_extent(PrimExpr::index(factor)),
                None => axis.index(&(&range.min + &range.extent - 1)) - &min + 1,
            };
            Range { min, extent: self.analyzer.simplify(&extent) }
        };
        BufferRegion { buffer: self.to.clone(), region: self.layout.axes().iter().map(part).collect() }
    }

    fn regions(&self, regions: &[BufferRegion]) -> Arc<[BufferRegion]> {
        let of = |it: &BufferRegion| if it.buffer == self.from { self.region(it) } else { it.clone() };
        regions.iter().map(of).collect()
    }
}

impl Mutator for TransformLayout<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let walked = self.walk_expr(expr);
        let PrimExpr::BufferLoad(load) = walked.as_ref().unwrap_or(expr) else { return walked };
        if load.buffer != self.from {
            return walked;
        }
        let indices = self.indices(&load.indices);
        let (buffer, span) = (self.to.clone(), load.span.clone());
        Some(PrimExpr::BufferLoad(BufferLoad { buffer, indices, span }.into()))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let Stmt::BufferStore(store) = walked.as_ref().unwrap_or(stmt) else { return walked };
        if store.buffer != self.from {
            return walked;
        }
        let indices = self.indices(&store.indices);
        Some(BufferStore { buffer: self.to.clone(), indices, ..(**store).clone() }.into())
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let inner = self.walk_block(block);
        let block = inner.unwrap_or_else(|| (**block).clone());
        let renamed = |it: &Buffer| if *it == self.from { self.to.clone() } else { it.clone() };
        Some(Block {
            reads: self.regions(&block.reads),
            writes: self.regions(&block.writes),
            alloc_buffers: block.alloc_buffers.iter().map(renamed).collect(),
            ..block
        })
    }
}
