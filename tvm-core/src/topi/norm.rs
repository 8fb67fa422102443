//! Normalisations.

use super::reduction::{accumulator, variance_about};
use super::{Operand, broadcast, scaled_sum};
use crate::te::{TensorExpr, compute, reduce_axis, sum};
use crate::tir::{Intrinsic, PrimExpr};

/// The element of `tensor`, which has rank 1, at the index of `axis`.
fn along(tensor: &TensorExpr, i: &[PrimExpr], axis: usize) -> PrimExpr {
    tensor.at([i[axis].clone()])
}

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` with given statistics along `axis`.
pub fn batch_norm(
    x: &TensorExpr,
    [gamma, beta, mean, var]: [&TensorExpr; 4],
    axis: usize,
    epsilon: f64,
) -> TensorExpr {
    compute("batch_norm", x.shape(), &[x, gamma, beta, mean, var], |i| {
        let epsilon = PrimExpr::float(epsilon, x.dtype());
        let deviation = (along(var, i, axis) + epsilon).unary(Intrinsic::Sqrt);
        (x.at(i) - along(mean, i, axis)) / deviation * along(gamma, i, axis) + along(beta, i, axis)
    })
}

/// `(x - mean) / sqrt(variance + epsilon)` with mean and variance over `axes`, then `scale` applied to the result and
/// its index. With `center` false the mean is taken as 0 (root mean square normalisation).
pub fn normalize(
    name: &str,
    x: &TensorExpr,
    axes: &[usize],
    epsilon: f64,
    center: bool,
    inputs: &[&TensorExpr],
    scale: impl FnOnce(PrimExpr, &[PrimExpr]) -> PrimExpr,
) -> TensorExpr {
    let at_mean = |i: &[PrimExpr]| -> Vec<PrimExpr> {
        let index = |(axis, i): (usize, &PrimExpr)| {
            if axes.contains(&axis) { PrimExpr::index(0) } else { i.clone() }
        };
        i.iter().enumerate().map(index).collect()
    };
    let epsilon = PrimExpr::float(epsilon, x.dtype());
    let (mean, var) = if center {
        let mean = scaled_sum("mean", x, axes, true);
        let var = variance_about(&mean, x, axes, true);
        (Some(mean), var)
    } else {
        let square = broadcast("square", x.shape(), &[Operand::from(x)], |it| &it[0] * &it[0]);
        (None, scaled_sum("mean_square", &square, axes, true))
    };
    let read: Vec<&TensorExpr> = [x, &var].into_iter().chain(&mean).chain(inputs.iter().copied()).collect();
    compute(name, x.shape(), &read, |i| {
        let centered = match &mean {
            Some(mean) => x.at(i) - mean.at(at_mean(i)),
            None => x.at(i),
        };
        let deviation = (var.at(at_mean(i)) + epsilon).unary(Intrinsic::Sqrt);
        // One division for all elements instead of one for each, where this costs no precision of a narrow type.
        let normal = if accumulator(x.dtype()) == x.dtype() {
            centered * (PrimExpr::float(1.0, x.dtype()) / deviation)
        } else {
            centered / deviation
        };
        scale(normal, i)
    })
}

/// Local response normalisation: `x / (bias + alpha / size * sum of squares of the neighbours along axis)^beta`.
pub fn lrn(x: &TensorExpr, size: i64, axis: usize, alpha: f64, beta: f64, bias: f64) -> TensorExpr {
    let window = reduce_axis("window", size);
    let float = |value: f64| PrimExpr::float(value, x.dtype());
    let squares = compute("lrn_squares", x.shape(), &[x], |i| {
        let mut at = i.to_vec();
        at[axis] = &at[axis] + window.expr() - (size - 1) / 2;
        let inside = at[axis].clone().greater_equal(0).and(at[axis].clone().less(&x.shape()[axis]));
        let square = x.at(at.clone()) * x.at(at);
        sum(super::transform::lazy(inside, square, float(0.0)), &[&window])
    });
    compute("lrn", x.shape(), &[x, &squares], |i| {
        let base = squares.at(i) * float(alpha / size as f64) + float(bias);
        x.at(i) / PrimExpr::call(Intrinsic::Pow, [base, float(beta)], x.dtype())
    })
}
