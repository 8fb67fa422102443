//! Blocks without reduction: vectors along the contiguous axis of the result, threads along the others.

use std::ops::Range;

use super::{MAX_TRANSPOSED, SHARES_PER_CORE, image, outermost, parallel, parallel_stores, unroll_phases};
use crate::arith::same;
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, iterations, stride};
use crate::dlight::groups::with_divided_axis;
use crate::ir::Var;
use crate::target::Machine;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::transform::PREFETCH_L2;
use crate::tir::{BinaryOp, BufferLoad, IterKind, PrimExpr, any_expr, uses_var};

pub(in crate::dlight) const NAME: &str = "spatial";

pub(super) const RULE: Rule = Rule {
    name: NAME,
    why: "every element is computed alone: vectors along the contiguous axis, threads along the others",
    apply,
};

/// Elements that one thread computes at a time, where the iterations are not divided already.
pub(super) const CHUNK: i64 = 4096;

/// Elements of vectors for which the indices around them take as long as they do.
const SHORT: i64 = 256;

/// Bytes of a page of memory.
const PAGE: i64 = 4096;

/// Elements of a block of tiles along each of the two axes: few pages of memory on both sides.
const BLOCK: i64 = 64;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    if info.axes.iter().any(|axis| axis.kind != IterKind::Spatial) {
        return Ok(None);
    }
    let divided = divided(s, info)?;
    let info = divided.as_ref().unwrap_or(info);
    let whole = without_last_ones(s, info)?;
    let info = whole.as_ref().unwrap_or(info);
    let block = s.block(&info.name)?;
    let mut loops = s.get_loops(block)?;
    let Some(inner) = info.contiguous_axis() else {
        parallel(s, info, &loops)?;
        return Ok(Some("no contiguous axis".into()));
    };
    if let Some(crossing) = crossing_axis(info, inner) {
        return tiled(s, info, &loops, [inner, crossing], machine);
    }
    if inner + 1 < loops.len() {
        let last = loops.remove(inner);
        loops.push(last);
        s.reorder_n(&loops)?;
    }
    let mut len = if inner + 1 == info.axes.len() { flat_axes(info) } else { 1 };
    // Axes of the loops in `loops`.
    let mut axes: Vec<usize> = (0..info.axes.len()).filter(|&i| i != inner).chain([inner]).collect();
    if let Some(rows) = image::rows(info) {
        // Parts are rows of an image, with all blocks of channels.
        len = len.min(info.axes.len() - rows - 1);
        axes[1..=rows].rotate_right(1);
        loops[1..=rows].rotate_right(1);
        s.reorder_n(&loops)?;
    }
    let (outer, flat) = loops.split_at(loops.len() - len);
    let outer = if len == 1 { unroll_phases(s, info, outer)? } else { outer };
    let vector = s.fuse_n(flat)?;
    let vector = match outer {
        [] if info.iterations().is_none_or(|count| count > CHUNK) => {
            let [outer, inner] = s.split(vector, [None, Some(CHUNK)])?;
            parallel_stores(s, info, &[outer], machine)?;
            inner
        }
        outer => {
            // Around short vectors, indices take as long as they do.
            let flat = inner + 1 - len..inner + 1;
            let around = &axes[..axes.len() - len];
            let counts: Vec<Option<i64>> = around.iter().map(|&i| info.axes[i].extent.as_int()).collect();
            let short = extent_of(info, flat).is_some_and(|extent| extent <= SHORT);
            let shared = if short && counts.len() == outer.len() {
                outermost(outer, &counts, 1, machine)
            } else {
                outer
            };
            parallel_stores(s, info, shared, machine)?;
            vector
        }
    };
    // Compilers make vectors of a row of any length; pieces of a fixed length would be longer than many rows.
    let known = |axis: &Axis| axis.extent.as_int().is_some();
    if !outer.is_empty() && !info.axes[info.axes.len() - len..].iter().all(known) {
        return Ok(Some(format!("{len} axes as one loop of any length")));
    }
    s.vectorize(vector)?;
    Ok(Some(format!("{len} axes as one vector loop")))
}

/// The block without axes of extent 1 at its end, and its accesses without the last dimensions of this extent: where elements lie next
/// to each other is the same without them.
fn without_last_ones(s: &mut Schedule, info: &BlockInfo) -> Result<Option<BlockInfo>, ScheduleError> {
    let ones = last_ones(info);
    if ones == 0 || ones == info.axes.len() {
        return Ok(None);
    }
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    s.fuse_n(&loops[info.axes.len() - ones - 1..])?;
    Ok(BlockInfo::of(s, &info.name).map(BlockInfo::without_last_ones))
}

/// The number of axes of extent 1 at the end of the block.
fn last_ones(info: &BlockInfo) -> usize {
    info.axes.iter().rev().take_while(|axis| axis.extent.is_const(1)).count()
}

/// The block with an axis divided in two, if an operand has the axis in blocks that are contiguous, as the channels of an
/// image that becomes one with contiguous rows: the part within a block is then an axis that may be transposed.
fn divided(s: &mut Schedule, info: &BlockInfo) -> Result<Option<BlockInfo>, ScheduleError> {
    let outer = &info.axes[..info.axes.len().saturating_sub(last_ones(info) + 1)];
    let blocks = |axis: &Axis| {
        let extent = axis.extent.as_int()?;
        let width = info.loads.iter().find_map(|load| match load.indices.last()? {
            PrimExpr::Binary(it) if it.op == BinaryOp::FloorMod && it.a.as_var() == Some(&axis.var) => {
                it.b.as_int()
            }
            _ => None,
        })?;
        (width > 1 && extent > width && extent % width == 0).then_some(width)
    };
    let Some((at, width)) = outer.iter().enumerate().find_map(|(at, axis)| Some((at, blocks(axis)?))) else {
        return Ok(None);
    };
    let vars: Vec<Var> = info.axes.iter().map(|axis| axis.var.renew()).collect();
    let Some(map) = with_divided_axis(vars, at, width) else { return Ok(None) };
    let block = s.block(&info.name)?;
    s.transform_block_layout(block, map)?;
    Ok(BlockInfo::of(s, &info.name))
}

/// The axis along which a load is contiguous that is not contiguous along the axis `inner`, as of a transpose.
fn crossing_axis(info: &BlockInfo, inner: usize) -> Option<usize> {
    let along = |load: &BufferLoad, axis: usize| stride(&load.indices, &info.axes[axis].var);
    let load = info.loads.iter().find(|load| along(load, inner) == Stride::Other)?;
    (0..info.axes.len()).find(|&axis| axis != inner && along(load, axis) == Stride::One)
}

/// Tiles of the two axes `inner` and `crossing`, in which whole cache lines of both sides are used. Axes beside them that all
/// accesses have beside them too, as height and width of an image, are part of the same axis.
fn tiled(
    s: &mut Schedule,
    info: &BlockInfo,
    loops: &[LoopRV],
    [inner, crossing]: [usize; 2],
    machine: &Machine,
) -> Result<Option<String>, ScheduleError> {
    let Some(store) = &info.store else { return Ok(None) };
    let tile = i64::from(machine.lanes(store.buffer.dtype)).clamp(4, MAX_TRANSPOSED);
    let joined = [inner, crossing].map(|axis| joined_axes(info, axis));
    // A short axis is one tile. Squares of a power of two are transposed in registers.
    let short = joined.clone().map(|axes| extent_of(info, axes).filter(|&extent| extent < tile));
    let [width, height] = match short.iter().flatten().min() {
        Some(&side @ (4 | 8)) => [side; 2],
        _ => short.map(|extent| extent.unwrap_or(tile).max(1)),
    };
    let [wide, long] = joined.clone().map(|axes| extent_of(info, axes));
    // Tiles of a block along an axis: no more than the axis has.
    let tiles = |depth: i64, side: i64, extent: Option<i64>| {
        (depth / side).min(extent.map_or(i64::MAX, |extent| (extent + side - 1) / side)).max(1)
    };
    let mut order: Vec<LoopRV> =
        (0..loops.len()).filter(|i| !joined.iter().any(|axes| axes.contains(i))).map(|i| loops[i]).collect();
    let [inner, crossing] = joined.clone().map(|axes| &loops[axes]);
    let inner = s.fuse_n(inner)?;
    let crossing = s.fuse_n(crossing)?;
    // What is larger than a cache comes from memory: blocks then take a whole page of each of the rows that they read, and
    // prefetch two tiles ahead, because the next line of so many rows at once is more than a CPU foresees.
    let bytes = store.buffer.dtype.bytes() as i64;
    let page = (PAGE / bytes / tile * tile).max(tile);
    let size = info.iterations().and_then(|count| count.checked_mul(bytes));
    let large = size.is_some_and(|size| size as u64 > machine.l2_bytes);
    let in_pages = large && long.is_some_and(|extent| extent >= page);
    let depth = if in_pages { page } else { BLOCK };
    // Where the rows that are read are short, those that are written are long.
    let breadth = if large && !in_pages { page } else { BLOCK };
    let [columns, column_tiles, column] =
        s.split(inner, [None, Some(tiles(breadth, width, wide)), Some(width)])?;
    let tiles_of_rows = tiles(depth, height, long);
    let [rows, row_tiles, row] = s.split(crossing, [None, Some(tiles_of_rows), Some(height)])?;
    if in_pages {
        s.annotate(row_tiles, PREFETCH_L2, 2)?;
    }
    order.extend([rows, columns, row_tiles, column_tiles, row, column]);
    s.reorder_n(&order)?;
    let outer = &order[..order.len() - 4];
    let blocks = |extent: i64, depth: i64| (extent + depth - 1) / depth;
    let mut others = (0..info.axes.len()).filter(|axis| !joined.iter().any(|axes| axes.contains(axis)));
    let row_blocks = long.map_or(1, |extent| blocks(extent, height * tiles_of_rows));
    let shares =
        others.try_fold(row_blocks, |count, axis| count.checked_mul(info.axes[axis].extent.as_int()?));
    let taken = match wide {
        Some(wide) if wide % width == 0 => outer,
        wide => apart(outer, shares, wide.map(|wide| blocks(wide, breadth)), machine),
    };
    parallel_stores(s, info, taken, machine)?;
    s.vectorize(column)?;
    Ok(Some(format!("tiles of {height}x{width}")))
}

/// Which of the loops around tiles threads take, if the last one, over blocks of columns, may have a remainder: it is not fused
/// with the others, so that lowering can divide it. The others, if their iterations are enough for all cores or as many as those
/// of the columns; else the columns.
fn apart<'a>(
    outer: &'a [LoopRV],
    others: Option<i64>,
    columns: Option<i64>,
    machine: &Machine,
) -> &'a [LoopRV] {
    let enough = SHARES_PER_CORE * i64::from(machine.cores);
    let by_others = others.is_some_and(|it| it >= enough || columns.is_some_and(|columns| it >= columns));
    match outer.split_last() {
        Some((_, others)) if by_others => others,
        Some((columns, _)) => std::slice::from_ref(columns),
        None => outer,
    }
}

/// The number of iterations of some axes together, if it is known.
fn extent_of(info: &BlockInfo, axes: Range<usize>) -> Option<i64> {
    iterations(&info.axes[axes])
}

/// The axes up to `last` that are one axis of every access. Those after the first have known extents: what divides by others is
/// not simplified.
fn joined_axes(info: &BlockInfo, last: usize) -> Range<usize> {
    let all = |first: usize| {
        let axes = &info.axes[first..=last];
        let known = axes[1..].iter().all(|axis| axis.extent.as_int().is_some());
        known
            && accesses(info).all(|(indices, shape)| {
                is_unused(axes, indices) || (0..indices.len()).any(|at| is_one_axis(axes, indices, shape, at))
            })
    };
    let first = (0..last).rev().take_while(|&first| all(first)).last();
    first.unwrap_or(last)..last + 1
}

/// The number of innermost axes that are one contiguous axis of every access that uses one of them. Those around the innermost
/// one are in no condition, which each element of a vector would have to compute.
pub(super) fn flat_axes(info: &BlockInfo) -> usize {
    if info.store.is_none() {
        return 1;
    }
    let all = |len: usize| {
        let axes = &info.axes[info.axes.len() - len..];
        !is_condition_of(info, &axes[0].var)
            && accesses(info).all(|(indices, shape)| {
                let last = indices.len().checked_sub(len);
                is_unused(axes, indices) || last.is_some_and(|at| is_one_axis(axes, indices, shape, at))
            })
    };
    (1..=info.axes.len()).take_while(|&len| len == 1 || all(len)).last().unwrap_or(1)
}

/// True if the value that is stored depends on a comparison of `var`.
fn is_condition_of(info: &BlockInfo, var: &Var) -> bool {
    let compares = |it: &PrimExpr| matches!(it, PrimExpr::Binary(it) if it.op.is_comparison() && (uses_var(&it.a, var) || uses_var(&it.b, var)));
    info.store.as_ref().is_some_and(|store| any_expr(&store.value, &mut |it| compares(it)))
}

/// Indices and shapes of the store and all loads.
fn accesses(info: &BlockInfo) -> impl Iterator<Item = (&[PrimExpr], &[PrimExpr])> {
    let store = info.store.iter().map(|it| (&it.indices[..], &it.buffer.shape[..]));
    store.chain(info.loads.iter().map(|it| (&it.indices[..], &it.buffer.shape[..])))
}

fn is_unused(axes: &[Axis], indices: &[PrimExpr]) -> bool {
    axes.iter().all(|axis| stride(indices, &axis.var) == Stride::Zero)
}

/// True if the indices from number `at` are these axes, which occur in no other, over whole extents.
fn is_one_axis(axes: &[Axis], indices: &[PrimExpr], shape: &[PrimExpr], at: usize) -> bool {
    let Some(own) = indices.get(at..at + axes.len()) else { return false };
    let same_axes = axes.iter().zip(own).all(|(axis, index)| index.as_var() == Some(&axis.var));
    let mut others = indices[..at].iter().chain(&indices[at + axes.len()..]);
    // The extent of the first axis does not matter.
    let whole = axes.iter().zip(&shape[at..]).skip(1);
    same_axes
        && others.all(|index| axes.iter().all(|axis| !uses_var(index, &axis.var)))
        && whole.into_iter().all(|(axis, extent)| same(&axis.extent, extent))
}
