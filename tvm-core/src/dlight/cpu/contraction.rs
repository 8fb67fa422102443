//! Reductions whose result has a contiguous axis along which every operand is contiguous or the same: matrix products,
//! convolutions, pooling, sums of columns.
//!
//! A tile of the result stays in vector registers while the reduction runs: `rows` values of an axis along which the
//! operands that are vectors do not change, times `vectors` vectors along the contiguous axis. Each step of the reduction
//! loads `vectors` vectors and `rows` scalars for `rows * vectors` multiply-adds. Tiles of 6 to 8 rows and 2 vectors keep
//! two units for multiply-adds of four cycles of latency busy, with 12 to 16 accumulators. So do tiles of 12 to 16 rows and
//! one vector, if the operand lies in panels of one vector. With 32 registers, tiles have up to 14 rows of 2 vectors: the
//! vectors, which come from the second-level cache, are loaded half as often.
//!
//! A panel serves all rows, or, if these are many, a block of rows that stays in the second-level cache. Convolutions over
//! blocks of channels are divided by rows of the image ([`image::parts`]).

use std::sync::Arc;

use super::{MAX_TRANSPOSED, image, parallel, skinny};
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, panel_width, stride};
use crate::dlight::inline::inline_epilogue;
use crate::dlight::narrow::COPY;
use crate::target::Machine;
use crate::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use crate::tir::transform::PREFETCH;
use crate::tir::{Buffer, BufferLoad, IterKind, PrimExpr, Scope, uses_var};

/// Name of the rule.
pub(in crate::dlight) const NAME: &str = "contraction";

pub(super) const RULE: Rule = Rule {
    name: NAME,
    why: "a tile of the result stays in registers while its terms are added; operands are vectors or the same along its columns",
    apply,
};

/// Rows of the result from which on the vector operand is packed: before, packing costs more than it saves.
const PACKED_ROWS: i64 = 32;

/// Rows from which on the vector operand is packed if it is transposed, so that its elements are contiguous along the
/// terms: before, dot products are faster. Also if it is copied in any case, because it is narrow.
pub(super) const TRANSPOSED_ROWS: i64 = 8;

/// Vectors of a tile of one row at most.
const MOST_VECTORS: i64 = 8;

/// Bytes of panels that are on their way from memory: those of a page, so that each page is first touched in time.
const AHEAD: i64 = 4 << 10;

/// Rows that use a panel at least, if not all do: fewer would read panels as often as they read rows.
const BLOCK_ROWS: i64 = 128;

/// Numbers of blocks of rows that are tried.
const MOST_TRIED: usize = 64;

/// The tile that stays in registers.
struct Tile {
    /// Index of the axis along which operands are reused, and how many of its values a tile holds.
    rows: Option<(usize, i64)>,
    /// Index of the contiguous axis.
    column: usize,
    /// Elements along the contiguous axis.
    columns: i64,
    /// True if an operand lies in panels of as many columns.
    in_panels: bool,
}

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let (Some(column), Some(store), true) = (info.contiguous_axis(), &info.store, info.reduces) else {
        return Ok(None);
    };
    if info.axes[column].extent.is_const(1) {
        return Ok(None);
    }
    let column_var = &info.axes[column].var;
    let lanes = i64::from(machine.lanes(store.buffer.dtype));
    let tile = tile(info, column, lanes, machine);
    let packed = packed_operand(info, &tile);
    let is_packed = |load: &BufferLoad| {
        packed.as_ref().is_some_and(|it| it.buffer == load.buffer)
            || panel_width(&load.indices, column_var) == Some(tile.columns)
    };
    if info.loads.iter().any(|load| stride(&load.indices, column_var) == Stride::Other && !is_packed(load)) {
        return Ok(None);
    }

    let block = s.block(&info.name)?;
    let write = s.cache_write(block, 0, Scope::Local)?;
    let writes_more = inline_epilogue(s, info)?;
    let loops = s.get_loops(block)?;
    let cached_tiles = tiles_in_cache(info, &tile, machine);
    let in_matrix = packed.is_some() || tile.in_panels;
    let parts = image::parts(info, column, tile.rows, machine).filter(|_| !in_matrix);
    let (mut outer, mut reduce, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    let (mut panels, mut row_tiles, mut ragged) = (None, None, Vec::new());
    // Loops around those of a part, and those inside of it over its weights.
    let (mut around, mut weights) = (Vec::new(), Vec::new());
    for (i, (&it, axis)) in loops.iter().zip(&info.axes).enumerate() {
        if axis.kind == IterKind::Reduce {
            reduce.push(it);
        } else if i == column {
            let [panel, vector] = s.split(it, [None, Some(tile.columns)])?;
            panels = Some(panel);
            outer.push(panel);
            inner.push(vector);
            ragged.extend(Some(panel).filter(|_| !is_multiple(axis, tile.columns)));
        } else {
            let mut it = it;
            if let Some((_, rows)) = tile.rows.filter(|(axis, _)| *axis == i) {
                let [mut block, row] = s.split(it, [None, Some(rows)])?;
                if let Some(tiles) = cached_tiles {
                    let [blocks, tiles] = s.split(block, [None, Some(tiles)])?;
                    outer.push(blocks);
                    block = tiles;
                }
                row_tiles = Some(block);
                inner.insert(0, row);
                ragged.extend(Some(block).filter(|_| !is_multiple(axis, rows)));
                it = block;
            }
            match &parts {
                Some(image::Parts { axis, count: Some(count), .. }) if *axis == i => {
                    let [part, rest] = s.split(it, [Some(*count), None])?;
                    around.push(part);
                    outer.push(rest);
                }
                Some(parts) if parts.inside(i) => weights.push(it),
                Some(parts) if i <= parts.axis => around.push(it),
                _ => outer.push(it),
            }
        }
    }
    outer.splice(..0, around.into_iter().chain(weights));
    let (Some(panels), Some(_), Some(&vector)) = (panels, reduce.first(), inner.last()) else {
        return Ok(None);
    };
    if in_matrix {
        // One panel serves all rows, or those that stay in the cache.
        outer.retain(|it| *it != panels);
        let rows = row_tiles.and_then(|tiles| outer.iter().position(|it| *it == tiles));
        outer.insert(rows.unwrap_or(outer.len()), panels);
    }
    let mut packed_rows = None;
    if let (true, [terms]) = (tile.in_panels, &reduce[..]) {
        (reduce, packed_rows) = stream_panels(s, info, &tile, *terms)?;
    }
    let order: Vec<LoopRV> = outer.iter().chain(&reduce).chain(&inner).copied().collect();
    s.reorder_n(&order)?;
    let Some(&last) = outer.last() else { return Ok(None) };
    s.reverse_compute_at(write, last)?;
    let write_loops = s.get_loops(write)?;
    if let Some((&columns, rows)) = write_loops[outer.len()..].split_last() {
        rows.iter().try_for_each(|&row| s.unroll(row))?;
        s.vectorize(columns)?;
    }
    inner[..inner.len() - 1].iter().try_for_each(|&row| s.unroll(row))?;
    s.vectorize(vector)?;
    s.decompose_reduction(block, reduce[0])?;
    if let Some(term) = packed_rows {
        skinny::pack_rows(s, info, [column, term])?;
    }
    if let Some(operand) = &packed {
        let reads = s.state().leaf_blocks().iter().find(|it| it.block.name == info.name);
        let at = reads.and_then(|it| it.block.reads.iter().position(|read| read.buffer == operand.buffer));
        let Some(at) = at else { return Ok(None) };
        let panel = s.cache_read(block, at, Scope::Global)?;
        s.compute_at(panel, panels)?;
        if !operand.transposed {
            inline_copy(s, &operand.buffer)?;
        }
        pack(s, panel, operand, lanes)?;
    }
    // Loops with a remainder are not fused, so that lowering can divide them from it.
    let most = outer.iter().position(|it| packed.is_some() && *it == panels).map_or(outer.len(), |at| at + 1);
    let exact = outer[..most].iter().position(|it| ragged.contains(it)).unwrap_or(most).max(1);
    parallel(s, info, &outer[..exact])?;
    if writes_more && in_matrix {
        // What the epilogue reads of the next tile comes from memory while this one is computed.
        let loops = s.get_loops(block)?;
        if let Some(tiles) = loops.len().checked_sub(reduce.len() + inner.len() + 1) {
            s.annotate(loops[tiles], PREFETCH, 1i64)?;
        }
    }
    Ok(Some(described(&tile, packed.as_ref(), cached_tiles, parts.as_ref())))
}

/// The parameters of the schedule for people.
fn described(
    tile: &Tile,
    packed: Option<&Packed>,
    cached_tiles: Option<i64>,
    parts: Option<&image::Parts>,
) -> String {
    let rows = tile.rows.map_or(1, |(_, rows)| rows);
    let parts = parts.map_or_else(String::new, |parts| match parts.count {
        Some(count) => format!(", {count} parts of the image"),
        None => ", row by row of the image".to_string(),
    });
    let blocks = cached_tiles.map_or_else(String::new, |tiles| format!(", {} rows at a time", tiles * rows));
    let packed = match packed {
        Some(it) if it.transposed => ", transposed and packed",
        Some(_) => ", packed",
        None if tile.in_panels => ", in panels",
        None => "",
    };
    format!("tile {rows}x{}{packed}{blocks}{parts}", tile.columns)
}

/// Number of tiles of rows that use one panel after another, if not all do: as many as stay in the second-level cache beside
/// a panel. Then each row comes from farther away once in all, not once per panel, and each panel once per block of rows.
fn tiles_in_cache(info: &BlockInfo, tile: &Tile, machine: &Machine) -> Option<i64> {
    let (row, rows) = tile.rows.filter(|_| tile.in_panels)?;
    let mut reduced = info.axes.iter().filter(|axis| axis.kind == IterKind::Reduce);
    let (Some(terms), None) = (reduced.next(), reduced.next()) else { return None };
    let column = &info.axes[tile.column].var;
    let scalars = info.loads.iter().filter(|load| stride(&load.indices, column) == Stride::Zero);
    let bytes = scalars.map(|load| load.buffer.dtype.bytes() as i64).max()?;
    let extent = info.axes[row].extent.as_int().filter(|extent| extent % rows == 0)?;
    let all_bytes = terms.extent.as_int()?.checked_mul(bytes)?.checked_mul(extent)?;
    let cached =
        i64::try_from(machine.l2_bytes / 2).ok().filter(|&cached| 0 < cached && cached < all_bytes)?;
    let (tiles, fewest) = (extent / rows, all_bytes.saturating_add(cached - 1) / cached);
    let most = (2 * fewest).min(extent / BLOCK_ROWS);
    let blocks = (fewest..=most).take(MOST_TRIED).find(|blocks| tiles % blocks == 0)?;
    Some(tiles / blocks)
}

/// Prefetches the panels along the loop over `terms`, of which few rows take a group at a time. Returns the loops over terms, and
/// the axis of the terms if the rows are to be packed in such groups.
fn stream_panels(
    s: &mut Schedule,
    info: &BlockInfo,
    tile: &Tile,
    terms: LoopRV,
) -> Result<(Vec<LoopRV>, Option<usize>), ScheduleError> {
    let bytes = tile.columns * info.store.as_ref().map_or(1, |store| store.buffer.dtype.bytes() as i64);
    let rows = tile.rows.and_then(|(row, _)| info.axes[row].extent.as_int());
    if rows.is_none_or(|rows| !(skinny::PACKED_ROWS..=skinny::MAX_ROWS).contains(&rows)) {
        s.annotate(terms, PREFETCH, (AHEAD / bytes).max(1))?;
        return Ok((vec![terms], None));
    }
    let [groups, terms] = s.split(terms, [None, Some(skinny::TERMS)])?;
    s.unroll(terms)?;
    s.annotate(groups, PREFETCH, (AHEAD / skinny::TERMS / bytes).max(1))?;
    let axis = info.axes.iter().position(|axis| axis.kind == IterKind::Reduce);
    Ok((vec![groups, terms], axis))
}

fn tile(info: &BlockInfo, column: usize, lanes: i64, machine: &Machine) -> Tile {
    let column_var = &info.axes[column].var;
    let vectors: Vec<&Arc<BufferLoad>> =
        info.loads.iter().filter(|load| stride(&load.indices, column_var) != Stride::Zero).collect();
    let reuses = |axis: &Axis| {
        !vectors.is_empty()
            && vectors.iter().all(|load| load.indices.iter().all(|index| !uses_var(index, &axis.var)))
    };
    let panels = vectors.iter().find_map(|load| panel_width(&load.indices, column_var));
    let panels = panels.filter(|width| width % lanes == 0 && *width <= MOST_VECTORS * lanes);
    let spatial = |axis: &&(usize, &Axis)| axis.0 != column && axis.1.kind == IterKind::Spatial;
    let mut reused = info.axes.iter().enumerate().filter(|it| spatial(&it) && reuses(it.1));
    let mut longer = reused.clone().filter(|(_, axis)| !axis.extent.is_const(1));
    let row = longer.next_back().or_else(|| reused.next_back());
    let most_rows = match (machine.vector_registers >= 32, panels == Some(lanes)) {
        (true, false) => 8,
        (true, true) => 16,
        (false, false) => 6,
        (false, true) => 12,
    };
    // Pairs of floats are multiplied at one vector a cycle, for which 8 rows are enough.
    let of_pairs =
        info.multiplies_words() && info.store.as_ref().is_some_and(|it| it.buffer.dtype.is_float());
    let two_vectors = panels.is_none_or(|width| width == 2 * lanes);
    let may_be_tall = machine.vector_registers >= 32 && two_vectors && !of_pairs;
    let rows = row.map(|(i, axis)| match axis.extent.as_int() {
        Some(extent) if may_be_tall && extent > most_rows => (i, tall_rows(extent)),
        extent => (i, rows_of(extent, most_rows)),
    });
    if let (Some(columns), true) = (panels, rows.is_some()) {
        return Tile { rows, column, columns, in_panels: true };
    }
    let most = if rows.is_none_or(|(_, rows)| rows == 1) { MOST_VECTORS } else { 2 };
    let vectors = match info.axes[column].extent.as_int() {
        Some(extent) => most.min((extent + lanes - 1) / lanes).max(1),
        None => most,
    };
    let columns = info.axes[column]
        .extent
        .as_int()
        .map_or(vectors * lanes, |extent| (vectors * lanes).min(extent.max(1)));
    Tile { rows, column, columns, in_panels: false }
}

/// True if tiles of `size` divide the axis without remainder.
fn is_multiple(axis: &Axis, size: i64) -> bool {
    axis.extent.as_int().is_some_and(|extent| extent % size == 0)
}

/// Rows of a tile of two vectors whose sums, vectors and scalar fill 32 registers.
const TALL_ROWS: i64 = 14;

/// The number of rows of a tile that may have up to [`TALL_ROWS`]: the most that divide `extent`, else those with which all tiles
/// take the least time, where a tile takes as long as its rows and one more.
pub(super) fn tall_rows(extent: i64) -> i64 {
    let sizes = || (TALL_ROWS / 2..=TALL_ROWS).rev();
    let time = |rows: &i64| (extent + rows - 1) / rows * (rows + 1);
    sizes().find(|rows| extent % rows == 0).or_else(|| sizes().min_by_key(time)).unwrap_or(TALL_ROWS)
}

/// The number of rows of a tile: at most `most`, and as few rows as possible left over.
pub(super) fn rows_of(extent: Option<i64>, most: i64) -> i64 {
    match extent {
        Some(extent) if extent <= most => extent.max(1),
        // Two tiles of the same size.
        Some(extent) if extent <= 2 * most => (extent + 1) / 2,
        Some(extent) => {
            let waste = |rows: i64| (rows - extent % rows) % rows;
            (most - 2..=most).rev().min_by_key(|&rows| waste(rows)).unwrap_or(most)
        }
        None => most,
    }
}

/// An operand that is copied, panel by panel, to where it lies contiguous.
pub(super) struct Packed {
    pub(super) buffer: Buffer,
    /// True if its last two axes are the columns and the terms.
    pub(super) transposed: bool,
    /// Columns of a panel, if all panels are copied at once, and are to be contiguous.
    pub(super) blocked: Option<i64>,
}

/// The operand that is packed: a matrix whose rows are longer than a panel, or which is transposed, and which many rows of
/// the result use.
fn packed_operand(info: &BlockInfo, tile: &Tile) -> Option<Packed> {
    let (row, _) = tile.rows?;
    let column = &info.axes[tile.column].var;
    let mut vectors = info.loads.iter().filter(|load| stride(&load.indices, column) != Stride::Zero);
    let (load, None) = (vectors.next()?, vectors.next()) else { return None };
    let last_two = load.indices.len().checked_sub(2).map(|at| &load.indices[at..]);
    let is_term = |index: &PrimExpr| {
        info.axes.iter().any(|axis| axis.kind == IterKind::Reduce && index.as_var() == Some(&axis.var))
    };
    let transposed =
        last_two.is_some_and(|indices| indices[0].as_var() == Some(column) && is_term(&indices[1]));
    let least = if transposed || info.multiplies_words() { TRANSPOSED_ROWS } else { PACKED_ROWS };
    if info.axes[row].extent.as_int().is_some_and(|extent| extent < least) {
        return None;
    }
    let is_matrix = load.indices.iter().all(|index| {
        index.as_var().is_some_and(|var| info.axes.iter().any(|axis| axis.var == *var))
            || index.as_int().is_some()
    });
    let narrow = load.buffer.shape.last()?.as_int().is_some_and(|extent| extent <= tile.columns);
    (is_matrix && (transposed || !narrow)).then(|| Packed {
        buffer: load.buffer.clone(),
        transposed,
        blocked: None,
    })
}

/// Schedules the copy of a panel; afterwards, it is contiguous along the columns.
pub(super) fn pack(
    s: &mut Schedule,
    panel: BlockRV,
    operand: &Packed,
    lanes: i64,
) -> Result<(), ScheduleError> {
    let loops = s.get_loops(panel)?;
    let [.., columns, terms] = loops[..] else { return Ok(()) };
    if !operand.transposed {
        return s.vectorize(terms);
    }
    let letters: String = ('A'..).take(operand.buffer.shape.len()).collect();
    let (outer, last_two) = letters.split_at(letters.len() - 2);
    let mut turned: String = outer.chars().chain(last_two.chars().rev()).collect();
    if let Some(columns) = operand.blocked {
        // Panels of columns, each of them contiguous.
        let column = &last_two[..1];
        turned = format!("{outer}{last_two}{columns}{}", column.to_lowercase());
    }
    s.transform_layout(panel, 0, &letters, &turned)?;
    let tile = Some(lanes.clamp(4, MAX_TRANSPOSED));
    let [column_tiles, column] = s.split(columns, [None, tile])?;
    let [term_tiles, term] = s.split(terms, [None, tile])?;
    s.reorder([term_tiles, column_tiles, term, column])?;
    s.vectorize(column)
}

/// Computes the copy of a narrow operand inside of the copy of its panels.
fn inline_copy(s: &mut Schedule, operand: &Buffer) -> Result<(), ScheduleError> {
    let copies = s.state().leaf_blocks().iter().find(|it| {
        it.block.annotations.bool(COPY) == Some(true)
            && it.block.writes.iter().any(|write| write.buffer == *operand)
    });
    if let Some(name) = copies.map(|it| it.block.name.clone()) {
        let mut fork = s.clone();
        let copy = fork.block(&name)?;
        if fork.compute_inline(copy).is_ok() {
            *s = fork;
        }
    }
    Ok(())
}
