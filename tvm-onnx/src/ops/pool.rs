//! Pooling operators.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;

use super::window::{Window, least, padded, window};
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("AveragePool", 1, With(average_pool)),
    row("GlobalAveragePool", 1, With(|node| global(node, "mean"))),
    row("GlobalLpPool", 1, With(global_lp)),
    row("GlobalMaxPool", 1, With(|node| global(node, "max"))),
    row("LpPool", 2, With(lp_pool)),
    row("MaxPool", 1, With(max_pool)),
];

fn attrs(node: &Node<'_, '_>, window: &Window) -> Result<Attrs, OnnxError> {
    Ok(Attrs::new()
        .with("pool_size", window.kernel.clone())
        .with("strides", window.strides.clone())
        .with("padding", window.pads.clone())
        .with("dilation", window.dilations.clone())
        .with("ceil_mode", node.flag("ceil_mode", false)?))
}

/// Pools `x` by one of the operators `names`, for one to three spatial axes; padding that depends on symbolic extents has
/// elements `fill`.
fn pool(
    node: &mut Node<'_, '_>,
    names: [&str; 3],
    x: &Arg,
    fill: f64,
    more: impl FnOnce(Attrs, &Window) -> Attrs,
) -> Result<Arg, OnnxError> {
    let rank = node.rank(x)?;
    let Some(name) = rank.checked_sub(3).and_then(|i| names.get(i)) else {
        return Err(node.unsupported(format!("an input of rank {rank}")));
    };
    let padded = padded(node, x, None, fill)?;
    let attrs = more(attrs(node, &padded.window)?, &padded.window);
    let res = node.op(name, std::slice::from_ref(&padded.x), attrs)?;
    padded.counted(node, res)
}

const AVERAGE: [&str; 3] = ["nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"];

fn max_pool(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let names = ["nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"];
    let largest = |node: &mut Node<'_, '_>, x: &Arg| {
        let fill = least(node.dtype(x)?);
        pool(node, names, x, fill, |attrs, _| attrs)
    };
    // Windows with holes may have no element, only padding, which is less than all floats but no less than all bytes.
    let dense = node.attr_ints("dilations")?.is_none_or(|it| it.iter().all(|&dilation| dilation == 1));
    let bytes = if dense && !node.has_output(1) { super::integer::largest(node, largest)? } else { None };
    if let Some(res) = bytes {
        return one(Ok(res));
    }
    let res = largest(node, &x)?;
    if !node.has_output(1) {
        return Ok(vec![res.into()]);
    }
    let out = node.shape(&res)?;
    let indices = super::patches::largest_indices(node, &x, &out)?;
    Ok(vec![res.into(), indices.into()])
}

fn average_pool(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let include = node.flag("count_include_pad", false)?;
    let x = node.arg(0)?;
    one(average_of(node, &x, include))
}

/// The average of `x` over the windows that the attributes describe.
pub(super) fn average_of(node: &mut Node<'_, '_>, x: &Arg, include: bool) -> Result<Arg, OnnxError> {
    let average = |node: &mut Node<'_, '_>, x: &Arg, include: bool| {
        pool(node, AVERAGE, x, 0.0, |attrs, _| attrs.with("count_include_pad", include))
    };
    let shape = node.shape(x)?;
    if include || shape.len() < 3 || window(node, &shape[2..], None).is_ok() {
        return average(node, x, include);
    }
    // Of the elements in a window, some are padding, whose number depends on symbolic extents.
    let ones =
        node.full(&[&[PrimExpr::index(1), PrimExpr::index(1)], &shape[2..]].concat(), 1.0, node.dtype(x)?)?;
    let (sum, count) = (average(node, x, true)?, average(node, &ones, true)?);
    node.apply("divide", &sum, &count)
}

/// The p-th root of the sum of powers, computed from an average that counts padding, times the size of the window.
fn lp_pool(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let (dtype, p) = (node.dtype(&x)?, node.int_or("p", 2)?);
    let exponent = node.scalar(p as f64, dtype)?;
    let x = node.call("abs", &[x])?;
    let powers = node.call("power", &[x, exponent])?;
    let mut elements = 1;
    let mean = pool(node, AVERAGE, &powers, 0.0, |attrs, window| {
        elements = window.kernel.iter().product();
        attrs.with("count_include_pad", true)
    })?;
    let elements = node.scalar(elements as f64, dtype)?;
    let sum = node.call("multiply", &[mean, elements])?;
    let root = node.scalar(1.0 / p as f64, dtype)?;
    one(node.call("power", &[sum, root]))
}

fn global(node: &mut Node<'_, '_>, op: &str) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let axes: Vec<i64> = (2..node.rank(&x)? as i64).collect();
    one(node.op(op, &[x], Attrs::new().with("axis", axes).with("keepdims", true)))
}

/// The p-th root of the sum of powers over all spatial axes.
fn global_lp(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let p = match node.opset {
        1 => node.float_or("p", 2.0)?,
        _ => node.int_or("p", 2)? as f64,
    };
    let x = node.arg(0)?;
    let axes: Vec<i64> = (2..node.rank(&x)? as i64).collect();
    let x = node.map("abs", &x)?;
    let powers = node.with("power", &x, p)?;
    let sum = node.op("sum", &[powers], Attrs::new().with("axis", axes).with("keepdims", true))?;
    one(node.with("power", &sum, 1.0 / p))
}
