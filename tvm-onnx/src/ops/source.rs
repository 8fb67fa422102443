//! Operators that make or pass on values: constants, shapes, conversions, what inference leaves out.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::tensor::{dtype_from_onnx, show_dims};
use crate::value::{Ints, Value};

pub(super) static ROWS: &[Row] = &[
    row("Cast", 1, With(cast)),
    row("CastLike", 15, With(cast_like)),
    row("Constant", 1, With(constant)),
    row("ConstantOfShape", 9, With(constant_of_shape)),
    row("Dropout", 1, With(dropout)),
    row("EyeLike", 9, With(eye_like)),
    row("Identity", 1, With(identity)),
    row("Range", 11, With(range)),
    row("Shape", 1, With(shape)),
    row("Size", 1, With(size)),
];

/// Results up to this size become constants when their shape is known.
const MAX_CONSTANT_BYTES: i64 = 64 << 20;

fn identity(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    Ok(vec![node.value(0)?.clone()])
}

/// The input; in training mode it would be random. The mask is true everywhere.
fn dropout(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let training = match node.opset {
        1..=6 => !node.flag("is_test", false)?,
        7..=11 => false,
        _ => node.has(2) && node.int(2).map_or(true, |it| it != 0),
    };
    let no_ratio = node.has(1) && node.tensor(1).ok().and_then(|it| super::number(&it)) == Some(0.0);
    if training && !no_ratio && node.opset >= 12 {
        return Err(node.unsupported("training mode (the result is random)"));
    }
    let mut res = vec![node.value(0)?.clone()];
    if node.has_output(1) {
        let x = node.arg(0)?;
        let dtype = if node.opset >= 10 { DataType::BOOL } else { node.dtype(&x)? };
        let shape = node.shape(&x)?;
        res.push(filled(node, &shape, Tensor::scalar(true), dtype)?.into());
    }
    Ok(res)
}

/// A tensor of `shape` whose elements are the one element of `value`, converted to `dtype`.
fn filled(
    node: &mut Node<'_, '_>,
    shape: &[PrimExpr],
    value: Tensor,
    dtype: DataType,
) -> Result<Arg, OnnxError> {
    let value = value.reshape(&[])?;
    node.op(
        "full",
        &[Arg::Shape(shape.to_vec().into()), Arg::Const(value)],
        Attrs::new().with("dtype", dtype),
    )
}

fn constant(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let vector = |n: usize| [n as i64];
    let tensor = if node.has_attr("value") {
        let value = node.attr_tensor("value")?;
        node.required("value", value)?
    } else if let Some(value) = node.attr_int("value_int")? {
        Tensor::scalar(value)
    } else if let Some(value) = node.attr_float("value_float")? {
        Tensor::scalar(value as f32)
    } else if let Some(values) = node.attr_ints("value_ints")? {
        Tensor::from_slice(values, &vector(values.len()))?
    } else if let Some(values) = node.attr_floats("value_floats")? {
        Tensor::from_slice(values, &vector(values.len()))?
    } else {
        return Err(node.unsupported("a constant that is neither a dense tensor nor a number"));
    };
    one(node.constant(tensor))
}

fn constant_of_shape(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let shape = node.dims(0)?;
    let value = node.attr_tensor("value")?.unwrap_or_else(|| Tensor::scalar(0f32));
    if value.len() != 1 {
        return Err(node.malformed(format!("attribute `value` has one element, got {}", value.len())));
    }
    let dtype = value.dtype();
    let known: Option<Vec<i64>> = shape.iter().map(PrimExpr::as_int).collect();
    if let Some(extents) = known {
        let size = node.check_shape(&extents, dtype)?;
        if size <= MAX_CONSTANT_BYTES as usize {
            let bytes = value.bytes()?.repeat(size / dtype.bytes());
            return one(node.constant(Tensor::from_bytes(&bytes, &extents, dtype)?));
        }
    }
    one(filled(node, &shape, value, dtype))
}

fn shape(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let n = shape.len() as i64;
    let limit = |at: i64| (if at < 0 { at.saturating_add(n) } else { at }).clamp(0, n) as usize;
    let (start, end) = (limit(node.int_or("start", 0)?), limit(node.int_or("end", n)?));
    Ok(vec![Ints::vector(shape[start..end.max(start)].to_vec()).into()])
}

fn size(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    Ok(vec![Ints::scalar(tvm_core::relax::analysis::product(&shape)).into()])
}

fn cast(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let to = node.attr_int("to")?;
    let dtype = dtype_from_onnx(node.required("to", to)?)?;
    let x = node.arg(0)?;
    one(node.cast(&x, dtype))
}

fn cast_like(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let (x, like) = (node.arg(0)?, node.arg(1)?);
    let dtype = node.dtype(&like)?;
    one(node.cast(&x, dtype))
}

fn eye_like(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    if shape.len() != 2 {
        return Err(node.malformed("the input has two axes"));
    }
    let dtype = match node.attr_int("dtype")? {
        Some(elem) => dtype_from_onnx(elem)?,
        None => node.dtype(&x)?,
    };
    let attrs = Attrs::new().with("k", node.int_or("k", 0)?).with("dtype", dtype);
    one(node.op("eye", &[Arg::Shape(shape.into())], attrs))
}

/// A range of constants is a constant; one of symbolic integers is computed.
fn range(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    if let (Ok(start), Ok(limit), Ok(step)) = (node.int(0), node.int(1), node.int(2)) {
        let dtype = node.value(0)?.ints().map_or(DataType::I64, |it| it.dtype);
        if step == 0 {
            return Err(node.malformed("the step is 0"));
        }
        let distance = if step > 0 {
            i128::from(limit) - i128::from(start)
        } else {
            i128::from(start) - i128::from(limit)
        };
        let step_size = i128::from(step).unsigned_abs();
        let count = u128::try_from(distance).map_or(0, |it| it.div_ceil(step_size));
        let extent = i64::try_from(count).map_err(|_| node.malformed("the range is too long"))?;
        node.check_shape(&[extent], DataType::I64)?;
        let values: Vec<i64> = (0..extent).map(|i| start.wrapping_add(i.wrapping_mul(step))).collect();
        let tensor = Tensor::from_vec(values, &[extent])?;
        let arg = node.constant(tensor)?;
        return one(node.cast(&arg, dtype));
    }
    if let (Ok(start), Ok(limit), Ok(step)) = (node.tensor(0), node.tensor(1), node.tensor(2)) {
        let floats = (super::number(&start), super::number(&limit), super::number(&step));
        if let (Some(start), Some(limit), Some(step)) = floats {
            let dtype = node.tensor(0)?.dtype();
            let count = ((limit - start) / step).ceil().max(0.0);
            if !count.is_finite() || count > 1e15 {
                return Err(node.malformed("the range is endless"));
            }
            node.check_shape(&[count as i64], DataType::F64)?;
            let values: Vec<f64> = (0..count as i64).map(|i| start + i as f64 * step).collect();
            let tensor = Tensor::from_vec(values, &[count as i64])?;
            let arg = node.constant(tensor)?;
            return one(node.cast(&arg, dtype));
        }
    }
    let bound = |node: &Node<'_, '_>, i: usize| match node.dims(i)?[..] {
        [ref value] => Ok(value.clone()),
        ref values => {
            Err(node.malformed(format!("input {i} is a scalar, got {}", show_dims(&[values.len() as i64]))))
        }
    };
    let (start, limit, step) = (bound(node, 0)?, bound(node, 1)?, bound(node, 2)?);
    let dtype = node.value(0)?.ints().map_or(DataType::I64, |it| it.dtype);
    let args = [start, limit, step].map(Arg::Prim);
    one(node.op("arange", &args, Attrs::new().with("dtype", dtype)))
}
