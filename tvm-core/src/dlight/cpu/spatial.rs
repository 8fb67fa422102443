//! Blocks without reduction: vectors along the contiguous axis of the result, threads along the others.

use super::{MAX_TRANSPOSED, parallel, parallel_stores, unroll_phases};
use crate::arith::same;
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::transform::PREFETCH_L2;
use crate::tir::{BufferLoad, IterKind, PrimExpr, uses_var};

pub(in crate::dlight) const NAME: &str = "spatial";

pub(super) const RULE: Rule = Rule { name: NAME, apply };

/// Elements that one thread computes at a time, where the iterations are not divided already.
pub(super) const CHUNK: i64 = 4096;

/// Bytes of a page of memory.
const PAGE: i64 = 4096;

/// Elements of a block of tiles along each of the two axes: few pages of memory on both sides.
const BLOCK: i64 = 64;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    if info.axes.iter().any(|axis| axis.kind != IterKind::Spatial) {
        return Ok(None);
    }
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
    let len = if inner + 1 == info.axes.len() { flat_axes(info) } else { 1 };
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
            parallel_stores(s, info, outer, machine)?;
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

/// The axis along which a load is contiguous that is not contiguous along the axis `inner`, as of a transpose.
fn crossing_axis(info: &BlockInfo, inner: usize) -> Option<usize> {
    let along = |load: &BufferLoad, axis: usize| stride(&load.indices, &info.axes[axis].var);
    let load = info.loads.iter().find(|load| along(load, inner) == Stride::Other)?;
    (0..info.axes.len()).find(|&axis| axis != inner && along(load, axis) == Stride::One)
}

/// Tiles of the two axes `inner` and `crossing`, in which whole cache lines of both sides are used.
fn tiled(
    s: &mut Schedule,
    info: &BlockInfo,
    loops: &[LoopRV],
    [inner, crossing]: [usize; 2],
    machine: &Machine,
) -> Result<Option<String>, ScheduleError> {
    let Some(store) = &info.store else { return Ok(None) };
    let tile = i64::from(machine.lanes(store.buffer.dtype)).clamp(4, MAX_TRANSPOSED);
    let [columns, column_tiles, column] = s.split(loops[inner], [None, Some(BLOCK / tile), Some(tile)])?;
    // What is larger than a cache comes from memory: blocks then take a whole page of each of the rows that they read, and
    // prefetch two tiles ahead, because the next line of so many rows at once is more than a CPU foresees.
    let bytes = store.buffer.dtype.bytes() as i64;
    let page = (PAGE / bytes / tile * tile).max(tile);
    let size = info.iterations().and_then(|count| count.checked_mul(bytes));
    let large = size.is_some_and(|size| size as u64 > machine.l2_bytes);
    let long = info.axes[crossing].extent.as_int().is_some_and(|extent| extent >= page);
    let depth = if large && long { page } else { BLOCK };
    let [rows, row_tiles, row] = s.split(loops[crossing], [None, Some(depth / tile), Some(tile)])?;
    if large && long {
        s.annotate(row_tiles, PREFETCH_L2, 2)?;
    }
    let mut order: Vec<LoopRV> =
        (0..loops.len()).filter(|i| *i != inner && *i != crossing).map(|i| loops[i]).collect();
    order.extend([rows, columns, row_tiles, column_tiles, row, column]);
    s.reorder_n(&order)?;
    parallel_stores(s, info, &order[..loops.len() - 1], machine)?;
    s.vectorize(column)?;
    Ok(Some(format!("tiles of {tile}x{tile}")))
}

/// The number of innermost axes that are one contiguous axis of every access that uses one of them.
pub(super) fn flat_axes(info: &BlockInfo) -> usize {
    let Some(store) = &info.store else { return 1 };
    let is_flat = |axes: &[Axis], indices: &[PrimExpr], shape: &[PrimExpr]| {
        let unused = axes.iter().all(|axis| stride(indices, &axis.var) == Stride::Zero);
        unused
            || indices.len() >= axes.len() && {
                let at = indices.len() - axes.len();
                let same_axes =
                    axes.iter().zip(&indices[at..]).all(|(axis, index)| index.as_var() == Some(&axis.var));
                let outside =
                    indices[..at].iter().all(|index| axes.iter().all(|axis| !uses_var(index, &axis.var)));
                // The extent of the first axis does not matter.
                let whole = axes.iter().zip(&shape[at..]).skip(1);
                same_axes && outside && whole.into_iter().all(|(axis, extent)| same(&axis.extent, extent))
            }
    };
    let all = |len: usize| {
        let axes = &info.axes[info.axes.len() - len..];
        is_flat(axes, &store.indices, &store.buffer.shape)
            && info.loads.iter().all(|load| is_flat(axes, &load.indices, &load.buffer.shape))
    };
    (1..=info.axes.len()).take_while(|&len| len == 1 || all(len)).last().unwrap_or(1)
}
