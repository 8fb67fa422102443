//! Softmax and its logarithm, shifted by the largest element so that nothing overflows.

use super::reduction::accumulator;
use super::{reduce_axes, sum_axes};
use crate::te::{TensorExpr, compute, max};
use crate::tir::{Intrinsic, PrimExpr};

/// `i` with the index 0 on `axis`, which is reduced but kept.
fn at_axis(i: &[PrimExpr], axis: usize) -> Vec<PrimExpr> {
    let mut at = i.to_vec();
    at[axis] = PrimExpr::index(0);
    at
}

/// `exp(x) / sum(exp(x))` along `axis`. Where elements are as wide as their sum, they are multiplied by its reciprocal: a division
/// for each element would cost as much as its exponential.
pub fn softmax(x: &TensorExpr, axis: usize) -> TensorExpr {
    let largest = reduce_axes("softmax_max", x, &[axis], true, |it| it, max);
    let exp = compute("softmax_exp", x.shape(), &[x, &largest], |i| {
        (x.at(i) - largest.at(at_axis(i, axis))).unary(Intrinsic::Exp)
    });
    let total = sum_axes("softmax_sum", &exp, &[axis], true, |it| it);
    if accumulator(x.dtype()) != x.dtype() {
        return compute("softmax", x.shape(), &[&exp, &total], |i| exp.at(i) / total.at(at_axis(i, axis)));
    }
    let one = PrimExpr::float(1.0, x.dtype());
    let scale = super::map("softmax_scale", &total, |it| one / it);
    compute("softmax", x.shape(), &[&exp, &scale], |i| exp.at(i) * scale.at(at_axis(i, axis)))
}

/// `x - log(sum(exp(x)))` along `axis`.
pub fn log_softmax(x: &TensorExpr, axis: usize) -> TensorExpr {
    let largest = reduce_axes("log_softmax_max", x, &[axis], true, |it| it, max);
    let shifted =
        compute("log_softmax_shift", x.shape(), &[x, &largest], |i| x.at(i) - largest.at(at_axis(i, axis)));
    let total = sum_axes("log_softmax_sum", &shifted, &[axis], true, |it| it.unary(Intrinsic::Exp));
    compute("log_softmax", x.shape(), &[&shifted, &total], |i| {
        shifted.at(i) - total.at(at_axis(i, axis)).unary(Intrinsic::Log)
    })
}
