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

/// Arithmetic on vectors of f32 along the axis.
struct Vectors<'n, 'a, 'm>(&'n mut Node<'a, 'm>);

impl Vectors<'_, '_, '_> {
    fn op(&mut self, op: &str, a: &Arg, b: &Arg) -> Result<Arg> {
        self.0.call(op, &[a.clone(), b.clone()])
    }

    fn with(&mut self, op: &str, a: &Arg, number: f64) -> Result<Arg> {
        let number = self.0.scalar(number, DataType::F32)?;
        self.op(op, a, &number)
    }

    fn float(&mut self, value: &PrimExpr) -> Result<Arg> {
        float_of(self.0, value)
    }

    /// A polynomial of `x`, by the coefficients from the highest power on.
    fn polynomial(&mut self, x: &Arg, coefficients: &[f64]) -> Result<Arg> {
        let mut sum = self.0.scalar(0.0, DataType::F32)?;
        for &coefficient in coefficients {
            let product = self.op("multiply", &sum, x)?;
            sum = self.with("add", &product, coefficient)?;
        }
        Ok(sum)
    }
}

/// A scalar of f32.
pub(super) fn float_of(node: &mut Node<'_, '_>, value: &PrimExpr) -> Result<Arg> {
    if let Some(value) = value.as_int() {
        return node.scalar(value as f64, DataType::F32);
    }
    let vector = node.call("shape_to_tensor", &[Arg::Shape([value.clone()].into())])?;
    let scalar = node.reshape(&vector, &[])?;
    node.cast(&scalar, DataType::F32)
}

/// Position in the input of each element of the result.
fn positions(node: &mut Node<'_, '_>, how: &AxisWhenRun<'_>, extent: &PrimExpr) -> Result<Arg> {
    let limits = [PrimExpr::index(0), how.out.clone(), PrimExpr::index(1)].map(Arg::Prim);
    let i = node.op("arange", &limits, Attrs::new().with("dtype", DataType::F32))?;
    let mut v = Vectors(node);
    if how.coordinates == "asymmetric" {
        return v.op("divide", &i, &how.scale);
    }
    let extent = v.float(extent)?;
    let exact = v.op("multiply", &how.scale, &extent)?;
    if let Some(([start, end], _)) = &how.region {
        let (last, steps) = (v.with("subtract", &extent, 1.0)?, v.with("subtract", &exact, 1.0)?);
        let length = v.op("subtract", end, start)?;
        let length = v.op("multiply", &length, &last)?;
        let begin = v.op("multiply", start, &last)?;
        let single = v.with("equal", &exact, 1.0)?;
        let step = v.op("divide", &length, &steps)?;
        let inside = v.op("multiply", &i, &step)?;
        let middle = v.with("multiply", &length, 0.5)?;
        let inside = v.0.call("where", &[single, middle, inside])?;
        return v.op("add", &inside, &begin);
    }
    if how.coordinates == "align_corners" {
        let (last, steps) = (v.with("subtract", &extent, 1.0)?, v.with("subtract", &exact, 1.0)?);
        let single = v.with("equal", &exact, 1.0)?;
        let step = v.op("divide", &last, &steps)?;
        let zero = v.0.scalar(0.0, DataType::F32)?;
        let step = v.0.call("where", &[single, zero, step])?;
        return v.op("multiply", &i, &step);
    }
    let middle = v.with("add", &i, 0.5)?;
    let middle = v.op("divide", &middle, &how.scale)?;
    let centre = v.with("subtract", &middle, 0.5)?;
    match how.coordinates {
        "half_pixel_symmetric" => {}
        // A result of one element takes the first element.
        "pytorch_half_pixel" => {
            let single = v.with("equal", &exact, 1.0)?;
            let zero = v.0.scalar(0.0, DataType::F32)?;
            return v.0.call("where", &[single, zero, centre]);
        }
        _ => return Ok(centre),
    }
    let out = v.float(&how.out)?;
    let rounded = v.op("divide", &out, &exact)?;
    let one = v.0.scalar(1.0, DataType::F32)?;
    let missing = v.op("subtract", &one, &rounded)?;
    let half = v.with("multiply", &extent, 0.5)?;
    let offset = v.op("multiply", &half, &missing)?;
    v.op("add", &centre, &offset)
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
    let last = Arg::Prim(extent.clone() - 1i64);
    let taken = |node: &mut Node<'_, '_>, place: &Arg| {
        let place = node.cast(place, DataType::I64)?;
        let place = node.call("maximum", &[place, Arg::Prim(PrimExpr::index(0))])?;
        let place = node.call("minimum", &[place, last.clone()])?;
        node.op("take", &[x.clone(), place], Attrs::new().with("axis", axis))
    };
    if let Filter::Nearest(rounding) = how.filter {
        let mut v = Vectors(node);
        let place = match rounding {
            "floor" => v.0.map("floor", &at)?,
            "ceil" => v.0.map("ceil", &at)?,
            "round_prefer_ceil" => {
                let up = v.with("add", &at, 0.5)?;
                v.0.call("floor", &[up])?
            }
            _ => {
                let down = v.with("subtract", &at, 0.5)?;
                v.0.call("ceil", &[down])?
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
        let end = float_of(node, extent)?;
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
        let end = float_of(node, &simplify_dim(&(extent - 1i64)))?;
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
    let first = float_of(node, &simplify_dim(&(wide - 1i64)))?;
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
    let mut v = Vectors(node);
    let near = v.polynomial(&distance, &[a + 2.0, -(a + 3.0), 0.0, 1.0])?;
    let far = v.polynomial(&distance, &[a, -5.0 * a, 8.0 * a, -4.0 * a])?;
    let (is_near, is_far) = (v.with("less_equal", &distance, 1.0)?, v.with("less", &distance, 2.0)?);
    let far = node.choice(&is_far, &far, &zero)?;
    node.choice(&is_near, &near, &far)
}
