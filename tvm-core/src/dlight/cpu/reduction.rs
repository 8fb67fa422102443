//! Reductions that are no contractions: threads along the axes that are not reduced, vectors along the innermost reduced
//! one.

use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::{BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::IterKind;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::transform::{PREFETCH_L2, REDUCTION_LANES};

pub(super) const RULE: Rule = Rule { name: "reduction", apply };

/// Bytes of an operand that are on their way from memory: some more than the latency of memory takes to read.
const AHEAD: i64 = 8 << 10;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    if !info.reduces {
        return Ok(None);
    }
    let outer = info.axes.iter().take_while(|axis| axis.kind == IterKind::Spatial).count();
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    let vectors = if in_lanes(s, info, &loops)? { ", the innermost in lanes" } else { "" };
    if let (Some(rows), [_, ..]) = (rows_ahead(info, outer, machine), &loops[..outer]) {
        let fused = s.fuse_n(&loops[..outer])?;
        s.annotate(fused, PREFETCH_L2, rows)?;
        parallel(s, info, &[fused])?;
    } else {
        parallel(s, info, &loops[..outer])?;
    }
    Ok(Some(format!("{} of {} axes reduced{vectors}", info.axes.len() - outer, info.axes.len())))
}

/// How many iterations of the `outer` axes ahead operands are prefetched, if they come from memory: as many as read
/// [`AHEAD`] bytes, at least 1.
fn rows_ahead(info: &BlockInfo, outer: usize, machine: &Machine) -> Option<i64> {
    let bytes = info.loads.iter().map(|load| load.buffer.dtype.bytes() as i64).max()?;
    let row =
        info.axes[outer..].iter().try_fold(bytes, |size, axis| size.checked_mul(axis.extent.as_int()?))?;
    let from_memory = info.iterations()?.checked_mul(bytes)? as u64 > machine.l2_bytes;
    (from_memory && is_contiguous(info) && row as u64 <= machine.l2_bytes / 4)
        .then(|| (AHEAD + row - 1) / row.max(1))
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

/// True if all operands are contiguous along the innermost axis, or do not depend on it.
fn is_contiguous(info: &BlockInfo) -> bool {
    let Some(axis) = info.axes.last() else { return false };
    let strides = || info.loads.iter().map(|load| stride(&load.indices, &axis.var));
    strides().all(|it| matches!(it, Stride::Zero | Stride::One)) && strides().any(|it| it == Stride::One)
}
