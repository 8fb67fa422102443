//! Attention: `softmax(scale * q k^T + bias) v`.

use tvm_runtime::DataType;

use super::reduction::{accumulator, narrowed};
use super::transform::lazy;
use crate::arith::same;
use crate::te::{TensorExpr, compute, max, reduce_axis, sum};
use crate::tir::{Intrinsic, PrimExpr};

/// `i` without its last `n` indices, and then `last`.
fn with_last(i: &[PrimExpr], n: usize, last: impl IntoIterator<Item = PrimExpr>) -> Vec<PrimExpr> {
    i[..i.len() - n].iter().cloned().chain(last).collect()
}

/// The element of `x`, which broadcasts to the rank of `i`, at `i`.
fn at_broadcast(x: &TensorExpr, i: &[PrimExpr]) -> PrimExpr {
    let aligned = i[i.len() - x.ndim()..].iter().zip(x.shape());
    let at = aligned.map(|(i, extent)| if extent.is_const(1) { PrimExpr::index(0) } else { i.clone() });
    x.at(at.collect::<Vec<_>>())
}

/// A symbolic number of queries is rounded up to a multiple of this one, so that tiles of rows have no remainder.
const ROWS: i64 = 8;

/// A symbolic number of keys is rounded up to a multiple of this one, so that vectors of columns have no remainder.
const COLUMNS: i64 = 32;

/// The blocks that copy an operand because an extent was rounded up: queries, keys and bias.
const PADDED: [&str; 3] = ["attention_queries", "attention_keys", "attention_bias"];

/// `extent`, rounded up to a multiple of `multiple` if it is symbolic.
fn rounded_up(extent: &PrimExpr, multiple: i64) -> PrimExpr {
    match extent.as_int() {
        Some(_) => extent.clone(),
        None => (extent + (multiple - 1)).floordiv(multiple) * multiple,
    }
}

/// `x`, with zeros in the new rows, if its rows become `rows`.
fn padded(name: &str, x: &TensorExpr, rows: &PrimExpr) -> TensorExpr {
    let axis = x.ndim() - 2;
    let limit = x.dim(axis);
    if same(rows, &limit) {
        return x.clone();
    }
    let shape = with_last(x.shape(), 2, [rows.clone(), x.dim(axis + 1)]);
    let zero = super::cast(PrimExpr::constant(0.0, DataType::F32), x.dtype());
    compute(name, shape, &[x], |i| lazy(i[axis].clone().less(&limit), x.at(i.to_vec()), zero.clone()))
}

/// The bias for scores of shape `padded`, of which those beyond `scores` get no weight.
fn padded_bias(
    bias: Option<&TensorExpr>,
    scores: [&PrimExpr; 2],
    padded: [&PrimExpr; 2],
    wide: DataType,
) -> Option<TensorExpr> {
    let has_rows = bias.is_some_and(|it| it.ndim() > 1 && !it.dim(it.ndim() - 2).is_const(1));
    // Of the last axes of the result: rows and columns.
    let changes = [has_rows && !same(scores[0], padded[0]), !same(scores[1], padded[1])];
    if changes == [false; 2] {
        return bias.cloned();
    }
    let mut shape = bias.map_or(vec![], |it| it.shape().to_vec());
    if shape.is_empty() {
        shape.push(PrimExpr::index(1));
    }
    let last = shape.len() - 1;
    for (axis, extent) in padded.into_iter().enumerate().filter(|(axis, _)| changes[*axis]) {
        shape[last + axis - 1] = extent.clone();
    }
    let excluded = super::cast(PrimExpr::constant(f64::NEG_INFINITY, DataType::F32), wide);
    let inputs: Vec<&TensorExpr> = bias.into_iter().collect();
    Some(compute(PADDED[2], shape, &inputs, |i| {
        let given = bias.map_or(PrimExpr::float(0.0, wide), |bias| at_broadcast(bias, i).cast(wide));
        let inside =
            (0..2).filter(|&axis| changes[axis]).map(|axis| i[last + axis - 1].clone().less(scores[axis]));
        lazy(inside.fold(PrimExpr::bool(true), PrimExpr::and), given, excluded.clone())
    }))
}

/// `softmax(scale * q k^T + bias) v` over the last two axes, for `q` of shape `[.., m, d]`, `k` of shape `[.., n, d]` and `v`
/// of shape `[.., n, dv]` with the same leading axes. The bias broadcasts to `[.., m, n]`.
///
/// The terms of a row are added before they are divided by their sum, so that each result is divided once. Narrow floats
/// are computed as 32-bit floats from the scores to the result.
///
/// Symbolic numbers of queries and keys are rounded up; the scores of keys that do not exist have a bias of -inf.
pub fn attention(
    [q, k, v]: [&TensorExpr; 3],
    bias: Option<&TensorExpr>,
    scale: f64,
    dtype: DataType,
) -> TensorExpr {
    let (rank, wide) = (q.ndim(), accumulator(dtype));
    let (depth, queries, terms) = (q.dim(rank - 1), q.dim(rank - 2), k.dim(rank - 2));
    let result = with_last(q.shape(), 1, [v.dim(rank - 1)]);
    let m = rounded_up(&queries, ROWS);
    // A few queries are no tile.
    let few = queries.as_int().is_some_and(|queries| queries < ROWS);
    let n = if few { terms.clone() } else { rounded_up(&terms, COLUMNS) };
    let bias = padded_bias(bias, [&queries, &terms], [&m, &n], wide);
    let bias = bias.as_ref();
    let (q, k) = (&padded(PADDED[0], q, &m), &padded(PADDED[1], k, &n));
    let scores = with_last(q.shape(), 1, [n.clone()]);
    let rows = with_last(q.shape(), 1, []);

    let d = reduce_axis("d", depth);
    let products = compute("attention_scores", scores.clone(), &[q, k], |i| {
        let key = with_last(i, 2, [i[rank - 1].clone(), d.expr()]);
        sum(q.at(with_last(i, 1, [d.expr()])).cast(wide) * k.at(key).cast(wide), &[&d])
    });
    let inputs: Vec<&TensorExpr> = [&products].into_iter().chain(bias).collect();
    let scaled = compute("attention_scaled", scores.clone(), &inputs, |i| {
        let scaled = products.at(i) * PrimExpr::float(scale, wide);
        bias.map_or(scaled.clone(), |bias| scaled + at_broadcast(bias, i).cast(wide))
    });
    let j = reduce_axis("n", n.clone());
    let largest = compute("attention_max", rows.clone(), &[&scaled], |i| {
        max(scaled.at(with_last(i, 0, [j.expr()])), &[&j])
    });
    let exp = compute("attention_exp", scores, &[&scaled, &largest], |i| {
        (scaled.at(i) - largest.at(&i[..rank - 1])).unary(Intrinsic::Exp)
    });
    let j = reduce_axis("n", n);
    let total = compute("attention_sum", rows, &[&exp], |i| sum(exp.at(with_last(i, 0, [j.expr()])), &[&j]));
    let j = reduce_axis("n", terms);
    let shape = with_last(q.shape(), 1, [v.dim(rank - 1)]);
    let product = compute("attention_product", shape, &[&exp, v], |i| {
        let value = with_last(i, 2, [j.expr(), i[rank - 1].clone()]);
        sum(exp.at(with_last(i, 1, [j.expr()])) * v.at(value).cast(wide), &[&j])
    });
    let result =
        compute("attention", result, &[&product, &total], |i| product.at(i) / total.at(&i[..rank - 1]));
    narrowed(result, dtype)
}
