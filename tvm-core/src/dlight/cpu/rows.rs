//! Chains of reductions of rows, and of element-wise blocks over the same rows: softmax, layer norm, log-sum-exp.
//!
//! All blocks run in one loop over rows, so that a row is in a near cache when the next block reads it: memory is read once and
//! written once, and what stays between the blocks is one row for each thread. Element-wise blocks that one block reads, or
//! that cost little, are computed where they are read.

use super::parallel;
use super::reduction::in_lanes;
use super::spatial::flat_axes;
use crate::arith::same;
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, iterations};
use crate::dlight::groups::with_divided_axis;
use crate::dlight::row_chain::{is_cheap, members};
use crate::ir::Var;
use crate::target::Machine;
use crate::tir::schedule::{Schedule, ScheduleError};
use crate::tir::transform::{PREFETCH, REDUCTION_LANES};
use crate::tir::{Buffer, BufferLoad, Scope};

/// Vectors in a piece of a row of symbolic length.
pub(super) const PIECE: i64 = 4;

pub(super) const RULE: Rule = Rule {
    name: "rows",
    why: "reductions and element-wise blocks of a row run while the row is in a near cache",
    apply,
};

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let Some((members, lead)) = members(s, info) else { return Ok(None) };
    // What follows a part of the chain may use all rows of a result: then only this part is one sweep.
    for len in (2..=members.len()).rev() {
        // A reduction that cannot run beside its elements runs after them.
        for beside in [true, false] {
            let mut fork = s.clone();
            match one_sweep(&mut fork, &members[..len], lead, beside, machine) {
                Ok(true) => {
                    *s = fork;
                    let last = &members[len - 1];
                    return Ok(Some(format!("{len} blocks in one sweep, up to `{}`", last.name)));
                }
                Ok(false) => break,
                Err(_) => {}
            }
        }
    }
    Ok(None)
}

/// Schedules the members, whose first `lead` axes number the rows, in one loop over rows; false if that gains nothing.
fn one_sweep(
    s: &mut Schedule,
    members: &[BlockInfo],
    lead: usize,
    beside: bool,
    machine: &Machine,
) -> Result<bool, ScheduleError> {
    let Some((last, others)) = members.split_last() else { return Ok(false) };
    for info in others {
        let mut fork = s.clone();
        if is_cheap(&fork, info, lead) {
            let block = fork.block(&info.name)?;
            if fork.compute_inline(block).is_ok() {
                *s = fork;
            }
        }
    }
    let members: Vec<BlockInfo> = members.iter().filter_map(|it| BlockInfo::of(s, &it.name)).collect();
    // One row of all that the blocks touch: twice its bytes in the second-level cache, so that prefetching the next row drives
    // nothing out. Longer rows gain nothing, and there may be so few that threads have to share them. Rows of symbolic length
    // are taken to be short, as those of attention are.
    let row = |info: &BlockInfo| {
        let bytes = info.store.as_ref()?.buffer.dtype.bytes() as i64;
        info.axes[lead..].iter().try_fold(bytes, |size, axis| size.checked_mul(axis.extent.as_int()?))
    };
    let bytes = members.iter().filter_map(row).fold(0, i64::saturating_add);
    if members.len() < 2 || !members.iter().any(|it| it.reduces) || bytes as u64 > machine.l2_bytes / 2 {
        return Ok(false);
    }
    let beside: Vec<usize> = (1..members.len())
        .filter(|&at| {
            let pair = [&members[at - 1], &members[at]];
            beside
                && is_reduced_beside(pair, lead, machine)
                && in_strips(s, pair[0], machine).unwrap_or(false)
        })
        .collect();
    let anchor = s.block(&last.name)?;
    let Some(&rows) = s.get_loops(anchor)?.get(lead - 1) else { return Ok(false) };
    let together = rows_together(last, lead);
    let target = if together > 1 { s.split(rows, [None, Some(together)])?[0] } else { rows };
    for info in members[..members.len() - 1].iter().rev() {
        let block = s.block(&info.name)?;
        s.compute_at(block, target)?;
    }
    // The last block that reads an operand prefetches the next row of it, while it computes.
    let made: Vec<&Buffer> = members.iter().flat_map(|it| &it.stores).map(|it| &it.buffer).collect();
    let ahead = members.iter().rev().find_map(|it| {
        strips_of_operand(it, lead, &made, machine).map(|strips| (it.name.clone(), together * strips))
    });
    for &at in &beside {
        let strips = ahead.as_ref().filter(|it| it.0 == members[at - 1].name).map(|it| it.1);
        reduce_beside(s, [&members[at - 1], &members[at]], strips, machine)?;
    }
    let done = |at: &usize| beside.contains(at) || beside.contains(&(at + 1));
    for info in (0..members.len()).filter(|at| !done(at)).map(|at| &members[at]) {
        let block = s.block(&info.name)?;
        let loops = s.get_loops(block)?;
        if info.reduces {
            in_lanes(s, info, &loops)?;
            continue;
        }
        let len = flat_axes(info).min(info.axes.len() - lead);
        if len > 0 && info.contiguous_axis() == Some(info.axes.len() - 1) {
            let flat = s.fuse_n(&loops[loops.len() - len..])?;
            if let Some((_, strips)) =
                ahead.as_ref().filter(|it| it.0 == info.name && lead + len == info.axes.len())
            {
                s.annotate(flat, PREFETCH, *strips)?;
            }
            // A loop of symbolic extent becomes vectors in pieces, short ones: rows may be short.
            let lanes = info.store.as_ref().map_or(1, |store| i64::from(machine.lanes(store.buffer.dtype)));
            let piece = PIECE * lanes;
            let constant =
                info.axes[info.axes.len() - len..].iter().all(|axis| axis.extent.as_int().is_some());
            let vector = if constant { flat } else { s.split(flat, [None, Some(piece)])?[1] };
            s.vectorize(vector)?;
        }
    }
    let rows = s.get_loops(anchor)?[..lead].to_vec();
    parallel(s, last, &rows)?;
    Ok(true)
}

/// Rows that are computed at a time: while the lanes of the reduction of one are combined, the other one is on its way.
const TOGETHER: i64 = 2;

/// Rows from which on two are computed at a time: threads share pairs.
const MANY_ROWS: i64 = 32;

/// How many rows are computed at a time.
fn rows_together(info: &BlockInfo, lead: usize) -> i64 {
    match info.axes[lead - 1].extent.as_int() {
        Some(rows) if rows >= MANY_ROWS && rows % TOGETHER == 0 => TOGETHER,
        _ => 1,
    }
}

/// Vectors of elements that are computed and reduced at a time: enough to hide the latency of an addition.
const STRIP: i64 = 4;

/// Elements that are computed and reduced at a time.
fn strip(info: &BlockInfo, machine: &Machine) -> Option<i64> {
    Some(STRIP * i64::from(machine.lanes(info.store.as_ref()?.buffer.dtype)))
}

/// True if the first block computes rows of elements, in whole strips, that the second one reduces.
fn is_reduced_beside([elements, reduction]: [&BlockInfo; 2], lead: usize, machine: &Machine) -> bool {
    let (Some(made), Some(store)) = (&elements.store, &reduction.store) else { return false };
    let row = |info: &BlockInfo| info.axes.last()?.extent.as_int();
    let strips = row(elements).zip(strip(elements, machine));
    let units = |axes: &[Axis]| axes.iter().all(|axis| axis.extent.is_const(1));
    !elements.reduces
        && elements.axes.len() == lead + 1
        && reduction.reduces
        && units(&reduction.axes[lead..reduction.axes.len() - 1])
        && row(reduction) == row(elements)
        && strips.is_some_and(|(row, strip)| row % strip == 0 && row > strip)
        && reduction.loads.iter().any(|load| load.buffer == made.buffer)
        && made.buffer.dtype == store.buffer.dtype
}

/// Divides the rows of the block into strips, each of which is a row of its own; false if that is not possible.
fn in_strips(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<bool, ScheduleError> {
    let (Some(store), Some(strip)) = (&info.store, strip(info, machine)) else { return Ok(false) };
    let mut fork = s.clone();
    let block = fork.block(&info.name)?;
    let from: String = ('A'..='Z').take(store.buffer.shape.len()).collect();
    let last = from.chars().next_back().unwrap_or('A').to_ascii_lowercase();
    fork.transform_layout(block, 0, &from, &format!("{from}{strip}{last}"))?;
    let vars: Vec<Var> = info.axes.iter().map(|axis| axis.var.renew()).collect();
    let Some(row) = vars.len().checked_sub(1) else { return Ok(false) };
    let Some(map) = with_divided_axis(vars, row, strip) else { return Ok(false) };
    fork.transform_block_layout(block, map)?;
    *s = fork;
    Ok(true)
}

/// Reduces rows of elements, which are in strips, while they are computed, so that they are not read again for it. `ahead` is
/// the number of vectors that the elements look ahead.
fn reduce_beside(
    s: &mut Schedule,
    [elements, reduction]: [&BlockInfo; 2],
    ahead: Option<i64>,
    machine: &Machine,
) -> Result<(), ScheduleError> {
    let [block, element] = [s.block(&reduction.name)?, s.block(&elements.name)?];
    let [.., strips, vectors] = s.get_loops(element)?[..] else { return Ok(()) };
    let Some(&terms) = s.get_loops(block)?.last() else { return Ok(()) };
    let [_, lane] = s.split(terms, [None, strip(elements, machine)])?;
    let partial = s.rfactor(lane, -1)?;
    s.set_scope(partial, 0, Scope::Local)?;
    s.reverse_compute_at(partial, strips)?;
    let init = s.decompose_reduction(partial, strips)?;
    s.vectorize(vectors)?;
    // Beside the lanes there are only axes of one element.
    let around = s.get_loops(element)?.len() - 1;
    for (block, around) in [(init, around - 1), (partial, around)] {
        let lanes = s.get_loops(block)?.split_off(around);
        let lanes = s.fuse_n(&lanes)?;
        s.vectorize(lanes)?;
    }
    if let Some(vectors) = ahead {
        s.annotate(strips, PREFETCH, (vectors / STRIP).max(1))?;
    }
    if let Some(&lane) = s.get_loops(block)?.last() {
        s.annotate(lane, REDUCTION_LANES, true)?;
    }
    Ok(())
}

/// The number of vectors in a row of constant length, if the block is element-wise and reads rows that follow each other in
/// memory, of no buffer in `made`.
fn strips_of_operand(info: &BlockInfo, lead: usize, made: &[&Buffer], machine: &Machine) -> Option<i64> {
    let own = info.axes.get(lead..).filter(|_| !info.reduces)?;
    let row = iterations(own)?;
    let of_rows = |load: &BufferLoad| {
        let mut dims = load.buffer.shape.iter().rev().zip(own.iter().rev());
        let mut places = load.indices.iter().zip(&info.axes);
        load.indices.len() == info.axes.len()
            && dims.all(|(dim, axis)| same(dim, &axis.extent))
            && places.all(|(index, axis)| index.as_var() == Some(&axis.var))
            && !made.contains(&&load.buffer)
    };
    let strips = row / i64::from(machine.lanes(info.store.as_ref()?.buffer.dtype));
    (strips > 0 && info.loads.iter().any(|load| of_rows(load))).then_some(strips)
}
