//! Rules for CPUs.

mod choice;
mod contraction;
mod reduction;
mod skinny;
mod spatial;
mod words;

pub(super) use contraction::NAME as CONTRACTION;

use super::Rule;
use super::analysis::BlockInfo;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};

/// The rules, in the order in which they are tried.
pub(super) const RULES: &[Rule] =
    &[skinny::RULE, contraction::RULE, reduction::RULE, choice::RULE, words::RULE, spatial::RULE];

/// Elements in each direction of a tile that `VectorizeTransposes` transposes: those of one vector, up to this number.
const MAX_TRANSPOSED: i64 = 16;

/// Iterations of a block from which on several threads may be worth their start. What the iterations cost is estimated
/// later: this only keeps kernels free of parallel loops that are never worth it.
const PARALLEL_ITERATIONS: i64 = 4096;

/// Runs the iterations of `loops`, fused, on the thread pool, unless the block has few iterations.
fn parallel(s: &mut Schedule, info: &BlockInfo, loops: &[LoopRV]) -> Result<(), ScheduleError> {
    if loops.is_empty() || info.iterations().is_some_and(|count| count < PARALLEL_ITERATIONS) {
        return Ok(());
    }
    let fused = s.fuse_n(loops)?;
    s.parallel(fused)
}
