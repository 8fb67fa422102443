//! Reductions of rows that are contiguous in memory, products of a matrix and a vector among them: a block of threads for each
//! row, or for several short ones.
//!
//! The threads read a row side by side, and combine their results by shuffles ([`row_threads`](super::row_threads) says how many
//! there are). A thread for each row instead would read memory with a stride, and most threads would be idle where there are
//! few rows. Where there are few rows, and long ones, each is divided into parts, which are reduced as rows are; a second kernel
//! reduces their results.
//!
//! TVM counterpart: `dlight.gpu.Reduction`, `dlight.gpu.GEMV`.

use super::row_threads::{THREADS, Threads, alone, one_kernel};
use super::{BUSY, GpuRule};
use crate::dlight::analysis::{BlockInfo, Stride, iterations, stride};
use crate::target::GpuLimits;
use crate::tir::IterKind;
use crate::tir::schedule::{Schedule, ScheduleError};

pub(super) const RULE: GpuRule = GpuRule {
    name: "reduction",
    why: "the terms of a result follow each other in memory: threads of a block read them side by side",
    apply,
};

/// Terms from which on threads for one row have something to do: one for each thread of a warp.
const LEAST: i64 = 32;

/// Terms of a part of a row at least: as many as make its threads worth a second kernel.
const PART: i64 = 16 * THREADS;

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    let Some(lead) = rows_of(&info) else { return Ok(None) };
    let mut fork = s.clone();
    if let Some(parts) = parts(&info, lead)
        && let Ok(Some(text)) = in_parts(&mut fork, &info, lead, parts, limits)
    {
        *s = fork;
        return Ok(Some(text));
    }
    one_kernel(s, &[info], lead, limits)
}

/// The number of parts of a row, if rows are too few for a GPU, and long.
fn parts(info: &BlockInfo, lead: usize) -> Option<i64> {
    let (rows, terms) = (iterations(&info.axes[..lead])?.max(1), iterations(&info.axes[lead..])?);
    parts_of(terms, (BUSY / rows).min(terms / PART))
}

/// About `most` parts of so many terms, at least two: fewer, if these are equal.
pub(super) fn parts_of(terms: i64, most: i64) -> Option<i64> {
    let equal = (most / 2 + 1..=most).rev().find(|parts| terms % parts == 0);
    Some(equal.unwrap_or(most)).filter(|parts| *parts > 1)
}

/// Reduces the parts of each row in one kernel, and their results in another one.
fn in_parts(
    s: &mut Schedule,
    info: &BlockInfo,
    lead: usize,
    parts: i64,
    limits: &GpuLimits,
) -> Result<Option<String>, ScheduleError> {
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    let terms = s.fuse_n(&loops[lead..])?;
    let [part, _] = s.split(terms, [Some(parts), None])?;
    let of_parts = s.rfactor(part, 0)?;
    let [rows, terms] = [&info.axes[..lead], &info.axes[lead..]].map(iterations);
    let of_part = Threads::of(terms.map(|terms| terms / parts), rows.map(|rows| rows * parts), limits);
    alone(s, of_parts, lead + 1, of_part)?;
    alone(s, block, lead, Threads::of(Some(parts), rows, limits))?;
    Ok(Some(format!("{parts} parts of each row")))
}

/// The number of axes that number the rows, of a reduction along the last axes, whose operands are contiguous along the last one.
fn rows_of(info: &BlockInfo) -> Option<usize> {
    let reduced = |at: usize| info.axes[at].kind == IterKind::Reduce;
    let spatial = info.axes.iter().take_while(|axis| axis.kind == IterKind::Spatial).count();
    let last = info.axes.last()?;
    let strides = || info.loads.iter().map(|load| stride(&load.indices, &last.var));
    let terms = iterations(&info.axes[spatial..]);
    let fits = !info.stores.is_empty()
        && !info.shifted
        && spatial < info.axes.len()
        && (spatial..info.axes.len()).all(reduced)
        && terms.is_none_or(|terms| terms >= LEAST)
        && strides().all(|it| matches!(it, Stride::Zero | Stride::One))
        && strides().any(|it| it == Stride::One);
    fits.then_some(spatial)
}
