//! Reductions of rows that are contiguous in memory: a block of threads for each row.
//!
//! The threads read a row side by side, each every 256th element, and keep their own partial result in shared memory, or in
//! memory of the GPU if rows have any length. 32 threads then combine 8 of them each, and in another kernel one thread
//! combines these 32. A thread for each row instead would read memory
//! with a stride, and most threads would be idle where there are few rows.
//!
//! TVM counterpart: `dlight.gpu.Reduction`, whose last steps are shuffles.

use super::GpuRule;
use crate::dlight::analysis::{BlockInfo, Stride, stride};
use crate::target::GpuLimits;
use crate::tir::schedule::{BlockRV, Schedule, ScheduleError};
use crate::tir::{IterKind, Scope, ThreadTag};

pub(super) const RULE: GpuRule = GpuRule {
    name: "reduction",
    why: "the terms of a result follow each other in memory: all threads of a block read them side by side",
    apply,
};

/// Threads of a block.
const THREADS: i64 = 256;
/// Threads that combine the partial results: one warp.
const WARP: i64 = 32;
/// Terms from which on a block for one row has something to do.
const LEAST: i64 = 128;

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    if !fits(&info) || limits.threads_per_block < THREADS {
        return Ok(None);
    }
    let rows = info.axes.iter().filter(|axis| axis.kind == IterKind::Spatial).count();
    let text = format!("{THREADS} threads for a row of {rows} axes");
    let mut fork = s.clone();
    if let Ok(true) = in_shared_memory(&mut fork, name, rows) {
        *s = fork;
        return Ok(Some(text));
    }
    Ok(in_kernels(s, name, rows)?.then(|| format!("{text}, partial results in memory")))
}

/// The steps of a reduction.
struct Steps {
    /// The partial results of the threads of a block, and of a warp.
    partial: [BlockRV; 2],
    /// What combines the results of the warp.
    last: BlockRV,
}

/// Divides the reduction, behind `rows` loops, into steps.
fn steps(s: &mut Schedule, name: &str, rows: usize) -> Result<Option<Steps>, ScheduleError> {
    let last = s.block(name)?;
    let loops = s.get_loops(last)?;
    let (rows, terms) = loops.split_at(rows);
    // A result of one element has no loop of rows.
    match (rows, terms) {
        ([], [term, ..]) => s.add_unit_loop(*term)?,
        _ => s.fuse_n(rows)?,
    };
    let term = s.fuse_n(terms)?;
    let [_, part] = s.split(term, [None, Some(THREADS)])?;
    let of_threads = s.rfactor(part, 0)?;
    let Some(&part) = s.get_loops(last)?.last() else { return Ok(None) };
    let [_, lane] = s.split(part, [None, Some(WARP)])?;
    let of_warp = s.rfactor(lane, 0)?;
    Ok(Some(Steps { partial: [of_threads, of_warp], last }))
}

/// The first two steps in one kernel, with the results of threads in shared memory: where all threads have as many terms.
fn in_shared_memory(s: &mut Schedule, name: &str, rows: usize) -> Result<bool, ScheduleError> {
    let Some(Steps { partial: [of_threads, of_warp], last }) = steps(s, name, rows)? else {
        return Ok(false);
    };
    let loops = s.get_loops(of_warp)?;
    let [row, terms @ .., lane] = &loops[..] else { return Ok(false) };
    s.reorder_n(&[&[*row, *lane], terms].concat())?;
    s.compute_at(of_threads, *row)?;
    s.set_scope(of_threads, 0, Scope::Shared)?;
    s.bind(*row, ThreadTag::BlockIdxX)?;
    let Some(&own) = s.get_loops(of_threads)?.get(1) else { return Ok(false) };
    for threads in [own, *lane] {
        // Of the threads for a warp, the others have nothing to do.
        let [_, thread] = s.split(threads, [None, Some(THREADS)])?;
        s.bind(thread, ThreadTag::ThreadIdxX)?;
    }
    a_thread_each(s, last)
}

/// Each step in a kernel of its own, with the partial results in memory of the GPU: for rows of any length.
fn in_kernels(s: &mut Schedule, name: &str, rows: usize) -> Result<bool, ScheduleError> {
    let Some(Steps { partial, last }) = steps(s, name, rows)? else { return Ok(false) };
    for part in partial {
        let loops = s.get_loops(part)?;
        let [row, terms @ .., own] = &loops[..] else { return Ok(false) };
        s.reorder_n(&[&[*row, *own], terms].concat())?;
        s.bind(*row, ThreadTag::BlockIdxX)?;
        s.bind(*own, ThreadTag::ThreadIdxX)?;
    }
    a_thread_each(s, last)
}

/// Combines what is left of each row in one thread.
fn a_thread_each(s: &mut Schedule, last: BlockRV) -> Result<bool, ScheduleError> {
    let Some(&row) = s.get_loops(last)?.first() else { return Ok(false) };
    let [rows, row] = s.split(row, [None, Some(THREADS)])?;
    s.bind(rows, ThreadTag::BlockIdxX)?;
    s.bind(row, ThreadTag::ThreadIdxX)?;
    Ok(true)
}

/// True for a reduction along the last axes, of operands that are contiguous along the last one.
fn fits(info: &BlockInfo) -> bool {
    let reduced = |at: usize| info.axes[at].kind == IterKind::Reduce;
    let spatial = info.axes.iter().take_while(|axis| axis.kind == IterKind::Spatial).count();
    let Some(last) = info.axes.last() else { return false };
    let strides = || info.loads.iter().map(|load| stride(&load.indices, &last.var));
    let terms =
        info.axes[spatial..].iter().try_fold(1i64, |count, axis| count.checked_mul(axis.extent.as_int()?));
    info.store.is_some()
        && !info.shifted
        && spatial < info.axes.len()
        && (spatial..info.axes.len()).all(reduced)
        && terms.is_none_or(|terms| terms >= LEAST)
        && strides().all(|it| matches!(it, Stride::Zero | Stride::One))
        && strides().any(|it| it == Stride::One)
}
