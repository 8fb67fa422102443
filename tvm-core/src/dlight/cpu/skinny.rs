//! Products of few rows with a large matrix, which is read once: the limit is the bandwidth of memory.
//!
//! The matrix is read once, a group of [`TERMS`] of its rows and a strip of [`STRIP_BYTES`] of its columns at a time. A tile of
//! the group stays in vector registers while all rows of the result use it. The rows of the result accumulate in a buffer
//! of the strip's width, which stays in the first-level cache: an element is loaded and stored once per group. Meanwhile
//! the next group is prefetched. Threads take different columns, so sums keep their order.

use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::{BlockInfo, Stride, stride};
use crate::dlight::inline::inline_epilogue;
use crate::target::Machine;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::transform::PREFETCH_L2;
use crate::tir::{IterKind, Scope, uses_var};

/// Name of the rule.
pub(in crate::dlight) const NAME: &str = "skinny product";

pub(super) const RULE: Rule = Rule {
    name: NAME,
    why: "few rows read the whole matrix: it is read once, as fast as memory delivers it",
    apply,
};

/// Rows of the result up to which the matrix is read faster than its elements are used.
pub(in crate::dlight) const MAX_ROWS: i64 = 32;

/// Terms of a sum that are added before the result is stored.
pub(super) const TERMS: i64 = 8;

/// Rows that are computed side by side, if they divide the rows: their sums do not wait for each other.
const TOGETHER: i64 = 2;

/// Rows up to which a symbolic number of them has a schedule of its own: they leave room in the first-level cache for longer
/// pieces of the matrix, which memory delivers faster. They are computed one by one: one row is what a decoder multiplies, and
/// the remainder of the pairs would cost it more than pairs save.
pub(in crate::dlight) const SINGLE_ROWS: i64 = 4;

/// Bytes of a row of a strip at least: long enough to be read as a stream.
const STRIP_BYTES: i64 = 1024;

/// Bytes of the result that accumulate for a strip, unless rows are many: they stay in the first-level cache.
const RESULT_BYTES: i64 = 16 << 10;

/// Columns from which on the matrix is read in strips.
const MIN_COLUMNS: i64 = 256;

/// Rows from which on their terms of a group are copied to where they are contiguous. Rows are often a multiple of a page
/// apart: then the lines of all of them fall into one set of the first-level cache, which holds 8 to 12.
pub(super) const PACKED_ROWS: i64 = 8;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let (Some(column), Some(store), true) = (info.contiguous_axis(), &info.store, info.reduces) else {
        return Ok(None);
    };
    let column_var = &info.axes[column].var;
    let rows =
        info.axes.iter().enumerate().filter(|(i, axis)| *i != column && axis.kind == IterKind::Spatial);
    let rows: Vec<_> = rows.collect();
    let count = rows.iter().try_fold(1i64, |count, (_, axis)| count.checked_mul(info.most(axis)?));
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
    if !own_columns || !shared || !large || count > MAX_ROWS || columns < MIN_COLUMNS || of_words {
        return Ok(None);
    }
    let lanes = i64::from(machine.lanes(store.buffer.dtype));
    let tile = if machine.vector_registers >= 32 { 2 * lanes } else { lanes };
    let element = store.buffer.dtype.bytes() as i64;
    // A strip for each core, if strips stay long enough.
    let share = columns * element / i64::from(machine.cores.max(1));
    let bytes = (RESULT_BYTES / count.max(1)).min(share).max(STRIP_BYTES);
    let all = (columns + tile - 1) / tile;
    let most = (bytes / element / tile).max(1);
    // Strips of about the same width.
    let strips = (all + most - 1) / most;
    let tiles = (all + strips - 1) / strips;
    let block = s.block(&info.name)?;
    let write = s.cache_write(block, 0, Scope::Global)?;
    inline_epilogue(s, info)?;
    let loops = s.get_loops(block)?;
    let [strips, tile_loop, vector] = s.split(loops[column], [None, Some(tiles), Some(tile)])?;
    let [groups, terms] = s.split(loops[*term], [None, Some(TERMS)])?;
    let extent = rows.last().and_then(|(_, axis)| axis.extent.as_int());
    let mut row_loops: Vec<LoopRV> = rows.iter().map(|(i, _)| loops[*i]).collect();
    let mut inner = vec![terms, vector];
    if let (Some(&last), true) =
        (row_loops.last(), extent.map_or(count > SINGLE_ROWS, |extent| extent % TOGETHER == 0))
    {
        let [row, together] = s.split(last, [None, Some(TOGETHER)])?;
        s.unroll(together)?;
        row_loops.pop();
        row_loops.push(row);
        inner.insert(1, together);
    }
    let order: Vec<LoopRV> = [&[strips, groups, tile_loop], &row_loops[..], &inner].concat();
    s.reorder_n(&order)?;
    s.unroll(terms)?;
    s.vectorize(vector)?;
    s.annotate(groups, PREFETCH_L2, 1i64)?;
    s.reverse_compute_at(write, strips)?;
    if let Some(&columns) = s.get_loops(write)?.last() {
        s.vectorize(columns)?;
    }
    let init = s.decompose_reduction(block, groups)?;
    if let Some(&vector) = s.get_loops(init)?.last() {
        s.vectorize(vector)?;
    }
    if count >= PACKED_ROWS {
        pack_rows(s, info, [column, *term])?;
    }
    parallel(s, info, &[strips])?;
    Ok(Some(format!("up to {count} rows, strips of {TERMS}x{}", tiles * tile)))
}

/// Copies the operand with the rows, so that the terms of a group are contiguous, if groups divide the terms.
pub(super) fn pack_rows(
    s: &mut Schedule,
    info: &BlockInfo,
    [column, term]: [usize; 2],
) -> Result<(), ScheduleError> {
    let [column, term] = [column, term].map(|axis| &info.axes[axis].var);
    let mut operands = info.loads.iter().filter(|load| stride(&load.indices, column) == Stride::Zero);
    let (Some(operand), None) = (operands.next(), operands.next()) else { return Ok(()) };
    let divided =
        operand.buffer.shape.last().and_then(|extent| extent.as_int()).is_some_and(|it| it % TERMS == 0);
    if operand.indices.last().and_then(|index| index.as_var()) != Some(term) || !divided {
        return Ok(());
    }
    let block = s.block(&info.name)?;
    let reads = s.state().leaf_blocks().iter().find(|it| it.block.name == info.name);
    let at = reads.and_then(|it| it.block.reads.iter().position(|read| read.buffer == operand.buffer));
    let Some(at) = at else { return Ok(()) };
    let copy = s.cache_read(block, at, Scope::Global)?;
    let letters: String = ('A'..).take(operand.indices.len()).collect();
    let (rows, terms) = letters.split_at(letters.len() - 1);
    let packed = format!("{terms}{rows}{TERMS}{}", terms.to_lowercase());
    s.transform_layout(copy, 0, &letters, &packed)?;
    let Some(&elements) = s.get_loops(copy)?.last() else { return Ok(()) };
    let [_, group] = s.split(elements, [None, Some(TERMS)])?;
    s.vectorize(group)
}
