//! Products whose columns are two axes of the result: convolutions of 1×1 in the plain layout.
//!
//! The product has one axis for the pixels, and the block that reads it has the axes of the image. The tile of the result
//! is computed in registers inside of the reader's loops: `rows` rows of the result times two vectors of pixels. A panel of
//! columns is read where it is, and serves all rows.

use super::{SHARES_PER_CORE, parallel};
use crate::arith::{Analyzer, detect_linear_equation};
use crate::dlight::Rule;
use crate::dlight::analysis::{BlockInfo, Stride, indexed_by, stride};
use crate::ir::Var;
use crate::target::Machine;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::{Block, BufferLoad, IterKind, Range, Scope, uses_var};

pub(super) const RULE: Rule = Rule {
    name: "flat product",
    why: "the pixels of an image are the columns of a product; a tile of it stays in registers",
    apply,
};

/// Tiles for which a panel is loaded into the first-level cache.
const MIN_TILES: i64 = 4;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let (Some(column), Some(store), Some(reader)) =
        (info.contiguous_axis(), &info.store, only_reader(s, info))
    else {
        return Ok(None);
    };
    let (Some(row), Some([height, width])) = (row_of(info, column, &reader), image_of(info, &reader)) else {
        return Ok(None);
    };
    let lanes = i64::from(machine.lanes(store.buffer.dtype));
    let most = if machine.vector_registers >= 32 { 8 } else { 6 };
    let rows = super::contraction::rows_of(reader.axes[row].extent.as_int(), most);
    let columns = (2 * lanes).min(height * width);

    let block = s.block(&info.name)?;
    let write = s.cache_write(block, 0, Scope::Local)?;
    s.compute_inline(write)?;
    let block_of_reader = s.block(&reader.name)?;
    let mut loops = s.get_loops(block_of_reader)?;
    let image = loops.split_off(loops.len() - 2);
    let pixels = s.fuse_n(&image)?;
    let [panel, vector] = s.split(pixels, [None, Some(columns)])?;
    let tile = loops.remove(row);
    let [tile, unrolled] = s.split(tile, [None, Some(rows)])?;
    let tiles = reader.axes[row].extent.as_int().filter(|extent| extent % rows == 0).map(|it| it / rows);
    let panels = (height * width + columns - 1) / columns;
    let (share, tile) = match tiles.and_then(|tiles| shares(tiles, panels, machine)) {
        Some(shares) => {
            let [share, tile] = s.split(tile, [Some(shares), None])?;
            (Some(share), tile)
        }
        None => (None, tile),
    };
    let inner = [panel, tile, unrolled, vector];
    let order: Vec<LoopRV> = loops.iter().chain(&share).chain(&inner).copied().collect();
    s.reorder_n(&order)?;
    s.compute_at(block, tile)?;
    let outer = loops.len() + usize::from(share.is_some());
    let mut inner = s.get_loops(block)?.split_off(outer + 2);
    let Some(term) = inner.pop() else { return Ok(None) };
    let order: Vec<LoopRV> = [term].iter().chain(&inner).copied().collect();
    s.reorder_n(&order)?;
    if let Some((&columns, rows)) = inner.split_last() {
        rows.iter().try_for_each(|&row| s.unroll(row))?;
        s.vectorize(columns)?;
    }
    s.unroll(unrolled)?;
    s.vectorize(vector)?;
    s.decompose_reduction(block, term)?;
    // Panels with a remainder are not fused, so that lowering can divide them from it.
    let exact = (height * width) % columns == 0;
    let images = reader.axes[..loops.len()].iter().all(|axis| axis.extent.is_const(1));
    match (exact, images) {
        _ if share.is_some() => {
            loops.extend(share);
            parallel(s, info, &loops)?
        }
        (true, _) => parallel(s, info, &[&loops[..], &[panel]].concat())?,
        (false, true) => parallel(s, info, &[panel])?,
        (false, false) => parallel(s, info, &loops)?,
    }
    Ok(Some(format!("tile {rows}x{columns}")))
}

/// Into how many shares the tiles of rows are divided, each for all panels, if there are too few panels for all cores to
/// have about as many. A panel still serves some tiles while it is in the first-level cache.
fn shares(tiles: i64, panels: i64, machine: &Machine) -> Option<i64> {
    let wanted = SHARES_PER_CORE * i64::from(machine.cores);
    let most = wanted.min(tiles / MIN_TILES);
    let shares = (1..=most).rev().find(|shares| tiles % shares == 0)?;
    (panels < 2 * wanted && shares > panels).then_some(shares)
}

/// The axis of `reader` that is the row of the product, if the operand along the columns does not depend on it.
fn row_of(info: &BlockInfo, column: usize, reader: &BlockInfo) -> Option<usize> {
    let (store, column) = (info.store.as_ref()?, &info.axes[column].var);
    let terms = info.axes.iter().filter(|axis| axis.kind == IterKind::Reduce).count();
    let [.., row, last] = &*store.indices else { return None };
    if terms != 1 || last.as_var() != Some(column) || info.axes.last()?.kind != IterKind::Reduce {
        return None;
    }
    let row = row.as_var()?;
    let (panels, others): (Vec<_>, Vec<_>) = info.loads.iter().partition(|load| indexed_by(load, column));
    let [panel] = panels[..] else { return None };
    let apart = panel.indices.iter().all(|index| !uses_var(index, row));
    if !apart || others.is_empty() || !is_contiguous(info, panel, column) {
        return None;
    }
    let read = reader.loads.iter().find(|load| load.buffer == store.buffer)?;
    let read = read.indices[store.indices.len() - 2].as_var()?;
    let row = reader.axes.iter().position(|axis| axis.var == *read)?;
    (row + 2 < reader.axes.len()).then_some(row)
}

/// Height and width of the image, the last two axes of `reader`, which it reads from the columns of the product.
fn image_of(info: &BlockInfo, reader: &BlockInfo) -> Option<[i64; 2]> {
    let store = info.store.as_ref()?;
    let [.., height, width] = &reader.axes[..] else { return None };
    let extents = [height.extent.as_int()?, width.extent.as_int()?];
    let last = reader.contiguous_axis()? + 1 == reader.axes.len();
    let spatial = reader.axes.iter().all(|axis| axis.kind == IterKind::Spatial);
    let vars = [height.var.clone(), width.var.clone()];
    let mut reads = reader.loads.iter().filter(|load| load.buffer == store.buffer);
    let whole = reads.all(|load| {
        let (Some(index), outer) = (load.indices.last(), &load.indices[..load.indices.len() - 1]) else {
            return false;
        };
        let linear = detect_linear_equation(index, &vars, &Analyzer::new());
        let of_image = linear.is_some_and(|it| {
            it.base.is_const(0) && it.coefficients[0].is_const(extents[1]) && it.coefficients[1].is_const(1)
        });
        of_image && outer.iter().all(|index| vars.iter().all(|var| !uses_var(index, var)))
    });
    (last && spatial && whole).then_some(extents)
}

/// True if the elements that `load` reads along `column` follow each other in memory.
fn is_contiguous(info: &BlockInfo, load: &BufferLoad, column: &Var) -> bool {
    if stride(&load.indices, column) == Stride::One {
        return true;
    }
    let mut analyzer = Analyzer::new();
    info.axes.iter().for_each(|axis| {
        analyzer.bind_range(&axis.var, &Range::from_extent(axis.extent.clone()));
    });
    // What is in front of the first index along the column does not matter: that of a batch of unknown size, for example.
    let Some(first) = load.indices.iter().position(|at| uses_var(at, column)) else { return false };
    let mut index = load.indices[first].clone();
    for (at, extent) in load.indices.iter().zip(load.buffer.shape.iter()).skip(first + 1) {
        let Some(extent) = extent.as_int() else { return false };
        index = index * extent + at;
    }
    let linear = detect_linear_equation(&analyzer.simplify(&index), std::slice::from_ref(column), &analyzer);
    linear.is_some_and(|it| it.coefficients[0].is_const(1))
}

/// The block that reads what the block stores, if there is one and it is element-wise.
fn only_reader(s: &Schedule, info: &BlockInfo) -> Option<BlockInfo> {
    let store = info.store.as_ref().filter(|_| info.reduces)?;
    let reads = |block: &Block| block.reads.iter().any(|read| read.buffer == store.buffer);
    let mut readers =
        s.state().leaf_blocks().iter().filter(|it| it.block.name != info.name && reads(&it.block));
    let (reader, None) = (readers.next()?, readers.next()) else { return None };
    BlockInfo::of(s, &reader.block.name).filter(|reader| !reader.reduces)
}
