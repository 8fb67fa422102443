//! Blocks some of whose iterations depend on earlier ones: running sums, recurrences, updates at computed places. Those axes
//! keep their order. Threads along the axes of which each iteration is independent; where such an axis is the innermost one,
//! pieces of it are vectors inside of the loops in order.

use tvm_runtime::DataType;

use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::IterKind;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};

pub(in crate::dlight) const NAME: &str = "ordered";

pub(super) const RULE: Rule = Rule {
    name: NAME,
    why: "iterations depend on earlier ones: they keep their order, and what does not depend on them runs beside",
    apply,
};

/// Bytes of a piece of a row at least: some cache lines, so that few of them are shared by two threads.
const MIN_PIECE: i64 = 1024;

/// The same, where rows come from memory: shorter pieces of rows far apart are read more slowly than whole rows, also by
/// several threads (4 KiB: half as fast, 8 KiB: two thirds).
const MIN_STREAM: i64 = 16 << 10;

/// Rows whose recurrences run side by side: each waits for the sum before it, which takes four or five cycles. Rows are often
/// a multiple of a page apart: then the lines of all of them, of an operand and of the result, fall into one set of the
/// first-level cache, which holds 8 to 12.
const ROWS: i64 = 4;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let kept = info.axes.iter().filter(|axis| in_order(axis)).count();
    let (Some(inner), Some(store), false) = (info.axes.last(), &info.store, info.reduces) else {
        return Ok(None);
    };
    if kept == 0 || kept == info.axes.len() {
        return Ok(None);
    }
    let text = if in_order(inner) {
        let recurs = stride(&store.indices, &inner.var) == Stride::One;
        in_rows(s, info, recurs)?
    } else {
        in_pieces(s, info, inner, store.buffer.dtype, machine)?
    };
    Ok(Some(format!("{kept} of {} axes in order{text}", info.axes.len())))
}

/// True if the iterations of `axis` keep their order.
fn in_order(axis: &Axis) -> bool {
    match axis.kind {
        IterKind::Ordered | IterKind::Opaque => true,
        IterKind::Spatial | IterKind::Reduce => false,
    }
}

/// The loops of the axes in any order, and of those in order.
fn parts(loops: &[LoopRV], axes: &[Axis]) -> (Vec<LoopRV>, Vec<LoopRV>) {
    let of = |kept: bool| loops.iter().zip(axes).filter(move |(_, axis)| in_order(axis) == kept);
    [false, true].map(|kept| of(kept).map(|(&it, _)| it).collect()).into()
}

/// The axes in order innermost. If each element depends on its neighbour, some rows run side by side.
fn in_rows(s: &mut Schedule, info: &BlockInfo, recurs: bool) -> Result<String, ScheduleError> {
    let block = s.block(&info.name)?;
    let (mut free, kept) = parts(&s.get_loops(block)?, &info.axes);
    let rows = info.axes.iter().rfind(|axis| !in_order(axis)).and_then(|axis| axis.extent.as_int());
    // What is stored stays in a register until it is read only if rows are known not to overlap.
    let known = info.axes.last().is_some_and(|axis| axis.extent.as_int().is_some());
    let beside = recurs && known && rows.is_none_or(|rows| rows >= ROWS);
    match free.pop() {
        Some(row) if beside => {
            let [groups, row] = s.split(row, [None, Some(ROWS)])?;
            free.push(groups);
            s.reorder_n(&[&free[..], &kept, &[row]].concat())?;
            s.unroll(row)?;
        }
        row => {
            free.extend(row);
            s.reorder_n(&[&free[..], &kept].concat())?;
        }
    }
    parallel(s, info, &free)?;
    Ok(if beside { format!(", {ROWS} rows side by side") } else { String::new() })
}

/// Pieces of the innermost axis inside of the axes in order. A row of any length stays whole: a piece of fixed length may be
/// longer.
fn in_pieces(
    s: &mut Schedule,
    info: &BlockInfo,
    inner: &Axis,
    dtype: DataType,
    machine: &Machine,
) -> Result<String, ScheduleError> {
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    let last = loops.len() - 1;
    let (mut free, kept) = parts(&loops[..last], &info.axes);
    let Some(extent) = inner.extent.as_int() else {
        s.reorder_n(&[&free[..], &kept, &loops[last..]].concat())?;
        parallel(s, info, &free)?;
        return Ok(String::new());
    };
    // A piece for each core, of which those of three rows stay in the second-level cache: what is longer is read faster.
    let bytes = dtype.bytes() as i64;
    let cores = i64::from(machine.cores).max(1);
    let size = info.iterations().and_then(|count| count.checked_mul(bytes));
    let large = size.is_none_or(|size| size as u64 > machine.l2_bytes);
    let least = if large { MIN_STREAM } else { MIN_PIECE };
    let most = (machine.l2_bytes as i64 / 8).max(least);
    let piece = ((extent + cores - 1) / cores).saturating_mul(bytes).clamp(least, most) / bytes;
    let lanes = i64::from(machine.lanes(dtype)).max(1);
    let piece = (piece + lanes - 1) / lanes * lanes;

    let [pieces, of_piece] = s.split(loops[last], [None, Some(piece)])?;
    free.push(pieces);
    s.reorder_n(&[&free[..], &kept, &[of_piece]].concat())?;
    let strides = || info.loads.iter().map(|load| stride(&load.indices, &inner.var));
    let contiguous =
        info.contiguous_axis() == Some(last) && strides().all(|it| matches!(it, Stride::Zero | Stride::One));
    if contiguous {
        s.vectorize(of_piece)?;
    }
    parallel(s, info, &free)?;
    Ok(format!(", {}pieces of {piece}", if contiguous { "vectors of " } else { "" }))
}
