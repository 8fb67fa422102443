//! Convolutions of windows of 3×3 and stride 1 by Winograd's algorithm F(m×m, 3×3).
//!
//! The result is computed in tiles of m×m. One product in the transformed domain takes the place of one multiplication for each
//! of the 9 weights: a tile of F(2×2) takes 16 products instead of 36, and one of F(4×4) takes 36 instead of 144.
//!
//! Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016). The result of F(4×4) in f32 is
//! within 2·10⁻⁵ of its largest element.

use super::ceil_div;
use super::transform::lazy;
use crate::arith::dims::simplify_dim;
use crate::te::{ReduceAxis, TensorExpr, compute, reduce_axis, sum};
use crate::tir::PrimExpr;

/// The matrices of F(m×m, 3×3).
#[derive(Clone, Copy, Debug)]
pub struct Winograd {
    /// Extent of a tile of the result, m.
    pub tile: i64,
    /// Transforms data: m + 2 rows of m + 2.
    data: &'static [&'static [f64]],
    /// Transforms weights: m + 2 rows of 3.
    kernel: &'static [&'static [f64]],
    /// Transforms products into the result: m rows of m + 2.
    result: &'static [&'static [f64]],
}

const F2: Winograd = Winograd {
    tile: 2,
    data: &[&[1.0, 0.0, -1.0, 0.0], &[0.0, 1.0, 1.0, 0.0], &[0.0, -1.0, 1.0, 0.0], &[0.0, 1.0, 0.0, -1.0]],
    kernel: &[&[1.0, 0.0, 0.0], &[0.5, 0.5, 0.5], &[0.5, -0.5, 0.5], &[0.0, 0.0, 1.0]],
    result: &[&[1.0, 1.0, 1.0, 0.0], &[0.0, 1.0, -1.0, -1.0]],
};

const F4: Winograd = Winograd {
    tile: 4,
    data: &[
        &[4.0, 0.0, -5.0, 0.0, 1.0, 0.0],
        &[0.0, -4.0, -4.0, 1.0, 1.0, 0.0],
        &[0.0, 4.0, -4.0, -1.0, 1.0, 0.0],
        &[0.0, -2.0, -1.0, 2.0, 1.0, 0.0],
        &[0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
        &[0.0, 4.0, 0.0, -5.0, 0.0, 1.0],
    ],
    kernel: &[
        &[1.0 / 4.0, 0.0, 0.0],
        &[-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
        &[-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
        &[1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
        &[1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
        &[0.0, 0.0, 1.0],
    ],
    result: &[
        &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        &[0.0, 1.0, -1.0, 2.0, -2.0, 0.0],
        &[0.0, 1.0, 1.0, 4.0, 4.0, 0.0],
        &[0.0, 1.0, -1.0, 8.0, -8.0, 1.0],
    ],
};

impl Winograd {
    /// The algorithms that there are.
    pub const ALL: [Winograd; 2] = [F2, F4];

    /// The algorithm for tiles of `tile`, 2 or 4.
    pub fn of(tile: i64) -> Option<Winograd> {
        Winograd::ALL.into_iter().find(|it| it.tile == tile)
    }

    /// Extent of a tile of data, m + 2.
    pub const fn size(&self) -> i64 {
        self.tile + 2
    }

    /// The transformed weights, (m + 2)² of them in row-major order, of a window of 9.
    pub fn weights(&self, window: [f64; 9]) -> Vec<f64> {
        let row = |a: &[f64], column: usize| (0..3).map(|i| a[i] * window[3 * i + column]).sum::<f64>();
        let product = |a: &&[f64], b: &&[f64]| (0..3).map(|j| row(a, j) * b[j]).sum();
        self.kernel.iter().flat_map(|a| self.kernel.iter().map(move |b| product(a, b))).collect()
    }
}

/// The sum of the terms with the factors in row `chosen` of `rows`. All indices of terms are valid in every row.
fn combine(rows: &[&[f64]], chosen: &PrimExpr, term: impl Fn(i64) -> PrimExpr) -> PrimExpr {
    let sum = |row: &&[f64]| {
        let mut sum: Option<PrimExpr> = None;
        for (i, &factor) in row.iter().enumerate().filter(|(_, factor)| **factor != 0.0) {
            let term = term(i as i64);
            let dtype = term.dtype();
            let scaled = |term: PrimExpr| match factor.abs() {
                1.0 => term,
                factor => term * PrimExpr::float(factor, dtype),
            };
            sum = Some(match sum {
                None if factor > 0.0 => scaled(term),
                None => -scaled(term),
                Some(sum) if factor > 0.0 => sum + scaled(term),
                Some(sum) => sum - scaled(term),
            });
        }
        sum.unwrap_or_else(|| PrimExpr::index(0))
    };
    let sums: Vec<PrimExpr> = rows.iter().map(sum).collect();
    let choose = |other: Option<PrimExpr>, (i, sum): (usize, PrimExpr)| {
        Some(match other {
            None => sum,
            Some(other) => chosen.clone().equal(i as i64).select(sum, other),
        })
    };
    sums.into_iter().enumerate().rev().fold(None, choose).unwrap_or_else(|| PrimExpr::index(0))
}

/// Number of tiles that cover `extent` elements.
pub fn tiles(extent: &PrimExpr, tile: i64) -> PrimExpr {
    ceil_div(extent.clone(), &PrimExpr::index(tile))
}

/// The place of an element with these indices, in row-major order of the extents.
fn flat(indices: &[PrimExpr], extents: &[PrimExpr]) -> PrimExpr {
    let places = indices.iter().zip(extents).map(|(index, extent)| (index.clone(), extent));
    places.reduce(|(place, _), (index, extent)| (place * extent + index, extent)).map_or(0.into(), |it| it.0)
}

/// Data (batch, block, height, width, channel) with zeros around the image: `before` in front, and behind it as many as the tiles take,
/// which cover `extents` elements. These are `after` at least. `pad` takes numbers of elements behind the image, which are no constants here.
fn padded(x: &TensorExpr, (before, after): ([i64; 2], [i64; 2]), extents: [PrimExpr; 2]) -> TensorExpr {
    let shape = [&[x.dim(0), x.dim(1)], &extents[..], &[x.dim(4)]].concat();
    compute("pad_temp", shape, &[x], |i| {
        let (mut at, mut inside) = (i.to_vec(), PrimExpr::bool(true));
        for (d, extent) in extents.iter().enumerate() {
            let of_image = x.dim(2 + d);
            at[2 + d] = &i[2 + d] - before[d];
            if before[d] > 0 {
                inside = inside.and(at[2 + d].clone().greater_equal(0));
            }
            if after[d] > 0 || simplify_dim(&(extent - before[d] - &of_image)).as_int() != Some(0) {
                inside = inside.and(at[2 + d].clone().less(&of_image));
            }
        }
        lazy(inside, x.at(at), PrimExpr::constant(0.0, x.dtype()))
    })
}

/// Transformed tiles (row, column, block, batch, row of tiles, column of tiles, channel) of data (batch, block, height, width,
/// channel) with `before` and `after` zeros around the image. Columns of tiles may have two axes, parts and columns of a part.
pub fn winograd_data(
    name: &str,
    x: &TensorExpr,
    winograd: &Winograd,
    (before, after): ([i64; 2], [i64; 2]),
    shape: &[PrimExpr],
) -> TensorExpr {
    let (m, size) = (winograd.tile, winograd.size());
    let last = shape.len() - 1;
    let of_columns = &shape[5..last];
    let covered = |of_tiles: &[PrimExpr]| {
        of_tiles.iter().rev().fold(PrimExpr::index(m), |extent, count| count * extent) + 2i64
    };
    let padded = padded(x, (before, after), [&shape[4..5], of_columns].map(covered));
    let size = PrimExpr::index(size);
    let of_rows = [&shape[2..last], &[size.clone(), size], &shape[last..]].concat();
    let of_rows = compute("winograd_rows", of_rows, &[&padded], |i| {
        let [block, image, row, columns @ .., of_row, of_column, channel] = i else {
            return PrimExpr::index(0);
        };
        let column = flat(columns, of_columns);
        combine(winograd.data, of_row, |r| {
            let at = [row * m + r, &column * m + of_column];
            padded.at([&[image.clone(), block.clone()], &at[..], std::slice::from_ref(channel)].concat())
        })
    });
    compute(name, shape, &[&of_rows], |i| {
        combine(winograd.data, &i[1], |r| {
            of_rows.at([&i[2..last], &[i[0].clone(), PrimExpr::index(r)], &i[last..]].concat())
        })
    })
}

/// Products (row, column, block out, tile.., channel out) of transformed data (row, column, block in, tile.., channel in) and
/// weights (row, column, block out, block in, channel in, channel out). Tiles have any number of axes.
pub fn winograd_product(
    name: &str,
    data: &TensorExpr,
    weight: &TensorExpr,
    shape: &[PrimExpr],
) -> TensorExpr {
    let axes = [reduce_axis("block", weight.dim(3)), reduce_axis("channel", weight.dim(4))];
    let [block, channel] = axes.each_ref().map(ReduceAxis::expr);
    compute(name, shape, &[data, weight], |i| {
        let last = i.len() - 1;
        let [of_block, of_channel] = [&block, &channel].map(std::slice::from_ref);
        let of_data = [&i[..2], of_block, &i[3..last], of_channel].concat();
        let w = weight.at([&i[0], &i[1], &i[2], &block, &channel, &i[last]].map(Clone::clone));
        sum(data.at(of_data) * w, &axes.each_ref())
    })
}

/// The result (batch, block, height, width, channel) of products (row, column, block, batch, row of tiles, column of tiles,
/// channel). Columns of tiles may have two axes, as [`winograd_data`] has them.
pub fn winograd_result(name: &str, x: &TensorExpr, winograd: &Winograd, shape: &[PrimExpr]) -> TensorExpr {
    let m = PrimExpr::index(winograd.tile);
    let last = x.shape().len() - 1;
    let of_tiles = last - 2;
    let of_rows = [&x.shape()[2..last], &[m.clone(), x.dim(1)], &x.shape()[last..]].concat();
    let of_rows = compute("winograd_result_rows", of_rows, &[x], |i| {
        combine(winograd.result, &i[of_tiles], |r| {
            let point = [PrimExpr::index(r), i[of_tiles + 1].clone()];
            x.at([&point[..], &i[..of_tiles], &i[of_tiles + 2..]].concat())
        })
    });
    compute(name, shape, &[&of_rows], |i| {
        let [image, block, row, column, channel] = i else { return PrimExpr::index(0) };
        let [tile_row, tile_column] = [row, column].map(|it| it.clone().floordiv(&m));
        let tile_column = match &x.shape()[5..last] {
            [_, columns] => vec![tile_column.clone().floordiv(columns), tile_column.floormod(columns)],
            _ => vec![tile_column],
        };
        combine(winograd.result, &column.clone().floormod(&m), |r| {
            let of_tile = [row.clone().floormod(&m), PrimExpr::index(r)];
            let at = [block.clone(), image.clone(), tile_row.clone()];
            of_rows.at([&at[..], &tile_column, &of_tile, std::slice::from_ref(channel)].concat())
        })
    })
}

/// The convolution (batch, block, height, width, channel) of data and weights that are transformed as [`winograd_product`] has them,
/// with zeros around the image as [`winograd_data`] has them: all three parts in one program. Columns of tiles are divided into parts of
/// `columns` of them, if that is given.
pub fn winograd_conv(
    name: &str,
    [x, weight]: [&TensorExpr; 2],
    winograd: &Winograd,
    pads: ([i64; 2], [i64; 2]),
    columns: Option<i64>,
    shape: &[PrimExpr],
) -> TensorExpr {
    let size = PrimExpr::index(winograd.size());
    // Symbolic numbers stay as schedules write the extents of divided loops, so that nothing is to be proved.
    let number = |number: PrimExpr| {
        let simple = simplify_dim(&number);
        if simple.as_int().is_some() { simple } else { number }
    };
    let [rows, of_row] = [2, 3].map(|axis: usize| number(tiles(&shape[axis], winograd.tile)));
    let of_row = match columns {
        Some(columns) => vec![number(tiles(&of_row, columns)), PrimExpr::index(columns)],
        None => vec![of_row],
    };
    let transformed = |block: &PrimExpr, channel: &PrimExpr| {
        let of_tiles = [size.clone(), size.clone(), block.clone(), shape[0].clone(), rows.clone()];
        [&of_tiles[..], &of_row, std::slice::from_ref(channel)].concat()
    };
    let data = winograd_data("winograd_data", x, winograd, pads, &transformed(&x.dim(1), &x.dim(4)));
    let products = transformed(&shape[1], &shape[4]);
    let products = winograd_product("winograd_product", &data, weight, &products);
    winograd_result(name, &products, winograd, shape)
}
