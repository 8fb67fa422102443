//! Chains of reductions of rows, and of element-wise blocks over the same rows.

use super::analysis::{Axis, BlockInfo, Stride, stride};
use super::inline::{AGAIN, operations, readers_in_bounds};
use crate::arith::same;
use crate::tir::analysis::same_indices;
use crate::tir::schedule::Schedule;
use crate::tir::{Buffer, IterKind, PrimExpr, any_expr};

/// The blocks from `first` on that reduce rows or are element-wise over the same rows, and the number of their axes that number
/// the rows.
pub(super) fn members(s: &Schedule, first: &BlockInfo) -> Option<(Vec<BlockInfo>, usize)> {
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
        made.extend(info.stores.iter().map(|store| (store.buffer.clone(), place.clone())));
        members.push(info);
    }
    Some((members, lead))
}

/// The dimensions of the result in which the rows are numbered, if the block computes one row from one row of each buffer in
/// `made`, in order.
fn place(info: &BlockInfo, rows: &[Axis], made: &[(Buffer, Vec<usize>)]) -> Option<Vec<usize>> {
    let (store, others) = info.stores.split_first()?;
    if !others.iter().all(|it| same_indices(&it.indices, &store.indices)) {
        return None;
    }
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

/// True if the block is element-wise along rows, and is computed where it is read: by one block, or by several if that is a
/// few operations and no function. One value for a row stays, because all elements of the row use it.
pub(super) fn is_cheap(s: &Schedule, info: &BlockInfo, lead: usize) -> bool {
    let Some(store) = info.store.as_ref().filter(|_| !info.reduces) else { return false };
    let calls = any_expr(&store.value, &mut |it| matches!(it, PrimExpr::Call(_)));
    let Some(readers) = readers_in_bounds(s, &info.name) else { return false };
    let along = info.axes[lead..].iter().any(|axis| !axis.extent.is_const(1));
    along && (readers == 1 || !calls && operations(&store.value) * (readers - 1) <= AGAIN)
}
