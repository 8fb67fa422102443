//! Operators that resize images.

use tvm_core::ir::{AttrValue, Attrs};
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
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
    let rank = shape.len();
    let axes = match node.attr_ints("axes")? {
        Some(axes) => node.axes(axes, rank)?,
        None => (0..rank as i64).collect(),
    };
    let sizes = if modern && node.has(scales + 1) { Some(node.dims(scales + 1)?) } else { None };
    let known = sizes.iter().flatten().chain(&shape).all(|it| it.as_int().is_some());
    let extents = shape.iter().map(PrimExpr::as_int).collect::<Option<Vec<i64>>>().filter(|_| known);
    let Some(extents) = extents else {
        return resize_when_run(node, x, &axes, sizes, scales, modern);
    };
    let mut target = extents.clone();
    let mut ratio_of = vec![1.0; rank];
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
            ratio_of[axis] = common.unwrap_or(size as f64 / extent);
        }
    } else {
        for (axis, &factor) in pairs(node, &axes, &factors(node, scales)?)? {
            let extent = extents[axis] as f64 * factor;
            if !(0.0..1e9).contains(&extent) {
                return Err(node.malformed(format!("a scale is {factor}")));
            }
            // A scale that should produce a whole extent may fall slightly short of it.
            let whole = (extent - extent.round()).abs() < 1e-4;
            target[axis] = if whole { extent.round() } else { extent.floor() } as i64;
            ratio_of[axis] = factor;
        }
    }
    if let Some(extent) = target.iter().find(|it| !(1..1 << 30).contains(*it)) {
        return Err(node.malformed(format!("a resulting extent is {extent}")));
    }
    if extents.contains(&0) {
        return Err(node.malformed("there is nothing to resize"));
    }
    let options = options(node, modern)?;
    let exact = |axis: usize| (ratio_of[axis] * extents[axis] as f64 - target[axis] as f64).abs() < 1e-4;
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
            scale: ratio_of[axis],
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

/// The factors in input `scales`, or in the attribute of that name.
fn factors(node: &Node<'_, '_>, scales: usize) -> Result<Vec<f64>, OnnxError> {
    if node.opset < 9 && node.op_type() == "Upsample" {
        let factors = node.attr_floats("scales")?;
        return Ok(node.required("scales", factors)?.iter().map(|&it| f64::from(it)).collect());
    }
    Ok(super::numbers(&node.tensor(scales)?))
}

/// Resizes the last one or two axes, whose extents are symbolic.
fn resize_when_run(
    node: &mut Node<'_, '_>,
    x: Arg,
    axes: &[i64],
    sizes: Option<Vec<PrimExpr>>,
    scales: usize,
    modern: bool,
) -> Result<Vec<Value>, OnnxError> {
    let shape = node.shape(&x)?;
    let rank = shape.len();
    let mut target = shape.clone();
    let mut scale = vec![1.0; rank];
    match &sizes {
        Some(sizes) => {
            if node.str_or("keep_aspect_ratio_policy", "stretch")? != "stretch" {
                return Err(node.unsupported("the ratio of symbolic extents"));
            }
            pairs(node, axes, sizes)?.for_each(|(axis, size)| target[axis] = size.clone());
        }
        None => {
            for (axis, &factor) in pairs(node, axes, &factors(node, scales)?)? {
                target[axis] = scaled(&shape[axis], factor)
                    .ok_or_else(|| node.malformed(format!("a scale is {factor}")))?;
                scale[axis] = factor;
            }
        }
    }
    let changed = |axis: usize| !tvm_core::relax::analysis::prove_equal(&shape[axis], &target[axis]);
    let options = options(node, modern)?;
    let attrs = options.image_attrs();
    let fits = (3..=4).contains(&rank) && !changed(0) && !changed(1);
    let Some(mut attrs) = attrs.filter(|_| fits) else {
        let what = "symbolic extents, except of the axes after the first two in modes `nearest` and `linear`";
        return Err(node.unsupported(what).help("fix the dimensions, or resize before the model"));
    };
    // An image of one row stands for a sequence.
    let image = |shape: &[PrimExpr]| match shape {
        [n, c, w] => [n.clone(), c.clone(), PrimExpr::index(1), w.clone()],
        _ => [0, 1, 2, 3].map(|axis| shape[axis].clone()),
    };
    let size = image(&target)[2..].to_vec();
    if sizes.is_none() {
        let factors = if rank == 3 { vec![1.0, scale[2]] } else { scale[2..].to_vec() };
        attrs.set("scales", AttrValue::List(factors.into_iter().map(AttrValue::Float).collect()));
    }
    let data = if rank == 3 { node.reshape(&x, &image(&shape))? } else { x };
    let res = node.op("image.resize2d", &[data, Arg::Shape(size.into())], attrs)?;
    if rank == 3 { one(node.reshape(&res, &target)) } else { Ok(vec![res.into()]) }
}

/// The whole part of `extent * factor`, where a product that falls slightly short of a whole number counts as that.
/// `None` if the factor is no positive number of a usual size.
fn scaled(extent: &PrimExpr, factor: f64) -> Option<PrimExpr> {
    const UNIT: i64 = 1 << 24;
    if !(1e-6..1e6).contains(&factor) {
        return None;
    }
    if factor.fract() == 0.0 {
        return Some(simplify_dim(&(extent * factor as i64)));
    }
    let inverse = 1.0 / factor;
    if (inverse - inverse.round()).abs() < 1e-7 {
        return Some(simplify_dim(&extent.clone().floordiv(inverse.round() as i64)));
    }
    let product = extent * (factor * UNIT as f64).round() as i64 + UNIT / 10_000;
    Some(simplify_dim(&product.floordiv(UNIT)))
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
