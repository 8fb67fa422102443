//! Normalisation operators and softmax.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::product;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("BatchNormalization", 1, With(batch_norm)),
    row("GroupNormalization", 18, With(group_norm)),
    row("InstanceNormalization", 1, With(instance_norm)),
    row("LRN", 1, With(lrn)),
    row("LayerNormalization", 17, With(layer_norm)),
    row("LogSoftmax", 1, With(|node| softmax_2d(node, "nn.log_softmax"))),
    row("LogSoftmax", 13, With(|node| softmax(node, "nn.log_softmax"))),
    row("LpNormalization", 1, With(lp_norm)),
    row("MeanVarianceNormalization", 9, With(mean_variance_norm)),
    row("RMSNormalization", 23, With(rms_norm)),
    row("Softmax", 1, With(|node| softmax_2d(node, "nn.softmax"))),
    row("Softmax", 13, With(|node| softmax(node, "nn.softmax"))),
];

type Results = Result<Vec<Value>, OnnxError>;

fn softmax(node: &mut Node<'_, '_>, op: &str) -> Results {
    let x = node.arg(0)?;
    let axis = node.axis(node.int_or("axis", -1)?, node.rank(&x)?)?;
    one(node.op(op, &[x], Attrs::new().with("axis", axis)))
}

/// Before opset 13, softmax normalises over all axes from `axis` on together.
fn softmax_2d(node: &mut Node<'_, '_>, op: &str) -> Results {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axis = node.axis(node.int_or("axis", 1)?, shape.len())?;
    if shape[axis + 1..].iter().all(|it| it.is_const(1)) {
        return one(node.op(op, &[x], Attrs::new().with("axis", axis)));
    }
    let flat = node.reshape(&x, &[product(&shape[..axis]), product(&shape[axis..])])?;
    let res = node.op(op, &[flat], Attrs::new().with("axis", 1i64))?;
    one(node.reshape(&res, &shape))
}

fn batch_norm(node: &mut Node<'_, '_>) -> Results {
    let training = node.flag("training_mode", false)? || node.opset < 7 && !node.flag("is_test", false)?;
    if !node.flag("spatial", true)? {
        return Err(node.unsupported("statistics per element (spatial = 0)"));
    }
    let mut args = vec![node.arg(0)?];
    let (rank, dtype) = (node.rank(&args[0])?, node.dtype(&args[0])?);
    if rank < 2 {
        return Err(node.malformed(format!("the input has at least two axes, got {rank}")));
    }
    for i in 1..5 {
        let arg = node.arg(i)?;
        args.push(node.cast(&arg, dtype)?);
    }
    let epsilon = node.float_or("epsilon", 1e-5)?;
    let attrs = Attrs::new().with("axis", 1i64).with("epsilon", epsilon);
    if !training {
        return one(node.op("nn.batch_norm", &args, attrs));
    }
    // Statistics of this batch, and running ones that they are mixed into.
    let axes: Vec<i64> = (0..rank as i64).filter(|&axis| axis != 1).collect();
    let (mean, _, variance) = moments(node, &args[0].clone(), &axes, true)?;
    let momentum = node.float_or("momentum", 0.9)?;
    let mut running = Vec::new();
    for (i, new) in [mean, variance].into_iter().enumerate() {
        let channels = node.shape(&args[3 + i])?;
        let new = node.reshape(&new, &channels)?;
        let kept = node.with("multiply", &args[3 + i], momentum)?;
        let more = node.with("multiply", &new, 1.0 - momentum)?;
        running.push(node.apply("add", &kept, &more)?);
        args[3 + i] = new;
    }
    let mut res = vec![node.op("nn.batch_norm", &args, attrs)?.into()];
    res.extend(running.into_iter().map(Value::from));
    Ok(res)
}

/// The mean of `x` over `axes`; `x`, minus the mean if `center`; and the mean of the squares of that.
pub(super) fn moments(
    node: &mut Node<'_, '_>,
    x: &Arg,
    axes: &[i64],
    center: bool,
) -> Result<(Arg, Arg, Arg), OnnxError> {
    let keep = || Attrs::new().with("axis", axes.to_vec()).with("keepdims", true);
    let mean = node.op("mean", std::slice::from_ref(x), keep())?;
    let centered = if center { node.call("subtract", &[x.clone(), mean.clone()])? } else { x.clone() };
    let squares = node.call("multiply", &[centered.clone(), centered.clone()])?;
    let variance = node.op("mean", &[squares], keep())?;
    Ok((mean, centered, variance))
}

/// Computes `1 / sqrt(variance + epsilon)`.
pub(super) fn inverse_deviation(
    node: &mut Node<'_, '_>,
    variance: Arg,
    epsilon: f64,
) -> Result<Arg, OnnxError> {
    let dtype = node.dtype(&variance)?;
    let epsilon = node.scalar(epsilon, dtype)?;
    let sum = node.call("add", &[variance, epsilon])?;
    let deviation = node.call("sqrt", &[sum])?;
    let unit = node.scalar(1.0, dtype)?;
    node.call("divide", &[unit, deviation])
}

/// The type in which statistics are computed.
pub(super) fn wide(dtype: DataType) -> DataType {
    if dtype == DataType::F64 { dtype } else { DataType::F32 }
}

fn layer_norm(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let (rank, dtype) = (node.rank(&x)?, node.dtype(&x)?);
    let axis = node.axis(node.int_or("axis", -1)?, rank)?;
    let axes: Vec<i64> = (axis as i64..rank as i64).collect();
    let (scale, bias) = (node.arg(1)?, node.opt_arg(2)?);
    let same_shape = node.rank(&scale)? == axes.len();
    if let (true, false, Some(bias)) = (same_shape && dtype == wide(dtype), node.has_output(1), &bias)
        && node.rank(bias)? == axes.len()
    {
        let attrs = Attrs::new().with("axes", axes).with("epsilon", node.float_or("epsilon", 1e-5)?);
        return one(node.op("nn.layer_norm", &[x, scale, bias.clone()], attrs));
    }
    let x = node.cast(&x, wide(dtype))?;
    let (mean, centered, variance) = moments(node, &x, &axes, true)?;
    let inverse = inverse_deviation(node, variance, node.float_or("epsilon", 1e-5)?)?;
    let normal = node.call("multiply", &[centered, inverse.clone()])?;
    let mut res = node.cast(&normal, dtype)?;
    res = node.call("multiply", &[res, scale])?;
    if let Some(bias) = bias {
        res = node.call("add", &[res, bias])?;
    }
    Ok(vec![res.into(), mean.into(), inverse.into()])
}

fn rms_norm(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let (rank, dtype) = (node.rank(&x)?, node.dtype(&x)?);
    let axis = node.axis(node.int_or("axis", -1)?, rank)?;
    let axes: Vec<i64> = (axis as i64..rank as i64).collect();
    let x = node.cast(&x, wide(dtype))?;
    let (_, _, square) = moments(node, &x, &axes, false)?;
    let inverse = inverse_deviation(node, square, node.float_or("epsilon", 1e-5)?)?;
    let normal = node.call("multiply", &[x, inverse])?;
    let normal = node.cast(&normal, dtype)?;
    let scale = node.arg(1)?;
    one(node.call("multiply", &[normal, scale]))
}

/// Reshapes a vector with one element per channel to `rank` axes, so that it is broadcast along axis 1.
fn per_channel(node: &mut Node<'_, '_>, x: &Arg, rank: usize) -> Result<Arg, OnnxError> {
    let [channels] = &node.shape(x)?[..] else { return Err(node.malformed("scale and bias have one axis")) };
    let mut extents = vec![PrimExpr::index(1); rank];
    extents[1] = channels.clone();
    node.reshape(x, &extents)
}

fn instance_norm(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let (rank, dtype) = (node.rank(&x)?, node.dtype(&x)?);
    if rank < 3 {
        return Err(node.malformed(format!("the input has at least three axes, got {rank}")));
    }
    let axes: Vec<i64> = (2..rank as i64).collect();
    let x = node.cast(&x, wide(dtype))?;
    let (_, centered, variance) = moments(node, &x, &axes, true)?;
    let inverse = inverse_deviation(node, variance, node.float_or("epsilon", 1e-5)?)?;
    let normal = node.call("multiply", &[centered, inverse])?;
    let normal = node.cast(&normal, dtype)?;
    let (scale, bias) = (node.arg(1)?, node.arg(2)?);
    let (scale, bias) = (per_channel(node, &scale, rank)?, per_channel(node, &bias, rank)?);
    let res = node.call("multiply", &[normal, scale])?;
    one(node.call("add", &[res, bias]))
}

/// Normalises over groups of channels. Scale and bias are per group before opset 21, and per channel from then on.
fn group_norm(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let (shape, dtype) = (node.shape(&x)?, node.dtype(&x)?);
    let groups = node.attr_int("num_groups")?;
    let groups = node.required("num_groups", groups)?;
    let channels = shape.get(1).and_then(PrimExpr::as_int);
    let Some(channels) = channels.filter(|it| groups > 0 && it % groups == 0) else {
        return Err(node.malformed("the channels do not divide into groups"));
    };
    let split = [shape[0].clone(), PrimExpr::index(groups), product(&shape[1..]).floordiv(groups)];
    let split = split.map(|it| tvm_core::relax::analysis::simplify_dim(&it));
    let grouped = node.reshape(&x, &split)?;
    let grouped = node.cast(&grouped, wide(dtype))?;
    let (_, centered, variance) = moments(node, &grouped, &[2], true)?;
    let inverse = inverse_deviation(node, variance, node.float_or("epsilon", 1e-5)?)?;
    let normal = node.call("multiply", &[centered, inverse])?;
    let mut res = node.cast(&normal, dtype)?;
    let (scale, bias) = (node.arg(1)?, node.arg(2)?);
    let whole = node.opset >= 21 || groups == channels;
    if whole {
        res = node.reshape(&res, &shape)?;
    }
    let rank = if whole { shape.len() } else { 3 };
    let (scale, bias) = (per_channel(node, &scale, rank)?, per_channel(node, &bias, rank)?);
    res = node.call("multiply", &[res, scale])?;
    res = node.call("add", &[res, bias])?;
    one(node.reshape(&res, &shape))
}

fn lrn(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let size = node.attr_int("size")?;
    let size = node.required("size", size)?;
    if !(1..=1 << 20).contains(&size) {
        return Err(node.malformed(format!("attribute `size` is {size}")));
    }
    let attrs = Attrs::new()
        .with("size", size)
        .with("axis", 1i64)
        .with("alpha", node.float_or("alpha", 1e-4)?)
        .with("beta", node.float_or("beta", 0.75)?)
        .with("bias", node.float_or("bias", 1.0)?);
    one(node.op("nn.lrn", &[x], attrs))
}

fn lp_norm(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let axis = node.axis(node.int_or("axis", -1)?, node.rank(&x)?)? as i64;
    let attrs = Attrs::new().with("axis", vec![axis]).with("keepdims", true);
    let norm = match node.int_or("p", 2)? {
        1 => {
            let size = node.call("abs", std::slice::from_ref(&x))?;
            node.op("sum", &[size], attrs)?
        }
        2 => {
            let square = node.call("multiply", &[x.clone(), x.clone()])?;
            let sum = node.op("sum", &[square], attrs)?;
            node.call("sqrt", &[sum])?
        }
        p => return Err(node.malformed(format!("attribute `p` is {p}"))),
    };
    // If all elements are 0, the result is 0.
    let dtype = node.dtype(&x)?;
    let zero = node.scalar(0.0, dtype)?;
    let empty = node.call("equal", &[norm.clone(), zero])?;
    let unit = node.scalar(1.0, dtype)?;
    let divisor = node.call("where", &[empty, unit, norm])?;
    one(node.call("divide", &[x, divisor]))
}

fn mean_variance_norm(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let axes = node.attr_ints("axes")?.unwrap_or(&[0, 2, 3]);
    let axes = node.axes(axes, node.rank(&x)?)?;
    let (_, centered, variance) = moments(node, &x, &axes, true)?;
    let deviation = node.call("sqrt", &[variance])?;
    let dtype = node.dtype(&x)?;
    let epsilon = node.scalar(1e-9, dtype)?;
    let deviation = node.call("add", &[deviation, epsilon])?;
    one(node.call("divide", &[centered, deviation]))
}
