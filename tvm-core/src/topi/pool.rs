//! Pooling over any number of spatial axes, in any layout.

use super::reduction::{accumulator, narrowed};
use super::transform::lazy;
use super::{PadMode, ceil_div, pad};
use crate::te::{ReduceAxis, TensorExpr, compute, max, min_value, reduce_axis, sum};
use crate::tir::PrimExpr;

/// Parameters of a pooling, one value per spatial axis.
#[derive(Clone, Debug)]
pub struct PoolParams {
    /// The spatial axes of the data, in the order of the other parameters.
    pub axes: Vec<usize>,
    /// Extents of the window.
    pub window: Vec<i64>,
    /// Distance between neighbouring windows, in elements.
    pub strides: Vec<i64>,
    /// Number of padding elements before the data.
    pub pad_before: Vec<i64>,
    /// Number of padding elements after the data.
    pub pad_after: Vec<i64>,
    /// Distance between neighbouring elements of a window.
    pub dilation: Vec<i64>,
    /// True when averages count padding elements.
    pub count_include_pad: bool,
}

impl PoolParams {
    fn window_axes(&self) -> Vec<ReduceAxis> {
        self.window.iter().enumerate().map(|(d, &extent)| reduce_axis(&format!("k{d}"), extent)).collect()
    }

    /// `x` with padding, extended at the end for the windows that rounding up the number of windows adds.
    fn padded(&self, x: &TensorExpr, shape: &[PrimExpr], value: PrimExpr) -> TensorExpr {
        let mut after = self.pad_after.clone();
        for (d, after) in after.iter_mut().enumerate() {
            let axis = self.axes[d];
            if let (Some(out), Some(extent)) = (shape[axis].as_int(), x.shape()[axis].as_int()) {
                let reach = (out - 1) * self.strides[d] + (self.window[d] - 1) * self.dilation[d] + 1;
                *after = (*after).max(reach - extent - self.pad_before[d]);
            } else if self.strides[d] > 1 {
                // The one window that does not fit reaches at most a stride minus 1 beyond the end.
                *after += self.strides[d] - 1;
            }
        }
        if self.pad_before.iter().chain(&after).all(|&it| it == 0) {
            return x.clone();
        }
        let of_axes = |pads: &[i64]| {
            let mut all = vec![0; x.ndim()];
            self.axes.iter().zip(pads).for_each(|(&axis, &pad)| all[axis] = pad);
            all
        };
        pad("pad_temp", x, &of_axes(&self.pad_before), &of_axes(&after), &PadMode::Constant(value))
    }

    fn source(&self, x: &TensorExpr, i: &[PrimExpr], window: &[ReduceAxis]) -> PrimExpr {
        let mut at = i.to_vec();
        for (d, &axis) in self.axes.iter().enumerate() {
            at[axis] = &i[axis] * self.strides[d] + window[d].expr() * self.dilation[d];
        }
        x.at(at)
    }
}

/// Largest element of every window; NaN if the window contains NaN.
pub fn max_pool(name: &str, x: &TensorExpr, params: &PoolParams, shape: &[PrimExpr]) -> TensorExpr {
    let window = params.window_axes();
    let (dtype, wide) = (x.dtype(), accumulator(x.dtype()));
    let x = params.padded(x, shape, min_value(dtype));
    let most = compute(name, shape, &[&x], |i| {
        max(params.source(&x, i, &window).cast(wide), &window.iter().collect::<Vec<_>>())
    });
    narrowed(most, dtype)
}

/// Mean of every window.
pub fn avg_pool(name: &str, x: &TensorExpr, params: &PoolParams, shape: &[PrimExpr]) -> TensorExpr {
    let (window, dtype, wide) = (params.window_axes(), x.dtype(), accumulator(x.dtype()));
    let padded = params.padded(x, shape, PrimExpr::constant(0.0, dtype));
    let total = compute("pool_sum", shape, &[&padded], |i| {
        sum(params.source(&padded, i, &window).cast(wide), &window.iter().collect::<Vec<_>>())
    });
    compute(name, shape, &[&total], |i| {
        let mut count = PrimExpr::index(1);
        for d in 0..window.len() {
            // Number of elements of the window between the limits, in steps of the dilation.
            let start = &i[params.axes[d]] * params.strides[d] - params.pad_before[d];
            let step = PrimExpr::index(params.dilation[d]);
            let extent = x.dim(params.axes[d]);
            let (first, limit) = if params.count_include_pad {
                (PrimExpr::index(0), extent + params.pad_after[d])
            } else {
                (ceil_div(-start.clone(), &step).max(0), extent)
            };
            let last = ceil_div(limit - &start, &step).min(params.window[d]);
            count = count * (last - first).max(1);
        }
        (total.at(i) / count.cast(wide)).cast(dtype)
    })
}

/// Means of windows that divide every one of the spatial axes `axes` as evenly as possible.
pub fn adaptive_avg_pool(name: &str, x: &TensorExpr, axes: &[usize], shape: &[PrimExpr]) -> TensorExpr {
    let (dtype, wide) = (x.dtype(), accumulator(x.dtype()));
    let even = |d: usize| {
        let (extent, out) = (&x.shape()[axes[d]], &shape[axes[d]]);
        match (extent.as_int(), out.as_int()) {
            (_, Some(1)) => true,
            (Some(extent), Some(out)) => out > 0 && extent % out == 0,
            (None, _) | (_, None) => false,
        }
    };
    let size = |d: usize| {
        let (extent, out) = (x.dim(axes[d]), &shape[axes[d]]);
        if even(d) { extent.floordiv(out) } else { ceil_div(extent, out) + 1i64 }
    };
    let window: Vec<ReduceAxis> = (0..axes.len()).map(|d| reduce_axis(&format!("k{d}"), size(d))).collect();
    let range = |i: &[PrimExpr], d: usize| {
        let (index, extent, out) = (&i[axes[d]], x.dim(axes[d]), &shape[axes[d]]);
        if even(d) {
            let start = index * size(d);
            return (start.clone(), start + size(d));
        }
        ((index * &extent).floordiv(out), ceil_div((index + 1i64) * extent, out))
    };
    let total = compute("adaptive_pool_sum", shape, &[x], |i| {
        let (mut at, mut inside) = (i.to_vec(), PrimExpr::bool(true));
        for (d, axis) in window.iter().enumerate() {
            let (start, end) = range(i, d);
            let index = start + axis.expr();
            if !even(d) {
                inside = inside.and(index.clone().less(end));
            }
            at[axes[d]] = index;
        }
        let element = lazy(inside, x.at(at).cast(wide), PrimExpr::constant(0.0, wide));
        sum(element, &window.iter().collect::<Vec<_>>())
    });
    compute(name, shape, &[&total], |i| {
        let count = (0..axes.len()).fold(PrimExpr::index(1), |count, d| {
            let (start, end) = range(i, d);
            count * if even(d) { size(d) } else { end - start }
        });
        (total.at(i) / count.cast(wide)).cast(dtype)
    })
}
