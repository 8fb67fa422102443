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

/// Threads of a block, for this number of iterations: whole warps of which blocks leave no rest, or else any number that
/// leaves none, so that no thread has to ask whether it has something to do.
fn threads_of(count: i64, limits: &GpuLimits) -> i64 {
    let most = THREADS.min(limits.threads_per_block);
    if count <= most {
        return count.max(1);
    }
    let exact = |threads: &i64| count % threads == 0;
    let warps = (1..=most / limits.warp_size).rev().map(|it| it * limits.warp_size).find(exact);
    let any = || (2 * limits.warp_size..=most).rev().find(exact);
    warps.filter(|&it| it >= 2 * limits.warp_size).or_else(any).unwrap_or(most)
}

/// Runs the iterations of `loops` by the threads of as many blocks as that takes. Loops inside of the last one of any length
/// are a matter of their own if there are enough of their iterations: then nothing is divided by what is not known.
fn bind<'a>(
    s: &mut Schedule,
    loops: &[LoopRV],
    around: impl Iterator<Item = &'a Around>,
    limits: &GpuLimits,
) -> Result<String, ScheduleError> {
    let extents: Vec<Option<i64>> = around.map(|it| it.extent).collect();
    let inner = extents.iter().rposition(Option::is_none).map_or(0, |at| at + 1);
    let product =
        |extents: &[Option<i64>]| extents.iter().try_fold(1i64, |count, it| count.checked_mul((*it)?));
    let threads_of = |count: i64| threads_of(count, limits);
    let apart = product(&extents[inner..]).filter(|&count| {
        let blocks = (count - 1) / threads_of(count) + 1;
        inner > 0 && count >= limits.warp_size && blocks <= limits.grid[1]
    });
    if let Some(count) = apart {
        let threads = threads_of(count);
        let outer = s.fuse_n(&loops[..inner])?;
        let fused = s.fuse_n(&loops[inner..])?;
        let [block, thread] = s.split(fused, [None, Some(threads)])?;
        s.bind(outer, ThreadTag::BlockIdxX)?;
        s.bind(block, ThreadTag::BlockIdxY)?;
        s.bind(thread, ThreadTag::ThreadIdxX)?;
        return Ok(format!("{threads} threads in a block, blocks for {inner} loops of any length"));
    }
    let threads = threads_of(product(&extents).unwrap_or(THREADS));
    let fused = s.fuse_n(loops)?;
    let [block, thread] = s.split(fused, [None, Some(threads)])?;
    s.bind(block, ThreadTag::BlockIdxX)?;
    s.bind(thread, ThreadTag::ThreadIdxX)?;
    Ok(format!("{threads} threads in a block"))
}
