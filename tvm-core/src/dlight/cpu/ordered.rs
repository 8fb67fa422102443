//! Blocks some of whose iterations depend on earlier ones: running sums, recurrences, updates at computed places. Those axes
//! keep their order. Threads along the axes of which each iteration is independent; where such an axis is the innermost one,
//! pieces of it are vectors inside of the loops in order.

use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::IterKind;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};

pub(super) const RULE: Rule = Rule { name: "ordered", apply };

/// Bytes of a piece of a row at most: a page, so that a piece touches one or two of them, and so that the pieces of a few
/// operands and of the row before stay in the first-level cache.
const PIECE: i64 = 4096;

/// Bytes of a piece at least: some cache lines, of which each is then used by one thread, and a few vectors, whose chains of
/// sums hide the latency of each other.
const MIN_PIECE: i64 = 256;

/// Rows whose recurrences run side by side: each waits for the sum before it, which takes four or five cycles, and for the
/// memory that it goes through.
const ROWS: i64 = 8;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let Some((inner, outer)) = info.axes.split_last() else { return Ok(None) };
    let in_order = |axis: &Axis| matches!(axis.kind, IterKind::Ordered | IterKind::Opaque);
    let Some(store) = info.store.as_ref().filter(|_| !info.reduces && info.axes.iter().any(in_order)) else {
        return Ok(None);
    };
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    let of = |loops: &[LoopRV], kept: bool| -> Vec<LoopRV> {
        let of_kind = loops.iter().zip(&info.axes).filter(|(_, axis)| in_order(axis) == kept);
        of_kind.map(|(&it, _)| it).collect()
    };
    let (&last, rest) = loops.split_last().expect("as many loops as axes");
    if in_order(inner) {
        let mut free = of(rest, false);
        let Some(&row) = free.last() else { return Ok(None) };
        let mut order: Vec<LoopRV> = free.iter().copied().chain(of(&loops, true)).collect();
        let rows = info.axes.iter().rfind(|axis| !in_order(axis)).and_then(|axis| axis.extent.as_int());
        let recurs = stride(&store.indices, &inner.var) == Stride::One;
        let beside = recurs && rows.is_none_or(|rows| rows >= ROWS);
        if beside {
            let [groups, row] = s.split(row, [None, Some(ROWS)])?;
            let at = free.len() - 1;
            free[at] = groups;
            order[at] = groups;
            order.push(row);
            s.reorder_n(&order)?;
            s.unroll(row)?;
        } else {
            s.reorder_n(&order)?;
        }
        parallel(s, info, &free)?;
        let text = if beside { format!(", {ROWS} rows side by side") } else { String::new() };
        return Ok(Some(format!("{} of {} axes in order{text}", order_of(info, in_order), info.axes.len())));
    }
    let bytes = store.buffer.dtype.bytes() as i64;
    let cores = i64::from(machine.cores).max(1);
    let even = inner.extent.as_int().map_or(PIECE, |extent| extent.saturating_mul(bytes) / cores);
    let piece = (even.clamp(MIN_PIECE, PIECE) / bytes).max(1);
    let lanes = i64::from(machine.lanes(store.buffer.dtype)).max(1);
    let piece = (piece / lanes * lanes).max(lanes);
    let [pieces, piece_loop] = s.split(last, [None, Some(piece)])?;
    let mut free = of(&loops[..outer.len()], false);
    free.push(pieces);
    let mut order = free.clone();
    order.extend(of(&loops[..outer.len()], true));
    order.push(piece_loop);
    s.reorder_n(&order)?;
    let strides = || info.loads.iter().map(|load| stride(&load.indices, &inner.var));
    let contiguous = info.contiguous_axis() == Some(outer.len())
        && strides().all(|it| matches!(it, Stride::Zero | Stride::One));
    if contiguous {
        s.vectorize(piece_loop)?;
    }
    parallel(s, info, &free)?;
    let vectors = if contiguous { "vectors of " } else { "" };
    let (kept, all) = (order_of(info, in_order), info.axes.len());
    Ok(Some(format!("{kept} of {all} axes in order, {vectors}pieces of {piece}")))
}

/// The number of axes that keep their order.
fn order_of(info: &BlockInfo, in_order: impl Fn(&Axis) -> bool) -> usize {
    info.axes.iter().filter(|axis| in_order(axis)).count()
}
