//! Resampling along one axis: every element of the result is a weighted sum of elements of the input, with weights that
//! are known when the model is imported.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use crate::error::OnnxError;
use crate::node::Node;

/// How an axis is resampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis<'a> {
    /// Elements before.
    pub(super) extent: i64,
    /// Elements after.
    pub(super) out: i64,
    /// Elements after for each one before; `out` may be this times `extent`, rounded.
    pub(super) scale: f64,
    /// Part of the axis that is shown, for `tf_crop_and_resize`.
    pub(super) region: (f64, f64),
    /// Name of the mapping of positions.
    pub(super) coordinates: &'a str,
    /// Which elements count, and how much.
    pub(super) filter: Filter<'a>,
    /// The filter is as wide as the elements of the result are apart.
    pub(super) antialias: bool,
    /// Elements past the ends do not count.
    pub(super) exclude_outside: bool,
}

/// Which elements count, and how much.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filter<'a> {
    /// The nearest one, after the named rounding.
    Nearest(&'a str),
    /// Those beside the position, by distance.
    Linear,
    /// Two on each side, by a cubic polynomial of this parameter.
    Cubic(f64),
}

/// One element of the result: elements of the input with their weights; `None` where there is nothing to show.
type Weights = Option<Vec<(i64, f64)>>;

impl Axis<'_> {
    /// Where element `i` of the result is in the input.
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

    /// Weights of the elements from `first` of the element left of the position on; `ratio`, above 0 and at most 1, is
    /// the distance to that element.
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
        // Far outside is as far as any position means.
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

/// `x` resampled along axis `axis`; `outside` is shown where there is nothing to show.
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
        // The cubic of parameter -0.75 at one half.
        let cubic = weights(8, 0.5, Filter::Cubic(-0.75), false, 1);
        near(cubic, &[(1, -0.09375), (2, 0.59375), (3, 0.59375), (4, -0.09375)]);
        // Twice as wide a triangle.
        let wide = weights(8, 0.5, Filter::Linear, true, 1);
        near(wide, &[(1, 0.125), (2, 0.375), (3, 0.375), (4, 0.125)]);
    }
}
