//! Convolutions by Winograd's algorithm in one program: some rows of tiles at a time.
//!
//! Transformed data and products are two to nine times as large as the images that they come from and go to. Those of some rows of tiles
//! stay in the second-level cache together with the weights, so that they are never in memory.
//!
//! Programs of images of symbolic size say the columns of a part, so that transformed data and products have an axis of parts: the proofs
//! that threads use different parts would take seconds otherwise.

use super::choice::{self, Choice};
use super::contraction::{rows_of, tall_rows};
use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::BlockInfo;
use crate::target::Machine;
use crate::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use crate::tir::transform::UNDIVIDED;
use crate::tir::{Buffer, PrimExpr, Scope};

pub(super) const RULE: Rule = Rule {
    name: "winograd",
    why: "transformed data and products of some rows of tiles stay in a cache, and those of all are never in memory",
    apply,
};

/// The blocks of `topi::winograd_conv` but for the last one, from the first to the last. Without padding, there is no first one.
const BLOCKS: [&str; 5] =
    ["pad_temp", "winograd_rows", "winograd_data", "winograd_product", "winograd_result_rows"];

/// Columns of tiles at least that are computed at a time, if there are as many: they are the rows of a tile of the product.
const COLUMNS: i64 = 8;

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let [pad, data_rows, data, product, result_rows] = BLOCKS;
    if ![pad, data_rows].contains(&&*info.name) {
        return Ok(None);
    }
    let all = [data, product, result_rows].map(|name| BlockInfo::of(s, name));
    let [Some(of_data), Some(of_product), Some(of_rows)] = all else { return Ok(None) };
    let Some(of_result) = choice::only_reader(s, &of_rows) else { return Ok(None) };
    let choices = choice::choices_of_reader(&of_rows, &choice::choices(&of_rows), &of_result);
    // The axis of rows of the image, of which a row of tiles takes several.
    let axis_of = |index: usize| axis_of(&of_result, index);
    let chooses = |axis: &usize| choices.iter().any(|it| it.axis == *axis);
    let [Some(height), Some(width)] = [2, 3].map(|index| axis_of(index).filter(chooses)) else {
        return Ok(None);
    };
    let [Some(data_buffer), Some(products)] = [&of_data, &of_product].map(stored) else { return Ok(None) };
    let Some(part) = part(&data_buffer, &products, &of_product, machine) else { return Ok(None) };
    let Some(of_data_rows) = BlockInfo::of(s, data_rows) else { return Ok(None) };
    let padding = s.block(pad).ok();
    let (data_rows, data) = (s.block(data_rows)?, s.block(data)?);
    let (product, result_rows) = (s.block(product)?, s.block(result_rows)?);
    let products_write = s.cache_write(product, 0, Scope::Local)?;
    let result = s.block(&of_result.name)?;
    let loops = s.get_loops(result)?;
    let Some(split) = choice::split(s, &of_result, &loops, &choices, machine)? else { return Ok(None) };
    let (mut around, mut parts, mut inner) = (Vec::new(), None, Vec::new());
    for it in &split.outer {
        if it.axis == height {
            let [rows_of_tiles, row] = s.split(it.over, [None, Some(part.rows)])?;
            around.push(rows_of_tiles);
            inner.push(row);
        } else if it.axis == width && !part.is_whole {
            let [over, column] = s.split(it.over, [None, Some(part.columns)])?;
            parts = Some(over);
            inner.push(column);
        } else if Some(it.axis) == axis_of(0) {
            around.insert(0, it.over);
        } else {
            inner.push(it.over);
        }
    }
    around.extend(parts);
    let Some(&chunk) = around.last() else { return Ok(None) };
    split.unroll(s, 0, &[&around[..], &inner].concat(), Some(result_rows))?;
    for block in [products_write, product, data] {
        s.compute_at(block, chunk)?;
    }
    let channels = 2 * i64::from(machine.lanes(products.dtype));
    let channels =
        products.shape.last().and_then(PrimExpr::as_int).map_or(channels, |extent| extent.min(channels));
    let tile = [tile_rows(part.columns, machine), channels];
    if multiply(s, [product, products_write], tile, (around.len(), products.shape.len()))?.is_none() {
        return Ok(None);
    };
    let choices = choice::choices_of_reader(&of_data_rows, &choice::choices(&of_data_rows), &of_data);
    // Divisions by symbolic numbers of rows and parts would take long to prove, so threads share rows of tiles. Only the result has
    // conditions in the last row and in the last part.
    let shared = match around[..] {
        [.., rows, parts] if products.shape.len() == 8 => {
            [rows, parts].into_iter().try_for_each(|it| s.annotate(it, UNDIVIDED, true))?;
            Some(rows)
        }
        _ => None,
    };
    let padding = padding.map(|it| (it, shared));
    let transformed = transform(s, [data, data_rows], padding, (&of_data, &choices), around.len(), machine)?;
    match shared {
        Some(rows) => s.parallel(rows)?,
        None => parallel(s, &of_result, &around)?,
    }
    let [tile_rows, tile_columns] = tile;
    let of_row = if part.is_whole { String::new() } else { format!("{} columns of ", part.columns) };
    let rows = part.rows;
    Ok(transformed
        .map(|()| format!("{of_row}{rows} rows of tiles at a time, tile {tile_rows}x{tile_columns}")))
}

/// The axis of the block that is an index of what it stores.
fn axis_of(info: &BlockInfo, index: usize) -> Option<usize> {
    let var = info.store.as_ref()?.indices.get(index)?.as_var()?;
    info.axes.iter().position(|axis| axis.var == *var)
}

/// What the block stores, if it has the axes of transformed tiles, with or without parts of rows.
fn stored(info: &BlockInfo) -> Option<Buffer> {
    let store = info.store.as_ref()?;
    [7, 8].contains(&store.indices.len()).then(|| store.buffer.clone())
}

/// The tiles that are computed at a time.
struct Part {
    rows: i64,
    columns: i64,
    /// True if `columns` are all of them.
    is_whole: bool,
}

/// The tiles that stay in the second-level cache with the weights: as many rows of them as let threads take the least time, or else some
/// columns of one row. `None` if the size of images is not constant.
fn part(data: &Buffer, products: &Buffer, info: &BlockInfo, machine: &Machine) -> Option<Part> {
    let bytes = |extents: &mut dyn Iterator<Item = &PrimExpr>| {
        let mut extents = extents.map(PrimExpr::as_int);
        extents.try_fold(data.dtype.bytes() as i64, |size, extent| size.checked_mul(extent?))
    };
    // Without the axes of images, rows and columns of tiles.
    let last = data.shape.len() - 1;
    let of_tile = |buffer: &Buffer| bytes(&mut buffer.shape[..3].iter().chain(&buffer.shape[last..]));
    let weights = info.loads.iter().filter(|load| load.buffer != *data);
    let weights = weights.filter_map(|load| bytes(&mut load.buffer.shape.iter())).sum::<i64>();
    let tile = of_tile(data)?.saturating_add(of_tile(products)?).max(1);
    let most = (machine.l2_bytes as i64).saturating_sub(weights) / tile;
    let [images, rows, columns] = [3, 4, 5].map(|axis| data.shape[axis].as_int());
    if last == 7 {
        return Some(Part { rows: 1, columns: data.shape[6].as_int()?, is_whole: false });
    }
    // One image is the least of a number that is not known.
    let (images, rows, columns) = (images.unwrap_or(1), rows?, columns?);
    // All rows of a tile of the product are within a part.
    let is_exact = |part: &i64| part % tile_rows(*part, machine) == 0;
    if most < columns || !is_exact(&columns) {
        let computed = |part: &i64| ceil_div(columns, *part) * part;
        let sizes = (COLUMNS.min(columns)..=most.max(COLUMNS).min(columns)).rev().filter(is_exact);
        let columns = sizes.min_by_key(|part| (computed(part), ceil_div(columns, *part)))?;
        return Some(Part { rows: 1, columns, is_whole: false });
    }
    let cores = i64::from(machine.cores).max(1);
    let time = |at_a_time: &i64| ceil_div(images * ceil_div(rows, *at_a_time), cores) * at_a_time;
    let most = (most / columns.max(1)).clamp(1, rows.max(1));
    let rows = (1..=most).rev().min_by_key(time).unwrap_or(1);
    Some(Part { rows, columns, is_whole: true })
}

fn ceil_div(a: i64, b: i64) -> i64 {
    a.saturating_add(b - 1) / b
}

/// Columns of tiles that are the rows of a tile of the product, which stays in registers.
fn tile_rows(columns: i64, machine: &Machine) -> i64 {
    match machine.vector_registers >= 32 {
        true if columns > COLUMNS => tall_rows(columns),
        many => rows_of(Some(columns), if many { COLUMNS } else { 6 }),
    }
}

/// Keeps a tile of the products in registers while its terms are added.
fn multiply(
    s: &mut Schedule,
    [product, write]: [BlockRV; 2],
    [rows, columns]: [i64; 2],
    (around, axes): (usize, usize),
) -> Result<Option<()>, ScheduleError> {
    let loops = s.get_loops(product)?;
    let Some((spatial, terms)) = loops[around..].split_at_checked(axes) else { return Ok(None) };
    let &[row, column, block, ref of_tile @ .., tile_column, channel] = spatial else { return Ok(None) };
    let [tiles, tile] = s.split(tile_column, [None, Some(rows)])?;
    let [panels, vector] = s.split(channel, [None, Some(columns)])?;
    let outer = [&[row, column, block, panels], of_tile, &[tiles]].concat();
    s.reorder_n(&[&outer[..], terms, &[tile, vector]].concat())?;
    s.reverse_compute_at(write, tiles)?;
    let write_loops = s.get_loops(write)?;
    choice::unroll_all(s, &write_loops[around + outer.len()..])?;
    choice::unroll_all(s, &[tile, vector])?;
    if let Some(&first) = terms.first() {
        s.decompose_reduction(product, first)?;
    }
    Ok(Some(()))
}

/// Transforms data for the products of a part: the sums of rows where they are used, and the padding in a given loop, or else for a block
/// of channels.
fn transform(
    s: &mut Schedule,
    [data, rows]: [BlockRV; 2],
    padding: Option<(BlockRV, Option<LoopRV>)>,
    (info, choices): (&BlockInfo, &[Choice]),
    around: usize,
    machine: &Machine,
) -> Result<Option<()>, ScheduleError> {
    let loops = s.get_loops(data)?;
    let loops = &loops[around..];
    // Axes of one value have a loop here, but not in `info`.
    let loop_of = |axis: usize| (0..loops.len()).find(|&index| axis_of(info, index) == Some(axis));
    let of_axes: Vec<LoopRV> = (0..info.axes.len()).filter_map(loop_of).map(|it| loops[it]).collect();
    let (true, Some(&blocks)) = (of_axes.len() == info.axes.len(), loops.get(2)) else {
        return Ok(None);
    };
    let Some(split) = choice::split(s, info, &of_axes, choices, machine)? else {
        return Ok(None);
    };
    let single = (0..loops.len()).filter(|&index| axis_of(info, index).is_none()).map(|index| loops[index]);
    let outer: Vec<LoopRV> = single.chain(split.outer.iter().map(|it| it.over)).collect();
    split.unroll(s, around, &outer, Some(rows))?;
    if let Some((padding, over)) = padding {
        s.compute_at(padding, over.unwrap_or(blocks))?;
        if let Some(&vector) = s.get_loops(padding)?.last() {
            s.vectorize(vector)?;
        }
    }
    Ok(Some(()))
}
