//! Blocks over the same rows in one kernel: threads of a block divide the elements of a row among them.
//!
//! Neighbours read neighbours in memory. What one block of a row gives to the next one is in shared memory: one value of a
//! reduction, or a row of elements: a short one in memory that several blocks of a multiprocessor have beside each other, a long one,
//! of which most of this memory is asked for at the launch, in `shared.dyn`, and which is copied there without a wait for any part of
//! it on architectures that can ([`ASYNC_COPY`]). Rows that are longer still, or of any length, are read from the caches each time after the first one. Threads that reduce combine their results by shuffles
//! ([`lower_cross_thread_reduction`](crate::tir::transform::lower_cross_thread_reduction)).

use std::sync::Arc;

use super::results::names;
use super::{BUSY, WIDEST, online};
use crate::dlight::analysis::{Axis, BlockInfo, iterations};
use crate::dlight::inline::{AGAIN, operations};
use crate::dlight::row_chain::is_cheap;
use crate::target::GpuLimits;
use crate::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use crate::tir::transform::{ASYNC_COPY, PRAGMA_UNROLL};
use crate::tir::{Buffer, PrimExpr, Scope, ThreadTag, any_expr};

/// Threads of a block at most: eight warps, of which several blocks fit a multiprocessor of every architecture.
pub(super) const THREADS: i64 = 256;

/// Threads of a block at most, where there are fewer blocks than a GPU runs at a time.
const MOST_THREADS: i64 = 1024;

/// Elements that a thread has of a row at least, where rows are short: enough to hide the latency of a load.
const OWN: i64 = 4;

/// The same if there are rows for all multiprocessors all the same: the fewer threads share a row, the less they wait for each
/// other.
const OWN_OF_MANY: i64 = 16;

/// Bytes of rows that a block has in shared memory at most: a quarter of what the smallest multiprocessor has, so that four blocks
/// of 256 threads fill it.
const STAGED: i64 = 16 << 10;

/// Bytes that reductions of long rows have beside the row: the results of all threads of a block, of two reductions of `f64`.
const PARTIAL: i64 = 2 * 8 * MOST_THREADS + (1 << 10);

/// Threads that a multiprocessor runs at least, where the memory of its blocks allows few of them.
const THREADS_OF_ALL: i64 = 1024;

/// Elements of a thread that are under way at a time.
const UNDER_WAY: i64 = 8;

/// How the threads of a block are divided.
#[derive(Clone, Copy)]
pub(super) struct Threads {
    /// Threads for a row.
    row: i64,
    /// Rows of a block.
    side: i64,
    /// Elements of a row, if that is known.
    length: Option<i64>,
}

impl Threads {
    /// Threads for so many rows of this length; `None` if that is not known.
    pub(super) fn of(length: Option<i64>, rows: Option<i64>, limits: &GpuLimits) -> Threads {
        let warp = limits.warp_size;
        let busy = BUSY * THREADS;
        let many = |length: i64| rows.is_some_and(|rows| rows.saturating_mul(length) / OWN_OF_MANY >= busy);
        // Few rows have all the threads that a block can have.
        let most = if rows.is_some_and(|rows| rows < BUSY / 2) { MOST_THREADS } else { THREADS };
        let most = most.min(limits.threads_per_block);
        let fitting = |length: i64| {
            let own = if many(length) { OWN_OF_MANY } else { OWN };
            let mut row = warp;
            while row < most && row * own < length {
                row *= 2;
            }
            row
        };
        let usual = THREADS.min(limits.threads_per_block);
        let row = length.map_or(usual, fitting);
        // Several short rows, if there are enough for several blocks.
        let mut side = (usual / row).max(1);
        while side > 1 && rows.is_some_and(|rows| rows < 2 * side) {
            side /= 2;
        }
        Threads { row, side, length }
    }
}

/// Schedules `members`, whose first `lead` axes number the rows, in one kernel; returns the parameters, or `None` if they do not
/// fit.
pub(super) fn one_kernel(
    s: &mut Schedule,
    members: &[BlockInfo],
    lead: usize,
    limits: &GpuLimits,
) -> Result<Option<String>, ScheduleError> {
    let Some((_, others)) = members.split_last() else { return Ok(None) };
    let (mut bytes, mut kept) = (0i64, false);
    for info in others.iter().filter(|it| !it.reduces) {
        let size = row_bytes(info, lead);
        let fits = size.is_some_and(|size| bytes.saturating_add(size) <= STAGED);
        let staged = if one_value(info, lead) { !is_short(info) } else { fits && !is_cheap(s, info, lead) };
        if staged {
            bytes += size.unwrap_or(0);
            kept |= !one_value(info, lead);
            continue;
        }
        let block = s.block(&info.name)?;
        if s.compute_inline(block).is_err() {
            let Some(size) = size.filter(|_| fits) else { return Ok(None) };
            bytes += size;
            kept = true;
        }
    }
    let all: Vec<Arc<str>> = members.iter().map(|it| it.name.clone()).collect();
    let infos = |s: &Schedule| all.iter().filter_map(|it| BlockInfo::of(s, it)).collect::<Vec<_>>();
    let members = infos(s);
    let mergeable = |it: &&[BlockInfo]| online::merged(s, &it[0].name, &it[1].name).is_some();
    let pair = members.windows(2).find(mergeable).map(|it| [0, 1].map(|at| it[at].name.clone()));
    let bytes_of_row = longest(&members, lead).map(|length| length.saturating_mul(element_bytes(&members)));
    let Some(last) = members.last() else { return Ok(None) };
    if !members.iter().any(|it| it.reduces) {
        return Ok(None);
    }
    let length = longest(&members, lead);
    let rows = iterations(&last.axes[..lead]);
    let Threads { mut row, mut side, length } = Threads::of(length, rows, limits);
    // Several blocks divide rows without a rest: all of them have the same ones.
    let innermost = last.axes[..lead].last().and_then(|axis| axis.extent.as_int());
    while side > 1 && members.len() > 1 && innermost.is_none_or(|rows| rows % side != 0) {
        side /= 2;
    }
    if last.stores.len() > 1 {
        keep_near(s, last)?;
    }
    let anchor = s.block(&last.name)?;
    let last_name = last.name.clone();
    let loops = s.get_loops(anchor)?;
    let Some(&target) = loops.get(lead.saturating_sub(1)) else { return Ok(None) };
    let mut blocks = vec![(last.name.clone(), last.axes.len() - lead, None)];
    if lead == 0 {
        let rows = s.add_unit_loop(target)?;
        let all = Part { block: anchor, own: last.axes.len() - lead, ahead: None };
        bind(s, &[rows], &[all], Threads { row, side: 1, length })?;
        return Ok(Some(format!("{row} threads for all elements")));
    }
    // Where a row that is computed of them is kept, its operands are read once more at most.
    let copies = match kept {
        true => Copies::default(),
        false => Copies::of(s, &members, lead, length, bytes, limits)?,
    };
    bytes += copies.short;
    let long = copies.long;
    // As many blocks fit a multiprocessor as their rows.
    let at_once = ((limits.shared_bytes - PARTIAL) / (bytes + long).max(1)).max(1);
    if long > 0 {
        side = 1;
        while row * at_once < THREADS_OF_ALL && 2 * row <= limits.threads_per_block {
            row *= 2;
        }
    }
    let near = kept || !copies.blocks.is_empty();
    // One sweep computes more exponentials than two; this costs less than to read a long row from the caches once more.
    let pair = pair.filter(|_| !near && bytes_of_row.is_some_and(|bytes| bytes > STAGED));
    // What no memory of a block holds is read again from the caches, of which each row has more if fewer rows are under way.
    if pair.is_some() {
        (row, side) = (MOST_THREADS.min(limits.threads_per_block), 1);
    }
    for info in members[..members.len() - 1].iter().rev() {
        let block = s.block(&info.name)?;
        s.compute_at(block, target)?;
        for at in 0..info.stores.len() {
            s.set_scope(block, at, Scope::Shared)?;
        }
        blocks.push((info.name.clone(), info.axes.len() - lead, None));
    }
    for (copy, ..) in &copies.blocks {
        let copy = s.block(copy)?;
        s.compute_at(copy, target)?;
    }
    blocks.extend(copies.blocks);
    if let Some([largest, sum]) = &pair
        && let Some(func) = online::merged(s, largest, sum)
    {
        *s = Schedule::new(func)?;
        blocks.retain(|it| it.0 != *largest);
    }
    let anchor = s.block(&last_name)?;
    let loops = s.get_loops(anchor)?;
    let blocks =
        blocks.iter().map(|(name, own, ahead)| Ok(Part { block: s.block(name)?, own: *own, ahead: *ahead }));
    let blocks = blocks.collect::<Result<Vec<_>, ScheduleError>>()?;
    while side > 1 && bytes * side > STAGED {
        side /= 2;
    }
    bind(s, &loops[..lead], &blocks, Threads { row, side, length })?;
    let of_row = bytes + long;
    let shared =
        if of_row > 0 { format!(", {of_row} bytes of each in shared memory") } else { String::new() };
    Ok(Some(format!("{row} threads for a row of {lead} axes, {side} rows in a block{shared}")))
}

/// Schedules a reduction in a kernel of its own, whose first `lead` loops are over rows.
pub(super) fn alone(
    s: &mut Schedule,
    block: BlockRV,
    lead: usize,
    threads: Threads,
) -> Result<(), ScheduleError> {
    let loops = s.get_loops(block)?;
    let part = Part { block, own: loops.len() - lead, ahead: None };
    match (&loops[..lead], &loops[..]) {
        ([], [first, ..]) => {
            let rows = s.add_unit_loop(*first)?;
            bind(s, &[rows], &[part], threads)
        }
        (rows, _) => bind(s, rows, &[part], threads),
    }
}

/// A block of a kernel.
struct Part {
    block: BlockRV,
    /// Its innermost loops, which are not over rows.
    own: usize,
    /// For a copy that no thread waits for before it is used: how many neighbours are copied at once.
    ahead: Option<i64>,
}

/// Binds the loops over rows, and those inside of them.
fn bind(s: &mut Schedule, rows: &[LoopRV], blocks: &[Part], threads: Threads) -> Result<(), ScheduleError> {
    let Some((&innermost, others)) = rows.split_last() else { return Ok(()) };
    let (grid, own) = match threads.side {
        1 => (s.fuse_n(rows)?, None),
        side => {
            let [grid, own] = s.split(innermost, [None, Some(side)])?;
            (s.fuse_n(&[others, &[grid]].concat())?, Some(own))
        }
    };
    let outer = 1 + usize::from(own.is_some());
    s.bind(grid, ThreadTag::BlockIdxX)?;
    if let Some(own) = own {
        s.bind(own, ThreadTag::ThreadIdxY)?;
    }
    for &Part { block, own, ahead } in blocks {
        let loops = s.get_loops(block)?;
        // Between those over rows and these there are loops of one iteration.
        let elements = match &loops[(loops.len() - own).max(outer)..] {
            [] => s.add_unit_loop(block)?,
            [one] => *one,
            several => s.fuse_n(several)?,
        };
        let (rest, element) = match ahead {
            Some(lanes) if lanes > 1 => {
                let [rest, element, lane] = s.split(elements, [None, Some(threads.row), Some(lanes)])?;
                s.vectorize(lane)?;
                (rest, element)
            }
            _ => {
                let [rest, element] = s.split(elements, [None, Some(threads.row)])?;
                (rest, element)
            }
        };
        if ahead.is_some() {
            s.annotate(rest, ASYNC_COPY, true)?;
        }
        // Short loops are unrolled anyway.
        if threads.length.is_none_or(|length| length > 2 * UNDER_WAY * threads.row) {
            s.annotate(rest, PRAGMA_UNROLL, UNDER_WAY)?;
        }
        s.reorder([element, rest])?;
        s.bind(element, ThreadTag::ThreadIdxX)?;
    }
    Ok(())
}

/// Copies in shared memory of rows that several blocks read.
#[derive(Default)]
struct Copies {
    /// The blocks that copy, with the number of their loops that are not over rows, and how many neighbours are copied at once
    /// where no thread waits for it.
    blocks: Vec<(Arc<str>, usize, Option<i64>)>,
    /// Bytes of a row in memory that several blocks of a multiprocessor have beside each other.
    short: i64,
    /// Bytes of a row in memory that is asked for at the launch.
    long: i64,
}

impl Copies {
    /// Copies what fits beside `bytes` of each row.
    fn of(
        s: &mut Schedule,
        members: &[BlockInfo],
        lead: usize,
        length: Option<i64>,
        bytes: i64,
        limits: &GpuLimits,
    ) -> Result<Copies, ScheduleError> {
        let mut copies = Copies::default();
        let most = most_elements(members, lead);
        for operand in shared_operands(members, lead) {
            let element = operand.dtype.bytes() as i64;
            let Some(size) = most.and_then(|length| length.checked_mul(element)) else { continue };
            let beside = bytes + copies.short;
            let is_short = beside.saturating_add(size) <= STAGED;
            let fits = match is_short {
                // Other short rows are in the cache of the multiprocessor when they are read again.
                true => length.is_some() && same_axes(members, &operand),
                false => (beside + copies.long).saturating_add(size) <= limits.shared_bytes - PARTIAL,
            };
            let Some(reader) = members.iter().find(|it| fits && reads(it, &operand)) else { continue };
            let reader = s.block(&reader.name)?;
            let mut fork = s.clone();
            let scope = if is_short { Scope::Shared } else { Scope::SharedDyn };
            let Ok(copy) = cache_read(&mut fork, reader, &operand, scope) else { continue };
            *s = fork;
            let asynchronous = !is_short && limits.async_copies && [4, 8].contains(&element);
            let ahead = asynchronous.then(|| neighbours(&operand, lead));
            copies.blocks.push((copy, operand.shape.len() - lead, ahead));
            *(if is_short { &mut copies.short } else { &mut copies.long }) += size;
        }
        Ok(copies)
    }
}

/// How many neighbours in rows of `buffer`, whose first `lead` axes number them, are copied at once: 16 bytes, if each row begins at a
/// multiple of them.
fn neighbours(buffer: &Buffer, lead: usize) -> i64 {
    let lanes = WIDEST / buffer.dtype.bytes() as i64;
    let row = buffer.shape[lead..].iter().try_fold(1i64, |count, it| count.checked_mul(it.as_int()?));
    if row.is_some_and(|row| row % lanes == 0) { lanes } else { 1 }
}

/// Copies `operand` for `reader` to the memory `scope`; returns the name of the block that copies.
fn cache_read(
    s: &mut Schedule,
    reader: BlockRV,
    operand: &Buffer,
    scope: Scope,
) -> Result<Arc<str>, ScheduleError> {
    let before = names(s);
    s.cache_read(reader, &*operand.name, scope)?;
    let new = names(s).into_iter().find(|it| !before.contains(it));
    Ok(new.unwrap_or_else(|| operand.name.clone()))
}

/// Keeps what the block computes and no other one reads in shared memory: the value beside a position, if only that is wanted.
fn keep_near(s: &mut Schedule, info: &BlockInfo) -> Result<(), ScheduleError> {
    let block = s.block(&info.name)?;
    for (at, store) in info.stores.iter().enumerate() {
        let leaves = s.state().leaf_blocks();
        let mut others = leaves.iter().filter(|it| it.block.name != info.name);
        if others.any(|it| it.block.reads.iter().any(|read| read.buffer == store.buffer)) {
            continue;
        }
        let mut fork = s.clone();
        if fork.set_scope(block, at, Scope::Shared).is_ok() {
            *s = fork;
        }
    }
    Ok(())
}

/// The bytes of an element of what the blocks reduce.
fn element_bytes(members: &[BlockInfo]) -> i64 {
    let stored = members.iter().filter(|it| it.reduces).flat_map(|it| &it.stores);
    stored.map(|it| it.buffer.dtype.bytes() as i64).max().unwrap_or(0)
}

/// True if the block computes one value of each row.
fn one_value(info: &BlockInfo, lead: usize) -> bool {
    info.axes[lead..].iter().all(|axis| axis.extent.is_const(1))
}

/// True if all threads of a row compute the value in less time than they wait for one of them to do so.
fn is_short(info: &BlockInfo) -> bool {
    let calls = |value: &PrimExpr| any_expr(value, &mut |it| matches!(it, PrimExpr::Call(_)));
    info.store.as_ref().is_some_and(|it| !calls(&it.value) && operations(&it.value) <= AGAIN)
}

/// The bytes of a row of what the block stores, if the length is a constant.
fn row_bytes(info: &BlockInfo, lead: usize) -> Option<i64> {
    let bytes = info.store.as_ref()?.buffer.dtype.bytes() as i64;
    iterations(&info.axes[lead..])?.checked_mul(bytes)
}

/// The largest number of iterations of a block for a row, if that is a constant.
fn longest(members: &[BlockInfo], lead: usize) -> Option<i64> {
    members
        .iter()
        .map(|info| iterations(&info.axes[lead..]))
        .try_fold(1, |longest, it| Some(longest.max(it?)))
}

/// The same, where dimensions have bounds: more elements than any row has.
fn most_elements(members: &[BlockInfo], lead: usize) -> Option<i64> {
    let most = |extent: &PrimExpr| extent.as_int().or_else(|| extent.as_var()?.bound()?.max());
    let of = |info: &BlockInfo| {
        info.axes[lead..].iter().try_fold(1i64, |count, axis| count.checked_mul(most(&axis.extent)?))
    };
    members.iter().map(of).try_fold(1, |longest, it| Some(longest.max(it?)))
}

fn reads(info: &BlockInfo, buffer: &Buffer) -> bool {
    info.loads.iter().any(|load| load.buffer == *buffer)
}

/// The buffers of which several blocks read the elements of a row, each its own row, and which none of them makes.
fn shared_operands(members: &[BlockInfo], lead: usize) -> Vec<Buffer> {
    let mut found: Vec<Buffer> = Vec::new();
    for load in members.iter().flat_map(|info| &info.loads) {
        let buffer = &load.buffer;
        let made = members.iter().any(|it| it.stores.iter().any(|store| store.buffer == *buffer));
        let readers: Vec<&BlockInfo> = members.iter().filter(|it| reads(it, buffer)).collect();
        let rows = readers.iter().all(|info| {
            info.loads.iter().filter(|it| it.buffer == *buffer).all(|it| is_of_row(info, &it.indices, lead))
        });
        if !made && rows && readers.len() > 1 && !found.contains(buffer) {
            found.push(buffer.clone());
        }
    }
    found
}

/// True if all blocks that read `buffer` have as many axes as it has.
fn same_axes(members: &[BlockInfo], buffer: &Buffer) -> bool {
    members.iter().filter(|it| reads(it, buffer)).all(|it| it.axes.len() == buffer.shape.len())
}

/// True if `indices` are the axes of the block in their order; those of one value may be missing after the first `lead` ones.
fn is_of_row(info: &BlockInfo, indices: &[PrimExpr], lead: usize) -> bool {
    if info.axes.len() <= lead || indices.len() <= lead {
        return false;
    }
    let is = |index: &PrimExpr, axis: &Axis| index.as_var() == Some(&axis.var);
    let (rows, own) = info.axes.split_at(lead);
    let mut left = indices[lead..].iter();
    let in_order = own
        .iter()
        .filter(|axis| !axis.extent.is_const(1))
        .all(|axis| left.by_ref().find(|index| !index.is_const(0)).is_some_and(|index| is(index, axis)));
    in_order
        && left.all(|index| index.is_const(0))
        && indices.iter().zip(rows).all(|(index, axis)| is(index, axis))
}
