//! Any block with loops whose iterations are independent: a thread for each of their iterations.
//!
//! The loops that drive spatial axes alone become the outer ones and are fused. Loops that several blocks share, as in plain
//! loops with several statements, are fused as far as nothing stands between them. What is left, as the terms of a sum or the
//! steps of a scan, a thread runs one after the other.
//!
//! TVM counterpart: `dlight.gpu.Fallback`.

use super::GpuRule;
use crate::target::GpuLimits;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError, StmtSRef};
use crate::tir::{IterKind, ThreadTag, uses_var};

pub(super) const RULE: GpuRule = GpuRule {
    name: "fallback",
    why: "iterations are independent along some loops: a thread for each of them, all else in order",
    apply,
};

/// Threads of a block: eight warps, of which several blocks fit a multiprocessor of every architecture, so that one hides the
/// latency of the others.
const THREADS: i64 = 256;

/// A loop around a block.
struct Around {
    /// True if it drives spatial axes alone.
    spatial: bool,
    /// The extent, if it is a constant.
    extent: Option<i64>,
}

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let around = loops_around(s, name)?;
    if around.iter().any(|it| it.spatial) {
        let mut fork = s.clone();
        if let Ok(text) = spatial_outside(&mut fork, name, &around, limits) {
            *s = fork;
            return Ok(Some(text));
        }
    }
    for depth in (1..=around.len()).rev() {
        let mut fork = s.clone();
        let block = fork.block(name)?;
        let loops = fork.get_loops(block)?;
        if let Ok(text) = bind(&mut fork, &loops[..depth], around[..depth].iter(), limits) {
            *s = fork;
            return Ok(Some(format!("the {depth} outer loops, {text}")));
        }
    }
    Ok(None)
}

/// The loops around the block, outermost first.
fn loops_around(s: &Schedule, name: &str) -> Result<Vec<Around>, ScheduleError> {
    let Some(realize) = s.state().blocks().iter().find(|it| &*it.block.name == name) else {
        return Ok(Vec::new());
    };
    let mut around = Vec::new();
    for var in s.state().loops_above(StmtSRef::Block(realize.block.id)) {
        let node = s.state().get_for(var)?;
        let mut driven = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
        let spatial =
            driven.all(|(axis, value)| axis.kind == IterKind::Spatial || !uses_var(value, &node.loop_var));
        around.push(Around { spatial, extent: node.extent.as_int() });
    }
    Ok(around)
}

/// Moves the spatial loops outside and binds them.
fn spatial_outside(
    s: &mut Schedule,
    name: &str,
    around: &[Around],
    limits: &GpuLimits,
) -> Result<String, ScheduleError> {
    let block = s.block(name)?;
    let loops = s.get_loops(block)?;
    let of =
        |spatial: bool| loops.iter().zip(around).filter(move |it| it.1.spatial == spatial).map(|it| *it.0);
    let (outer, inner): (Vec<LoopRV>, Vec<LoopRV>) = (of(true).collect(), of(false).collect());
    if !inner.is_empty() {
        s.reorder_n(&[&outer[..], &inner].concat())?;
    }
    let text = bind(s, &outer, around.iter().filter(|it| it.spatial), limits)?;
    Ok(format!("{} of {} loops spatial, {text}", outer.len(), loops.len()))
}

/// Runs the iterations of `loops` by the threads of as many blocks as that takes.
fn bind<'a>(
    s: &mut Schedule,
    loops: &[LoopRV],
    mut around: impl Iterator<Item = &'a Around>,
    limits: &GpuLimits,
) -> Result<String, ScheduleError> {
    let count = around.try_fold(1i64, |count, it| count.checked_mul(it.extent?));
    let threads = count.unwrap_or(THREADS).clamp(1, THREADS.min(limits.threads_per_block));
    let fused = s.fuse_n(loops)?;
    let [block, thread] = s.split(fused, [None, Some(threads)])?;
    s.bind(block, ThreadTag::BlockIdxX)?;
    s.bind(thread, ThreadTag::ThreadIdxX)?;
    Ok(format!("{threads} threads in a block"))
}
