//! Divides an axis of an element-wise block that it reads as number and place of a group, as after a convolution with groups:
//! `y[c] = max(sums[c / 68, c % 68], 0)` becomes `y[g * 68 + i] = max(sums[g, i], 0)`. Then the block can move into the one that
//! computes the sums.

use std::sync::Arc;

use crate::ir::Var;
use crate::tir::schedule::Schedule;
use crate::tir::{BinaryOp, BlockRealize, BufferLoad, IndexMap, IterKind, PrimExpr, for_each_load};

/// Divides the axes of the blocks that read what a reduction computes.
pub(super) fn divide(s: &mut Schedule) {
    let blocks = s.state().leaf_blocks();
    let found: Vec<(Arc<str>, IndexMap)> =
        (blocks.iter()).filter_map(|it| Some((it.block.name.clone(), divided(it, blocks)?))).collect();
    for (name, map) in found {
        let mut fork = s.clone();
        if fork.block(&name).and_then(|block| fork.transform_block_layout(block, map)).is_ok() {
            *s = fork;
        }
    }
}

/// The axes of the block, with that of the groups as two.
fn divided(realize: &BlockRealize, blocks: &[Arc<BlockRealize>]) -> Option<IndexMap> {
    let block = &realize.block;
    block.body.as_buffer_store()?;
    if block.iter_vars.iter().any(|axis| axis.kind != IterKind::Spatial) {
        return None;
    }
    let is_reduced = |load: &BufferLoad| {
        let writes =
            |it: &&Arc<BlockRealize>| it.block.writes.iter().any(|write| write.buffer == load.buffer);
        blocks.iter().filter(writes).any(|it| it.block.is_reduction())
    };
    let mut group = None;
    for_each_load(&block.body, &mut |load| {
        if is_reduced(load) {
            group = group.clone().or_else(|| load.indices.windows(2).find_map(|it| of_group(&it[0], &it[1])));
        }
    });
    let (var, group) = group?;
    let axes: Vec<Var> = block.iter_vars.iter().map(|axis| axis.var.clone()).collect();
    let axis = block.iter_vars.iter().find(|axis| axis.var == var)?;
    if axis.dom.extent.as_int()? % group != 0 {
        return None;
    }
    let at = axes.iter().position(|axis| *axis == var)?;
    with_divided_axis(axes, at, group)
}

/// The map that makes two axes of axis `at`: the number of a group of `size`, and the place in it.
pub(super) fn with_divided_axis(axes: Vec<Var>, at: usize, size: i64) -> Option<IndexMap> {
    let mut output: Vec<PrimExpr> = axes.iter().map(PrimExpr::from).collect();
    let axis = output.get(at)?.clone();
    output.splice(at..=at, [axis.clone().floordiv(size), axis.floormod(size)]);
    IndexMap::new(axes, output).ok()
}

/// The variable and the size of its groups in `v / size` and `v % size`.
fn of_group(number: &PrimExpr, place: &PrimExpr) -> Option<(Var, i64)> {
    let (PrimExpr::Binary(number), PrimExpr::Binary(place)) = (number, place) else { return None };
    let (var, group) = (number.a.as_var()?, number.b.as_int().filter(|&group| group > 1)?);
    let is_group = number.op == BinaryOp::FloorDiv
        && place.op == BinaryOp::FloorMod
        && place.a.as_var() == Some(var)
        && place.b.is_const(group);
    is_group.then(|| (var.clone(), group))
}
