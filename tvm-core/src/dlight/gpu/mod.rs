//! Rules for GPUs: which loops of a program are run by blocks and threads.
//!
//! Requires: a program without a schedule. Ensures: each block of the root is in a kernel of its own, as far as a rule finds
//! loops whose iterations are independent; lowering runs the others by one thread
//! ([`make_kernels`](crate::tir::transform::make_kernels)). What one kernel computes and another one reads is in memory of
//! the GPU. TVM counterpart: `dlight.gpu`.

mod atomic;
mod columns;
mod conv;
mod fallback;
mod matmul;
mod online;
mod parts;
mod reduction;
mod results;
mod row_threads;
mod rows;
#[cfg(test)]
mod tests;
mod transpose;

use std::sync::Arc;

use super::{Applied, inline, is_scheduled, normal};
use crate::target::GpuLimits;
use crate::tir::schedule::{Schedule, ScheduleError, StmtSRef};
use crate::tir::transform::with_own_dims;
use crate::tir::{ForKind, PrimFunc};

/// Multiprocessors of a large GPU: kernels have at least as many blocks if they can.
const MULTIPROCESSORS: i64 = 132;

/// Blocks of 256 threads that keep a GPU busy: as many as its multiprocessors run at a time. With fewer, too few loads are under way
/// to use all of the bandwidth of its memory.
const BUSY: i64 = 8 * MULTIPROCESSORS;

/// Bytes that a thread copies at once at most.
const WIDEST: i64 = 16;

/// A default schedule for blocks of one form, on a GPU.
struct GpuRule {
    /// Name, as `explain` shows it.
    name: &'static str,
    /// What fits it, and what it gains.
    why: &'static str,
    /// Schedules the block of this name; an error or `None` means that the rule does not fit. Returns the parameters that it
    /// chose.
    apply: fn(&mut Schedule, &str, &GpuLimits) -> Result<Option<String>, ScheduleError>,
}

/// The rules that take their blocks before the others see a block: what their kernels compute as they read it, as padding, needs no
/// kernel of its own.
const FIRST: &[GpuRule] = &[conv::RULE];

/// The other rules, in the order in which they are tried.
const RULES: &[GpuRule] = &[
    matmul::RULE,
    rows::RULE,
    reduction::RULE,
    columns::RULE,
    transpose::RULE,
    atomic::RULE,
    fallback::RULE,
];

/// The program that [`default_schedule`](super::default_schedule) makes of `func` for a GPU with these limits, and what it did
/// with each block; `None` if it leaves `func` as it is.
pub fn schedule_for_gpu(func: &PrimFunc, limits: &GpuLimits) -> Option<(PrimFunc, Vec<Applied>)> {
    if is_scheduled(func) {
        return None;
    }
    let normal = normal::normalized(func);
    let func = normal.as_ref().unwrap_or(func);
    let own_dims = with_own_dims(func);
    let mut s = Schedule::new(own_dims.as_ref().unwrap_or(func).clone()).ok()?;
    inline::inline(&mut s, &[]);
    let mut applied = Vec::new();
    for rules in [FIRST, RULES] {
        for name in outer_blocks(&s) {
            if is_bound(&s, &name) {
                continue;
            }
            for rule in rules {
                let mut fork = s.clone();
                if let Ok(Some(parameters)) = (rule.apply)(&mut fork, &name, limits) {
                    s = fork;
                    applied.push(Applied { block: name, rule: rule.name, why: rule.why, parameters });
                    break;
                }
            }
        }
    }
    Some((s.into_func(), applied))
}

/// The names of the blocks directly inside of the root, in program order.
fn outer_blocks(s: &Schedule) -> Vec<Arc<str>> {
    let root = s.state().root();
    let blocks = s.state().blocks().iter();
    let outer = blocks.filter(|it| s.state().scope_block(StmtSRef::Block(it.block.id)) == Some(root));
    outer.filter(|it| it.block.id != root).map(|it| it.block.name.clone()).collect()
}

/// True if the block is in a kernel already.
fn is_bound(s: &Schedule, name: &str) -> bool {
    let Some(realize) = s.state().blocks().iter().find(|it| &*it.block.name == name) else { return true };
    let loops = s.state().loops_above(StmtSRef::Block(realize.block.id));
    loops
        .iter()
        .any(|var| s.state().get_for(*var).is_ok_and(|node| matches!(node.kind, ForKind::ThreadBinding(_))))
}
