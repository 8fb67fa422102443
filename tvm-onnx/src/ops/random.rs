//! Random numbers. They are a function of the seed, of the place of the node in the model and of their position, so every run
//! gives the same numbers; two nodes give different ones.
//!
//! The bits are a hash of the position (`lowbias32` of Wellons' hash-prospector, applied twice, with keys).

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::product;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::proto::AttributeType;
use crate::tensor::dtype_from_onnx;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("Bernoulli", 15, With(bernoulli)),
    row("Multinomial", 7, With(multinomial)),
    row("RandomNormal", 1, With(|node| of_shape(node, normal))),
    row("RandomNormalLike", 1, With(|node| like(node, normal))),
    row("RandomUniform", 1, With(|node| of_shape(node, uniform))),
    row("RandomUniformLike", 1, With(|node| like(node, uniform))),
];

type Result<T> = std::result::Result<T, OnnxError>;

/// Makes `shape` numbers of a type.
type Distribution = fn(&mut Node<'_, '_>, &[PrimExpr], DataType) -> Result<Arg>;

/// Two keys for the numbers of a node: from the attribute `seed` if it is given, and from the path of the node.
fn keys(node: &Node<'_, '_>) -> Result<[u32; 2]> {
    // Of `Dropout`, the seed is an integer.
    let seed = match node.attr_type("seed") {
        Some(AttributeType::Int) => node.int_or("seed", 0)? as u32,
        _ => node.attr_float("seed")?.map_or(0, |seed| (seed as f32).to_bits()),
    };
    // FNV-1a.
    let path = node.span().text().to_string();
    let hash =
        path.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    Ok([seed, hash])
}

/// `count` evenly distributed numbers of 32 bits. `stream` tells apart several calls for one node.
fn bits(node: &mut Node<'_, '_>, count: &PrimExpr, stream: u32) -> Result<Arg> {
    let [seed, path] = keys(node)?;
    let constant = |value: u32| Arg::Const(Tensor::scalar(value));
    let at = node.count(count, DataType::I64)?;
    let mut x = node.cast(&at, DataType::U32)?;
    for key in [path ^ stream.wrapping_mul(0x9e37_79b9), seed] {
        x = node.apply("bitwise_xor", &x, &constant(key))?;
        for (shift, factor) in [(16, Some(0x7feb_352d)), (15, Some(0x846c_a68b)), (16, None)] {
            let high = node.apply("right_shift", &x, &constant(shift))?;
            x = node.apply("bitwise_xor", &x, &high)?;
            if let Some(factor) = factor {
                x = node.apply("multiply", &x, &constant(factor))?;
            }
        }
    }
    Ok(x)
}

/// `count` numbers of f32 from 0 to 1: without 1, or without 0 if `positive` is set.
fn unit(node: &mut Node<'_, '_>, count: &PrimExpr, stream: u32, positive: bool) -> Result<Arg> {
    let x = bits(node, count, stream)?;
    let x = node.apply("right_shift", &x, &Arg::Const(Tensor::scalar(8u32)))?;
    let mut x = node.cast(&x, DataType::F32)?;
    if positive {
        x = node.with("add", &x, 1.0)?;
    }
    node.with("multiply", &x, 1.0 / f64::from(1 << 24))
}

/// `factor · x + offset` with the given shape and type.
fn scaled(
    node: &mut Node<'_, '_>,
    x: &Arg,
    factor: f64,
    offset: f64,
    shape: &[PrimExpr],
    dtype: DataType,
) -> Result<Arg> {
    let x = if factor == 1.0 { x.clone() } else { node.with("multiply", x, factor)? };
    let x = if offset == 0.0 { x } else { node.with("add", &x, offset)? };
    let x = node.reshape(&x, shape)?;
    node.cast(&x, dtype)
}

fn uniform(node: &mut Node<'_, '_>, shape: &[PrimExpr], dtype: DataType) -> Result<Arg> {
    let (low, high) = (node.float_or("low", 0.0)?, node.float_or("high", 1.0)?);
    let x = unit(node, &product(shape), 0, false)?;
    scaled(node, &x, high - low, low, shape, dtype)
}

/// Box and Muller: the root of an exponentially distributed number, times the cosine of an angle.
fn normal(node: &mut Node<'_, '_>, shape: &[PrimExpr], dtype: DataType) -> Result<Arg> {
    let (mean, deviation) = (node.float_or("mean", 0.0)?, node.float_or("scale", 1.0)?);
    let count = product(shape);
    let (radius, angle) = (unit(node, &count, 0, true)?, unit(node, &count, 1, false)?);
    let radius = node.map("log", &radius)?;
    let radius = node.with("multiply", &radius, -2.0)?;
    let radius = node.map("sqrt", &radius)?;
    let angle = node.with("multiply", &angle, std::f64::consts::TAU)?;
    let cosine = node.map("cos", &angle)?;
    let x = node.apply("multiply", &radius, &cosine)?;
    scaled(node, &x, deviation, mean, shape, dtype)
}

/// The element type in the attribute `dtype`.
fn dtype(node: &Node<'_, '_>, default: DataType) -> Result<DataType> {
    node.attr_int("dtype")?.map_or(Ok(default), dtype_from_onnx)
}

fn of_shape(node: &mut Node<'_, '_>, distribution: Distribution) -> Result<Vec<Value>> {
    let shape = node.attr_ints("shape")?;
    let shape: Vec<i64> = node.required("shape", shape)?.to_vec();
    let dtype = dtype(node, DataType::F32)?;
    node.check_shape(&shape, dtype)?;
    let shape: Vec<PrimExpr> = shape.into_iter().map(PrimExpr::index).collect();
    one(distribution(node, &shape, dtype))
}

fn like(node: &mut Node<'_, '_>, distribution: Distribution) -> Result<Vec<Value>> {
    let x = node.arg(0)?;
    let given = node.dtype(&x)?;
    let dtype = dtype(node, given)?;
    let shape = node.shape(&x)?;
    one(distribution(node, &shape, dtype))
}

/// 1 with the probability in the input, 0 otherwise.
fn bernoulli(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let x = node.arg(0)?;
    let given = node.dtype(&x)?;
    let (dtype, shape) = (dtype(node, given)?, node.shape(&x)?);
    let p = node.cast(&x, DataType::F32)?;
    let chance = unit(node, &product(&shape), 0, false)?;
    let chance = node.reshape(&chance, &shape)?;
    let hit = node.apply("less", &chance, &p)?;
    one(node.cast(&hit, dtype))
}

/// Classes drawn with the probabilities whose logarithms, up to a constant, are in the input (batch, class): the largest
/// of the logarithms, to which a number with the distribution of Gumbel is added.
fn multinomial(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let x = node.arg(0)?;
    let count = node.int_or("sample_size", 1)?;
    let dtype = dtype(node, DataType::I32)?;
    let [batch, classes] = &node.shape(&x)?[..] else {
        return Err(node.malformed("the probabilities have two axes"));
    };
    if count < 0 || !matches!(dtype, DataType::I32 | DataType::I64) {
        return Err(node.malformed(format!("{count} samples of type {dtype}")));
    }
    let shape = [batch.clone(), PrimExpr::index(count), classes.clone()];
    let chance = unit(node, &product(&shape), 0, true)?;
    let mut gumbel = chance;
    for _ in 0..2 {
        gumbel = node.map("log", &gumbel)?;
        gumbel = node.map("negative", &gumbel)?;
    }
    let gumbel = node.reshape(&gumbel, &shape)?;
    let x = node.cast(&x, DataType::F32)?;
    let x = node.reshape(&x, &[batch.clone(), PrimExpr::index(1), classes.clone()])?;
    let sum = node.apply("add", &x, &gumbel)?;
    let drawn = node.op("argmax", &[sum], Attrs::new().with("axis", 2i64).with("keepdims", false))?;
    one(node.cast(&drawn, dtype))
}

/// Whether each element of `x` is kept: with the probability `1 - ratio`.
pub(super) fn kept(node: &mut Node<'_, '_>, x: &Arg, ratio: &Arg) -> Result<Arg> {
    let shape = node.shape(x)?;
    let chance = unit(node, &product(&shape), 0, false)?;
    let chance = node.reshape(&chance, &shape)?;
    let ratio = node.cast(ratio, DataType::F32)?;
    node.apply("greater_equal", &chance, &ratio)
}
