//! Convolutions over one to three spatial axes; data is (batch, channel, spatial…), weights are (out, in, spatial…).

use tvm_runtime::DataType;

use super::reduction::{accumulator, narrowed};
use super::transform::lazy;
use super::{PadMode, pad};
use crate::te::{ReduceAxis, TensorExpr, compute, reduce_axis, sum};
use crate::tir::PrimExpr;

/// Parameters of a convolution, one value per spatial axis.
#[derive(Clone, Debug)]
pub struct ConvParams {
    /// Distance between neighbouring windows, in elements.
    pub strides: Vec<i64>,
    /// Number of padding elements before the data.
    pub pad_before: Vec<i64>,
    /// Number of padding elements after the data.
    pub pad_after: Vec<i64>,
    /// Distance between neighbouring elements of a window.
    pub dilation: Vec<i64>,
    /// Number of groups that the channels are split into; groups do not mix.
    pub groups: i64,
}

fn window_axes(weight: &TensorExpr) -> Vec<ReduceAxis> {
    let name = |i: usize| ["kd", "kh", "kw"][3 + i - (weight.ndim() - 2)];
    (2..weight.ndim()).map(|axis| reduce_axis(name(axis - 2), weight.dim(axis))).collect()
}

/// Convolution: a padding stage when there is padding, then one block with spatial axes (batch, out channel, spatial…)
/// and reduction axes (in channel within the group, window…).
pub fn conv(
    name: &str,
    x: &TensorExpr,
    weight: &TensorExpr,
    params: &ConvParams,
    shape: &[PrimExpr],
    dtype: DataType,
) -> TensorExpr {
    let zeros = |pads: &[i64]| [&[0, 0], pads].concat();
    let padded = params.pad_before.iter().chain(&params.pad_after).any(|&it| it != 0);
    let x = &if padded {
        let mode = PadMode::Constant(PrimExpr::constant(0.0, x.dtype()));
        pad("pad_temp", x, &zeros(&params.pad_before), &zeros(&params.pad_after), &mode)
    } else {
        x.clone()
    };
    let (channel, window) = (reduce_axis("ci", weight.dim(1)), window_axes(weight));
    let wide = accumulator(dtype);
    let sums = compute(name, shape, &[x, weight], |i| {
        let (batch, out, spatial) = (&i[0], &i[1], &i[2..]);
        let input_channel = if params.groups == 1 {
            channel.expr()
        } else {
            let group = out.clone().floordiv(shape[1].clone().floordiv(params.groups));
            group * weight.dim(1) + channel.expr()
        };
        let mut at = vec![batch.clone(), input_channel];
        at.extend(
            (0..window.len())
                .map(|d| &spatial[d] * params.strides[d] + window[d].expr() * params.dilation[d]),
        );
        let kernel: Vec<PrimExpr> =
            [out.clone(), channel.expr()].into_iter().chain(window.iter().map(ReduceAxis::expr)).collect();
        let axes: Vec<&ReduceAxis> = [&channel].into_iter().chain(&window).collect();
        sum(x.at(at).cast(wide) * weight.at(kernel).cast(wide), &axes)
    });
    narrowed(sums, dtype)
}

/// Transposed convolution; weights are (in, out within the group, spatial…). An output element gathers every input
/// element whose window covers it.
pub fn conv_transpose(
    name: &str,
    x: &TensorExpr,
    weight: &TensorExpr,
    params: &ConvParams,
    shape: &[PrimExpr],
    dtype: DataType,
) -> TensorExpr {
    let per_group = x.dim(1).floordiv(params.groups);
    let (channel, window) = (reduce_axis("ci", per_group.clone()), window_axes(weight));
    let wide = accumulator(dtype);
    let sums = compute(name, shape, &[x, weight], |i| {
        let (batch, out, spatial) = (&i[0], &i[1], &i[2..]);
        let group = out.clone().floordiv(weight.dim(1));
        let input_channel = group * per_group + channel.expr();
        let mut at = vec![batch.clone(), input_channel.clone()];
        let mut covered = PrimExpr::bool(true);
        for (d, axis) in window.iter().enumerate() {
            let reached = &spatial[d] + params.pad_before[d] - axis.expr() * params.dilation[d];
            let index = reached.clone().floordiv(params.strides[d]);
            covered = covered
                .and(reached.floormod(params.strides[d]).equal(0))
                .and(index.clone().greater_equal(0))
                .and(index.clone().less(&x.shape()[2 + d]));
            at.push(index);
        }
        let mut kernel = vec![input_channel, out.clone().floormod(weight.dim(1))];
        kernel.extend(window.iter().map(ReduceAxis::expr));
        let axes: Vec<&ReduceAxis> = [&channel].into_iter().chain(&window).collect();
        let zero = PrimExpr::constant(0.0, wide);
        sum(lazy(covered, x.at(at).cast(wide) * weight.at(kernel).cast(wide), zero), &axes)
    });
    narrowed(sums, dtype)
}
