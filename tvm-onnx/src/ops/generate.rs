//! Operators that generate tables and grids: window functions, the mel scale, affine grids.

use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::tensor::dtype_from_onnx;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("AffineGrid", 20, With(affine_grid)),
    row("BlackmanWindow", 17, With(|node| window(node, &[0.42, -0.5, 0.08]))),
    row("HammingWindow", 17, With(|node| window(node, &[25.0 / 46.0, -21.0 / 46.0]))),
    row("HannWindow", 17, With(|node| window(node, &[0.5, -0.5]))),
    row("MelWeightMatrix", 17, With(mel_weights)),
];

type Results = Result<Vec<Value>, OnnxError>;

/// A sum of cosines of the multiples of one period, with the given coefficients.
fn window(node: &mut Node<'_, '_>, coefficients: &[f64]) -> Results {
    let dtype = dtype_from_onnx(node.int_or("output_datatype", 1)?)?;
    let size = simplify_dim(&node.dim(0)?.max(0));
    let period = if node.flag("periodic", true)? { size.clone() } else { (&size - 1i64).max(1) };
    let at = node.count(&size, DataType::F64)?;
    let period = node.float_of(&simplify_dim(&period))?;
    let period = node.cast(&period, DataType::F64)?;
    let turns = node.apply("divide", &at, &period)?;
    let mut sum = node.full(&[size], coefficients[0], DataType::F64)?;
    for (k, &coefficient) in coefficients.iter().enumerate().skip(1) {
        let angle = node.with("multiply", &turns, std::f64::consts::TAU * k as f64)?;
        let cosine = node.map("cos", &angle)?;
        let term = node.with("multiply", &cosine, coefficient)?;
        sum = node.apply("add", &sum, &term)?;
    }
    one(node.cast(&sum, dtype))
}

/// Weights that sum the frequencies of a transform to overlapping triangles, evenly spaced on the mel scale
/// `2595 log10(1 + f / 700)`.
fn mel_weights(node: &mut Node<'_, '_>) -> Results {
    let dtype = dtype_from_onnx(node.int_or("output_datatype", 1)?)?;
    let (count, length) = (node.dim(0)?, node.dim(1)?);
    let mut numbers = Vec::new();
    for i in 2..5 {
        let number = node.arg(i)?;
        let number = node.reshape(&number, &[])?;
        numbers.push(node.cast(&number, DataType::F64)?);
    }
    let [rate, low, high] = &numbers[..] else { return Err(node.malformed("there are five inputs")) };
    let mel = |node: &mut Node<'_, '_>, hertz: &Arg| {
        let ratio = node.with("divide", hertz, 700.0)?;
        let ratio = node.with("add", &ratio, 1.0)?;
        let log = node.map("log", &ratio)?;
        node.with("multiply", &log, 2595.0 / std::f64::consts::LN_10)
    };
    let (low, high) = (mel(node, low)?, mel(node, high)?);
    // Borders of the triangles, as indices of frequencies.
    let borders = simplify_dim(&(&count + 2i64));
    let places = node.count(&borders, DataType::F64)?;
    let distance = node.apply("subtract", &high, &low)?;
    let steps = node.float_of(&borders)?;
    let steps = node.cast(&steps, DataType::F64)?;
    let step = node.apply("divide", &distance, &steps)?;
    let places = node.apply("multiply", &places, &step)?;
    let places = node.apply("add", &places, &low)?;
    let powers = node.with("multiply", &places, std::f64::consts::LN_10 / 2595.0)?;
    let powers = node.map("exp", &powers)?;
    let hertz = node.with("subtract", &powers, 1.0)?;
    let hertz = node.with("multiply", &hertz, 700.0)?;
    let samples = node.float_of(&simplify_dim(&(&length + 1i64)))?;
    let samples = node.cast(&samples, DataType::F64)?;
    let bins = node.apply("multiply", &hertz, &samples)?;
    let bins = node.apply("divide", &bins, rate)?;
    let bins = node.map("floor", &bins)?;
    let border = |node: &mut Node<'_, '_>, from: i64| {
        let end = simplify_dim(&(&count + from));
        node.part(&bins, 0, from, end)
    };
    let (left, centre, right) = (border(node, 0)?, border(node, 1)?, border(node, 2)?);
    let frequencies = simplify_dim(&(length.floordiv(2) + 1i64));
    let at = node.count(&frequencies, DataType::F64)?;
    let at = node.along(&at, 0, 2)?;
    // Rising up to the centre; 1 there if nothing rises. Falling from the centre on.
    let slope = |node: &mut Node<'_, '_>, from: &Arg, to: &Arg, way: [&Arg; 2]| {
        let width = node.apply("subtract", to, from)?;
        let whole = node.with("maximum", &width, 1.0)?;
        let part = node.apply("subtract", way[0], way[1])?;
        node.apply("divide", &part, &whole)
    };
    let rising = slope(node, &left, &centre, [&at, &left])?;
    let falling = slope(node, &centre, &right, [&right, &at])?;
    let within = |node: &mut Node<'_, '_>, low: &Arg, high: &Arg, last: &str| {
        let above = node.apply("greater_equal", &at, low)?;
        let below = node.apply(last, &at, high)?;
        node.apply("logical_and", &above, &below)
    };
    let flat = node.apply("equal", &left, &centre)?;
    let unit = node.scalar(1.0, DataType::F64)?;
    let rising = node.choice(&flat, &unit, &rising)?;
    let (rises, falls) =
        (within(node, &left, &centre, "less_equal")?, within(node, &centre, &right, "less")?);
    let zero = node.scalar(0.0, DataType::F64)?;
    let rest = node.choice(&rises, &rising, &zero)?;
    let weights = node.choice(&falls, &falling, &rest)?;
    one(node.cast(&weights, dtype))
}

/// The positions of the pixels of a transformed image in the image, between -1 and 1 along each axis.
fn affine_grid(node: &mut Node<'_, '_>) -> Results {
    let theta = node.arg(0)?;
    let size = node.dims(1)?;
    let (aligned, dtype) = (node.flag("align_corners", false)?, node.dtype(&theta)?);
    let [batch, _, space @ ..] = &size[..] else {
        return Err(node.malformed("the size has no spatial axes"));
    };
    let axes = space.len();
    // Coordinates in the order of the matrix: the last axis first, then a 1.
    let mut columns = Vec::new();
    for (axis, extent) in space.iter().enumerate().rev() {
        let at = node.count(extent, DataType::F32)?;
        let total = node.float_of(extent)?;
        let place = if aligned {
            let steps = node.with("subtract", &total, 1.0)?;
            let steps = node.with("maximum", &steps, 1.0)?;
            node.apply("divide", &at, &steps)?
        } else {
            let middle = node.with("add", &at, 0.5)?;
            node.apply("divide", &middle, &total)?
        };
        let place = node.with("multiply", &place, 2.0)?;
        let place = node.with("subtract", &place, 1.0)?;
        let place = node.along(&place, axis, axes + 1)?;
        columns.push(node.broadcast(&place, &[space, &[PrimExpr::index(1)]].concat())?);
    }
    columns.push(node.full(&[space, &[PrimExpr::index(1)]].concat(), 1.0, DataType::F32)?);
    let grid = node.joined(columns, axes)?;
    let pixels = tvm_core::relax::analysis::product(space);
    let width = axes as i64 + 1;
    let grid = node.reshape(&grid, &[1.into(), pixels, width.into()])?;
    let theta = node.cast(&theta, DataType::F32)?;
    let theta = node.permuted(&theta, &[0, 2, 1])?;
    let res = node.call("matmul", &[grid, theta])?;
    let shape = [std::slice::from_ref(batch), space, &[PrimExpr::index(axes as i64)]].concat();
    let res = node.reshape(&res, &shape)?;
    one(node.cast(&res, dtype))
}
