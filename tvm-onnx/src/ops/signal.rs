//! Operators on signals: Fourier transforms, causal convolution.

use std::f64::consts::TAU;

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("CausalConvWithState", 27, With(causal_conv)),
    row("DFT", 17, With(fourier_transform)),
    row("STFT", 17, With(short_time_transform)),
];

type Result<T> = std::result::Result<T, OnnxError>;

/// A convolution per channel over (batch, channel, position) that uses only earlier positions. The second result is the
/// state for the next call.
fn causal_conv(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (x, weight) = (node.arg(0)?, node.arg(1)?);
    let (dtype, shape) = (node.dtype(&x)?, node.shape(&x)?);
    let ([batch, channels, length], [_, _, window]) = (&shape[..], &node.shape(&weight)?[..]) else {
        return Err(node.malformed("input and weights have three axes"));
    };
    let (Some(groups), Some(window)) = (channels.as_int(), window.as_int()) else {
        return Err(node.unsupported("symbolic channels or windows"));
    };
    if groups < 1 || window < 1 {
        return Err(node.malformed("there are no channels or no weights"));
    }
    let past = match node.opt_arg(3)? {
        Some(past) => past,
        None => {
            let extents = vec![batch.clone(), channels.clone(), PrimExpr::index(window - 1)];
            let zero = node.scalar(0.0, dtype)?;
            node.op("full", &[Arg::Shape(extents.into()), zero], Attrs::new().with("dtype", dtype))?
        }
    };
    let padded = Arg::Tuple([past, x].into());
    let padded = node.op("concat", &[padded], Attrs::new().with("axis", 2i64))?;
    let mut res = node.op("nn.conv1d", &[padded.clone(), weight], Attrs::new().with("groups", groups))?;
    if let Some(bias) = node.opt_arg(2)? {
        let bias = node.reshape(&bias, &[PrimExpr::index(groups), PrimExpr::index(1)])?;
        res = node.call("add", &[res, bias])?;
    }
    match node.str_or("activation", "none")? {
        "none" => {}
        "silu" | "swish" => {
            let wide = node.cast(&res, DataType::F32)?;
            let wide = node.call("nn.silu", &[wide])?;
            res = node.cast(&wide, dtype)?;
        }
        other => {
            return Err(node.malformed(format!("attribute `activation` is `{}`", crate::names::show(other))));
        }
    }
    let end = simplify_dim(&(length + (window - 1)));
    let state = node.part(&padded, 2, length.clone(), end)?;
    Ok(vec![res.into(), state.into()])
}

/// The discrete Fourier transform along an axis. The last axis of the input holds real and imaginary parts, or real parts
/// only.
fn fourier_transform(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axis = match node.opset {
        ..20 => node.axis(node.int_or("axis", 1)?, shape.len())?,
        _ => match node.axes_at(2, "axis", 1, |_| shape.len())?.as_deref() {
            Some(&[axis]) => axis as usize,
            Some(_) => return Err(node.malformed("the axis is one number")),
            None => node.axis(-2, shape.len())?,
        },
    };
    let (inverse, onesided) = (node.flag("inverse", false)?, node.flag("onesided", false)?);
    let length = match node.has(1) {
        true => node.dim(1)?,
        false if inverse && onesided => simplify_dim(&((shape[axis].clone() - 1i64) * 2i64).max(1)),
        false => shape[axis].clone(),
    };
    one(transform(node, &x, axis, &length, [inverse, onesided]))
}

/// Transforms of parts of a signal (batch, samples, 1 or 2), each times a window. Exporters leave out the last axis of real
/// signals, as onnxruntime allows.
fn short_time_transform(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (mut signal, step) = (node.arg(0)?, node.dim(1)?);
    let (mut shape, window) = (node.shape(&signal)?, node.opt_arg(2)?);
    if shape.len() == 2 {
        shape.push(PrimExpr::index(1));
        signal = node.reshape(&signal, &shape)?;
    }
    let [batch, samples, parts] = &shape[..] else {
        return Err(node.malformed("the signal has two axes, or three"));
    };
    let length = match &window {
        Some(window) => node.extent(window, 0)?,
        None if node.has(3) => node.dim(3)?,
        None => samples.clone(),
    };
    let count = (samples.clone() - &length).floordiv(step.clone().max(1)) + 1i64;
    let frames = simplify_dim(&count.max(0));
    let starts = node.count(&frames, DataType::I64)?;
    let starts = node.with_dim("multiply", &starts, step)?;
    let starts = node.along(&starts, 0, 2)?;
    let own = node.count(&length, DataType::I64)?;
    let own = node.along(&own, 1, 2)?;
    let places = node.apply("add", &starts, &own)?;
    let places = node.reshape(&places, &[simplify_dim(&(&frames * &length))])?;
    let taken = node.take(&signal, &places, 1)?;
    let mut taken = node.reshape(&taken, &[batch.clone(), frames, length.clone(), parts.clone()])?;
    if let Some(window) = window {
        let window = node.along(&window, 2, 4)?;
        taken = node.apply("multiply", &taken, &window)?;
    }
    let onesided = node.flag("onesided", true)?;
    one(transform(node, &taken, 2, &length, [false, onesided]))
}

/// The cosines or sines of all multiples of one turn by `length`, (used, given), for the product of a transform. If `halved`,
/// half of the frequencies also represent their mirror images.
fn table(
    node: &mut Node<'_, '_>,
    (used, given, length): (&PrimExpr, &PrimExpr, &PrimExpr),
    [inverse, halved]: [bool; 2],
    (name, f): (&str, fn(f64) -> f64),
    dtype: DataType,
) -> Result<Arg> {
    if let (Some(used), Some(given), Some(length)) = (used.as_int(), given.as_int(), length.as_int()) {
        if length < 1 || used < 0 || given < 0 {
            return Err(node.malformed(format!("the length of the transform is {length}")));
        }
        node.check_shape(&[used, given], DataType::F64)?;
        let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
        let weight = |k: i64| if halved && k != 0 && 2 * k != length { 2.0 * scale } else { scale };
        let angle = |k: i64, t: i64| {
            TAU * ((i128::from(k) * i128::from(t)) % i128::from(length)) as f64 / length as f64
        };
        let values: Vec<f64> =
            (0..used).flat_map(|k| (0..given).map(move |t| weight(k) * f(angle(k, t)))).collect();
        let table = node.constant(Tensor::from_vec(values, &[used, given])?)?;
        return node.cast(&table, dtype);
    }
    let k = node.count(used, DataType::I64)?;
    let k = node.along(&k, 0, 2)?;
    let t = node.count(given, DataType::I64)?;
    let t = node.along(&t, 1, 2)?;
    let turns = node.apply("multiply", &k, &t)?;
    let turns = node.with_dim("floor_mod", &turns, simplify_dim(&length.clone().max(1)))?;
    let turns = node.cast(&turns, DataType::F64)?;
    let total = node.float_of(length)?;
    let total = node.cast(&total, DataType::F64)?;
    let angle = node.with("multiply", &turns, TAU)?;
    let angle = node.apply("divide", &angle, &total)?;
    let mut values = node.map(name, &angle)?;
    if inverse {
        values = node.apply("divide", &values, &total)?;
    }
    if halved {
        let twice = node.with_dim("multiply", &k, 2)?;
        let (zero, middle) =
            (node.with_dim("equal", &k, 0)?, node.with_dim("equal", &twice, length.clone())?);
        let single = node.apply("logical_or", &zero, &middle)?;
        let doubled = node.with("multiply", &values, 2.0)?;
        values = node.choice(&single, &values, &doubled)?;
    }
    node.cast(&values, dtype)
}

/// The transform of `x` along `axis`, as products with matrices of cosines and sines.
fn transform(
    node: &mut Node<'_, '_>,
    x: &Arg,
    axis: usize,
    length: &PrimExpr,
    [inverse, onesided]: [bool; 2],
) -> Result<Arg> {
    let (dtype, shape) = (node.dtype(x)?, node.shape(x)?);
    let last = shape.len() - 1;
    let extent = &shape[axis];
    let Some(parts @ 1..=2) = shape[last].as_int() else {
        return Err(node.unsupported("other than one or two parts of numbers, known beforehand"));
    };
    if axis == last {
        return Err(node.malformed("the transform is along the axis of real and imaginary parts"));
    }
    let to_real = inverse && onesided;
    // Number of input elements used, and number of output elements.
    let half = simplify_dim(&(length.clone().floordiv(2) + 1i64));
    let (taken, given) = match (to_real, onesided) {
        (true, _) => (half, length.clone()),
        (false, true) => (length.clone(), half),
        (false, false) => (length.clone(), length.clone()),
    };
    let used = simplify_dim(&taken.min(extent));
    let x = node.part(x, axis, PrimExpr::index(0), used.clone())?;
    let mut extents = shape.clone();
    extents[axis] = used.clone();
    let x = node.reshape(&x, &extents)?;
    let sizes = (&used, &given, length);
    let cos = table(node, sizes, [inverse, to_real], ("cos", f64::cos), dtype)?;
    let sin = table(node, sizes, [inverse, to_real], ("sin", f64::sin), dtype)?;
    // Moves the transformed axis to the end, in place of the axis of the parts.
    let mut order: Vec<i64> = (0..last as i64).filter(|&it| it != axis as i64).collect();
    order.push(axis as i64);
    let plane = |node: &mut Node<'_, '_>, i: i64| -> Result<Option<Arg>> {
        if i >= parts {
            return Ok(None);
        }
        let plane = node.part(&x, last, PrimExpr::index(i), PrimExpr::index(i + 1))?;
        let extents = node.shape(&plane)?[..last].to_vec();
        let plane = node.reshape(&plane, &extents)?;
        node.op("permute_dims", &[plane], Attrs::new().with("axes", order.clone())).map(Some)
    };
    let (real, imaginary) = (plane(node, 0)?, plane(node, 1)?);
    // (r + i·m)(cos ∓ i·sin): minus for the forward transform, plus for the inverse.
    let [with_sine, with_sine_real] = if inverse { ["subtract", "add"] } else { ["add", "subtract"] };
    let mut rows = Vec::new();
    for (a, b, op) in [(&real, &imaginary, with_sine), (&imaginary, &real, with_sine_real)] {
        let first = a.as_ref().map(|a| node.call("matmul", &[a.clone(), cos.clone()])).transpose()?;
        let second = b.as_ref().map(|b| node.call("matmul", &[b.clone(), sin.clone()])).transpose()?;
        rows.push(match (first, second) {
            (Some(first), Some(second)) => node.call(op, &[first, second])?,
            (None, Some(second)) if op == "subtract" => node.call("negative", &[second])?,
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => return Err(node.malformed("there are no parts")),
        });
    }
    if to_real {
        rows.truncate(1);
    }
    let mut back: Vec<i64> = (0..last as i64 - 1).collect();
    back.insert(axis, last as i64 - 1);
    let mut planes = Vec::new();
    for row in rows {
        let row = node.op("permute_dims", &[row], Attrs::new().with("axes", back.clone()))?;
        let extents = [&node.shape(&row)?[..], &[PrimExpr::index(1)]].concat();
        planes.push(node.reshape(&row, &extents)?);
    }
    let rank = shape.len();
    node.joined(planes, rank - 1)
}
