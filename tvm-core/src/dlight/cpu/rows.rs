//! Chains of reductions of rows, and of element-wise blocks over the same rows: softmax, layer norm, log-sum-exp.
//!
//! All blocks run in one loop over rows, so that a row is in a near cache when the next block reads it: memory is read once and
//! written once, and what stays between the blocks is one row for each thread. Element-wise blocks that one block reads, or
//! that cost little, are computed where they are read.

use super::parallel;
use super::reduction::in_lanes;
use super::spatial::{CHUNK, flat_axes};
use crate::arith::same;
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, stride};
use crate::dlight::inline::{AGAIN, operations, readers_in_bounds};
use crate::target::Machine;
use crate::tir::schedule::{Schedule, ScheduleError};
use crate::tir::transform::PREFETCH;
use crate::tir::{Buffer, BufferLoad, IterKind, PrimExpr, any_expr};

pub(super) const RULE: Rule = Rule { name: "rows", apply };

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let Some((members, lead)) = members(s, info) else { return Ok(None) };
    // What follows a part of the chain may use all rows of a result: then only this part is one sweep.
    for len in (2..=members.len()).rev() {
        let mut fork = s.clone();
        if let Ok(true) = one_sweep(&mut fork, &members[..len], lead, machine) {
            *s = fork;
            let last = &members[len - 1];
            return Ok(Some(format!("{len} blocks in one sweep, up to `{}`", last.name)));
        }
    }
    Ok(None)
}

/// The blocks from `first` on that reduce rows or are element-wise over the same rows, and the number of their axes that number
/// the rows.
fn members(s: &Schedule, first: &BlockInfo) -> Option<(Vec<BlockInfo>, usize)> {
    let leaves = s.state().leaf_blocks();
    let from = leaves.iter().position(|it| it.block.name == first.name)?;
    let blocks: Vec<BlockInfo> =
        leaves[from..].iter().map_while(|it| BlockInfo::of(s, &it.block.name)).collect();
    let reduction = blocks.iter().find(|it| it.reduces)?;
    let spatial = reduction.axes.iter().take_while(|axis| axis.kind == IterKind::Spatial);
    let lead = spatial.enumerate().filter(|(_, axis)| !axis.extent.is_const(1)).last()?.0 + 1;
    let rows = reduction.axes[..lead].to_vec();
    let mut made: Vec<(Buffer, Vec<usize>)> = Vec::new();
    let mut members = Vec::new();
    for info in blocks {
        let Some(place) = place(&info, &rows, &made) else { break };
        made.extend(info.store.as_ref().map(|store| (store.buffer.clone(), place)));
        members.push(info);
    }
    Some((members, lead))
}

/// The dimensions of the result in which the rows are numbered, if the block computes one row from one row of each buffer in
/// `made`, in order.
fn place(info: &BlockInfo, rows: &[Axis], made: &[(Buffer, Vec<usize>)]) -> Option<Vec<usize>> {
    let store = info.store.as_ref()?;
    let (lead, own) = info.axes.split_at_checked(rows.len())?;
    let same_rows = lead
        .iter()
        .zip(rows)
        .all(|(axis, row)| axis.kind == IterKind::Spatial && same(&axis.extent, &row.extent));
    let is = |index: &PrimExpr, axis: &Axis| index.as_var() == Some(&axis.var);
    let place: Option<Vec<usize>> =
        lead.iter().map(|axis| store.indices.iter().position(|index| is(index, axis))).collect();
    let place = place?;
    let same_row = info.loads.iter().all(|load| {
        made.iter()
            .filter(|(buffer, _)| *buffer == load.buffer)
            .all(|(_, at)| at.iter().zip(lead).all(|(&at, axis)| is(&load.indices[at], axis)))
    });
    // Along the innermost axis nothing is far apart.
    let near = info.axes.last().is_some_and(|axis| {
        info.loads.iter().all(|load| matches!(stride(&load.indices, &axis.var), Stride::Zero | Stride::One))
    });
    let whole = !info.reduces || own.iter().all(|it| it.kind == IterKind::Reduce || it.extent.is_const(1));
    (same_rows && same_row && near && whole).then_some(place)
}

/// Schedules the members, whose first `lead` axes number the rows, in one loop over rows; false if that gains nothing.
fn one_sweep(
    s: &mut Schedule,
    members: &[BlockInfo],
    lead: usize,
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
    let anchor = s.block(&last.name)?;
    let Some(&target) = s.get_loops(anchor)?.get(lead - 1) else { return Ok(false) };
    for info in members[..members.len() - 1].iter().rev() {
        let block = s.block(&info.name)?;
        s.compute_at(block, target)?;
    }
    // The last block that reads an operand prefetches the next row of it, while it computes.
    let made: Vec<&Buffer> = members.iter().filter_map(|it| Some(&it.store.as_ref()?.buffer)).collect();
    let ahead = members
        .iter()
        .rev()
        .find_map(|it| strips_of_operand(it, lead, &made, machine).map(|strips| (it.name.clone(), strips)));
    for info in &members {
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
            // A loop of symbolic extent becomes vectors in pieces; the last piece is as long as need be.
            let constant =
                info.axes[info.axes.len() - len..].iter().all(|axis| axis.extent.as_int().is_some());
            let vector = if constant { flat } else { s.split(flat, [None, Some(CHUNK)])?[1] };
            s.vectorize(vector)?;
        }
    }
    let rows = s.get_loops(anchor)?[..lead].to_vec();
    parallel(s, last, &rows)?;
    Ok(true)
}

/// The number of vectors in a row of constant length, if the block is element-wise and reads rows that follow each other in
/// memory, of no buffer in `made`.
fn strips_of_operand(info: &BlockInfo, lead: usize, made: &[&Buffer], machine: &Machine) -> Option<i64> {
    let own = info.axes.get(lead..).filter(|_| !info.reduces)?;
    let row = own.iter().try_fold(1i64, |size, axis| size.checked_mul(axis.extent.as_int()?))?;
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

/// True if the block is element-wise along rows, and is computed where it is read: by one block, or by several if that is a
/// few operations and no function. One value for a row stays, because all elements of the row use it.
fn is_cheap(s: &Schedule, info: &BlockInfo, lead: usize) -> bool {
    let Some(store) = info.store.as_ref().filter(|_| !info.reduces) else { return false };
    let calls = any_expr(&store.value, &mut |it| matches!(it, PrimExpr::Call(_)));
    let Some(readers) = readers_in_bounds(s, &info.name) else { return false };
    let along = info.axes[lead..].iter().any(|axis| !axis.extent.is_const(1));
    along && (readers == 1 || !calls && operations(&store.value) * (readers - 1) <= AGAIN)
}
