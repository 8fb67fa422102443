//! Rules for CPUs.

mod attention;
mod choice;
mod contraction;
mod flat;
mod image;
mod ordered;
mod reduction;
mod rows;
mod skinny;
mod spatial;
mod window;
mod winograd;
mod words;

pub(super) use attention::PADDED as PADDED_OF_ATTENTION;
pub(super) use contraction::NAME as CONTRACTION;
pub(super) use ordered::NAME as ORDERED;
pub(super) use skinny::{MAX_ROWS, NAME as SKINNY, SINGLE_ROWS};
pub(super) use spatial::NAME as SPATIAL;
pub(super) use window::NAME as WINDOW;

use std::sync::Arc;

use super::Rule;
use super::analysis::{BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::BufferLoad;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::transform::STREAMED;

/// The rules, in the order in which they are tried.
pub(super) const RULES: &[Rule] = &[
    attention::RULE,
    winograd::RULE,
    skinny::RULE,
    window::RULE,
    flat::RULE,
    contraction::RULE,
    rows::RULE,
    reduction::RULE,
    ordered::RULE,
    choice::RULE,
    words::RULE,
    spatial::RULE,
];

/// The rules that take blocks with axes that begin elsewhere than their loops.
pub(super) const SHIFTED: &[&str] = &[ordered::NAME, spatial::NAME];

/// Elements in each direction of a tile that `VectorizeTransposes` transposes: those of one vector, up to this number.
const MAX_TRANSPOSED: i64 = 16;

/// The largest stride of which the phases are unrolled.
const MAX_PHASES: i64 = 4;

/// Iterations of a block from which on several threads may be worth their start, if each stores an element. What they cost is
/// estimated later: this only keeps kernels free of parallel loops that are never worth it.
const PARALLEL_ITERATIONS: i64 = 4096;

/// Shares of the work for each core: more than one, since they do not take equally long.
const SHARES_PER_CORE: i64 = 4;

/// Runs the iterations of `loops`, fused, on the thread pool, unless the block has few iterations.
fn parallel(s: &mut Schedule, info: &BlockInfo, loops: &[LoopRV]) -> Result<(), ScheduleError> {
    let few = |count: i64| count.saturating_mul(info.weight) < PARALLEL_ITERATIONS;
    if loops.is_empty() || info.iterations().is_some_and(few) {
        return Ok(());
    }
    let fused = s.fuse_n(loops)?;
    s.parallel(fused)
}

/// The outermost of `loops`, whose iterations threads share: without up to `inner` last ones, if the others have enough iterations for
/// all cores, or an unknown number. Indices that need divisions by extents are then computed once for all iterations of the last
/// loops. `counts` are the iterations of each loop, where they are known.
fn outermost<'a>(
    loops: &'a [LoopRV],
    counts: &[Option<i64>],
    inner: usize,
    machine: &Machine,
) -> &'a [LoopRV] {
    let enough = SHARES_PER_CORE * i64::from(machine.cores);
    let is_enough = |len: &usize| {
        let count = counts[..*len].iter().try_fold(1i64, |count, it| count.checked_mul((*it)?));
        *len > 0 && count.is_none_or(|count| count >= enough)
    };
    let least = loops.len().saturating_sub(inner);
    let len = (least..loops.len()).find(is_enough).unwrap_or(loops.len());
    &loops[..len]
}

/// Runs the iterations of `loops`, fused, on the thread pool, as [`parallel`] does, and stores past the caches what takes
/// twice the last one or more: when all of it is written, its first half has left the caches, so that a reader misses it in
/// any case. Storing into a cache first reads each line from memory.
fn parallel_stores(
    s: &mut Schedule,
    info: &BlockInfo,
    loops: &[LoopRV],
    machine: &Machine,
) -> Result<(), ScheduleError> {
    let bytes = info.store.as_ref().map_or(0, |store| store.buffer.dtype.bytes() as i64);
    let size = info.iterations().and_then(|count| count.checked_mul(bytes));
    match (size, loops) {
        (Some(size), [_, ..]) if size as u64 / 2 >= machine.l2_bytes.max(machine.l3_bytes) => {
            let fused = s.fuse_n(loops)?;
            s.annotate(fused, STREAMED, true)?;
            parallel(s, info, &[fused])
        }
        _ => parallel(s, info, loops),
    }
}

/// Unrolls the last of `loops`, which are around the innermost one, if it runs the phases of a strided access: each phase is
/// then a loop without remainders. Returns the loops around it.
fn unroll_phases<'a>(
    s: &mut Schedule,
    info: &BlockInfo,
    loops: &'a [LoopRV],
) -> Result<&'a [LoopRV], ScheduleError> {
    let (Some((&last, others)), [.., phase, inner]) = (loops.split_last(), &info.axes[..]) else {
        return Ok(loops);
    };
    let along = |load: &Arc<BufferLoad>| stride(&load.indices, &inner.var);
    if matches!(phase.extent.as_int(), Some(2..=MAX_PHASES))
        && info.loads.iter().any(|load| along(load) == Stride::Few)
    {
        s.unroll(last)?;
        return Ok(others);
    }
    Ok(loops)
}
