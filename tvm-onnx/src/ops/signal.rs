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

pub(super) static ROWS: &[Row] =
    &[row("CausalConvWithState", 27, With(causal_conv)), row("DFT", 17, With(fourier_transform))];

type Result<T> = std::result::Result<T, OnnxError>;

/// The elements `begin..end` along an axis.
fn part(node: &mut Node<'_, '_>, x: &Arg, axis: usize, begin: PrimExpr, end: PrimExpr) -> Result<Arg> {
    super::index::sliced(node, x.clone(), &[axis as i64], &[begin], &[end], &[1])
}

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
    let state = part(node, &padded, 2, length.clone(), end)?;
    Ok(vec![res.into(), state.into()])
}

/// The discrete Fourier transform along an axis, as products with matrices of sines and cosines. The last axis of the
/// input holds real and imaginary parts, or real parts only.
fn fourier_transform(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let x = node.arg(0)?;
    let (dtype, shape) = (node.dtype(&x)?, node.shape(&x)?);
    let axis = match node.opset {
        ..20 => node.int_or("axis", 1)?,
        _ if node.has(2) => node.int(2)?,
        _ => -2,
    };
    let axis = node.axis(axis, shape.len())?;
    let last = shape.len() - 1;
    let (extent, parts) = (shape[axis].as_int(), shape[last].as_int());
    let (Some(extent @ 1..), Some(parts @ 1..=2)) = (extent, parts) else {
        return Err(node.unsupported("an axis of symbolic extent, or without elements"));
    };
    if axis == last {
        return Err(node.malformed("the transform is along the axis of real and imaginary parts"));
    }
    let (inverse, onesided) = (node.flag("inverse", false)?, node.flag("onesided", false)?);
    let to_real = inverse && onesided;
    let length = match (node.has(1), to_real) {
        (true, _) => node.int(1)?,
        (false, true) => (2 * (extent - 1)).max(1),
        (false, false) => extent,
    };
    // Number of input elements used, and number of output elements.
    let half = length / 2 + 1;
    let (taken, given) = match (to_real, onesided) {
        (true, _) => (half, length),
        (false, true) => (length, half),
        (false, false) => (length, length),
    };
    if length < 1 {
        return Err(node.malformed(format!("the length of the transform is {length}")));
    }
    node.check_shape(&[taken, given], DataType::F64)?;
    let used = taken.min(extent);
    let x = part(node, &x, axis, PrimExpr::index(0), PrimExpr::index(used))?;
    let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
    // Half of the frequencies also represent their mirror images.
    let weight = |k: i64| if to_real && k != 0 && 2 * k != length { 2.0 * scale } else { scale };
    let mut table = |f: fn(f64) -> f64| -> Result<Arg> {
        let angle = |k: i64, t: i64| {
            TAU * ((i128::from(k) * i128::from(t)) % i128::from(length)) as f64 / length as f64
        };
        let values: Vec<f64> =
            (0..used).flat_map(|k| (0..given).map(move |t| weight(k) * f(angle(k, t)))).collect();
        let table = Tensor::from_vec(values, &[used, given])?;
        let table = node.constant(table)?;
        node.cast(&table, dtype)
    };
    let (cos, sin) = (table(f64::cos)?, table(f64::sin)?);
    // Moves the transformed axis to the end, in place of the axis of the parts.
    let mut order: Vec<i64> = (0..last as i64).filter(|&it| it != axis as i64).collect();
    order.push(axis as i64);
    let plane = |node: &mut Node<'_, '_>, i: i64| -> Result<Option<Arg>> {
        if i >= parts {
            return Ok(None);
        }
        let plane = part(node, &x, last, PrimExpr::index(i), PrimExpr::index(i + 1))?;
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
    if let [only] = &planes[..] {
        return Ok(vec![only.clone().into()]);
    }
    one(node.op("concat", &[Arg::Tuple(planes.into())], Attrs::new().with("axis", -1i64)))
}
