//! Transposed convolutions over one to three spatial axes: data (batch, channel, spatial…), weights (in, out within the
//! group, spatial…).
//!
//! Results with the same remainder by the stride, of one *phase*, read the same elements of the window. So each phase is a
//! convolution with a part of the window, the taps `phase, phase + stride, …`. All phases are computed as channels of one
//! result of the size of the data, whose elements are then put in their places.

use tvm_runtime::DataType;

use super::conv::ConvParams;
use super::reduction::{accumulator, narrowed};
use super::transform::lazy;
use super::{PadMode, pad, ravel, unravel};
use crate::arith::Analyzer;
use crate::arith::dims::simplify_dim;
use crate::te::{ReduceAxis, TensorExpr, compute, reduce_axis, sum};
use crate::tir::PrimExpr;

/// Transposed convolution. An output element gathers every input element whose window covers it.
pub fn conv_transpose(
    name: &str,
    x: &TensorExpr,
    weight: &TensorExpr,
    params: &ConvParams,
    shape: &[PrimExpr],
    dtype: DataType,
) -> TensorExpr {
    match Phases::of(x, weight, params, shape) {
        Some(phases) => phases.conv(name, x, weight, params, shape, dtype),
        None => gathered(name, x, weight, params, shape, dtype),
    }
}

/// The phases of a transposed convolution whose window is not dilated.
struct Phases {
    /// Number of phases along each spatial axis: the strides.
    counts: Vec<PrimExpr>,
    /// Number of taps along each spatial axis.
    taps: Vec<i64>,
    /// The position in the data of the first result of a phase, along each spatial axis.
    first: Vec<i64>,
    /// Extents of the result of a phase.
    extents: Vec<PrimExpr>,
    /// Numbers of zeros before and after the data.
    zeros: [Vec<i64>; 2],
    /// Number of channels of the result.
    channels: i64,
}

impl Phases {
    fn of(x: &TensorExpr, weight: &TensorExpr, params: &ConvParams, shape: &[PrimExpr]) -> Option<Phases> {
        let channels = shape[1].as_int().filter(|_| params.dilation.iter().all(|&it| it == 1))?;
        let (mut taps, mut first, mut extents) = (Vec::new(), Vec::new(), Vec::new());
        let mut zeros = [vec![0; 2], vec![0; 2]];
        for (d, &stride) in params.strides.iter().enumerate() {
            let (window, before) = (weight.shape()[2 + d].as_int()?, params.pad_before[d]);
            if window < 1 || stride < 1 || before < 0 {
                return None;
            }
            let (count, start) = ((window + stride - 1) / stride, before / stride);
            let last = (&shape[2 + d] + (before - 1)).floordiv(stride);
            let extent = last + (1 - start);
            let more = &extent + start - &x.shape()[2 + d];
            let analyzer = Analyzer::of_indices([&extent, &more]);
            let more = simplify_dim(&more).as_int().or_else(|| analyzer.simplify(&more).as_int());
            taps.push(count);
            first.push(start);
            // In the form in which the shapes of graphs are.
            extents.push(simplify_dim(&extent));
            zeros[0].push(count - 1 - start);
            zeros[1].push(more?);
        }
        let counts = params.strides.iter().copied().map(PrimExpr::index).collect();
        Some(Phases { counts, taps, first, extents, zeros, channels })
    }

    fn conv(
        &self,
        name: &str,
        x: &TensorExpr,
        weight: &TensorExpr,
        params: &ConvParams,
        shape: &[PrimExpr],
        dtype: DataType,
    ) -> TensorExpr {
        let wide = accumulator(dtype);
        let [before, after] = &self.zeros;
        let zero = PadMode::Constant(PrimExpr::constant(0.0, x.dtype()));
        let padded = before.iter().chain(after).any(|&it| it != 0);
        let x = &if padded { pad("pad_temp", x, before, after, &zero) } else { x.clone() };
        let per_group = x.dim(1).floordiv(params.groups);
        let channel = reduce_axis("ci", per_group.clone());
        let names = ["td", "th", "tw"];
        let axes: Vec<Option<ReduceAxis>> = (self.taps.iter().zip(&names[3 - self.taps.len()..]))
            .map(|(&taps, name)| (taps > 1).then(|| reduce_axis(name, PrimExpr::index(taps))))
            .collect();
        let phases: i64 = params.strides.iter().product();
        let mut of_phases = vec![shape[0].clone(), PrimExpr::index(phases * self.channels)];
        of_phases.extend(self.extents.iter().cloned());
        let sums = compute(&format!("{name}_phases"), of_phases, &[x, weight], |i| {
            let (out, phase) = match phases {
                1 => (i[1].clone(), PrimExpr::index(0)),
                _ => (i[1].clone().floormod(self.channels), i[1].clone().floordiv(self.channels)),
            };
            let phase = unravel(phase, &self.counts);
            let (channel_of_data, of_group) = match params.groups {
                1 => (channel.expr(), out),
                _ => {
                    let first = out.clone().floordiv(weight.dim(1)) * &per_group;
                    (first + channel.expr(), out.floormod(weight.dim(1)))
                }
            };
            let mut at = vec![i[0].clone(), channel_of_data.clone()];
            let mut of_window = vec![channel_of_data, of_group];
            let mut exists = PrimExpr::bool(true);
            for (d, axis) in axes.iter().enumerate() {
                let (tap, taps) = (axis.as_ref().map(ReduceAxis::expr), self.taps[d]);
                at.push(match &tap {
                    Some(tap) => &i[2 + d] + (taps - 1) - tap,
                    None => i[2 + d].clone(),
                });
                let index = match tap {
                    Some(tap) => tap * params.strides[d] + &phase[d],
                    None => phase[d].clone(),
                };
                if weight.shape()[2 + d].as_int() != Some(taps * params.strides[d]) {
                    exists = exists.and(index.clone().less(&weight.shape()[2 + d]));
                }
                of_window.push(index);
            }
            let axes: Vec<&ReduceAxis> = [&channel].into_iter().chain(axes.iter().flatten()).collect();
            let term = x.at(at).cast(wide) * weight.at(of_window).cast(wide);
            sum(lazy(exists, term, PrimExpr::constant(0.0, wide)), &axes)
        });
        let sums = narrowed(sums, dtype);
        if phases == 1 {
            return sums;
        }
        compute(name, shape, &[&sums], |i| {
            let places: Vec<PrimExpr> =
                i[2..].iter().zip(&params.pad_before).map(|(i, pad)| i + *pad).collect();
            let by_stride = || places.iter().zip(&params.strides).zip(&self.first);
            let phase: Vec<PrimExpr> =
                by_stride().map(|((place, &stride), _)| place.clone().floormod(stride)).collect();
            let mut at = vec![i[0].clone(), ravel(&phase, &self.counts) * self.channels + &i[1]];
            at.extend(by_stride().map(|((place, &stride), first)| place.clone().floordiv(stride) - *first));
            sums.at(at)
        })
    }
}

fn window_axes(weight: &TensorExpr) -> Vec<ReduceAxis> {
    let name = |i: usize| ["kd", "kh", "kw"][3 + i - (weight.ndim() - 2)];
    (2..weight.ndim()).map(|axis| reduce_axis(name(axis - 2), weight.dim(axis))).collect()
}

/// A transposed convolution in one block: all elements of the window are tried for each result.
fn gathered(
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
