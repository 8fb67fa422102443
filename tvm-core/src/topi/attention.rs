//! Attention: `softmax(scale * q k^T + bias) v`.

use tvm_runtime::DataType;

use super::reduction::{accumulator, narrowed};
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

/// `softmax(scale * q k^T + bias) v` over the last two axes, for `q` of shape `[.., m, d]`, `k` of shape `[.., n, d]` and `v`
/// of shape `[.., n, dv]` with the same leading axes. The bias broadcasts to `[.., m, n]`.
///
/// The terms of a row are added before they are divided by their sum, so that each result is divided once. Narrow floats
/// are computed as 32-bit floats from the scores to the result.
pub fn attention(
    [q, k, v]: [&TensorExpr; 3],
    bias: Option<&TensorExpr>,
    scale: f64,
    dtype: DataType,
) -> TensorExpr {
    let (rank, wide) = (q.ndim(), accumulator(dtype));
    let (depth, terms) = (q.dim(rank - 1), k.dim(rank - 2));
    let scores = with_last(q.shape(), 1, [terms.clone()]);
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
    let n = reduce_axis("n", terms.clone());
    let largest = compute("attention_max", rows.clone(), &[&scaled], |i| {
        max(scaled.at(with_last(i, 0, [n.expr()])), &[&n])
    });
    let exp = compute("attention_exp", scores, &[&scaled, &largest], |i| {
        (scaled.at(i) - largest.at(&i[..rank - 1])).unary(Intrinsic::Exp)
    });
    let n = reduce_axis("n", terms.clone());
    let total = compute("attention_sum", rows, &[&exp], |i| sum(exp.at(with_last(i, 0, [n.expr()])), &[&n]));
    let n = reduce_axis("n", terms);
    let shape = with_last(q.shape(), 1, [v.dim(rank - 1)]);
    let product = compute("attention_product", shape.clone(), &[&exp, v], |i| {
        let value = with_last(i, 2, [n.expr(), i[rank - 1].clone()]);
        sum(exp.at(with_last(i, 1, [n.expr()])) * v.at(value).cast(wide), &[&n])
    });
    let result =
        compute("attention", shape, &[&product, &total], |i| product.at(i) / total.at(&i[..rank - 1]));
    narrowed(result, dtype)
}
