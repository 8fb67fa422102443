//! Resampling along one axis whose extent, or whose scale, is known only when the program runs: positions and weights are
//! computed by the program.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::resample::Filter;
use crate::error::OnnxError;
use crate::node::Node;

type Result<T> = std::result::Result<T, OnnxError>;

/// Parameters of resampling an axis.
pub(super) struct AxisWhenRun<'a> {
    /// Extent of the result.
    pub(super) out: PrimExpr,
    /// Ratio of the extents, a scalar of f32; `out` may be `scale * extent`, rounded.
    pub(super) scale: Arg,
    /// Name of the coordinate transformation.
    pub(super) coordinates: &'a str,
    /// Selects the contributing elements and their weights.
    pub(super) filter: Filter<'a>,
    /// Begin and end of the region of the axis that `tf_crop_and_resize` selects, scalars of f32, and the value outside.
    pub(super) region: Option<([Arg; 2], f64)>,
    /// Widens the filter to the distance between elements of the result.
    pub(super) antialias: bool,
    /// Excludes elements beyond the ends.
    pub(super) exclude_outside: bool,
}

/// A polynomial of `x`, by the coefficients from the highest power on.
fn polynomial(node: &mut Node<'_, '_>, x: &Arg, coefficients: &[f64]) -> Result<Arg> {
    let mut sum = node.scalar(0.0, DataType::F32)?;
    for &coefficient in coefficients {
        let product = node.apply("multiply", &sum, x)?;
        sum = node.with("add", &product, coefficient)?;
    }
    Ok(sum)
}

/// Position in the input of each element of the result.
fn positions(node: &mut Node<'_, '_>, how: &AxisWhenRun<'_>, extent: &PrimExpr) -> Result<Arg> {
    let i = node.count(&how.out, DataType::F32)?;
    if how.coordinates == "asymmetric" {
        return node.apply("divide", &i, &how.scale);
    }
    let extent = node.float_of(extent)?;
    let exact = node.apply("multiply", &how.scale, &extent)?;
    if let Some(([start, end], _)) = &how.region {
        let (last, steps) = (node.with("subtract", &extent, 1.0)?, node.with("subtract", &exact, 1.0)?);
        let length = node.apply("subtract", end, start)?;
        let length = node.apply("multiply", &length, &last)?;
        let begin = node.apply("multiply", start, &last)?;
        let single = node.with("equal", &exact, 1.0)?;
        let step = node.apply("divide", &length, &steps)?;
        let inside = node.apply("multiply", &i, &step)?;
        let middle = node.with("multiply", &length, 0.5)?;
        let inside = node.choice(&single, &middle, &inside)?;
        return node.apply("add", &inside, &begin);
    }
    if how.coordinates == "align_corners" {
        let (last, steps) = (node.with("subtract", &extent, 1.0)?, node.with("subtract", &exact, 1.0)?);
        let single = node.with("equal", &exact, 1.0)?;
        let step = node.apply("divide", &last, &steps)?;
        let zero = node.scalar(0.0, DataType::F32)?;
        let step = node.choice(&single, &zero, &step)?;
        return node.apply("multiply", &i, &step);
    }
    let middle = node.with("add", &i, 0.5)?;
    let middle = node.apply("divide", &middle, &how.scale)?;
    let centre = node.with("subtract", &middle, 0.5)?;
    match how.coordinates {
        "half_pixel_symmetric" => {}
        // A result of one element takes the first element.
        "pytorch_half_pixel" => {
            let single = node.with("equal", &exact, 1.0)?;
            let zero = node.scalar(0.0, DataType::F32)?;
            return node.choice(&single, &zero, &centre);
        }
        _ => return Ok(centre),
    }
    let out = node.float_of(&how.out)?;
    let rounded = node.apply("divide", &out, &exact)?;
    let one = node.scalar(1.0, DataType::F32)?;
    let missing = node.apply("subtract", &one, &rounded)?;
    let half = node.with("multiply", &extent, 0.5)?;
    let offset = node.apply("multiply", &half, &missing)?;
    node.apply("add", &centre, &offset)
}

/// Resamples `x` along the axis `axis`.
pub(super) fn resample_when_run(
    node: &mut Node<'_, '_>,
    x: &Arg,
    axis: usize,
    how: &AxisWhenRun<'_>,
) -> Result<Arg> {
    let (shape, dtype) = (node.shape(x)?, node.dtype(x)?);
    let extent = &shape[axis];
    let at = positions(node, how, extent)?;
    let last = extent.clone() - 1i64;
    let taken = |node: &mut Node<'_, '_>, place: &Arg| {
        let place = node.cast(place, DataType::I64)?;
        let place = node.with_dim("maximum", &place, 0)?;
        let place = node.with_dim("minimum", &place, last.clone())?;
        node.take(x, &place, axis)
    };
    if let Filter::Nearest(rounding) = how.filter {
        let place = match rounding {
            "floor" => node.map("floor", &at)?,
            "ceil" => node.map("ceil", &at)?,
            "round_prefer_ceil" => {
                let up = node.with("add", &at, 0.5)?;
                node.map("floor", &up)?
            }
            _ => {
                let down = node.with("subtract", &at, 0.5)?;
                node.map("ceil", &down)?
            }
        };
        let res = taken(node, &place)?;
        return how.outside(node, res, &at, axis, extent);
    }
    let offsets = taps(node, how)?;
    let low = node.map("floor", &at)?;
    let t = node.apply("subtract", &at, &low)?;
    let zero = node.scalar(0.0, DataType::F32)?;
    // Places and weights of all taps: (result, taps).
    let (low, t) = (node.along(&low, 0, 2)?, node.along(&t, 0, 2)?);
    let offsets = node.along(&offsets, 1, 2)?;
    let places = node.apply("add", &low, &offsets)?;
    let distance = node.apply("subtract", &offsets, &t)?;
    let mut weights = curve(node, how, &distance)?;
    if how.exclude_outside {
        let above = node.with("greater_equal", &places, 0.0)?;
        let end = node.float_of(extent)?;
        let below = node.apply("less", &places, &end)?;
        let inside = node.apply("logical_and", &above, &below)?;
        weights = node.choice(&inside, &weights, &zero)?;
    }
    let keep = Attrs::new().with("axis", 1i64).with("keepdims", true);
    let sum = node.op("sum", std::slice::from_ref(&weights), keep)?;
    let weights = node.apply("divide", &weights, &sum)?;
    // (…, result, taps, …) · weights, summed over taps.
    let elements = taken(node, &places)?;
    let elements = node.cast(&elements, DataType::F32)?;
    let rank = shape.len();
    let mut column = vec![PrimExpr::index(1); rank + 1 - axis];
    column[..2].clone_from_slice(&node.shape(&weights)?);
    let weights = node.reshape(&weights, &column)?;
    let terms = node.apply("multiply", &elements, &weights)?;
    let mut res = node.over("sum", &terms, axis + 1)?;
    res = node.cast(&res, dtype)?;
    how.outside(node, res, &at, axis, extent)
}

impl AxisWhenRun<'_> {
    /// `res` with the elements at positions outside of the axis replaced, if there is a region.
    fn outside(
        &self,
        node: &mut Node<'_, '_>,
        res: Arg,
        at: &Arg,
        axis: usize,
        extent: &PrimExpr,
    ) -> Result<Arg> {
        let Some((_, outside)) = &self.region else { return Ok(res) };
        let above = node.with("greater_equal", at, 0.0)?;
        let end = node.float_of(&simplify_dim(&(extent - 1i64)))?;
        let below = node.apply("less_equal", at, &end)?;
        let inside = node.apply("logical_and", &above, &below)?;
        let (rank, dtype) = (node.rank(&res)?, node.dtype(&res)?);
        let inside = node.along(&inside, axis, rank)?;
        let outside = node.scalar(*outside, dtype)?;
        node.choice(&inside, &res, &outside)
    }
}

/// Offsets of the taps of the filter from the element left of the position.
fn taps(node: &mut Node<'_, '_>, how: &AxisWhenRun<'_>) -> Result<Arg> {
    let reach = if let Filter::Cubic(_) = how.filter { 2 } else { 1 };
    if !how.antialias {
        let count = node.count(&PrimExpr::index(2 * reach), DataType::F32)?;
        return node.with("subtract", &count, (reach - 1) as f64);
    }
    // A result that is smaller has a wider filter.
    let narrowing = node.with("minimum", &how.scale, 1.0)?;
    let reach = node.scalar(reach as f64, DataType::F32)?;
    let wide = node.apply("divide", &reach, &narrowing)?;
    let wide = node.map("ceil", &wide)?;
    let wide = node.cast(&wide, DataType::I64)?;
    let [wide] = &node.read(&wide)?[..] else { return Err(node.malformed("a scale is one number")) };
    let count = node.count(&simplify_dim(&(wide.clone() * 2i64)), DataType::F32)?;
    let first = node.float_of(&simplify_dim(&(wide - 1i64)))?;
    node.apply("subtract", &count, &first)
}

/// Weights of elements at the given distances, before they are divided by their sum.
fn curve(node: &mut Node<'_, '_>, how: &AxisWhenRun<'_>, distance: &Arg) -> Result<Arg> {
    let mut distance = node.map("abs", distance)?;
    if how.antialias {
        let narrowing = node.with("minimum", &how.scale, 1.0)?;
        distance = node.apply("multiply", &distance, &narrowing)?;
    }
    let zero = node.scalar(0.0, DataType::F32)?;
    let Filter::Cubic(a) = how.filter else {
        let falling = node.with("multiply", &distance, -1.0)?;
        let falling = node.with("add", &falling, 1.0)?;
        return node.apply("maximum", &falling, &zero);
    };
    // The cubic polynomials for distances up to 1, and from 1 to 2.
    let near = polynomial(node, &distance, &[a + 2.0, -(a + 3.0), 0.0, 1.0])?;
    let far = polynomial(node, &distance, &[a, -5.0 * a, 8.0 * a, -4.0 * a])?;
    let (is_near, is_far) = (node.with("less_equal", &distance, 1.0)?, node.with("less", &distance, 2.0)?);
    let far = node.choice(&is_far, &far, &zero)?;
    node.choice(&is_near, &near, &far)
}
