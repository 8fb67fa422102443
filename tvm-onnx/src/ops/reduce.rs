//! Reduction operators.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("ArgMax", 1, With(|node| arg_reduce(node, "argmax"))),
    row("ArgMin", 1, With(|node| arg_reduce(node, "argmin"))),
    row("CumProd", 26, With(|node| running(node, "cumprod"))),
    row("CumSum", 11, With(|node| running(node, "cumsum"))),
    row("ReduceL1", 1, With(|node| reduce(node, 18, |node, x| node.call("abs", &[x]), "sum", keep))),
    row("ReduceL2", 1, With(|node| reduce(node, 18, square, "sum", root))),
    row("ReduceLogSum", 1, With(|node| reduce(node, 18, keep, "sum", |node, x| node.call("log", &[x])))),
    row("ReduceLogSumExp", 1, With(log_sum_exp)),
    row("ReduceMax", 1, With(|node| reduce(node, 18, keep, "max", keep))),
    row("ReduceMean", 1, With(|node| reduce(node, 18, keep, "mean", keep))),
    row("ReduceMin", 1, With(|node| reduce(node, 18, keep, "min", keep))),
    row("ReduceProd", 1, With(|node| reduce(node, 18, keep, "prod", keep))),
    row("ReduceSum", 1, With(|node| reduce(node, 13, keep, "sum", keep))),
    row("ReduceSumSquare", 1, With(|node| reduce(node, 18, square, "sum", keep))),
];

type Step = fn(&mut Node<'_, '_>, Arg) -> Result<Arg, OnnxError>;

fn keep(_: &mut Node<'_, '_>, x: Arg) -> Result<Arg, OnnxError> {
    Ok(x)
}

fn square(node: &mut Node<'_, '_>, x: Arg) -> Result<Arg, OnnxError> {
    node.call("multiply", &[x.clone(), x])
}

fn root(node: &mut Node<'_, '_>, x: Arg) -> Result<Arg, OnnxError> {
    node.call("sqrt", &[x])
}

/// The axes to reduce, an input from opset `since` on; `None` if nothing is reduced.
fn axes(node: &mut Node<'_, '_>, since: i64, rank: usize) -> Result<Option<Vec<i64>>, OnnxError> {
    match node.axes_at(1, "axes", since, |_| rank)?.filter(|axes| !axes.is_empty()) {
        Some(axes) => Ok(Some(axes)),
        None if node.flag("noop_with_empty_axes", false)? => Ok(None),
        None => Ok(Some((0..rank as i64).collect())),
    }
}

/// Computes `after(op(before(x)))`, where `op` reduces the axes.
fn reduce(
    node: &mut Node<'_, '_>,
    since: i64,
    before: Step,
    op: &str,
    after: Step,
) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let rank = node.rank(&x)?;
    let axes = axes(node, since, rank)?;
    let keepdims = node.flag("keepdims", true)?;
    let dtype = node.dtype(&x)?;
    let bool_extreme = dtype.is_bool() && matches!(op, "max" | "min");
    let x = if bool_extreme { node.cast(&x, DataType::U8)? } else { x };
    let mut x = before(node, x)?;
    if let Some(axes) = axes {
        x = node.op(op, &[x], Attrs::new().with("axis", axes).with("keepdims", keepdims))?;
    }
    let res = after(node, x)?;
    one(if bool_extreme { node.cast(&res, dtype) } else { Ok(res) })
}

/// Subtracts the maximum first, so that nothing overflows.
fn log_sum_exp(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let rank = node.rank(&x)?;
    let Some(axes) = axes(node, 18, rank)? else { return Ok(vec![x.into()]) };
    let attrs = |keepdims: bool| Attrs::new().with("axis", axes.clone()).with("keepdims", keepdims);
    let keepdims = node.flag("keepdims", true)?;
    let dtype = node.dtype(&x)?;
    let high = node.op("max", std::slice::from_ref(&x), attrs(true))?;
    // Subtracting an infinite maximum from itself would produce NaN.
    let finite = node.call("isfinite", std::slice::from_ref(&high))?;
    let zero = node.scalar(0.0, dtype)?;
    let high = node.call("where", &[finite, high, zero])?;
    let rest = node.call("subtract", &[x, high.clone()])?;
    let powers = node.call("exp", &[rest])?;
    let sum = node.op("sum", &[powers], attrs(true))?;
    let log = node.call("log", &[sum])?;
    let res = node.call("add", &[log, high])?;
    if keepdims {
        return Ok(vec![res.into()]);
    }
    let shape = node.shape(&res)?;
    let kept = shape.iter().enumerate().filter(|(i, _)| !axes.contains(&(*i as i64)));
    let shape: Vec<_> = kept.map(|(_, it)| it.clone()).collect();
    one(node.reshape(&res, &shape))
}

fn arg_reduce(node: &mut Node<'_, '_>, op: &str) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let axis = node.axis(node.int_or("axis", 0)?, node.rank(&x)?)?;
    let attrs = Attrs::new()
        .with("axis", axis)
        .with("keepdims", node.flag("keepdims", true)?)
        .with("select_last_index", node.flag("select_last_index", false)?);
    one(node.op(op, &[x], attrs))
}

fn running(node: &mut Node<'_, '_>, op: &str) -> Result<Vec<Value>, OnnxError> {
    let x = node.arg(0)?;
    let rank = node.rank(&x)?;
    let Some([axis]) =
        node.axes_at(1, "axis", 1, |_| rank)?.as_deref().map(<[i64; 1]>::try_from).and_then(Result::ok)
    else {
        return Err(node.malformed("input 1 is one axis"));
    };
    let axis = axis as usize;
    let (reverse, exclusive) = (node.flag("reverse", false)?, node.flag("exclusive", false)?);
    let x = if reverse { super::index::reversed(node, x, axis)? } else { x };
    let attrs = Attrs::new().with("axis", axis).with("exclusive", exclusive);
    let res = node.op(op, &[x], attrs)?;
    one(if reverse { super::index::reversed(node, res, axis) } else { Ok(res) })
}
