//! Reductions along an axis that is not contiguous, to a contiguous one: sums of columns, pooling over rows, products with a
//! transposed matrix.
//!
//! 32 threads, a warp, read neighbouring columns; 8 such warps of a block divide the terms among them and combine their results
//! in shared memory. If these are fewer blocks than a GPU runs at a time, the terms are divided into parts, and a second kernel
//! reduces the results of these. Each load of a warp is 32 neighbours in memory, and a block for 32 columns gives eight times as many threads
//! as a thread for each column, which are too few where there are few columns. Where there are many results, a thread for each is
//! enough, and combines nothing: the fallback.
//!
//! TVM counterpart: `dlight.gpu.Reduction` (its outer reductions).

use super::reduction::parts_of;
use super::{BUSY, GpuRule};
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

/// Terms of a part at least: as many as make its threads worth a second kernel.
const PART: i64 = 32 * SIDE;

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    let Some(column) = column_of(&info) else { return Ok(None) };
    let warp = limits.warp_size;
    if limits.threads_per_block < warp * SIDE {
        return Ok(None);
    }
    let mut fork = s.clone();
    if let Some(parts) = parts(&info, column, warp)
        && let Ok(true) = in_parts(&mut fork, &info, column, parts, warp)
    {
        *s = fork;
        return Ok(Some(format!(
            "{warp} columns in a block, {SIDE} threads for each, {parts} parts of each"
        )));
    }
    let block = s.block(name)?;
    let loops = Loops::of(&s.get_loops(block)?, &info, column);
    let terms = s.fuse_n(&loops.terms)?;
    divide(s, &loops.others, loops.column, terms, (warp, false))?;
    Ok(Some(format!("{warp} columns in a block, {SIDE} threads for each")))
}

/// The loops around a block.
struct Loops {
    /// Over results, but for that over columns.
    others: Vec<LoopRV>,
    column: LoopRV,
    terms: Vec<LoopRV>,
}

impl Loops {
    fn of(loops: &[LoopRV], info: &BlockInfo, column: usize) -> Loops {
        let of = |kind: IterKind| -> Vec<LoopRV> {
            let all = loops.iter().zip(&info.axes).enumerate();
            all.filter(|(at, (_, axis))| axis.kind == kind && *at != column).map(|(_, (it, _))| *it).collect()
        };
        Loops { others: of(IterKind::Spatial), column: loops[column], terms: of(IterKind::Reduce) }
    }
}

/// Gives 32 columns to a block, whose threads divide the terms. If there are `few` blocks, each loop numbers them by itself: what a
/// block writes is easy to see then.
fn divide(
    s: &mut Schedule,
    others: &[LoopRV],
    column: LoopRV,
    terms: LoopRV,
    (warp, few): (i64, bool),
) -> Result<(), ScheduleError> {
    let [columns, lane] = s.split(column, [None, Some(warp)])?;
    let [rest, part] = s.split(terms, [None, Some(SIDE)])?;
    s.reorder_n(&[others, &[columns, lane, part, rest]].concat())?;
    let tags = [ThreadTag::BlockIdxY, ThreadTag::BlockIdxZ];
    if few && others.len() <= tags.len() {
        s.bind(columns, ThreadTag::BlockIdxX)?;
        others.iter().zip(tags).try_for_each(|(it, tag)| s.bind(*it, tag))?;
    } else {
        let grid = s.fuse_n(&[others, &[columns]].concat())?;
        s.bind(grid, ThreadTag::BlockIdxX)?;
    }
    s.bind(lane, ThreadTag::ThreadIdxX)?;
    s.bind(part, ThreadTag::ThreadIdxY)
}

/// The number of parts of the terms, if there are too few columns for a GPU.
fn parts(info: &BlockInfo, column: usize, warp: i64) -> Option<i64> {
    let of = |kind: IterKind| {
        let others = info.axes.iter().enumerate().filter(move |(at, _)| *at != column);
        others.map(|it| it.1).filter(move |axis| axis.kind == kind)
    };
    let others = iterations(of(IterKind::Spatial))?;
    let columns = (info.axes[column].extent.as_int()?.max(1) - 1) / warp + 1;
    let terms = iterations(of(IterKind::Reduce))?;
    parts_of(terms, (BUSY / others.saturating_mul(columns).max(1)).min(terms / PART))
}

/// Reduces the parts of each column in one kernel, and their results in another one, with a thread for each column. False if the
/// loops are not those of such a reduction.
fn in_parts(
    s: &mut Schedule,
    info: &BlockInfo,
    column: usize,
    parts: i64,
    warp: i64,
) -> Result<bool, ScheduleError> {
    let block = s.block(&info.name)?;
    let loops = Loops::of(&s.get_loops(block)?, info, column);
    let terms = s.fuse_n(&loops.terms)?;
    let [part, _] = s.split(terms, [Some(parts), None])?;
    let of_parts = s.rfactor(part, 0)?;
    let mut others = s.get_loops(of_parts)?;
    let (Some(terms), Some(part)) = (others.pop(), others.pop()) else { return Ok(false) };
    let column = others.remove(column);
    divide(s, &[&[part], &others[..]].concat(), column, terms, (warp, true))?;
    let all = s.get_loops(block)?;
    let results = s.fuse_n(&all[..all.len() - 1])?;
    let [grid, thread] = s.split(results, [None, Some(warp * SIDE)])?;
    s.bind(grid, ThreadTag::BlockIdxX)?;
    s.bind(thread, ThreadTag::ThreadIdxX)?;
    Ok(true)
}

/// The contiguous axis, of a reduction that has more terms than it has results for all threads of a GPU.
fn column_of(info: &BlockInfo) -> Option<usize> {
    let column = info.contiguous_axis_of(info.stores.first()?).filter(|_| info.reduces && !info.shifted)?;
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
