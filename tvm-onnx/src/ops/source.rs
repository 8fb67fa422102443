//! Operators that create or pass on values: constants, shapes, conversions, and operators without effect in inference.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::narrow::Narrow;
use crate::node::Node;
use crate::strings::encode_strings;
use crate::tensor::dtype_from_onnx;
use crate::value::{Ints, Value};

pub(super) static ROWS: &[Row] = &[
    row("BitCast", 26, With(bit_cast)),
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

/// Maximum size in bytes of a result that becomes a constant when its shape is known.
const MAX_CONSTANT_BYTES: i64 = 64 << 20;

fn identity(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    Ok(vec![node.value(0)?.clone()])
}

/// Returns the input, with a mask that is true everywhere; in training mode, elements are dropped at random and the others
/// grow. Before operator set 12, the mode is an attribute, and all models are taken as trained.
fn dropout(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let training = if node.opset >= 12 && node.has(2) { Some(node.arg(2)?) } else { None };
    let never = |it: &Arg| it.as_const().is_some_and(|it| super::number(it) == Some(0.0));
    if let Some(training) = training.filter(|it| !never(it)) {
        return dropped(node, &training);
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

/// Drops elements where the scalar `training` holds.
fn dropped(node: &mut Node<'_, '_>, training: &Arg) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let dtype = node.dtype(&x)?;
    let ratio = match node.opt_arg(1)? {
        Some(ratio) => node.cast(&ratio, dtype)?,
        None => node.scalar(0.5, dtype)?,
    };
    let off = node.map("logical_not", training)?;
    let kept = super::random::kept(node, &x, &ratio)?;
    let kept = node.apply("logical_or", &kept, &off)?;
    let one = node.scalar(1.0, dtype)?;
    let share = node.apply("subtract", &one, &ratio)?;
    let share = node.choice(&off, &one, &share)?;
    let grown = node.apply("divide", &x, &share)?;
    let zero = node.scalar(0.0, dtype)?;
    Ok(vec![node.choice(&kept, &grown, &zero)?.into(), kept.into()])
}

/// A tensor of `shape` filled with the only element of `value`, converted to `dtype`.
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
    let text = match (node.attr_text("value")?, node.attr_type("value_string")) {
        (Some(text), _) => Some(text),
        (None, Some(_)) => Some(encode_strings(&[node.str_or("value_string", "")?], &[])?),
        (None, None) => match node.attr_strings("value_strings")? {
            texts if texts.is_empty() => None,
            texts => Some(encode_strings(&texts, &vector(texts.len()))?),
        },
    };
    if let Some(text) = text {
        return Ok(vec![Value::Strings(node.constant(text)?)]);
    }
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
    if let Some(narrow) = node.attr_narrow("value") {
        node.gives(narrow);
    }
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

/// The extents of input 0; strings have one axis more for their bytes, which does not count.
fn extents(node: &mut Node<'_, '_>) -> Result<Vec<PrimExpr>, OnnxError> {
    if node.is_strings(0) {
        let bytes = node.strings(0)?;
        let mut shape = node.shape(&bytes)?;
        shape.pop();
        return Ok(shape);
    }
    let x = node.arg(0)?;
    node.shape(&x)
}

fn shape(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let shape = extents(node)?;
    let n = shape.len() as i64;
    let limit = |at: i64| (if at < 0 { at.saturating_add(n) } else { at }).clamp(0, n) as usize;
    let (start, end) = (limit(node.int_or("start", 0)?), limit(node.int_or("end", n)?));
    Ok(vec![Ints::vector(shape[start..end.max(start)].to_vec()).into()])
}

fn size(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let shape = extents(node)?;
    Ok(vec![Ints::scalar(tvm_core::relax::analysis::product(&shape)).into()])
}

fn cast(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let to = node.attr_int("to")?;
    let to = node.required("to", to)?;
    match Narrow::from_onnx(to) {
        Some(narrow) => convert(node, Err(narrow)),
        None => convert(node, Ok(dtype_from_onnx(to)?)),
    }
}

/// Converts input 0 to a tvm type or to a narrow type.
fn convert(node: &mut Node<'_, '_>, to: Result<DataType, Narrow>) -> Result<Vec<Value>, OnnxError> {
    let (mut x, from) = (node.arg(0)?, node.narrow(0));
    if let (Some(from), Err(to)) = (from, to)
        && from == to
    {
        node.gives(to);
        return Ok(vec![x.into()]);
    }
    if let Some(from) = from {
        x = super::narrow::widened(node, &x, from, to.unwrap_or(DataType::F32))?;
    }
    match to {
        Ok(dtype) => one(node.cast(&x, dtype)),
        Err(narrow) => {
            let how = super::narrow::rounding(node)?;
            node.gives(narrow);
            one(super::narrow::narrowed(node, &x, narrow, how))
        }
    }
}

fn bit_cast(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let to = node.attr_int("to")?;
    let dtype = dtype_from_onnx(node.required("to", to)?)?;
    let x = node.arg(0)?;
    match (dtype.is_bool(), node.dtype(&x)?.is_bool()) {
        (false, false) => {}
        // A truth value is a byte, 0 or 1.
        (false, true) if dtype.bits() == 8 => return one(node.cast(&x, dtype)),
        (true, true) => return Ok(vec![x.into()]),
        _ => return Err(node.unsupported("bits that may be no truth values")),
    }
    one(node.op("bitcast", &[x], Attrs::new().with("dtype", dtype)))
}

fn cast_like(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let like = node.arg(1)?;
    let to = node.narrow(1).map_or(Ok(node.dtype(&like)?), Err);
    convert(node, to)
}

fn eye_like(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let [rows, columns] = &shape[..] else { return Err(node.malformed("the input has two axes")) };
    let dtype = match node.attr_int("dtype")? {
        Some(elem) => dtype_from_onnx(elem)?,
        None => node.dtype(&x)?,
    };
    let args = [rows.clone(), columns.clone(), PrimExpr::index(node.int_or("k", 0)?)].map(Arg::Prim);
    one(node.op("eye", &args, Attrs::new().with("dtype", dtype)))
}

/// A range whose limits are floats that only a run knows.
fn float_range(node: &mut Node<'_, '_>, dtype: DataType) -> Result<Vec<Value>, OnnxError> {
    let mut limits = Vec::new();
    for arg in node.args()? {
        let number = node.reshape(&arg, &[])?;
        limits.push(node.cast(&number, DataType::F64)?);
    }
    let [start, limit, step] = &limits[..] else { return Err(node.malformed("there are three inputs")) };
    let distance = node.call("subtract", &[limit.clone(), start.clone()])?;
    let count = node.call("divide", &[distance, step.clone()])?;
    let count = node.call("ceil", &[count])?;
    let count = node.cast(&count, DataType::I64)?;
    let count = node.read(&count)?;
    let [count] = &count[..] else { return Err(node.malformed("the limits are numbers")) };
    let count = tvm_core::relax::analysis::simplify_dim(&count.clone().max(0));
    let places = [PrimExpr::index(0), count, PrimExpr::index(1)].map(Arg::Prim);
    let places = node.op("arange", &places, Attrs::new().with("dtype", DataType::F64))?;
    let steps = node.call("multiply", &[places, step.clone()])?;
    let values = node.call("add", &[steps, start.clone()])?;
    one(node.cast(&values, dtype))
}

/// A range of constants becomes a constant; a range of symbolic integers is computed at run time.
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
    let first = node.arg(0)?;
    let dtype = node.dtype(&first)?;
    if dtype.is_float() && (0..3).any(|i| node.known(i).is_none()) {
        return float_range(node, dtype);
    }
    let (start, limit, step) = (node.dim(0)?, node.dim(1)?, node.dim(2)?);
    if step.as_int().is_some_and(|it| it != 0) {
        return one(node.op(
            "arange",
            &[start, limit, step].map(Arg::Prim),
            Attrs::new().with("dtype", dtype),
        ));
    }
    // A step of 0 would not terminate; it yields an empty range.
    let up = step.clone().greater(0);
    let distance = up.clone().select(&limit - &start, &start - &limit);
    let size = up.select(step.clone(), PrimExpr::index(0) - &step).max(1);
    let count =
        step.clone().equal(0).select(PrimExpr::index(0), (distance + &size - 1i64).floordiv(size)).max(0);
    let args = [PrimExpr::index(0), count, PrimExpr::index(1)].map(Arg::Prim);
    let positions = node.op("arange", &args, Attrs::new().with("dtype", DataType::I64))?;
    let steps = node.call("multiply", &[positions, Arg::Prim(step)])?;
    let values = node.call("add", &[steps, Arg::Prim(start)])?;
    one(node.cast(&values, dtype))
}
