//! Resampling along one axis: every element of the result is a weighted sum of elements of the input. The weights are
//! known when the model is imported.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use crate::error::OnnxError;
use crate::node::Node;

/// Parameters of resampling an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis<'a> {
    /// Extent of the input.
    pub(super) extent: i64,
    /// Extent of the result.
    pub(super) out: i64,
    /// Ratio of the extents; `out` may be `scale * extent`, rounded.
    pub(super) scale: f64,
    /// Region of the axis that `tf_crop_and_resize` selects.
    pub(super) region: (f64, f64),
    /// Name of the coordinate transformation.
    pub(super) coordinates: &'a str,
    /// Selects the contributing elements and their weights.
    pub(super) filter: Filter<'a>,
    /// Widens the filter to the distance between elements of the result.
    pub(super) antialias: bool,
    /// Excludes elements beyond the ends.
    pub(super) exclude_outside: bool,
}

/// Selection of the contributing elements, and their weights.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filter<'a> {
    /// The nearest element, by the named rounding mode.
    Nearest(&'a str),
    /// The elements next to the position, weighted by distance.
    Linear,
    /// Two elements on each side, weighted by a cubic polynomial with this parameter.
    Cubic(f64),
}

/// Contributions to one element of the result: indices in the input and weights; `None` if the position is outside the
/// region.
type Weights = Option<Vec<(i64, f64)>>;

impl Axis<'_> {
    /// Position in the input that element `i` of the result corresponds to.
    fn position(&self, i: f64) -> f64 {
        let (extent, out) = (self.extent as f64, self.scale * self.extent as f64);
        let half_pixel = (i + 0.5) / self.scale - 0.5;
        match self.coordinates {
            "align_corners" if out == 1.0 => 0.0,
            "align_corners" => i * (extent - 1.0) / (out - 1.0),
            "asymmetric" => i / self.scale,
            "tf_crop_and_resize" => {
                let (start, end) = self.region;
                let inside = if out == 1.0 {
                    (end - start) * (extent - 1.0) / 2.0
                } else {
                    i * (end - start) * (extent - 1.0) / (out - 1.0)
                };
                inside + start * (extent - 1.0)
            }
            "pytorch_half_pixel" if out == 1.0 => -0.5,
            "half_pixel_symmetric" => half_pixel + extent / 2.0 * (1.0 - self.out as f64 / out),
            _ => half_pixel,
        }
    }

    /// The weights of the elements around a position, and the offset of the first of these elements from the element
    /// left of the position. `ratio`, above 0 and at most 1, is the distance to that left element.
    fn coefficients(&self, ratio: f64) -> (i64, Vec<f64>) {
        let (reach, curve): (f64, &dyn Fn(f64) -> f64) = match self.filter {
            Filter::Nearest(_) if ratio == 1.0 => return (1, vec![1.0]),
            Filter::Nearest(rounding) => {
                let left = match rounding {
                    "round_prefer_ceil" => ratio < 0.5,
                    "floor" => true,
                    "ceil" => false,
                    _ => ratio <= 0.5,
                };
                return (i64::from(!left), vec![1.0]);
            }
            Filter::Linear => (1.0, &|x: f64| (1.0 - x).max(0.0)),
            Filter::Cubic(a) => (2.0, &move |x: f64| {
                if x <= 1.0 {
                    ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
                } else if x < 2.0 {
                    ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
                } else {
                    0.0
                }
            }),
        };
        let scale = if self.antialias { self.scale.min(1.0) } else { 1.0 };
        let first = (-reach / scale).floor() as i64 + 1;
        let weights: Vec<f64> =
            (first..2 - first).map(|j| curve(((j as f64 - ratio) * scale).abs())).collect();
        let sum: f64 = weights.iter().sum();
        (first, weights.into_iter().map(|it| it / sum).collect())
    }

    fn weights(&self, i: i64) -> Weights {
        // Clamp: beyond this distance, the exact position has no effect.
        let at = self.position(i as f64).clamp(-1e15, 1e15);
        let last = (self.extent - 1) as f64;
        if self.coordinates == "tf_crop_and_resize" && !(0.0..=last).contains(&at) {
            return None;
        }
        let left = at.ceil() - 1.0;
        let (first, coefficients) = self.coefficients(at - left);
        let (start, inside) = (left as i64 + first, 0..self.extent);
        let mut weights: Vec<(i64, f64)> = (start..).zip(coefficients).collect();
        if self.exclude_outside {
            weights.retain(|(element, _)| inside.contains(element));
            let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
            weights.iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
        weights.iter_mut().for_each(|(element, _)| *element = (*element).clamp(0, self.extent - 1));
        Some(weights)
    }
}

/// Resamples `x` along the axis `axis`; elements outside the region become `outside`.
pub(super) fn resample(
    node: &mut Node<'_, '_>,
    x: &Arg,
    axis: usize,
    how: &Axis<'_>,
    outside: f64,
) -> Result<Arg, OnnxError> {
    node.check_shape(&[how.out, how.extent], DataType::F32)?;
    let rows: Vec<Weights> = (0..how.out).map(|i| how.weights(i)).collect();
    let single = |row: &Weights| match row.as_deref() {
        Some(&[(element, _)]) => Some(element),
        _ => None,
    };
    if let Some(elements) = rows.iter().map(single).collect::<Option<Vec<i64>>>() {
        let indices = node.constant(Tensor::from_vec(elements, &[how.out])?)?;
        return node.op("take", &[x.clone(), indices], Attrs::new().with("axis", axis));
    }
    let width = how.extent as usize;
    let mut matrix = vec![0f32; rows.len() * width];
    for (row, weights) in matrix.chunks_mut(width).zip(&rows) {
        for &(element, weight) in weights.iter().flatten() {
            row[element as usize] += weight as f32;
        }
    }
    let dtype = node.dtype(x)?;
    let rank = node.rank(x)?;
    let mut swap: Vec<i64> = (0..rank as i64).collect();
    swap.swap(axis, rank - 1);
    let swapped = |node: &mut Node<'_, '_>, x: Arg| {
        if axis == rank - 1 {
            Ok(x)
        } else {
            node.op("permute_dims", &[x], Attrs::new().with("axes", swap.clone()))
        }
    };
    // (…, input) · (result, input)ᵀ
    let matrix = node.constant(Tensor::from_vec(matrix, &[how.out, how.extent])?)?;
    let matrix = node.op("permute_dims", &[matrix], Attrs::new().with("axes", vec![1i64, 0]))?;
    let x = node.cast(x, DataType::F32)?;
    let x = swapped(node, x)?;
    let x = if rank == 1 { node.reshape(&x, &[PrimExpr::index(1), PrimExpr::index(how.extent)])? } else { x };
    let mut res = node.call("matmul", &[x, matrix])?;
    if rows.iter().any(Option::is_none) {
        let shown = rows.iter().map(|row| if row.is_none() { outside as f32 } else { 0.0 }).collect();
        let shown = node.constant(Tensor::from_vec(shown, &[how.out])?)?;
        res = node.call("add", &[res, shown])?;
    }
    let res = if rank == 1 { node.reshape(&res, &[PrimExpr::index(how.out)])? } else { res };
    let res = swapped(node, res)?;
    node.cast(&res, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(extent: i64, scale: f64, filter: Filter<'_>, antialias: bool, i: i64) -> Vec<(i64, f64)> {
        let out = (extent as f64 * scale) as i64;
        let (region, coordinates) = ((0.0, 1.0), "half_pixel");
        let exclude_outside = false;
        let axis = Axis { extent, out, scale, region, coordinates, filter, antialias, exclude_outside };
        axis.weights(i).unwrap()
    }

    #[test]
    fn filters() {
        let near = |got: Vec<(i64, f64)>, want: &[(i64, f64)]| {
            assert_eq!(got.len(), want.len(), "{got:?}");
            let close = |(a, b): (&(i64, f64), &(i64, f64))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12;
            assert!(got.iter().zip(want).all(close), "{got:?}");
        };
        near(weights(2, 2.0, Filter::Linear, false, 0), &[(0, 0.25), (0, 0.75)]);
        near(weights(2, 2.0, Filter::Linear, false, 1), &[(0, 0.75), (1, 0.25)]);
        near(weights(4, 2.0, Filter::Nearest("floor"), false, 3), &[(1, 1.0)]);
        near(weights(4, 0.5, Filter::Nearest("round_prefer_floor"), false, 1), &[(2, 1.0)]);
        near(weights(4, 0.5, Filter::Nearest("round_prefer_ceil"), false, 1), &[(3, 1.0)]);
        // The cubic polynomial with parameter -0.75 at one half.
        let cubic = weights(8, 0.5, Filter::Cubic(-0.75), false, 1);
        near(cubic, &[(1, -0.09375), (2, 0.59375), (3, 0.59375), (4, -0.09375)]);
        // A triangle of twice the width.
        let wide = weights(8, 0.5, Filter::Linear, true, 1);
        near(wide, &[(1, 0.125), (2, 0.375), (3, 0.375), (4, 0.125)]);
    }
}
