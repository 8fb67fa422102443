//! Operators on quantised numbers: an integer represents `(integer - zero point) * scale`.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::conv::Convolution;
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::tensor::{dtype_from_onnx, element_from_onnx};
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("DequantizeLinear", 10, With(dequantize)),
    row("DynamicQuantizeLinear", 11, With(dynamic_quantize)),
    row("QLinearConv", 10, With(conv)),
    row("QLinearMatMul", 10, With(matmul)),
    row("QuantizeLinear", 10, With(quantize)),
];

/// Input `i` (a single number, one number per element of the axis, or one per block of the axis), reshaped so that it
/// is broadcast to `rank` axes.
fn along(node: &mut Node<'_, '_>, i: usize, rank: usize, axis: i64) -> Result<Option<Arg>, OnnxError> {
    let Some(x) = node.opt_arg(i)? else { return Ok(None) };
    match &node.shape(&x)?[..] {
        [] => Ok(Some(x)),
        [single] if single.is_const(1) => node.reshape(&x, &[]).map(Some),
        [extent] => {
            let axis = node.axis(axis, rank)?;
            let mut extents = vec![PrimExpr::index(1); rank];
            extents[axis] = extent.clone();
            node.reshape(&x, &extents).map(Some)
        }
        shape if shape.len() == rank => per_block(node, x, axis).map(Some),
        shape => Err(node.malformed(format!("input {i} has one axis or {rank}, got {}", shape.len()))),
    }
}

/// Repeats each element of `x` `block_size` times along the axis, and cuts the result to the extent of input 0.
fn per_block(node: &mut Node<'_, '_>, x: Arg, axis: i64) -> Result<Arg, OnnxError> {
    let block = node.int_or("block_size", 0)?;
    let input = node.arg(0)?;
    let shape = node.shape(&input)?;
    let axis = node.axis(axis, shape.len())?;
    if !(1..1 << 31).contains(&block) {
        return Err(node.malformed(format!("attribute `block_size` is {block}")));
    }
    let repeated = node.op("repeat", &[x], Attrs::new().with("repeats", block).with("axis", axis))?;
    node.part(&repeated, axis, 0, shape[axis].clone())
}

/// Computes `round(x) + zero`, clamped to the range of `dtype`.
pub(super) fn saturated(
    node: &mut Node<'_, '_>,
    x: Arg,
    zero: Option<Arg>,
    dtype: DataType,
) -> Result<Arg, OnnxError> {
    match dtype.int_range() {
        Some(range) => limited(node, x, zero, range, dtype),
        None => Err(node.unsupported(format!("quantisation to {dtype}"))),
    }
}

/// Computes `round(x) + zero`, clamped to the given range, as `dtype`.
fn limited(
    node: &mut Node<'_, '_>,
    x: Arg,
    zero: Option<Arg>,
    (low, high): (i128, i128),
    dtype: DataType,
) -> Result<Arg, OnnxError> {
    let wide = node.dtype(&x)?;
    let mut x = node.call("round", &[x])?;
    if let Some(zero) = zero {
        let zero = node.cast(&zero, wide)?;
        x = node.call("add", &[x, zero])?;
    }
    let (low, high) = (node.scalar(low as f64, wide)?, node.scalar(high as f64, wide)?);
    let x = node.call("maximum", &[x, low])?;
    let x = node.call("minimum", &[x, high])?;
    node.cast(&x, dtype)
}

fn quantize(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let (rank, axis) = (node.rank(&x)?, node.int_or("axis", 1)?);
    let (dtype, narrow) = match (node.opt_arg(2)?, node.attr_int("output_dtype")?) {
        (Some(zero), _) => (node.dtype(&zero)?, node.narrow(2)),
        (None, Some(elem)) if elem != 0 => element_from_onnx(elem)?,
        (None, _) => (DataType::U8, None),
    };
    if let (Some(numbers), None) = (super::integer::quantized_before(node, dtype), narrow) {
        return one(Ok(numbers));
    }
    let scale = along(node, 1, rank, axis)?;
    let scale = node.required("y_scale", scale)?;
    let x = node.cast(&x, DataType::F32)?;
    let scale = node.cast(&scale, DataType::F32)?;
    let ratio = node.call("divide", &[x, scale])?;
    let zeros = node.opt_value(2).and_then(|it| it.tensor()?.to_f64s().ok());
    // Adding 0 changes no number.
    let changes = zeros.is_none_or(|zeros| zeros.iter().any(|&zero| zero != 0.0));
    let zero = along(node, 2, rank, axis)?.filter(|_| changes);
    let Some(narrow) = narrow else { return one(saturated(node, ratio, zero, dtype)) };
    node.gives(narrow);
    if let Some(range) = narrow.int_range() {
        return one(limited(node, ratio, zero, range, dtype));
    }
    // Floats have the zero point 0.
    let how = super::narrow::rounding(node)?;
    one(super::narrow::narrowed(node, &ratio, narrow, how))
}

fn dequantize(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let (rank, axis) = (node.rank(&x)?, node.int_or("axis", 1)?);
    let scale = along(node, 1, rank, axis)?;
    let scale = node.required("x_scale", scale)?;
    let dtype = match node.attr_int("output_dtype")? {
        Some(elem) if elem != 0 => dtype_from_onnx(elem)?,
        _ => node.dtype(&scale)?,
    };
    if let Some(narrow) = node.narrow(0).filter(|it| it.int_range().is_none()) {
        let x = super::narrow::widened(node, &x, narrow, dtype)?;
        let scale = node.cast(&scale, dtype)?;
        return one(node.call("multiply", &[x, scale]));
    }
    let mut x = node.cast(&x, DataType::I32)?;
    if let Some(zero) = along(node, 2, rank, axis)? {
        let zero = node.cast(&zero, DataType::I32)?;
        x = node.call("subtract", &[x, zero])?;
    }
    let (x, scale) = (node.cast(&x, dtype)?, node.cast(&scale, dtype)?);
    let value = node.call("multiply", &[x, scale])?;
    super::integer::note(node, &value)?;
    Ok(vec![value.into()])
}

fn dynamic_quantize(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    Ok(by_range(node, x)?.map(Value::from).to_vec())
}

/// Numbers as bytes, their scale and their zero point, which are those of the range of the numbers, extended to include 0.
/// The scale of numbers that are all 0 is 1.
pub(super) fn by_range(node: &mut Node<'_, '_>, x: Arg) -> Result<[Arg; 3], OnnxError> {
    let dtype = node.dtype(&x)?;
    let (zero, steps) = (node.scalar(0.0, dtype)?, node.scalar(255.0, dtype)?);
    let low = node.call("min", std::slice::from_ref(&x))?;
    let low = node.call("minimum", &[low, zero.clone()])?;
    let high = node.call("max", std::slice::from_ref(&x))?;
    let high = node.call("maximum", &[high, zero.clone()])?;
    let range = node.call("subtract", &[high, low.clone()])?;
    let scale = node.call("divide", &[range.clone(), steps])?;
    let (empty, unit) = (node.call("equal", &[range, zero])?, node.scalar(1.0, dtype)?);
    let scale = node.call("where", &[empty, unit, scale])?;
    let start = node.call("divide", &[low, scale.clone()])?;
    let start = node.call("negative", &[start])?;
    let zero_point = saturated(node, start, None, DataType::U8)?;
    let ratio = node.call("divide", &[x, scale.clone()])?;
    let res = saturated(node, ratio, Some(zero_point.clone()), DataType::U8)?;
    Ok([res, scale, zero_point])
}

/// The product in `i32`, requantised to the scale and zero point of the result.
fn matmul(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let mut factors = Vec::new();
    let mut scale = node.arg(6)?;
    scale = node.cast(&scale, DataType::F32)?;
    let unit = node.scalar(1.0, DataType::F32)?;
    let mut ratio = node.call("divide", &[unit, scale])?;
    for (i, axis) in [(0, -2), (3, -1)] {
        let x = node.arg(i)?;
        let rank = node.rank(&x)?;
        let x = node.cast(&x, DataType::I32)?;
        let scale = along(node, i + 1, rank, axis)?;
        let scale = node.required("scale", scale)?;
        let scale = node.cast(&scale, DataType::F32)?;
        ratio = node.call("multiply", &[ratio, scale])?;
        let zero = along(node, i + 2, rank, axis)?;
        let zero = node.required("zero point", zero)?;
        let zero = node.cast(&zero, DataType::I32)?;
        factors.push(node.call("subtract", &[x, zero])?);
    }
    let product = node.call("matmul", &factors)?;
    let product = node.cast(&product, DataType::F32)?;
    let scaled = node.call("multiply", &[product, ratio])?;
    let zero = node.arg(7)?;
    let dtype = node.dtype(&zero)?;
    one(saturated(node, scaled, Some(zero), dtype))
}

/// The convolution in `i32`, requantised to the scale and zero point of the result.
fn conv(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let mut sum = match super::integer::convolved_numbers(node, [0, 2], [3, 5])? {
        Some(sum) => sum,
        None => {
            let (x, weight) = (shifted(node, 0, 2)?, shifted(node, 3, 5)?);
            super::conv::convolved(node, x, weight, &Convolution::default())?
        }
    };
    let rank = node.rank(&sum)?;
    if let Some(bias) = along(node, 8, rank, 1)? {
        sum = node.apply("add", &sum, &bias)?;
    }
    let mut ratio = node.scalar(1.0, DataType::F32)?;
    for (i, op) in [(1, "multiply"), (4, "multiply"), (6, "divide")] {
        let scale = along(node, i, rank, 1)?;
        let scale = node.required("scale", scale)?;
        let scale = node.cast(&scale, DataType::F32)?;
        ratio = node.apply(op, &ratio, &scale)?;
    }
    let sum = node.cast(&sum, DataType::F32)?;
    let scaled = node.apply("multiply", &sum, &ratio)?;
    let zero = node.arg(7)?;
    let dtype = node.dtype(&zero)?;
    let zero = node.reshape(&zero, &[])?;
    one(saturated(node, scaled, Some(zero), dtype))
}

/// Input `i` minus its zero point (input `zero`), in `i32`.
pub(super) fn shifted(node: &mut Node<'_, '_>, i: usize, zero: usize) -> Result<Arg, OnnxError> {
    let x = node.arg(i)?;
    let rank = node.rank(&x)?;
    let x = node.cast(&x, DataType::I32)?;
    let Some(zero) = along(node, zero, rank, 0)? else { return Ok(x) };
    let zero = node.cast(&zero, DataType::I32)?;
    node.call("subtract", &[x, zero])
}
