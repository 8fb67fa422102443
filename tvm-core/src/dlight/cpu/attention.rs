//! Attention: scores, maxima, exponentials, sums and products of a tile of rows at a time.
//!
//! The scores of a tile stay in the second-level cache, so that those of all rows are never in memory. The keys are
//! transposed once; threads take different heads and tiles.

use super::SHARES_PER_CORE;
use super::contraction::{Packed, TRANSPOSED_ROWS, pack, rows_of};
use super::parallel;
use super::rows::PIECE;
use crate::arith::Analyzer;
use crate::dlight::Rule;
use crate::dlight::analysis::{Axis, BlockInfo};
use crate::target::Machine;
use crate::tir::Scope;
use crate::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use crate::tir::transform::REDUCTION_LANES;

pub(super) const RULE: Rule = Rule {
    name: "attention",
    why: "the scores of a tile of rows stay in a cache, and those of all rows are never in memory",
    apply,
};

/// Rows of a tile at most: enough rows share the keys and values that are loaded from the cache.
const ROWS: i64 = 32;

/// The blocks of `topi::attention`, from the first to the last.
const BLOCKS: [&str; 7] = [
    "attention_scores",
    "attention_scaled",
    "attention_max",
    "attention_exp",
    "attention_sum",
    "attention_product",
    "attention",
];

/// The blocks that copy queries, keys and bias where their numbers are rounded up. This rule places them.
pub(in crate::dlight) const PADDED: [&str; 3] = ["attention_queries", "attention_keys", "attention_bias"];

/// Symbolic numbers of queries are rounded up to a multiple of this one.
const PADDED_ROWS: i64 = 8;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let (true, Some(store)) = (&*info.name == BLOCKS[0], &info.store) else { return Ok(None) };
    // Somebody else's block may have the name.
    let [.., row_axis, terms, _] = &info.axes[..] else { return Ok(None) };
    let keys = info.loads.get(1).map(|load| load.buffer.clone());
    let Some(keys) = keys.filter(|keys| keys.shape.len() + 1 == info.axes.len()) else { return Ok(None) };
    let lanes = i64::from(machine.lanes(store.buffer.dtype));
    let most = if machine.vector_registers >= 32 { 8 } else { 6 };
    let queries = row_axis.extent.as_int();
    if queries.is_some_and(|queries| queries < TRANSPOSED_ROWS) {
        return Ok(None);
    }
    // Where extents were rounded up, tiles and vectors have no remainder.
    let [padded_queries, padded_keys, padded_bias] = PADDED.map(|name| s.block(name).ok());
    let is_multiple = |axis: &Axis, of: i64| {
        Analyzer::of_indices([&axis.extent]).modular_set(&axis.extent).is_multiple_of(of)
    };
    let padded_rows =
        padded_queries.is_some().then_some(PADDED_ROWS).filter(|&rows| is_multiple(row_axis, rows));
    let tile = match padded_rows {
        Some(rows) if most < rows => rows / 2,
        Some(rows) => rows,
        None => rows_of(queries, most),
    };
    // Scores and exponentials of a tile take half of the second-level cache.
    let bytes = 2 * store.buffer.dtype.bytes() as i64;
    let bytes = bytes.saturating_mul(terms.extent.as_int().unwrap_or(ROWS).max(1));
    let fitting = (machine.l2_bytes as i64 / 2 / bytes).clamp(tile, ROWS.max(tile));
    let rows = padded_rows.unwrap_or(fitting / tile * tile);
    let columns = 2 * lanes;

    let mut blocks = Vec::new();
    for name in BLOCKS {
        blocks.push(s.block(name)?);
    }
    let product_info = BlockInfo::of(s, BLOCKS[5]);
    let Some([.., channels, _]) = product_info.as_ref().map(|it| &it.axes[..]) else { return Ok(None) };
    let &[scores, scaled, largest, exp, sum, product, result] = &blocks[..] else { return Ok(None) };
    s.compute_inline(scaled)?;
    let written = [scores, product].map(|block| s.cache_write(block, 0, Scope::Local));
    let [scores_write, product_write] = [written[0].clone()?, written[1].clone()?];
    let loops = s.get_loops(result)?;
    let [heads @ .., row, column] = &loops[..] else { return Ok(None) };
    let [tiles, _] = s.split(*row, [None, Some(rows)])?;
    vectors(s, *column, channels, PIECE * lanes)?;
    for block in [product_write, product, sum, exp, largest, scores_write, scores] {
        s.compute_at(block, tiles)?;
    }
    if let (Some(block), Some(depth)) = (padded_queries, info.axes.last()) {
        copy_rows(s, block, tiles, depth, PIECE * lanes)?;
    }
    // A bias without rows is copied once.
    if let Some(block) = padded_bias
        && let Some(BlockInfo { store: Some(bias), .. }) = BlockInfo::of(s, PADDED[2])
        && let [.., rows, _] = &bias.buffer.shape[..]
        && !rows.is_const(1)
    {
        copy_rows(s, block, tiles, terms, columns)?;
    }
    for block in [largest, sum] {
        if let Some(&terms) = s.get_loops(block)?.last() {
            s.annotate(terms, REDUCTION_LANES, true)?;
        }
    }
    if let Some(&of_exp) = s.get_loops(exp)?.last() {
        vectors(s, of_exp, terms, if padded_keys.is_some() { columns } else { PIECE * lanes })?;
    }
    for (block, write) in [(scores, scores_write), (product, product_write)] {
        in_registers(s, block, write, [tile, columns])?;
    }
    let leaf = s.state().leaf_blocks().iter().find(|it| &*it.block.name == BLOCKS[0]);
    let at = leaf.and_then(|it| it.block.reads.iter().position(|read| read.buffer == keys));
    let Some(at) = at else { return Ok(None) };
    let turned = s.cache_read(scores, at, Scope::Global)?;
    let whole = is_multiple(terms, columns);
    pack(s, turned, &Packed { buffer: keys, transposed: true, blocked: whole.then_some(columns) }, lanes)?;
    if let Some(block) = padded_keys {
        s.compute_inline(block)?;
    }
    let turning = s.get_loops(turned)?;
    parallel(s, info, &turning[..heads.len()])?;
    // Tiles that may have a remainder are not fused, so that lowering can divide them from it, if the heads are enough for all
    // cores.
    let of_heads = info.axes[..heads.len()].iter().filter_map(|axis| axis.extent.as_int()).product::<i64>();
    let exact = queries.is_some_and(|queries| queries % rows == 0) || padded_rows.is_some();
    let enough = of_heads >= SHARES_PER_CORE * i64::from(machine.cores);
    let taken = if exact || !enough { [heads, &[tiles]].concat() } else { heads.to_vec() };
    parallel(s, info, &taken)?;
    Ok(Some(format!("{rows} rows at a time, tile {tile}x{columns}")))
}

/// Makes `block` copy the rows of a tile, which run along `axis`, beside their use.
fn copy_rows(
    s: &mut Schedule,
    block: BlockRV,
    tiles: LoopRV,
    axis: &Axis,
    piece: i64,
) -> Result<(), ScheduleError> {
    s.compute_at(block, tiles)?;
    match s.get_loops(block)?.last() {
        Some(&columns) => vectors(s, columns, axis, piece),
        None => Ok(()),
    }
}

/// Makes vectors of a loop over the columns of a block, which run along `axis`: of all columns, or of `piece` of a symbolic number.
fn vectors(s: &mut Schedule, columns: LoopRV, axis: &Axis, piece: i64) -> Result<(), ScheduleError> {
    let constant = axis.extent.as_int().is_some();
    let inner = if constant { columns } else { s.split(columns, [None, Some(piece)])?[1] };
    s.vectorize(inner)
}

/// Keeps a tile of the product in registers while its terms are added.
fn in_registers(
    s: &mut Schedule,
    block: BlockRV,
    write: BlockRV,
    [rows, columns]: [i64; 2],
) -> Result<(), ScheduleError> {
    let loops = s.get_loops(block)?;
    let &[.., row, column, terms] = &loops[..] else { return Ok(()) };
    let [row_tiles, row] = s.split(row, [None, Some(rows)])?;
    let [column_tiles, column] = s.split(column, [None, Some(columns)])?;
    s.reorder([column_tiles, row_tiles, terms, row, column])?;
    s.reverse_compute_at(write, row_tiles)?;
    let write_loops = s.get_loops(write)?;
    // Those around the tile are the loops of the block up to the tiles of rows.
    let inner = loops.len() - 1;
    if let Some((&columns, rows)) = write_loops[inner..].split_last() {
        rows.iter().try_for_each(|&row| s.unroll(row))?;
        s.vectorize(columns)?;
    }
    s.unroll(row)?;
    s.vectorize(column)?;
    s.decompose_reduction(block, terms)?;
    Ok(())
}
