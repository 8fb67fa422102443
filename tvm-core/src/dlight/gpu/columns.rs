//! Reductions along an axis that is not contiguous, to a contiguous one: sums of columns, pooling over rows, products with a
//! transposed matrix.
//!
//! 32 threads, a warp, read neighbouring columns; 8 such warps of a block divide the terms among them and combine their results
//! in shared memory. Each load of a warp is 32 neighbours in memory, and a block for 32 columns gives eight times as many threads
//! as a thread for each column, which are too few where there are few columns. Where there are many results, a thread for each is
//! enough, and combines nothing: the fallback.
//!
//! TVM counterpart: `dlight.gpu.Reduction` (its outer reductions).

use super::GpuRule;
use crate::dlight::analysis::{BlockInfo, Stride, iterations, stride};
use crate::target::GpuLimits;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::{IterKind, ThreadTag};

pub(super) const RULE: GpuRule = GpuRule {
    name: "columns",
    why: "results are neighbours in memory, their terms are not: warps read neighbouring columns and divide the terms",
    apply,
};

/// Threads that divide the terms.
const SIDE: i64 = 8;

/// Terms from which on dividing them is worth a barrier.
const LEAST: i64 = 64;

/// Results from which on a thread for each of them keeps a GPU busy: 2048 threads on each of 128 multiprocessors.
const MANY: i64 = 2048 * 128;

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    let Some(column) = column_of(&info) else { return Ok(None) };
    let warp = limits.warp_size;
    if limits.threads_per_block < warp * SIDE {
        return Ok(None);
    }
    let block = s.block(name)?;
    let loops = s.get_loops(block)?;
    let of = |kind: IterKind| -> Vec<LoopRV> {
        let all = loops.iter().zip(&info.axes).enumerate();
        all.filter(|(at, (_, axis))| axis.kind == kind && *at != column).map(|(_, (it, _))| *it).collect()
    };
    let (others, terms) = (of(IterKind::Spatial), of(IterKind::Reduce));
    let [columns, lane] = s.split(loops[column], [None, Some(warp)])?;
    s.reorder_n(&[&others[..], &[columns, lane], &terms].concat())?;
    let terms = match &terms[..] {
        [one] => *one,
        several => s.fuse_n(several)?,
    };
    let [rest, part] = s.split(terms, [None, Some(SIDE)])?;
    s.reorder([part, rest])?;
    let grid = s.fuse_n(&[&others[..], &[columns]].concat())?;
    s.bind(grid, ThreadTag::BlockIdxX)?;
    s.bind(lane, ThreadTag::ThreadIdxX)?;
    s.bind(part, ThreadTag::ThreadIdxY)?;
    Ok(Some(format!("{warp} columns in a block, {SIDE} threads for each")))
}

/// The contiguous axis, of a reduction that has more terms than it has results for all threads of a GPU.
fn column_of(info: &BlockInfo) -> Option<usize> {
    let column = info.contiguous_axis().filter(|_| info.reduces && !info.shifted)?;
    let strides = || info.loads.iter().map(|load| stride(&load.indices, &info.axes[column].var));
    let count = |kind: IterKind| iterations(info.axes.iter().filter(move |axis| axis.kind == kind));
    let kinds = info.axes.iter().all(|axis| matches!(axis.kind, IterKind::Spatial | IterKind::Reduce));
    let fits = kinds
        && count(IterKind::Reduce).is_none_or(|terms| terms >= LEAST)
        && count(IterKind::Spatial).is_none_or(|results| results < MANY)
        && strides().all(|it| matches!(it, Stride::Zero | Stride::One))
        && strides().any(|it| it == Stride::One);
    fits.then_some(column)
}
