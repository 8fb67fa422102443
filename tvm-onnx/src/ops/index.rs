//! Operators that select elements by index.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::iterate::row_at;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("Gather", 1, With(gather)),
    row("GatherElements", 11, With(gather_elements)),
    row("GatherND", 11, With(gather_nd)),
    row("OneHot", 9, With(one_hot)),
    row("ReverseSequence", 10, With(reverse_sequence)),
    row("Scatter", 9, With(scatter_elements)),
    row("ScatterElements", 11, With(scatter_elements)),
    row("ScatterND", 11, With(scatter_nd)),
    row("Slice", 1, With(slice)),
    row("TensorScatter", 24, With(tensor_scatter)),
    row("TopK", 1, With(topk)),
    row("Trilu", 14, With(trilu)),
    row("Where", 9, With(where_)),
];

type Results = Result<Vec<Value>, OnnxError>;

fn gather(node: &mut Node<'_, '_>) -> Results {
    let (x, indices) = (node.arg(0)?, node.arg(1)?);
    let axis = node.axis(node.int_or("axis", 0)?, node.rank(&x)?)?;
    one(node.op("take", &[x, indices], Attrs::new().with("axis", axis)))
}

fn gather_elements(node: &mut Node<'_, '_>) -> Results {
    let (x, indices) = (node.arg(0)?, node.arg(1)?);
    let axis = node.axis(node.int_or("axis", 0)?, node.rank(&x)?)?;
    one(node.op("gather_elements", &[x, indices], Attrs::new().with("axis", axis)))
}

fn gather_nd(node: &mut Node<'_, '_>) -> Results {
    let (x, indices) = (node.arg(0)?, node.arg(1)?);
    let batch = node.int_or("batch_dims", 0)?;
    one(node.op("gather_nd", &[x, indices], Attrs::new().with("batch_dims", batch)))
}

fn reduction(node: &Node<'_, '_>) -> Result<&'static str, OnnxError> {
    match node.str_or("reduction", "none")? {
        "none" => Ok("update"),
        "add" => Ok("add"),
        "mul" => Ok("mul"),
        "max" => Ok("max"),
        "min" => Ok("min"),
        other => Err(node.malformed(format!("attribute `reduction` is `{}`", crate::names::show(other)))),
    }
}

fn scatter_elements(node: &mut Node<'_, '_>) -> Results {
    let (x, indices, updates) = (node.arg(0)?, node.arg(1)?, node.arg(2)?);
    let axis = node.axis(node.int_or("axis", 0)?, node.rank(&x)?)?;
    let attrs = Attrs::new().with("axis", axis).with("reduction", reduction(node)?);
    one(node.op("scatter_elements", &[x, indices, updates], attrs))
}

fn scatter_nd(node: &mut Node<'_, '_>) -> Results {
    let args = [node.arg(0)?, node.arg(1)?, node.arg(2)?];
    let attrs = Attrs::new().with("reduction", reduction(node)?);
    one(node.op("scatter_nd", &args, attrs))
}

fn reverse_sequence(node: &mut Node<'_, '_>) -> Results {
    let (x, lengths) = (node.arg(0)?, node.arg(1)?);
    let rank = node.rank(&x)?;
    let (batch, time) = (node.int_or("batch_axis", 1)?, node.int_or("time_axis", 0)?);
    let (batch, time) = (node.axis(batch, rank)?, node.axis(time, rank)?);
    if batch == time {
        return Err(node.malformed("batch and time are the same axis"));
    }
    one(reversed_sequences(node, x, &lengths, [batch, time]))
}

/// The first elements of each sequence in reverse order; those after its length stay. Each sequence is along the axis `time`,
/// the sequences and `lengths` along the axis `batch`.
pub(super) fn reversed_sequences(
    node: &mut Node<'_, '_>,
    x: Arg,
    lengths: &Arg,
    [batch, time]: [usize; 2],
) -> Result<Arg, OnnxError> {
    let shape = node.shape(&x)?;
    let rank = shape.len();
    let at = node.count(&shape[time], DataType::I64)?;
    let at = node.along(&at, time, rank)?;
    let lengths = node.cast(lengths, DataType::I64)?;
    let lengths = node.along(&lengths, batch, rank)?;
    let inside = node.apply("less", &at, &lengths)?;
    let back = node.with_dim("subtract", &lengths, 1)?;
    let back = node.apply("subtract", &back, &at)?;
    let places = node.choice(&inside, &back, &at)?;
    let places = node.broadcast(&places, &shape)?;
    node.op("gather_elements", &[x, places], Attrs::new().with("axis", time))
}

/// A cache with new elements written along its sequence axis, for each batch from a place of its own on.
fn tensor_scatter(node: &mut Node<'_, '_>) -> Results {
    let (cache, update) = (node.arg(0)?, node.arg(1)?);
    let (shape, new) = (node.shape(&cache)?, node.shape(&update)?);
    let rank = shape.len();
    let axis = node.axis(node.int_or("axis", -2)?, rank)?;
    let circular = match node.str_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return Err(node.malformed(format!("attribute `mode` is `{}`", crate::names::show(other)))),
    };
    if axis == 0 || new.len() != rank {
        return Err(
            node.malformed("the axis is not that of batches, and cache and update have the same rank")
        );
    }
    let at = node.count(&new[axis], DataType::I64)?;
    let mut places = node.along(&at, axis, rank)?;
    if let Some(starts) = node.opt_arg(2)? {
        let starts = node.cast(&starts, DataType::I64)?;
        let starts = node.along(&starts, 0, rank)?;
        places = node.apply("add", &places, &starts)?;
    }
    if circular {
        places = node.with_dim("floor_mod", &places, shape[axis].clone())?;
    }
    let places = node.broadcast(&places, &new)?;
    let attrs = Attrs::new().with("axis", axis).with("reduction", "update");
    one(node.op("scatter_elements", &[cache, places, update], attrs))
}

fn where_(node: &mut Node<'_, '_>) -> Results {
    let args = [node.arg(0)?, node.arg(1)?, node.arg(2)?];
    one(node.call("where", &args))
}

fn trilu(node: &mut Node<'_, '_>) -> Results {
    let k = if node.has(1) { node.dim(1)? } else { PrimExpr::index(0) };
    let op = if node.flag("upper", true)? { "triu" } else { "tril" };
    let x = node.arg(0)?;
    one(node.call(op, &[x, Arg::Prim(k)]))
}

fn one_hot(node: &mut Node<'_, '_>) -> Results {
    let depth = match node.value(1)?.tensor() {
        Some(depth) => {
            let depth = super::number(&depth).filter(|it| (0.0..1e15).contains(it));
            PrimExpr::index(depth.ok_or_else(|| node.malformed("the depth is one number"))? as i64)
        }
        None => {
            let depth = node.arg(1)?;
            let depth = node.cast(&depth, DataType::I64)?;
            match &node.read(&depth)?[..] {
                [depth] => depth.clone(),
                _ => return Err(node.malformed("the depth is one number")),
            }
        }
    };
    let indices = node.arg(0)?;
    let values = node.arg(2)?;
    let rank = node.rank(&indices)?;
    let axis = node.axis(node.int_or("axis", -1)?, rank + 1)?;
    let indices = node.cast(&indices, DataType::I64)?;
    if let (Some(depth), Some(values)) = (depth.as_int(), values.as_const()) {
        let [off, on, ..] = super::numbers(values)[..] else {
            return Err(node.malformed("there are two values"));
        };
        let prim = |it: f64| Arg::Prim(PrimExpr::constant(it, values.dtype()));
        let attrs = Attrs::new().with("depth", depth).with("axis", axis);
        return one(node.op("one_hot", &[indices, prim(on), prim(off)], attrs));
    }
    // The places along the new axis are compared with the indices; negative ones count from the end.
    let limits = [PrimExpr::index(0), depth.clone(), PrimExpr::index(1)].map(Arg::Prim);
    let places = node.op("arange", &limits, Attrs::new().with("dtype", DataType::I64))?;
    let mut column = vec![PrimExpr::index(1); rank + 1 - axis];
    column[0] = depth.clone();
    let places = node.reshape(&places, &column)?;
    let mut shape = node.shape(&indices)?;
    shape.insert(axis, PrimExpr::index(1));
    let indices = node.reshape(&indices, &shape)?;
    let from_end = node.call("add", &[indices.clone(), Arg::Prim(depth)])?;
    let negative = node.call("less", &[indices.clone(), Arg::Prim(PrimExpr::index(0))])?;
    let indices = node.call("where", &[negative, from_end, indices])?;
    let hot = node.call("equal", &[indices, places])?;
    let [off, on] = [row_at(node, &values, 0.into())?, row_at(node, &values, 1.into())?];
    one(node.call("where", &[hot, on, off]))
}

fn topk(node: &mut Node<'_, '_>) -> Results {
    let k = match node.opset {
        ..10 => PrimExpr::index(node.required("k", node.attr_int("k")?)?),
        _ => node.dim(1)?,
    };
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axis = node.axis(node.int_or("axis", -1)?, shape.len())?;
    let largest = node.flag("largest", true)?;
    let Some(k) = k.as_int() else { return topk_when_run(node, &x, axis, k, largest) };
    if k < 0 || shape[axis].as_int().is_some_and(|extent| k > extent) {
        return Err(node.malformed(format!("k is {k}, outside of the axis")));
    }
    let attrs = Attrs::new()
        .with("k", k)
        .with("axis", axis)
        .with("ret_type", "both")
        .with("largest", largest)
        .with("dtype", DataType::I64);
    let both = node.op("topk", &[x], attrs)?;
    Ok(vec![node.field(&both, 0)?.into(), node.field(&both, 1)?.into()])
}

/// The first `k` elements of the whole axis in order.
fn topk_when_run(node: &mut Node<'_, '_>, x: &Arg, axis: usize, k: PrimExpr, largest: bool) -> Results {
    let attrs = Attrs::new().with("axis", axis).with("descending", largest).with("dtype", DataType::I64);
    let order = node.op("argsort", std::slice::from_ref(x), attrs)?;
    let (axes, begin) = ([axis as i64], [PrimExpr::index(0)]);
    let indices = sliced(node, order, &axes, &begin, &[k], &[1])?;
    let values =
        node.op("gather_elements", &[x.clone(), indices.clone()], Attrs::new().with("axis", axis))?;
    Ok(vec![values.into(), indices.into()])
}

fn slice(node: &mut Node<'_, '_>) -> Results {
    let dims = |node: &mut Node<'_, '_>, i: usize, name: &str| {
        if node.opset >= 10 {
            return if node.has(i) { node.dims(i).map(Some) } else { Ok(None) };
        }
        let ints = node.attr_ints(name)?;
        Ok(ints.map(|it| it.iter().map(|&it| PrimExpr::index(it)).collect()))
    };
    let (starts, ends) = (dims(node, 1, "starts")?, dims(node, 2, "ends")?);
    let (starts, ends) = (node.required("starts", starts)?, node.required("ends", ends)?);
    let steps = if node.opset >= 10 && node.has(4) { Some(node.dims(4)?) } else { None };
    let x = node.arg(0)?;
    let rank = node.rank(&x)?;
    let axes = node.axes_at(3, "axes", 10, |_| rank)?;
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    if axes.len() > rank {
        return Err(node.malformed(format!("{} limits for a tensor of rank {rank}", axes.len())));
    }
    let steps = steps.unwrap_or_else(|| vec![PrimExpr::index(1); axes.len()]);
    if [starts.len(), ends.len(), steps.len()].iter().any(|&n| n != axes.len()) {
        return Err(node.malformed("starts, ends, axes and steps have different lengths"));
    }
    if steps.iter().any(|it| it.is_const(0)) {
        return Err(node.malformed("a step is 0"));
    }
    let known = steps.iter().map(PrimExpr::as_int).collect::<Option<Vec<i64>>>();
    let Some(steps) = known else {
        let mut x = x;
        for (i, &axis) in axes.iter().enumerate() {
            x = stepped(node, x, axis as usize, [&starts[i], &ends[i], &steps[i]])?;
        }
        return Ok(vec![x.into()]);
    };
    one(sliced(node, x, &axes, &starts, &ends, &steps))
}

/// The slice of an axis whose step is known only when the program runs: the elements at computed places.
fn stepped(
    node: &mut Node<'_, '_>,
    x: Arg,
    axis: usize,
    [start, end, step]: [&PrimExpr; 3],
) -> Result<Arg, OnnxError> {
    let extent = node.extent(&x, axis)?;
    let forwards = step.clone().greater(0);
    let zero = PrimExpr::index(0);
    // Limits beyond the ends are those of the whole axis in the direction of the step.
    let low = forwards.clone().select(zero.clone(), PrimExpr::index(-1));
    let high = forwards.clone().select(extent.clone(), extent.clone() - 1i64);
    let limit = |at: &PrimExpr| {
        let from_start = at.clone().less(0).select(at.clone() + &extent, at.clone());
        from_start.max(&low).min(&high)
    };
    let (start, end) = (limit(start), limit(end));
    let size = forwards.clone().select(step.clone(), zero.clone() - step).max(1);
    let distance = forwards.select(end.clone() - &start, start.clone() - &end);
    let count = simplify_dim(&(distance + &size - 1i64).floordiv(size).max(0));
    let limits = [zero, count, PrimExpr::index(1)].map(Arg::Prim);
    let places = node.op("arange", &limits, Attrs::new().with("dtype", DataType::I64))?;
    let places = node.call("multiply", &[places, Arg::Prim(step.clone())])?;
    let places = node.call("add", &[places, Arg::Prim(simplify_dim(&start))])?;
    node.op("take", &[x, places], Attrs::new().with("axis", axis))
}

/// The slice `x[begin..end by stride]` along `axes`. As in NumPy, negative limits count from the end, and limits are
/// clamped.
pub(crate) fn sliced(
    node: &mut Node<'_, '_>,
    x: Arg,
    axes: &[i64],
    begin: &[PrimExpr],
    end: &[PrimExpr],
    strides: &[i64],
) -> Result<Arg, OnnxError> {
    let list = |it: &[PrimExpr]| Arg::Shape(it.to_vec().into());
    let strides: Vec<PrimExpr> = strides.iter().map(|&it| PrimExpr::index(it)).collect();
    let args = [x, list(begin), list(end), list(&strides)];
    node.op("strided_slice", &args, Attrs::new().with("axes", axes.to_vec()))
}

/// Reverses `x` along `axis`.
pub(super) fn reversed(node: &mut Node<'_, '_>, x: Arg, axis: usize) -> Result<Arg, OnnxError> {
    node.op("flip", &[x], Attrs::new().with("axis", axis))
}
