//! Products of few rows with a large matrix, which is read once: the limit is the bandwidth of memory.
//!
//! The matrix is read in the order of memory: a strip of [`TERMS`] of its rows and [`STRIP`] of its columns at a time. The
//! result accumulates in memory, in a cache: it is loaded and stored once per strip. Threads take different columns, so
//! sums keep their order.

use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::{BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::{IterKind, uses_var};

pub(super) const RULE: Rule = Rule { name: "skinny product", apply };

/// Rows of the result up to which the matrix is read faster than its elements are used.
const MAX_ROWS: i64 = 32;

/// Terms of a sum that are added before the result is stored.
const TERMS: i64 = 8;

/// Columns of a strip: those of a page of 4 KiB, if elements have 4 bytes.
const STRIP: i64 = 1024;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let (Some(column), Some(store), true) = (info.contiguous_axis(), &info.store, info.reduces) else {
        return Ok(None);
    };
    let column_var = &info.axes[column].var;
    let rows =
        info.axes.iter().enumerate().filter(|(i, axis)| *i != column && axis.kind == IterKind::Spatial);
    let rows: Vec<_> = rows.collect();
    let count = rows.iter().try_fold(1i64, |count, (_, axis)| count.checked_mul(axis.extent.as_int()?));
    let terms: Vec<usize> = (0..info.axes.len()).filter(|&i| info.axes[i].kind == IterKind::Reduce).collect();
    let (Some(count), [term], Some(columns)) = (count, &terms[..], info.axes[column].extent.as_int()) else {
        return Ok(None);
    };
    let mut matrices = info.loads.iter().filter(|load| stride(&load.indices, column_var) != Stride::Zero);
    let (Some(matrix), None) = (matrices.next(), matrices.next()) else { return Ok(None) };
    let own_columns = matrix.indices.last().and_then(|index| index.as_var()) == Some(column_var);
    let shared = rows.iter().all(|(_, axis)| matrix.indices.iter().all(|index| !uses_var(index, &axis.var)));
    let large = info.axes[*term].extent.as_int().is_none_or(|extent| extent >= 8 * TERMS);
    // Words are made in panels, which serve all rows.
    let of_words = info.multiplies_words();
    if !own_columns || !shared || !large || count > MAX_ROWS || columns < STRIP || of_words {
        return Ok(None);
    }
    let lanes = i64::from(machine.lanes(store.buffer.dtype));
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    let [strips, tiles, vector] =
        s.split(loops[column], [None, Some((STRIP / (2 * lanes)).max(1)), Some(2 * lanes)])?;
    let [groups, terms] = s.split(loops[*term], [None, Some(TERMS)])?;
    let rows: Vec<LoopRV> = rows.iter().map(|(i, _)| loops[*i]).collect();
    let order: Vec<LoopRV> = [&[strips, groups, tiles], &rows[..], &[terms, vector]].concat();
    s.reorder_n(&order)?;
    s.unroll(terms)?;
    s.vectorize(vector)?;
    let init = s.decompose_reduction(block, groups)?;
    if let Some(&vector) = s.get_loops(init)?.last() {
        s.vectorize(vector)?;
    }
    parallel(s, info, &[strips])?;
    Ok(Some(format!("{count} rows, strips of {TERMS}x{STRIP}")))
}
