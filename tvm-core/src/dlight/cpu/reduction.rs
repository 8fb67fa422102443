//! Reductions that are no contractions: threads along the axes that are not reduced, vectors along the innermost reduced
//! one.

use super::parallel;
use crate::arith::same;
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::transform::{PREFETCH_L2, REDUCTION_LANES};
use crate::tir::{BufferLoad, IterKind, uses_var};

pub(super) const RULE: Rule = Rule {
    name: "reduction",
    why: "each element of the result is a sum of its own: threads for the elements, vectors along the terms",
    apply,
};

/// Bytes of an operand that are on their way from memory: some more than the latency of memory takes to read, and a page, so
/// that each page is first touched in time.
const AHEAD: i64 = 4 << 10;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    if !info.reduces {
        return Ok(None);
    }
    let outer = info.axes.iter().take_while(|axis| axis.kind == IterKind::Spatial).count();
    let block = s.block(&info.name)?;
    let mut loops = s.get_loops(block)?;
    if is_one_row(info, outer) {
        let fused = s.fuse_n(&loops[outer..])?;
        loops.splice(outer.., [fused]);
    }
    let lanes = in_lanes(s, info, &loops)?;
    match (from_memory(info, outer, machine), &loops[..outer], &loops[..]) {
        (Some(row), _, [.., inner]) if lanes && row.of_axis >= AHEAD => {
            s.annotate(*inner, PREFETCH_L2, AHEAD / row.of_element)?;
            parallel(s, info, &loops[..outer])?;
        }
        (Some(row), [_, ..], _) => {
            let fused = s.fuse_n(&loops[..outer])?;
            s.annotate(fused, PREFETCH_L2, (AHEAD + row.of_all - 1) / row.of_all.max(1))?;
            parallel(s, info, &[fused])?;
        }
        _ => parallel(s, info, &loops[..outer])?,
    }
    let vectors = if lanes { ", the innermost in lanes" } else { "" };
    Ok(Some(format!("{} of {} axes reduced{vectors}", info.axes.len() - outer, info.axes.len())))
}

/// Bytes of the widest operand.
struct RowBytes {
    of_element: i64,
    /// Along the innermost axis.
    of_axis: i64,
    /// Along all axes that are reduced.
    of_all: i64,
}

/// The bytes that one result is made of, if they come from memory, are contiguous and leave room in the second-level cache.
fn from_memory(info: &BlockInfo, outer: usize, machine: &Machine) -> Option<RowBytes> {
    let bytes = info.loads.iter().map(|load| load.buffer.dtype.bytes() as i64).max()?;
    let along =
        |axes: &[Axis]| axes.iter().try_fold(bytes, |size, axis| size.checked_mul(axis.extent.as_int()?));
    let row = RowBytes {
        of_element: bytes,
        of_axis: along(&info.axes[info.axes.len().checked_sub(1)?..])?,
        of_all: along(&info.axes[outer..])?,
    };
    let large = info.iterations()?.checked_mul(bytes)? as u64 > machine.l2_bytes;
    (large && is_contiguous(info) && row.of_all as u64 <= machine.l2_bytes / 4).then_some(row)
}

/// Adds the terms along the innermost of `loops` in lanes, if they are contiguous; true if they are.
pub(super) fn in_lanes(s: &mut Schedule, info: &BlockInfo, loops: &[LoopRV]) -> Result<bool, ScheduleError> {
    match (info.axes.last(), loops.last()) {
        (Some(axis), Some(&inner)) if axis.kind == IterKind::Reduce && is_contiguous(info) => {
            s.annotate(inner, REDUCTION_LANES, true)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// True if the reduced axes are several, and together the last ones of all operands, so that their elements are one contiguous row.
fn is_one_row(info: &BlockInfo, outer: usize) -> bool {
    let reduced = &info.axes[outer..];
    let is_row = |load: &BufferLoad| {
        let Some(first) = load.indices.len().checked_sub(reduced.len()) else { return false };
        let last = load.indices[first..].iter().zip(&load.buffer.shape[first..]).zip(reduced);
        load.buffer.strides.is_empty()
            && load.indices[..first]
                .iter()
                .all(|index| reduced.iter().all(|axis| !uses_var(index, &axis.var)))
            && last.into_iter().all(|((index, extent), axis)| {
                index.as_var() == Some(&axis.var)
                    && axis.extent.as_int().is_some()
                    && same(extent, &axis.extent)
            })
    };
    reduced.len() > 1
        && reduced.iter().all(|axis| axis.kind == IterKind::Reduce)
        && info.loads.iter().all(|load| is_row(load))
}

/// True if all operands are contiguous along the innermost axis, or do not depend on it.
fn is_contiguous(info: &BlockInfo) -> bool {
    let Some(axis) = info.axes.last() else { return false };
    let strides = || info.loads.iter().map(|load| stride(&load.indices, &axis.var));
    strides().all(|it| matches!(it, Stride::Zero | Stride::One)) && strides().any(|it| it == Stride::One)
}
