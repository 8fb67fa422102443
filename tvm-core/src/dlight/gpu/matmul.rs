//! Products of matrices, also of several at a time: tiles in shared memory, from which each thread sums a small tile in
//! registers.
//!
//! A block of 16 × 16 threads computes 64 × 64 results, 4 × 4 of them in each thread. For each 16 terms, the threads copy
//! 64 × 16 elements of both operands to shared memory (8 KiB in `f32`); each of these is then read by 16 threads. Per term, a
//! thread reads 8 elements and adds 16 products. 256 threads and 8 KiB leave room for several blocks on a multiprocessor of
//! every architecture, so that one computes while another one copies. An element-wise block that reads the product (a bias, an
//! activation, a residual) is computed where a thread writes its results.
//!
//! TVM counterpart: `dlight.gpu.Matmul`.

use super::GpuRule;
use crate::dlight::analysis::{Axis, BlockInfo, iterations};
use crate::dlight::inline::inline_epilogue;
use crate::target::GpuLimits;
use crate::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use crate::tir::{BufferLoad, IterKind, Scope, ThreadTag, uses_var};

pub(super) const RULE: GpuRule = GpuRule {
    name: "matmul",
    why: "both operands are read many times: tiles of them in shared memory, and a tile of sums in the registers of a thread",
    apply,
};

/// Threads of a block along each side.
const SIDE: i64 = 16;
/// Terms for which tiles are copied.
const TERMS: i64 = 16;
/// Terms of which the steps are unrolled, so that a thread reads them at once.
const STEPS: i64 = 4;
/// Constant extents from which on tiles are worth their copies.
const LEAST: i64 = 32;
/// Blocks that keep a GPU busy: one on each of 132 multiprocessors.
const BUSY: i64 = 132;

/// A tile of results: along each side, a thread has `parts` times `each` neighbours.
#[derive(Clone, Copy)]
struct Tile {
    parts: i64,
    each: i64,
}

impl Tile {
    /// The tiles, largest first.
    const ALL: [Tile; 3] = [Tile { parts: 2, each: 4 }, Tile { parts: 1, each: 4 }, Tile { parts: 1, each: 2 }];
    /// For extents that are not known.
    const MIDDLE: Tile = Tile::ALL[1];

    fn side(self) -> i64 {
        SIDE * self.parts * self.each
    }

    /// The largest tile of which there are enough for all multiprocessors.
    fn of(product: &Product, info: &BlockInfo) -> Tile {
        let extent = |at: usize| info.axes[at].extent.as_int();
        let batch = iterations(product.batch.iter().map(|&at| &info.axes[at]));
        let (Some(rows), Some(columns), Some(batch)) = (extent(product.row), extent(product.column), batch)
        else {
            return Tile::MIDDLE;
        };
        let count = |tile: &Tile| {
            let blocks = |extent: i64| (extent.max(1) + tile.side() - 1) / tile.side();
            blocks(rows).saturating_mul(blocks(columns)).saturating_mul(batch)
        };
        let [.., smallest] = Tile::ALL;
        Tile::ALL.into_iter().find(|tile| count(tile) >= BUSY).unwrap_or(smallest)
    }
}

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    let Some(product) = Product::of(&info, limits) else { return Ok(None) };
    let tile = Tile::of(&product, &info);
    let block = s.block(name)?;
    let out = s.cache_write(block, 0, Scope::Local)?;
    let fused = inline_epilogue(s, &info)?;
    let loops = s.get_loops(block)?;
    let batch: Vec<LoopRV> = product.batch.iter().map(|&at| loops[at]).collect();
    let own = [None, Some(tile.parts), Some(SIDE), Some(tile.each)];
    let [io, iv, it, ii] = s.split(loops[product.row], own)?;
    let [jo, jv, jt, ji] = s.split(loops[product.column], own)?;
    let [ko, km, ki] = s.split(loops[product.term], [None, Some(TERMS / STEPS), Some(STEPS)])?;
    s.reorder_n(&[&batch[..], &[io, jo, ko, it, jt, km, ki, iv, ii, jv, ji]].concat())?;
    s.reverse_compute_at(out, jo)?;
    let mut copies = Vec::new();
    for operand in 0..2 {
        let copy = s.cache_read(block, operand, Scope::Shared)?;
        s.compute_at(copy, ko)?;
        let v = std::env::var("TVM_MM").unwrap_or_default();
        if operand == 0 && product.batch.is_empty() {
            if v.contains('t') { s.transform_layout(copy, 0, "IK", "KI")?; }
            if v.contains('p') { s.storage_align(copy, 0, if v.contains('t') {0} else {-2}, 32, 4)?; }
        }
        copies.push(copy);
    }
    let outer = batch.len() + 2;
    let init = s.decompose_reduction(block, ko)?;
    // From outside to inside: each step is about what the threads of the kernel so far share.
    if !batch.is_empty() {
        let fused = s.fuse_n(&batch)?;
        s.bind(fused, ThreadTag::BlockIdxZ)?;
    }
    s.bind(io, ThreadTag::BlockIdxX)?;
    s.bind(jo, ThreadTag::BlockIdxY)?;
    let outer = if batch.is_empty() { outer } else { 3 };
    for copy in copies {
        // The loops inside of that over groups of terms.
        if !distribute(s, copy, outer + 1)? {
            return Ok(None);
        }
    }
    let inner = s.get_loops(init)?.split_off(outer);
    let [y, x, ref own @ ..] = inner[..] else { return Ok(None) };
    own_tile(s, [y, x], own)?;
    let results = s.get_loops(out)?.split_off(outer);
    let [.., row, column] = results[..] else { return Ok(None) };
    let [iv2, it2, ii2] = s.split(row, [None, Some(SIDE), Some(tile.each)])?;
    let [jv2, jt2, ji2] = s.split(column, [None, Some(SIDE), Some(tile.each)])?;
    s.reorder([it2, jt2, iv2, ii2, jv2, ji2])?;
    own_tile(s, [it2, jt2], &[iv2, ii2, jv2, ji2])?;
    own_tile(s, [it, jt], &[ki, iv, ii, jv, ji])?;
    let epilogue = if fused { ", with the block that reads it" } else { "" };
    let (side, each) = (tile.side(), tile.parts * tile.each);
    Ok(Some(format!("tiles of {side}x{side}x{TERMS}, {each}x{each} in a thread{epilogue}")))
}

/// Copies a tile with all threads, neighbours in memory by neighbours; false if the tile has no two loops.
fn distribute(s: &mut Schedule, copy: BlockRV, outer: usize) -> Result<bool, ScheduleError> {
    let loops = s.get_loops(copy)?.split_off(outer);
    // Loops outside of these are over one matrix.
    let [.., row, column] = loops[..] else { return Ok(false) };
    let [ro, ry] = s.split(row, [None, Some(SIDE)])?;
    let [co, cx] = s.split(column, [None, Some(SIDE)])?;
    s.reorder([ro, co, ry, cx])?;
    s.bind(ry, ThreadTag::ThreadIdxY)?;
    s.bind(cx, ThreadTag::ThreadIdxX)?;
    Ok(true)
}

/// Binds the loops over the threads of a tile of results, and unrolls those over what a thread has.
fn own_tile(s: &mut Schedule, [y, x]: [LoopRV; 2], own: &[LoopRV]) -> Result<(), ScheduleError> {
    s.bind(y, ThreadTag::ThreadIdxY)?;
    s.bind(x, ThreadTag::ThreadIdxX)?;
    own.iter().try_for_each(|it| s.unroll(*it))
}

/// The axes of a product, as indices of the loops around the block.
struct Product {
    batch: Vec<usize>,
    row: usize,
    column: usize,
    term: usize,
}

impl Product {
    fn of(info: &BlockInfo, limits: &GpuLimits) -> Option<Product> {
        let [a, b] = &info.loads[..] else { return None };
        let store = info.store.as_ref().filter(|_| info.reduces && !info.shifted)?;
        let uses =
            |load: &BufferLoad, axis: &Axis| load.indices.iter().any(|index| uses_var(index, &axis.var));
        let (mut batch, mut rows, mut columns, mut terms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, axis) in info.axes.iter().enumerate() {
            match (axis.kind, uses(a, axis), uses(b, axis)) {
                (IterKind::Reduce, true, true) => terms.push(at),
                (IterKind::Spatial, true, true) => batch.push(at),
                (IterKind::Spatial, true, false) => rows.push(at),
                (IterKind::Spatial, false, true) => columns.push(at),
                _ => return None,
            }
        }
        // Indices are axes themselves, so that the parts of a tile are copied without gaps.
        let plain = |load: &BufferLoad| load.indices.iter().all(|index| index.as_var().is_some());
        let ([row], [column], [term]) = (&rows[..], &columns[..], &terms[..]) else { return None };
        let large = [row, column, term]
            .into_iter()
            .all(|&at| info.axes[at].extent.as_int().is_none_or(|extent| extent >= LEAST));
        let blocks = iterations(batch.iter().map(|&at| &info.axes[at]));
        let few = blocks.is_some_and(|count| count <= limits.grid[2]);
        // A thread reads its results column by column from rows that follow each other.
        let in_order = store.indices.last().and_then(|it| it.as_var()) == Some(&info.axes[*column].var);
        (large && few && in_order && plain(a) && plain(b) && limits.threads_per_block >= SIDE * SIDE)
            .then_some(Product { batch, row: *row, column: *column, term: *term })
    }
}
