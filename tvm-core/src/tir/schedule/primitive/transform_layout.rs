//! `transform_layout`: a buffer between blocks has its axes in another order, or divided into blocks.
//!
//! All accesses change with it; the loops and blocks stay as they are.
//!
//! TVM counterpart: `transform_layout`, with a [`Layout`] in place of an index map.

use crate::ir::BlockId;
use crate::tir::schedule::rewrite::{self, Relocate};
use crate::tir::schedule::{BufferArg, ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{BufferRegion, Layout, LayoutAxis, Mutator, PrimExpr, Range};

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
    let mut analyzer = rewrite::dims_analyzer(state);
    let axes = state.leaf_blocks().iter().flat_map(|it| it.block.iter_vars.iter());
    axes.for_each(|axis| analyzer.bind_range(&axis.var, &axis.dom));
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
    let place = |indices: &[PrimExpr]| {
        layout.index(from, indices).iter().map(|index| analyzer.simplify(index)).collect()
    };
    let region = |ranges: &[Range]| {
        let part = |axis: &LayoutAxis| {
            let range = &ranges[from.find(axis.letter).unwrap_or(0)];
            let min = analyzer.simplify(&axis.index(&range.min));
            let extent = match axis.factor {
                _ if range.extent.is_const(1) => PrimExpr::index(1),
                Some(factor) => return Range::from_extent(PrimExpr::index(factor)),
                None => axis.index(&(&range.min + &range.extent - 1)) - &min + 1,
            };
            Range { min, extent: analyzer.simplify(&extent) }
        };
        layout.axes().iter().map(part).collect()
    };
    let mut relocate = Relocate { from: &buffer, to: &new, place: &place, region: &region };
    match relocate.mutate_stmt(&state.func().body) {
        Some(body) => state.replace_body(body),
        None => Ok(()),
    }
}
