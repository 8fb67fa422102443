//! Products of matrices, also of several at a time: tiles in shared memory, from which each thread sums a small tile in
//! registers.
//!
//! A block of 16 × 16 threads computes up to 128 × 128 results, 8 × 8 of them in each thread. For each 16 terms, the threads copy
//! 128 × 16 elements of both operands to shared memory (16 KiB in `f32`); each of these is then read by 16 threads. Per term, a
//! thread reads 16 elements and adds 64 products. The elements of the next 16 terms are copied, to other places, while the threads
//! compute ([`SOFTWARE_PIPELINE`]), but for those of windows. 256 threads of 128 registers leave room for two blocks on a multiprocessor of every
//! architecture. Smaller products have smaller tiles, by an estimate of the time ([`Tile::time`]).
//!
//! In shared memory, neighbours along the side of a tile are neighbours, so that a thread reads four of them at once. An operand
//! whose terms are neighbours in memory is turned as it is copied; its rows have four elements more than they need, so that those
//! of a column are in different banks. Each half of what a thread has along a side is 64 elements from the other one, so that 16
//! threads read 64 elements that follow each other.
//!
//! An element-wise block that reads the product (a bias, an activation, a residual) is computed where a thread writes its results
//! (`results.rs`, which also makes all tiles whole).
//!
//! TVM counterpart: `dlight.gpu.Matmul`.

use super::parts::Parts;
use super::results::Results;
use super::{GpuRule, MULTIPROCESSORS, WIDEST};
use crate::dlight::analysis::{BlockInfo, indexed_by, iterations};
use crate::target::GpuLimits;
use crate::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use crate::tir::transform::{PRAGMA_UNROLL, SOFTWARE_PIPELINE};
use crate::tir::{Block, Buffer, BufferLoad, IterKind, IterVar, Scope, ThreadTag};

pub(super) const RULE: GpuRule = GpuRule {
    name: "matmul",
    why: "both operands are read many times: tiles of them in shared memory, and a tile of sums in the registers of a thread",
    apply,
};

/// Threads of a block along each side.
const SIDE: i64 = 16;
/// Terms for which tiles are copied.
const TERMS: i64 = 16;
/// Terms whose products are unrolled.
const STEPS: i64 = 4;
/// Results of a thread below which it reads more elements for a step than it has sums.
const SMALL: i64 = 16;
/// Times [`STEPS`] that the compiler is to put one after the other in a pipeline of small tiles. If it took all of a tile, it would
/// load more elements in advance than there are registers.
const TOGETHER: i64 = 2;
/// Blocks that a multiprocessor has registers for.
const RESIDENT: i64 = 2;
/// Elements that a turned row of a tile has more than it needs.
const PAD: i64 = 4;
/// Constant extents from which on tiles are worth their copies.
const LEAST: i64 = 32;

/// What a thread has along one side of a tile: `groups` times `each` neighbours.
#[derive(Clone, Copy, PartialEq)]
struct Side {
    groups: i64,
    each: i64,
}

impl Side {
    const LONG: Side = Side { groups: 2, each: 4 };
    const MIDDLE: Side = Side { groups: 1, each: 4 };
    const SHORT: Side = Side { groups: 1, each: 2 };

    /// The results of a thread.
    const fn own(self) -> i64 {
        self.groups * self.each
    }

    /// The results of a block.
    const fn all(self) -> i64 {
        SIDE * self.own()
    }
}

/// A tile of results.
#[derive(Clone, Copy)]
struct Tile {
    rows: Side,
    columns: Side,
}

impl Tile {
    /// The tiles; of two that take as long, the first one is chosen, because it reads its operands less often.
    const ALL: [Tile; 6] = [
        Tile { rows: Side::LONG, columns: Side::LONG },
        Tile { rows: Side::LONG, columns: Side::MIDDLE },
        Tile { rows: Side::MIDDLE, columns: Side::LONG },
        Tile { rows: Side::MIDDLE, columns: Side::MIDDLE },
        Tile { rows: Side::MIDDLE, columns: Side::SHORT },
        Tile { rows: Side::SHORT, columns: Side::SHORT },
    ];
    /// For extents that are not known.
    const MIDDLE: Tile = Tile::ALL[3];

    /// The tile for which the product takes the least time.
    fn of(product: &Product, info: &BlockInfo) -> Tile {
        let extent = |at: usize| info.axes[at].extent.as_int();
        let batch = iterations(product.batch.iter().map(|&at| &info.axes[at]));
        let (Some(rows), Some(columns), Some(batch)) = (extent(product.row), extent(product.column), batch)
        else {
            return Tile::MIDDLE;
        };
        let time = |tile: &Tile| {
            let blocks = |extent: i64, side: Side| (extent.max(1) - 1) / side.all() + 1;
            let count = blocks(rows, tile.rows).saturating_mul(blocks(columns, tile.columns));
            tile.time(count.saturating_mul(batch))
        };
        Tile::ALL.into_iter().min_by_key(time).unwrap_or(Tile::MIDDLE)
    }

    /// The side of the tile along which `load` is contiguous in memory: of the rows or of the columns.
    fn side_of(&self, product: &Product, info: &BlockInfo, load: &BufferLoad) -> Side {
        let last = load.indices.last().and_then(|it| it.as_var());
        if last == Some(&info.axes[product.row].var) { self.rows } else { self.columns }
    }

    /// Bytes of the parts of both operands for one step.
    fn bytes(&self, element: i64) -> i64 {
        (self.rows.all() + PAD + self.columns.all() + PAD) * TERMS * element
    }

    /// Clocks that a multiprocessor takes for a term of all of its tiles, if there are `count` of them on the GPU.
    ///
    /// Of the eight warps of a tile, each of four schedulers has two. A warp takes a clock for each product, two for each load from
    /// shared memory of four neighbours (which have half the rate of other instructions), three for each element that it copies, and
    /// one for the loop. Beside that, threads wait for the latency of shared memory and at barriers, once for all blocks that a
    /// multiprocessor has at a time. At 4096³ an H200 takes 188 clocks for a term of a tile of 128 × 128 without copies under way.
    fn time(&self, count: i64) -> i64 {
        let (rows, columns) = (self.rows.own(), self.columns.own());
        let products = rows * columns;
        let loads = self.rows.groups + self.columns.groups;
        let copies = 3 * (self.rows.all() + self.columns.all()) / (SIDE * SIDE);
        let each = 2 * (products + 2 * loads + copies + 1);
        let own = (count.max(1) - 1) / MULTIPROCESSORS + 1;
        own.saturating_mul(each).saturating_add(12 * ((own - 1) / RESIDENT + 1))
    }
}

fn apply(s: &mut Schedule, name: &str, limits: &GpuLimits) -> Result<Option<String>, ScheduleError> {
    let Some(info) = BlockInfo::of(s, name) else { return Ok(None) };
    let Some(product) = Product::of(&info, limits, false) else { return Ok(None) };
    let mut fork = s.clone();
    if let Some(parts) = Parts::of(&info)
        && let Ok(Some(text)) = parts.schedule(&mut fork, &info, limits)
    {
        *s = fork;
        return Ok(Some(text));
    }
    tile(s, &info, &product, limits, Operands::Matrices)
}

/// How copies find the elements of operands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Operands {
    /// They are matrices in memory.
    Matrices,
    /// Rows, columns or terms are several axes of tensors in memory.
    Tensors,
    /// Places are sums of axes, as in the windows of a convolution.
    Windows,
}

/// Computes `product`, the block of `info`, in tiles. Returns what it chose; `None` if an operand has no two axes.
pub(super) fn tile(
    s: &mut Schedule,
    info: &BlockInfo,
    product: &Product,
    limits: &GpuLimits,
    operands: Operands,
) -> Result<Option<String>, ScheduleError> {
    let block = s.block(&info.name)?;
    let tile = Tile::of(product, info);
    let Some(realize) = info.realize(s) else { return Ok(None) };
    let multiples = product.multiples(info, &realize.block, [tile.rows.all(), tile.columns.all(), TERMS]);
    let results = Results::of(s, info, &multiples)?;
    let loops = s.get_loops(block)?;
    let batch: Vec<LoopRV> = product.batch.iter().map(|&at| loops[at]).collect();
    let own = |side: Side| [None, Some(side.groups), Some(SIDE), Some(side.each)];
    let [io, iv, it, ii] = s.split(loops[product.row], own(tile.rows))?;
    let [jo, jv, jt, ji] = s.split(loops[product.column], own(tile.columns))?;
    let [ko, km, ki] = s.split(loops[product.term], [None, Some(TERMS / STEPS), Some(STEPS)])?;
    s.reorder_n(&[&batch[..], &[io, jo, ko, it, jt, km, ki, iv, ii, jv, ji]].concat())?;
    let (out, fused) = results.write_at(s, &info.name, jo)?;
    let mut copies = Vec::new();
    for operand in product.operands {
        let copy = s.cache_read(block, operand, Scope::Shared)?;
        s.compute_at(copy, ko)?;
        let load = &info.loads[operand];
        let mut lanes = 1;
        if product.turned(info, operand) {
            turn(s, copy, load.indices.len())?;
        } else if operands == Operands::Matrices {
            lanes = neighbours(&load.buffer, tile.side_of(product, info, load));
        }
        copies.push((copy, lanes));
    }
    let init = s.decompose_reduction(block, ko)?;
    // From outside to inside: each step is about what the threads of the kernel so far share.
    let count = iterations(product.batch.iter().map(|&at| &info.axes[at]));
    let apart = !batch.is_empty() && count.is_some_and(|count| count <= limits.grid[2]);
    if apart {
        let fused = s.fuse_n(&batch)?;
        s.bind(fused, ThreadTag::BlockIdxZ)?;
        s.bind(io, ThreadTag::BlockIdxX)?;
    } else {
        // The grid is large along this axis alone.
        let fused = s.fuse_n(&[&batch[..], &[io]].concat())?;
        s.bind(fused, ThreadTag::BlockIdxX)?;
    }
    s.bind(jo, ThreadTag::BlockIdxY)?;
    let outer = if apart { 3 } else { 2 };
    for (copy, lanes) in copies {
        // The loops inside of that over groups of terms.
        if !distribute(s, copy, outer + 1, lanes)? {
            return Ok(None);
        }
    }
    let inner = s.get_loops(init)?.split_off(outer);
    let [y, x, ref own @ ..] = inner[..] else { return Ok(None) };
    own_tile(s, [y, x], own)?;
    let of_results = s.get_loops(out)?.split_off(outer);
    let [.., row, column] = of_results[..] else { return Ok(None) };
    let [row_group, of_row, i] = s.split(row, [None, Some(SIDE), Some(tile.rows.each)])?;
    let [column_group, of_column, j] = s.split(column, [None, Some(SIDE), Some(tile.columns.each)])?;
    s.reorder([of_row, of_column, row_group, i, column_group, j])?;
    own_tile(s, [of_row, of_column], &[row_group, i, column_group])?;
    if s.vectorize(j).is_err() {
        s.unroll(j)?;
    }
    own_tile(s, [it, jt], &[ki, iv, ii, jv, ji])?;
    results.inline_operands(s)?;
    let element = product.operands.into_iter().map(|at| info.loads[at].buffer.dtype.bytes() as i64).max();
    let room = tile.bytes(element.unwrap_or(8)) * 2 <= limits.static_shared_bytes;
    // To find the elements of windows for the next step takes more time than the threads waited.
    if operands != Operands::Windows && limits.async_copies && room {
        s.annotate(ko, SOFTWARE_PIPELINE, true)?;
        if tile.rows.own() * tile.columns.own() < SMALL {
            s.annotate(km, PRAGMA_UNROLL, TOGETHER)?;
        }
    }
    let epilogue = if fused { ", with the block that reads it" } else { "" };
    let [[rows, own_rows], [columns, own_columns]] = [tile.rows, tile.columns].map(|it| [it.all(), it.own()]);
    let text = format!("tiles of {rows}x{columns}x{TERMS}, {own_rows}x{own_columns} in a thread{epilogue}");
    Ok(Some(text))
}

/// How many neighbours along the last axis of `buffer`, of `side` in a tile, a thread copies at once: as many as it reads together, if
/// each row begins at a multiple of them.
fn neighbours(buffer: &Buffer, side: Side) -> i64 {
    let bytes = buffer.dtype.bytes() as i64;
    let row = buffer.shape.last().and_then(|it| it.as_int()).unwrap_or(1);
    if side.each * bytes <= WIDEST && row % side.each == 0 { side.each } else { 1 }
}

/// Copies a tile with all threads, neighbours in memory by neighbours, `lanes` of them by one thread; false if the tile has no two
/// loops.
fn distribute(s: &mut Schedule, copy: BlockRV, outer: usize, lanes: i64) -> Result<bool, ScheduleError> {
    let loops = s.get_loops(copy)?.split_off(outer);
    // Loops outside of these are over one matrix.
    let [.., row, column] = loops[..] else { return Ok(false) };
    let [ro, ry] = s.split(row, [None, Some(SIDE)])?;
    let [co, cx, own] = s.split(column, [None, Some(SIDE), Some(lanes)])?;
    // Threads outside, so that they wait for each other once, and all their loads are under way together.
    s.reorder([ry, cx, ro, co, own])?;
    if lanes > 1 {
        s.vectorize(own)?;
    }
    s.bind(ry, ThreadTag::ThreadIdxY)?;
    s.bind(cx, ThreadTag::ThreadIdxX)?;
    Ok(true)
}

/// Exchanges the last two axes of a tile in shared memory, which has `rank` of them.
fn turn(s: &mut Schedule, copy: BlockRV, rank: usize) -> Result<(), ScheduleError> {
    let plain: String = ('A'..='Z').take(rank).collect();
    let turned: String = match plain.char_indices().rev().nth(1) {
        Some((at, _)) => plain[..at].chars().chain(plain[at..].chars().rev()).collect(),
        None => return Ok(()),
    };
    s.transform_layout(copy, 0, &plain, &turned)?;
    s.storage_align(copy, 0, rank as i64 - 2, 32, PAD)
}

/// Binds the loops over the threads of a tile of results, and unrolls those over what a thread has.
fn own_tile(s: &mut Schedule, [y, x]: [LoopRV; 2], own: &[LoopRV]) -> Result<(), ScheduleError> {
    s.bind(y, ThreadTag::ThreadIdxY)?;
    s.bind(x, ThreadTag::ThreadIdxX)?;
    own.iter().try_for_each(|it| s.unroll(*it))
}

/// The axes of a product, as indices of the loops around the block.
pub(super) struct Product {
    /// The positions of the operand of the rows and of that of the columns among what the block reads.
    operands: [usize; 2],
    batch: Vec<usize>,
    row: usize,
    column: usize,
    term: usize,
}

impl Product {
    /// The product that the block of `info` computes. With `several`, a side may have several axes, of which all but the last one
    /// count as axes of the batch; otherwise it has one.
    pub(super) fn of(info: &BlockInfo, limits: &GpuLimits, several: bool) -> Option<Product> {
        let [a, b] = &info.loads[..] else { return None };
        let first = Product::of_operands(info, [0, 1], [a, b], limits, several);
        first.or_else(|| Product::of_operands(info, [1, 0], [b, a], limits, several))
    }

    /// True if the terms of this operand are neighbours in memory.
    fn turned(&self, info: &BlockInfo, operand: usize) -> bool {
        let last = info.loads[operand].indices.last().and_then(|it| it.as_var());
        last == Some(&info.axes[self.term].var)
    }

    /// The multiples of which the axes of the block are whole tiles.
    fn multiples(&self, info: &BlockInfo, block: &Block, [rows, columns, terms]: [i64; 3]) -> Vec<i64> {
        let of = |axis: &IterVar| match info.axes.iter().position(|it| it.var == axis.var) {
            Some(at) if at == self.term => terms,
            Some(at) if at == self.row => rows,
            Some(at) if at == self.column => columns,
            _ => 1,
        };
        block.iter_vars.iter().map(of).collect()
    }

    /// The product, if its rows are those of `a`.
    fn of_operands(
        info: &BlockInfo,
        operands: [usize; 2],
        [a, b]: [&BufferLoad; 2],
        limits: &GpuLimits,
        several: bool,
    ) -> Option<Product> {
        let store = info.store.as_ref().filter(|_| info.reduces && !info.shifted)?;
        let (mut batch, mut rows, mut columns, mut terms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, axis) in info.axes.iter().enumerate() {
            match (axis.kind, indexed_by(a, &axis.var), indexed_by(b, &axis.var)) {
                (IterKind::Reduce, true, true) => terms.push(at),
                (IterKind::Spatial, true, true) => batch.push(at),
                (IterKind::Spatial, true, false) => rows.push(at),
                (IterKind::Spatial, false, true) => columns.push(at),
                _ => return None,
            }
        }
        // Indices are axes themselves, so that the parts of a tile are copied without gaps.
        let plain = |load: &BufferLoad| load.indices.iter().all(|index| index.as_var().is_some());
        // If their number is not known, the matrices may be small, and are left to other rules.
        let few = iterations(batch.iter().map(|&at| &info.axes[at])).is_some_and(|it| it <= limits.grid[2]);
        for side in [&mut rows, &mut columns].into_iter().filter(|_| several) {
            batch.extend(side.drain(..side.len().saturating_sub(1)));
        }
        batch.sort_unstable();
        let ([row], [column], [term]) = (&rows[..], &columns[..], &terms[..]) else { return None };
        let large = [row, column, term]
            .into_iter()
            .all(|&at| info.axes[at].extent.as_int().is_none_or(|extent| extent >= LEAST));
        // A thread reads its results column by column from rows that follow each other.
        let in_order = store.indices.last().and_then(|it| it.as_var()) == Some(&info.axes[*column].var);
        (large && few && in_order && plain(a) && plain(b) && limits.threads_per_block >= SIDE * SIDE)
            .then_some(Product { operands, batch, row: *row, column: *column, term: *term })
    }
}
