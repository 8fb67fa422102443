//! Convolutions of windows of 3×3 by Winograd's algorithm, where it is estimated to be faster.

use rustc_hash::FxHashMap;
use tvm_runtime::{DataType, DimBound, Tensor};

use super::{Blocks, Converter};
use crate::ir::{Attrs, Span, Var};
use crate::relax::analysis::{infer_type, product, simplify_dim};
use crate::relax::visitor::walk_arg;
use crate::relax::{Arg, Call, ExprVisitor, Function};
use crate::target::Machine;
use crate::tir::{PrimExpr, any_expr, substitute_expr};
use crate::topi::Winograd;

/// Bytes that one core reads in a cycle: from memory, from the L3 and from the L2 cache.
const READ_BYTES: [f64; 3] = [8.0, 16.0, 32.0];
/// The share of a cache that constants may fill and still be there at the next call.
const SHARE: u64 = 2;
/// Vectors that one core multiplies and adds in a cycle.
const VECTORS: f64 = 2.0;
/// What the estimate must save: the transforms have costs that it does not count.
const SAVED: f64 = 0.9;
/// Cycles of the calls of two kernels, which the transforms are.
const CALLS: f64 = 1000.0;

/// Tiles in a row from which on a convolution is computed by rows of tiles, and in a part of a row of symbolic size: they are the rows of
/// a product.
const ROW_TILES: i64 = 8;

/// Height and width that images are expected to have where they are symbolic: those for which most networks are made.
const EXPECTED: i64 = 224;

/// What a convolution computes.
struct Shape {
    /// Number of channels of the data, in blocks.
    inputs: Blocks,
    /// Channels of the result.
    outputs: Blocks,
    /// Number of images; what the function expects if it is not known.
    images: i64,
    /// Height and width of the result, or what they are expected to be.
    size: [i64; 2],
}

/// Bytes of the constants that a function names.
#[derive(Default)]
struct Constants(u64);

impl ExprVisitor for Constants {
    fn visit_arg(&mut self, arg: &Arg) {
        match arg {
            Arg::Const(tensor) => self.0 += tensor.byte_len() as u64,
            _ => walk_arg(self, arg),
        }
    }
}

/// Bytes of weights that one core of `machine` reads in a cycle, if `func` is all that it runs.
pub(super) fn weight_bytes(machine: &Machine, func: &Function) -> f64 {
    let mut constants = Constants::default();
    constants.visit_function(func);
    let [memory, l3, l2] = READ_BYTES;
    match constants.0 * SHARE {
        bytes if bytes <= machine.l2_bytes => l2,
        bytes if bytes <= machine.l3_bytes => l3,
        _ => memory,
    }
}

impl Converter<'_> {
    /// The convolution by Winograd's algorithm; `None` if it is not of that kind, or not estimated to be faster.
    pub(super) fn winograd(&mut self, call: &Call, name: &str, outputs: Blocks) -> Option<Var> {
        let [data, Arg::Const(weight)] = &*call.args else { return None };
        let ones = |attr: &str| call.attrs.int_list(attr).is_none_or(|it| it.iter().all(|&it| it == 1));
        let of_kind = weight.shape()[2..] == [3, 3] && ones("groups") && ones("strides") && ones("dilation");
        let fits = weight.dtype().is_float() && weight.dtype().bits() <= 32;
        if !self.use_winograd || !of_kind || !fits {
            return None;
        }
        let inputs = match self.blocked(data) {
            Some(it) => it.blocks,
            None => self.blocks(weight.shape()[1], DataType::F32.bits())?,
        };
        let result = infer_type(&call.clone().into(), self.module).ok()?;
        let [images_dim, _, height, width] = result.as_tensor()?.known_shape()? else { return None };
        let images = images_dim.as_int().unwrap_or(self.expected_batch);
        let shape = Shape { inputs, outputs, images, size: [expected(height)?, expected(width)?] };
        let winograd = self.fastest(&shape).filter(|_| inputs.is_exact())?;
        let kernel = weights(&winograd, weight, &shape)?;
        let span = &call.span;
        let data = self.in_blocks_of(data, inputs.block, span)?;
        let tile = Attrs::new().with("tile", winograd.tile);
        let padding = call.attrs.get("padding").cloned();
        let attrs = padding.map_or(tile.clone(), |padding| tile.clone().with("padding", padding));
        if self.in_rows(&shape, &winograd) {
            let is_fixed = [height, width].iter().all(|dim| dim.as_int().is_some());
            // The schedule divides rows of known size.
            let attrs = if is_fixed { attrs } else { attrs.with("columns", ROW_TILES) };
            return self.emit(name, "nn.winograd_conv2d", &[data, Arg::Const(kernel)], attrs, span);
        }
        let transformed = self.emit(name, "nn.winograd_data", &[data], attrs, span)?;
        let (tiles, _) = self.shape(&Arg::from(&transformed))?;
        // Tiles of all images follow each other: they are the rows of the product.
        let rows = [&tiles[..3], &[product(&tiles[3..6])], &tiles[6..]].concat();
        let rows = self.reshaped(&transformed, rows, span)?;
        let products =
            self.emit(name, "nn.winograd_product", &[rows, Arg::Const(kernel)], Attrs::new(), span)?;
        let (of_products, _) = self.shape(&Arg::from(&products))?;
        let apart = [&of_products[..3], &tiles[3..6], &of_products[4..]].concat();
        let products = self.reshaped(&products, apart, span)?;
        let size = Arg::Shape([height, width].map(Clone::clone).into());
        self.emit(name, "nn.winograd_result", &[products, size], tile, span)
    }

    /// True if transformed data and products of all tiles do not fit the second-level cache, but those of some tiles in a row do, with
    /// the weights: parts of rows are then computed one after another, by one kernel. Rows of few tiles would load the weights too often.
    fn in_rows(&self, shape: &Shape, winograd: &Winograd) -> bool {
        let (m, points) = (winograd.tile, winograd.size() * winograd.size());
        let (inputs, outputs) = (shape.inputs.channels, shape.outputs.padded());
        let [rows, columns] = shape.size.map(|extent| (extent + m - 1) / m);
        let bytes = DataType::F32.bytes() as i64 * points;
        let (weights, tile) = (bytes * inputs * outputs, bytes * (inputs + outputs));
        let cache = self.machine.l2_bytes as i64;
        let is_larger = tile * rows * columns * shape.images > cache;
        columns >= ROW_TILES && weights + ROW_TILES * tile <= cache && is_larger
    }

    pub(super) fn reshaped(&mut self, value: &Var, shape: Vec<PrimExpr>, span: &Span) -> Option<Arg> {
        let args = [value.into(), Arg::Shape(shape.into())];
        self.emit(value.name(), "reshape", &args, Attrs::new(), span).map(Arg::from)
    }

    /// The algorithm that is estimated to take the least time, if that is less than what the direct convolution takes.
    fn fastest(&self, shape: &Shape) -> Option<Winograd> {
        let lanes = f64::from(self.machine.lanes(DataType::F32));
        let ([height, width], inputs, outputs) = (shape.size, shape.inputs.channels, shape.outputs.padded());
        let (weights, images) = ((inputs * outputs) as f64, shape.images as f64);
        let time = |products: f64, kernel: f64| {
            images * products * weights / (VECTORS * lanes) + 4.0 * kernel * weights / self.weight_bytes
        };
        let direct = time((9 * height * width) as f64, 9.0);
        let cost = |winograd: &Winograd| {
            let (m, size) = (winograd.tile, (winograd.size() * winograd.size()) as f64);
            let tiles = (((height + m - 1) / m) * ((width + m - 1) / m)) as f64;
            // Each transformed element is computed from about four others, stored, and loaded.
            let transforms = 4.0 * images * tiles * size * (inputs + outputs) as f64 / lanes;
            time(tiles * size, size) + transforms + CALLS
        };
        let best = Winograd::ALL.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        (cost(&best) < SAVED * direct).then_some(best)
    }
}

/// The extent, with the expected size of images for its dimensions, within their bounds.
fn expected(extent: &PrimExpr) -> Option<i64> {
    let mut sizes = FxHashMap::default();
    any_expr(extent, &mut |it| {
        if let Some(dim) = it.as_var() {
            let bound = dim.bound().unwrap_or(DimBound::ANY);
            let size = EXPECTED.clamp(bound.min(), bound.max().unwrap_or(i64::MAX));
            sizes.insert(dim.id(), PrimExpr::index(size));
        }
        false
    });
    simplify_dim(&substitute_expr(extent, &sizes)).as_int()
}

/// The weights (out, in, 3, 3), transformed: (row, column, block out, block in, channel in, channel out).
fn weights(winograd: &Winograd, weight: &Tensor, shape: &Shape) -> Option<Tensor> {
    let values = weight.to_f64s().ok()?;
    let (inputs, outputs) = (shape.inputs.channels, shape.outputs.padded());
    let [of_inputs, of_outputs] = [shape.inputs.block, shape.outputs.block];
    let points = winograd.size() * winograd.size();
    let mut res = vec![0f32; (points * inputs * outputs) as usize];
    for (at, window) in values.chunks_exact(9).enumerate() {
        let mut given = [0f64; 9];
        given.copy_from_slice(window);
        let (o, i) = (at as i64 / inputs, at as i64 % inputs);
        let (block, o) = (o / of_outputs, o % of_outputs);
        // The blocks of inputs follow each other: a block and a channel in it are the channel.
        let place = (block * inputs + i) * of_outputs + o;
        for (point, value) in winograd.weights(given).into_iter().enumerate() {
            res[point * (inputs * outputs) as usize + place as usize] = value as f32;
        }
    }
    let extent = winograd.size();
    let shape = [extent, extent, outputs / of_outputs, inputs / of_inputs, of_inputs, of_outputs];
    Tensor::from_vec(res, &shape).ok()
}
