//! Any block with loops whose iterations are independent: a thread for each of their iterations.
//!
//! The loops that drive spatial axes alone become the outer ones; the innermost of them are threads, the others blocks. Loops that several blocks share, as in plain
//! loops with several statements, are fused as far as nothing stands between them. What is left, as the terms of a sum or the
//! steps of a scan, a thread runs one after the other. Where these are updates of elements, the rule says why they are not
//! [atomic](super::atomic).
//!
//! TVM counterpart: `dlight.gpu.Fallback`.

use super::{BUSY, GpuRule, atomic};
use crate::target::GpuLimits;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError, StmtSRef};
use crate::tir::{IterKind, ThreadTag, uses_var};

pub(super) const RULE: GpuRule = GpuRule {
    name: "fallback",
    why: "iterations are independent along some loops: a thread for each of them, all else in order",
    apply,
};

/// Threads of a block at most: eight warps, of which several blocks fit a multiprocessor of every architecture, so that one hides the
/// latency of the others.
const THREADS: i64 = 256;

/// Elements of a thread at most, where there are more than a GPU runs at a time and each needs few operations: as many loads are under
/// way at once, which the latency of memory asks for.
const OWN: i64 = 4;

/// A loop around a block.
pub(super) struct Around {
    /// True if it drives spatial axes alone.
    spatial: bool,
    /// True if it drives an axis whose iterations keep their order.
    pub(super) in_order: bool,
    /// The extent, if it is a constant.
    pub(super) extent: Option<i64>,
}

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let in_order = atomic::why_not(s, name, limits);
    let threads = independent(s, name, limits)?;
    Ok(match (threads, in_order) {
        (Some(text), Some(why)) => Some(format!("{text}, updates in order: {why}")),
        (None, Some(why)) => Some(format!("one thread, updates in order: {why}")),
        (threads, None) => threads,
    })
}

/// Binds loops whose iterations are independent.
fn independent(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
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
        if let Ok(text) = bind(&mut fork, &loops[..depth], around[..depth].iter(), limits, 1) {
            *s = fork;
            return Ok(Some(format!("the {depth} outer loops, {text}")));
        }
    }
    Ok(None)
}

/// The loops around the block, outermost first.
pub(super) fn loops_around(s: &Schedule, name: &str) -> Result<Vec<Around>, ScheduleError> {
    let Some(realize) = s.state().blocks().iter().find(|it| &*it.block.name == name) else {
        return Ok(Vec::new());
    };
    let mut around = Vec::new();
    for var in s.state().loops_above(StmtSRef::Block(realize.block.id)) {
        let node = s.state().get_for(var)?;
        let axes = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
        let driven = || axes.clone().filter(|it| uses_var(it.1, &node.loop_var)).map(|it| it.0.kind);
        let spatial = driven().all(|kind| kind == IterKind::Spatial);
        let in_order = driven().any(|kind| matches!(kind, IterKind::Ordered | IterKind::Opaque));
        around.push(Around { spatial, in_order, extent: node.extent.as_int() });
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
    let most = if inner.is_empty() { OWN } else { 1 };
    let text = bind(s, &outer, around.iter().filter(|it| it.spatial), limits, most)?;
    Ok(format!("{} of {} loops spatial, {text}", outer.len(), loops.len()))
}

/// Runs the iterations of `loops` by the threads of as many blocks as that takes, up to `own` by each of them.
pub(super) fn bind<'a>(
    s: &mut Schedule,
    loops: &[LoopRV],
    around: impl Iterator<Item = &'a Around>,
    limits: &GpuLimits,
    own: i64,
) -> Result<String, ScheduleError> {
    let extents: Vec<Option<i64>> = around.map(|it| it.extent).collect();
    let most = THREADS.min(limits.threads_per_block);
    let mut fork = s.clone();
    if let Ok(text) = by_loops(&mut fork, loops, &extents, [most, own], limits.warp_size) {
        *s = fork;
        return Ok(text);
    }
    let count = extents.iter().try_fold(1i64, |count, it| count.checked_mul((*it)?));
    let threads = count.unwrap_or(most).clamp(1, most);
    let fused = s.fuse_n(loops)?;
    let [block, thread] = s.split(fused, [None, Some(threads)])?;
    s.bind(block, ThreadTag::BlockIdxX)?;
    s.bind(thread, ThreadTag::ThreadIdxX)?;
    Ok(format!("{threads} threads in a block"))
}

/// Gives the innermost loops to the threads of a block, as many as fit and a part of the next one, and the others to blocks.
/// The index of an axis is then a remainder by what is inside of it, and no thread is idle where a part leaves no rest.
fn by_loops(
    s: &mut Schedule,
    loops: &[LoopRV],
    extents: &[Option<i64>],
    [most, most_own]: [i64; 2],
    warp: i64,
) -> Result<String, ScheduleError> {
    let (mut outer, mut inner, mut threads) = (loops.to_vec(), Vec::new(), 1i64);
    while let (Some(last), Some(extent)) = (outer.pop(), extents.get(outer.len())) {
        if let Some(extent) = extent.filter(|extent| threads * extent <= most) {
            threads *= extent.max(1);
            inner.insert(0, last);
            continue;
        }
        let exact = |part: &i64| extent.is_some_and(|extent| extent % part == 0);
        let part = (1..=most / threads).rev().find(exact).unwrap_or(1);
        // Too few threads are worse than some idle ones.
        let part = if threads * part < 2 * warp { most / threads } else { part };
        if part > 1 {
            let [rest, own] = s.split(last, [None, Some(part)])?;
            outer.push(rest);
            inner.insert(0, own);
            threads *= part;
        } else {
            outer.push(last);
        }
        break;
    }
    let blocks = match (&outer[..], &inner[..]) {
        ([], [first, ..]) => s.add_unit_loop(*first)?,
        (outer, _) => s.fuse_n(outer)?,
    };
    let thread = s.fuse_n(&inner)?;
    let count = extents.iter().try_fold(1i64, |count, it| count.checked_mul((*it)?));
    let fits = |own: &i64| {
        count.is_some_and(|count| count % (threads * own) == 0 && count / (threads * own) >= BUSY)
    };
    let own = (1..=most_own).rev().find(fits).unwrap_or(1);
    if own == 1 {
        s.bind(blocks, ThreadTag::BlockIdxX)?;
        s.bind(thread, ThreadTag::ThreadIdxX)?;
        return Ok(format!("{threads} threads in a block"));
    }
    let [blocks, each] = s.split(blocks, [None, Some(own)])?;
    s.reorder([thread, each])?;
    s.bind(blocks, ThreadTag::BlockIdxX)?;
    s.bind(thread, ThreadTag::ThreadIdxX)?;
    s.unroll(each)?;
    Ok(format!("{threads} threads in a block, {own} elements in a thread"))
}
