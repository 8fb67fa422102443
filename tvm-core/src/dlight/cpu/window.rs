//! Reductions over small windows in which no operand is used by many results: depthwise convolutions and pooling.
//!
//! A tile of the result of a few rows and one or two vectors stays in registers, and the loops over the window are unrolled
//! around it: a vector that several rows of the tile read is loaded once. Vectors of channels are taken one at a time, so that
//! the weights of a window stay in registers as well. Windows run column by column, so that few vectors are needed at a time. If
//! another block computes what the window reads, as padding does, it is computed there for one image, or a band of its rows, at a
//! time, which stays in a cache.

use super::{image, parallel, unroll_phases};
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo, Stride, indexed_by, iterations, stride};
use crate::dlight::inline::{inline_epilogue, readers_in_bounds};
use crate::target::Machine;
use crate::tir::analysis::update;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::transform::IN_ORDER;
use crate::tir::{BufferLoad, Intrinsic, IterKind, PrimCallee, PrimExpr, Scope, uses_var};

/// Name of the rule.
pub(in crate::dlight) const NAME: &str = "window";

pub(super) const RULE: Rule = Rule {
    name: NAME,
    why: "windows are small and each operand serves few results: loops over the window are unrolled around a tile",
    apply,
};

/// Terms of the sum of one element at most.
const MAX_TERMS: i64 = 64;

/// Copies of the body at most: terms times vectors of the tile.
const COPIES: i64 = 256;

/// Rows of a band, where the size of an image is not known: enough for the rows in which windows of two bands overlap, which
/// are computed twice, to be few.
const BAND_ROWS: i64 = 8;

/// What is known of a block of this kind.
struct Window {
    /// Index of the contiguous axis.
    column: usize,
    /// Index of the axis whose values make the rows of a tile.
    row: usize,
    /// Number of axes in front of the first axis along which windows overlap.
    images: usize,
    /// Terms of a sum.
    terms: i64,
    /// True if windows do not overlap along the contiguous axis, as along channels.
    apart: bool,
}

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    if info.reduces {
        return match window(s, info) {
            Some(window) => scheduled(s, info, &window, None, machine),
            None => Ok(None),
        };
    }
    let Some(reader) = info.only_reader(s) else { return Ok(None) };
    let Some(window) = window(s, &reader) else { return Ok(None) };
    if let Some((fork, text)) = with_predicates(s, info, &reader, machine)? {
        *s = fork;
        return Ok(Some(text));
    }
    // What one image of the block takes.
    let bytes = info.store.as_ref().map_or(1, |store| i64::from(store.buffer.dtype.bits() / 8).max(1));
    let own = info.axes.get(window.images..).unwrap_or_default();
    let size = own.iter().try_fold(bytes, |size, axis| size.checked_mul(axis.extent.as_int()?));
    if window.images == 0 {
        return Ok(None);
    }
    let text = scheduled(s, &reader, &window, Some((info, size)), machine)?;
    Ok(text.map(|text| format!("{text}, inside of `{}`", reader.name)))
}

/// The window scheduled with its producer inlined: padding becomes predicates of what it loads.
fn with_predicates(
    s: &Schedule,
    producer: &BlockInfo,
    reader: &BlockInfo,
    machine: &Machine,
) -> Result<Option<(Schedule, String)>, ScheduleError> {
    if !machine.masked_vectors || readers_in_bounds(s, &producer.name) != Some(1) {
        return Ok(None);
    }
    let mut fork = s.clone();
    let block = fork.block(&producer.name)?;
    if fork.compute_inline(block).is_err() {
        return Ok(None);
    }
    let Some(reader) = BlockInfo::of(&fork, &reader.name) else { return Ok(None) };
    let Some(window) = window(&fork, &reader) else { return Ok(None) };
    if masked_lanes(&reader, &window, machine).is_none() {
        return Ok(None);
    }
    let text = scheduled(&mut fork, &reader, &window, None, machine)?;
    Ok(text.map(|text| (fork, format!("{text}, inlined into `{}`", reader.name))))
}

/// The lanes of the vector of which each row of the result is a part, if that is one vector under a predicate.
fn masked_lanes(info: &BlockInfo, window: &Window, machine: &Machine) -> Option<i64> {
    let column = &info.axes[window.column];
    let store = info.store.as_ref()?;
    let columns = column.extent.as_int().and_then(|it| u64::try_from(it).ok())?;
    let lanes = columns.checked_next_power_of_two()?;
    let contiguous =
        |load: &BufferLoad| matches!(stride(&load.indices, &column.var), Stride::Zero | Stride::One);
    let fits = machine.masked_vectors
        && store.buffer.dtype.is_float()
        && columns.count_ones() > 1
        && lanes <= u64::from(machine.lanes(store.buffer.dtype))
        && info.loads.iter().all(|load| contiguous(load));
    fits.then_some(lanes as i64)
}

/// The block as a reduction over windows.
fn window(s: &Schedule, info: &BlockInfo) -> Option<Window> {
    let column = info.contiguous_axis()?;
    let realize = s.state().leaf_blocks().iter().find(|it| it.block.name == info.name)?;
    if !info.reduces
        || info.axes[column].extent.is_const(1)
        || realize.block.annotations.get(IN_ORDER).is_some()
    {
        return None;
    }
    let reduced = |kind: IterKind| info.axes.iter().filter(move |axis| axis.kind == kind);
    let terms = iterations(reduced(IterKind::Reduce))?;
    let column_var = &info.axes[column].var;
    let along_column = |load: &BufferLoad| stride(&load.indices, column_var);
    let vectors: Vec<_> = info.loads.iter().filter(|load| along_column(load) != Stride::Zero).collect();
    if vectors.is_empty()
        || !(2..=MAX_TERMS).contains(&terms)
        || vectors.iter().any(|load| along_column(load) == Stride::Other)
    {
        return None;
    }
    // No axis along which operands are reused: that is a product.
    let used = |axis: &Axis| vectors.iter().any(|load| indexed_by(load, &axis.var));
    if !reduced(IterKind::Spatial).all(|axis| axis.extent.is_const(1) || used(axis)) {
        return None;
    }
    let overlaps = |axis: &Axis| {
        vectors.iter().flat_map(|load| load.indices.iter()).any(|index| {
            uses_var(index, &axis.var) && reduced(IterKind::Reduce).any(|it| uses_var(index, &it.var))
        })
    };
    let spatial = |i: &usize| info.axes[*i].kind == IterKind::Spatial;
    let images = (0..info.axes.len()).filter(spatial).find(|&i| overlaps(&info.axes[i]))?;
    let row = (0..info.axes.len())
        .filter(spatial)
        .rfind(|&i| i != column && overlaps(&info.axes[i]) && !info.axes[i].extent.is_const(1))?;
    let apart = !overlaps(&info.axes[column]);
    Some(Window { column, row, images, terms, apart })
}

/// Schedules the window in tiles, and computes a producer per image of so many bytes, or per band of rows of it. Where the size
/// of an image is not known, it is computed per band.
fn scheduled(
    s: &mut Schedule,
    info: &BlockInfo,
    window: &Window,
    producer: Option<(&BlockInfo, Option<i64>)>,
    machine: &Machine,
) -> Result<Option<String>, ScheduleError> {
    let Some(store) = &info.store else { return Ok(None) };
    let lanes = i64::from(machine.lanes(store.buffer.dtype));
    let vectors = match info.axes[window.column].extent.as_int() {
        Some(extent) if extent <= lanes || window.apart => 1,
        _ => 2,
    };
    let columns =
        info.axes[window.column].extent.as_int().map_or(vectors * lanes, |it| it.min(vectors * lanes));
    let columns = masked_lanes(info, window, machine).unwrap_or(columns);
    // Vectors of channels, whose bands are computed one after the other.
    let panels = match info.axes[window.column].extent.as_int() {
        Some(extent) if window.apart => (extent / columns.max(1)).max(1),
        _ => 1,
    };
    let most = if machine.vector_registers >= 32 { 8 } else { 4 } / vectors;
    let rows = rows_of(info.axes[window.row].extent.as_int(), most);
    let tile = if window.row == window.images { rows } else { 1 };
    // What is computed at a time of the producer.
    let of_bands = match producer {
        Some((_, None)) => Some([None, Some((BAND_ROWS / tile).max(1))]),
        Some((_, Some(bytes))) => {
            let bytes = bytes / panels;
            let bands = bands(&info.axes[window.images], tile, bytes, machine);
            if (bytes / bands) as u64 > machine.l2_bytes / 2 {
                return Ok(None);
            }
            (bands > 1).then_some([Some(bands), None])
        }
        None => None,
    };
    let condition = update(store).and_then(|(_, term)| condition_of(term));
    let block = s.block(&info.name)?;
    let write = s.cache_write(block, 0, Scope::Local)?;
    inline_epilogue(s, info)?;
    let loops = s.get_loops(block)?;
    let (mut images, mut outer, mut reduce, mut inner) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // Parts are rows of an image: the loop over them runs behind that over images, in front of that over blocks of channels.
    let by_rows = image::rows(info) == Some(window.images);
    for (i, (&it, axis)) in loops.iter().zip(&info.axes).enumerate() {
        if axis.kind == IterKind::Reduce {
            reduce.insert(0, it);
        } else if i == window.column {
            let [panel, vector] = s.split(it, [None, Some(columns)])?;
            if window.apart && producer.is_some() { &mut images } else { &mut outer }.push(panel);
            inner.push(vector);
        } else if i == window.row || i == window.images {
            let size = if i == window.row { rows } else { 1 };
            let [tile, row] = s.split(it, [None, Some(size)])?;
            if let Some(of_bands) = of_bands.filter(|_| i == window.images) {
                let [band, tile] = s.split(tile, of_bands)?;
                images.insert(if by_rows { 1 } else { images.len() }, band);
                outer.push(tile);
            } else if by_rows && producer.is_none() && i == window.images && i != window.row {
                images.insert(1, tile);
            } else {
                outer.push(tile);
            }
            if i == window.row {
                inner.insert(0, row);
            } else {
                outer.push(row);
            }
        } else if i < window.images {
            images.push(it);
        } else {
            outer.push(it);
        }
    }
    // What decides whether a row of a window is in the image comes first, once for the row.
    let rows_first = |it: &LoopRV| {
        let at = loops.iter().position(|other| other == it);
        !condition.as_ref().zip(at).is_some_and(|(it, at)| uses_var(it, &info.axes[at].var))
    };
    reduce.sort_by_key(rows_first);
    let order: Vec<LoopRV> = [&images, &outer, &reduce, &inner].into_iter().flatten().copied().collect();
    s.reorder_n(&order)?;
    let (Some(&last), Some(&first), Some(&vector)) = (outer.last(), reduce.first(), inner.last()) else {
        return Ok(None);
    };
    s.reverse_compute_at(write, last)?;
    let depth = images.len() + outer.len();
    if let Some((&columns, rows)) = s.get_loops(write)?[depth..].split_last() {
        rows.iter().try_for_each(|&row| s.unroll(row))?;
        s.vectorize(columns)?;
    }
    if window.terms * rows * vectors <= COPIES {
        reduce.iter().try_for_each(|&it| s.unroll(it))?;
    }
    inner[..inner.len() - 1].iter().try_for_each(|&row| s.unroll(row))?;
    s.vectorize(vector)?;
    s.decompose_reduction(block, first)?;
    if let Some((producer, _)) = producer {
        let Some(&image) = images.last() else { return Ok(None) };
        let block = s.block(&producer.name)?;
        s.compute_at(block, image)?;
        if let Some((&columns, others)) = s.get_loops(block)?.split_last() {
            unroll_phases(s, producer, others)?;
            s.vectorize(columns)?;
        }
        parallel(s, info, &images)?;
    } else {
        let exact = if images.is_empty() { &order[..1] } else { &images[..] };
        parallel(s, info, exact)?;
    }
    Ok(Some(format!("tile {rows}x{columns} of windows of {}", window.terms)))
}

/// The condition of a term that is 0 where it does not hold.
fn condition_of(term: &PrimExpr) -> Option<PrimExpr> {
    let PrimExpr::Call(call) = term else { return None };
    let lazy = call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse);
    call.args.first().filter(|_| lazy).cloned()
}

/// The number of bands of the axis, in whole tiles of `size`, for which the part of an image of `bytes` stays in the
/// first-level cache, or comes nearest to it with two tiles in a band.
fn bands(axis: &Axis, size: i64, bytes: i64, machine: &Machine) -> i64 {
    let Some(extent) = axis.extent.as_int().filter(|extent| extent % size == 0) else { return 1 };
    let cache = (machine.l1_bytes as i64 * 2 / 3).max(1);
    let (tiles, least) = (extent / size, (bytes + cache - 1) / cache);
    let mut counts = (1..=tiles / 2).filter(|bands| tiles % bands == 0);
    let most = counts.clone().next_back().unwrap_or(1);
    counts.find(|&bands| bands >= least).unwrap_or(most)
}

/// The number of rows of a tile: at most `most`, and as few rows as possible left over.
fn rows_of(extent: Option<i64>, most: i64) -> i64 {
    match extent {
        Some(extent) if extent <= most => extent.max(1),
        Some(extent) => {
            let waste = |rows: i64| (rows - extent % rows) % rows;
            ((most + 1) / 2..=most).rev().min_by_key(|&rows| waste(rows)).unwrap_or(most)
        }
        None => most,
    }
}
