//! Operators that resize images.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;

use super::resample::{Axis, Filter, resample};
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("Resize", 10, With(|node| resize(node, 1))),
    row("Resize", 11, With(|node| resize(node, 2))),
    row("Upsample", 7, With(|node| resize(node, 1))),
];

/// Input `scales` holds factors; from opset 11 on, the input after it holds extents.
fn resize(node: &mut Node<'_, '_>, scales: usize) -> Result<Vec<Value>, OnnxError> {
    let modern = node.opset >= 11 && node.op_type() == "Resize";
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let extents: Option<Vec<i64>> = shape.iter().map(PrimExpr::as_int).collect();
    let extents = extents.ok_or_else(|| node.unsupported("inputs of symbolic extents"))?;
    let rank = extents.len();
    let axes = match node.attr_ints("axes")? {
        Some(axes) => node.axes(axes, rank)?,
        None => (0..rank as i64).collect(),
    };
    let mut target = extents.clone();
    let mut factors = vec![1.0; rank];
    if modern && node.has(scales + 1) {
        let sizes = node.ints(scales + 1)?;
        let ratio = |(axis, &size): (usize, &i64)| size as f64 / extents[axis] as f64;
        let ratios = pairs(node, &axes, &sizes)?.map(ratio);
        let common = match node.str_or("keep_aspect_ratio_policy", "stretch")? {
            "stretch" => None,
            "not_larger" => Some(ratios.fold(f64::INFINITY, f64::min)),
            "not_smaller" => Some(ratios.fold(0.0, f64::max)),
            policy => {
                let policy = crate::names::show(policy);
                return Err(node.malformed(format!("attribute `keep_aspect_ratio_policy` is `{policy}`")));
            }
        };
        for (axis, &size) in pairs(node, &axes, &sizes)? {
            let extent = extents[axis] as f64;
            target[axis] = common.map_or(size, |ratio| (ratio * extent + 0.5).floor() as i64);
            factors[axis] = common.unwrap_or(size as f64 / extent);
        }
    } else {
        let given = if node.opset < 9 && node.op_type() == "Upsample" {
            let factors = node.attr_floats("scales")?;
            node.required("scales", factors)?.iter().map(|&it| f64::from(it)).collect()
        } else {
            super::numbers(&node.tensor(scales)?)
        };
        for (axis, &factor) in pairs(node, &axes, &given)? {
            let extent = extents[axis] as f64 * factor;
            if !(0.0..1e9).contains(&extent) {
                return Err(node.malformed(format!("a scale is {factor}")));
            }
            // A scale that should produce a whole extent may fall slightly short of it.
            let whole = (extent - extent.round()).abs() < 1e-4;
            target[axis] = if whole { extent.round() } else { extent.floor() } as i64;
            factors[axis] = factor;
        }
    }
    if let Some(extent) = target.iter().find(|it| !(1..1 << 30).contains(*it)) {
        return Err(node.malformed(format!("a resulting extent is {extent}")));
    }
    if extents.contains(&0) {
        return Err(node.malformed("there is nothing to resize"));
    }
    let options = options(node, modern)?;
    let exact = |axis: usize| (factors[axis] * extents[axis] as f64 - target[axis] as f64).abs() < 1e-4;
    if rank == 4
        && target[..2] == extents[..2]
        && exact(2)
        && exact(3)
        && let Some(attrs) = options.image_attrs()
    {
        let size: Vec<PrimExpr> = target[2..].iter().map(|&it| PrimExpr::index(it)).collect();
        return one(node.op("image.resize2d", &[x, Arg::Shape(size.into())], attrs));
    }
    let regions = options.regions(node, &axes, rank)?;
    let outside = node.float_or("extrapolation_value", 0.0)?;
    let mut res = x;
    for axis in 0..rank {
        let how = Axis {
            extent: extents[axis],
            out: target[axis],
            scale: factors[axis],
            region: regions[axis],
            coordinates: options.coordinates,
            filter: options.filter,
            antialias: options.antialias,
            exclude_outside: options.exclude_outside,
        };
        if how.extent != how.out || how.scale != 1.0 || how.region != (0.0, 1.0) {
            res = resample(node, &res, axis, &how, outside)?;
        }
    }
    Ok(vec![res.into()])
}

/// Pairs axes with their values; an error if their numbers differ.
fn pairs<'a, T>(
    node: &Node<'_, '_>,
    axes: &'a [i64],
    values: &'a [T],
) -> Result<impl Iterator<Item = (usize, &'a T)>, OnnxError> {
    if axes.len() != values.len() {
        return Err(node.malformed(format!("{} values for {} axes", values.len(), axes.len())));
    }
    Ok(axes.iter().map(|&it| it as usize).zip(values))
}

/// How positions in the result map to elements of the input.
struct Options<'m> {
    filter: Filter<'m>,
    coordinates: &'m str,
    antialias: bool,
    exclude_outside: bool,
}

fn options<'m>(node: &Node<'_, 'm>, modern: bool) -> Result<Options<'m>, OnnxError> {
    const COORDINATES: [&str; 6] = [
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "half_pixel_symmetric",
        "tf_crop_and_resize",
    ];
    let (coordinates, rounding) = if modern {
        let coordinates = node.str_or("coordinate_transformation_mode", "half_pixel")?;
        (coordinates, node.str_or("nearest_mode", "round_prefer_floor")?)
    } else {
        ("asymmetric", "floor")
    };
    let unknown =
        |what: &str, got: &str| Err(node.unsupported(format!("{what} {}", crate::names::show(got))));
    let filter = match node.str_or("mode", "nearest")? {
        "nearest" => Filter::Nearest(rounding),
        "linear" | "bilinear" => Filter::Linear,
        "cubic" => Filter::Cubic(node.float_or("cubic_coeff_a", -0.75)?),
        mode => return unknown("mode", mode),
    };
    if !["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"].contains(&rounding) {
        return unknown("rounding", rounding);
    }
    if !COORDINATES.contains(&coordinates) {
        return unknown("coordinates", coordinates);
    }
    let (antialias, exclude_outside) = (node.flag("antialias", false)?, node.flag("exclude_outside", false)?);
    Ok(Options { filter, coordinates, antialias, exclude_outside })
}

impl Options<'_> {
    /// Converts to attributes of the graph's image operator; `None` if it does not support these options.
    fn image_attrs(&self) -> Option<Attrs> {
        let (method, rounding) = match self.filter {
            Filter::Nearest(rounding) => ("nearest_neighbor", rounding),
            Filter::Linear => ("linear", "round_prefer_floor"),
            Filter::Cubic(_) => return None,
        };
        let rare = self.antialias
            || self.exclude_outside
            || ["half_pixel_symmetric", "tf_crop_and_resize"].contains(&self.coordinates);
        let attrs = Attrs::new().with("method", method).with("rounding_method", rounding);
        (!rare).then(|| attrs.with("coordinate_transformation_mode", self.coordinates))
    }

    /// The region of each axis that input 1 selects; the whole axis if positions do not depend on it.
    fn regions(&self, node: &Node<'_, '_>, axes: &[i64], rank: usize) -> Result<Vec<(f64, f64)>, OnnxError> {
        let mut regions = vec![(0.0, 1.0); rank];
        if self.coordinates != "tf_crop_and_resize" {
            return Ok(regions);
        }
        let limits = super::numbers(&node.tensor(1)?);
        if limits.len() != 2 * axes.len() || limits.iter().any(|it| !it.is_finite()) {
            return Err(node.malformed(format!("the region is {} numbers", 2 * axes.len())));
        }
        for (i, &axis) in axes.iter().enumerate() {
            regions[axis as usize] = (limits[i], limits[i + axes.len()]);
        }
        Ok(regions)
    }
}
