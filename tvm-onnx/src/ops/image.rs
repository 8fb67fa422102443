//! Operators that resize images.

use tvm_core::ir::{AttrValue, Attrs};
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{prove_equal, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::resample::{Axis, Filter, resample};
use super::resample_when_run::{AxisWhenRun, resample_when_run};
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::iterate::row_at;
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
    let when_run = sizes.is_none() && node.has(scales) && node.value(scales)?.tensor().is_none();
    let known = !when_run && sizes.iter().flatten().chain(&shape).all(|it| it.as_int().is_some());
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

/// The scale of an axis.
enum Scale {
    /// The ratio of the extents of result and input.
    OfExtents,
    /// A number; the extent of the result may be rounded.
    Number(f64),
    /// A scalar of f32.
    Read(Arg),
}

/// The extent of the result along an axis, and its scale.
type Target = (PrimExpr, Scale);

/// Resizes axes whose extents are symbolic, or whose scales only a run knows.
fn resize_when_run(
    node: &mut Node<'_, '_>,
    x: Arg,
    axes: &[i64],
    sizes: Option<Vec<PrimExpr>>,
    scales: usize,
    modern: bool,
) -> Result<Vec<Value>, OnnxError> {
    let shape = node.shape(&x)?;
    let targets = match sizes {
        Some(sizes) => sized(node, axes, &shape, sizes)?,
        None if node.has(scales) && node.value(scales)?.tensor().is_none() => {
            let given = node.arg(scales)?;
            scaled_when_run(node, axes, &shape, &given)?
        }
        None => {
            let factors = factors(node, scales)?;
            let target = |(axis, &factor): (usize, &f64)| {
                let extent = scaled(&shape[axis], factor);
                let extent = extent.ok_or_else(|| node.malformed(format!("a scale is {factor}")))?;
                Ok((axis, (extent, Scale::Number(factor))))
            };
            pairs(node, axes, &factors)?.map(target).collect::<Result<Vec<_>, OnnxError>>()?
        }
    };
    let options = options(node, modern)?;
    let cropped = options.coordinates == "tf_crop_and_resize";
    let changed = |(axis, target): &(usize, Target)| cropped || !prove_equal(&shape[*axis], &target.0);
    let targets: Vec<(usize, Target)> = targets.into_iter().filter(changed).collect();
    if let Some(res) = as_image(node, &x, &shape, &targets, &options)? {
        return Ok(vec![res.into()]);
    }
    let outside = node.float_or("extrapolation_value", 0.0)?;
    let regions = if cropped { Some(node.arg(1)?) } else { None };
    let mut res = x;
    for (axis, (out, scale)) in targets {
        let scale = match scale {
            Scale::OfExtents => ratio(node, &out, &shape[axis])?,
            Scale::Number(scale) => node.scalar(scale, DataType::F32)?,
            Scale::Read(scale) => scale,
        };
        let region = match &regions {
            Some(limits) => {
                let place = axes.iter().position(|&it| it as usize == axis).unwrap_or(0);
                let mut limit = |at: usize| {
                    let limit = row_at(node, limits, PrimExpr::index(at as i64))?;
                    node.cast(&limit, DataType::F32)
                };
                Some(([limit(place)?, limit(place + axes.len())?], outside))
            }
            None => None,
        };
        let how = AxisWhenRun {
            out,
            scale,
            coordinates: options.coordinates,
            filter: options.filter,
            region,
            antialias: options.antialias,
            exclude_outside: options.exclude_outside,
        };
        res = resample_when_run(node, &res, axis, &how)?;
    }
    Ok(vec![res.into()])
}

/// The operator on images, if it does what is wanted: the last one or two of three or four axes change.
fn as_image(
    node: &mut Node<'_, '_>,
    x: &Arg,
    shape: &[PrimExpr],
    targets: &[(usize, Target)],
    options: &Options<'_>,
) -> Result<Option<Arg>, OnnxError> {
    let (Some(mut attrs), rank) = (options.image_attrs(), shape.len()) else { return Ok(None) };
    if !(3..=4).contains(&rank) || targets.iter().any(|(axis, _)| *axis < 2) {
        return Ok(None);
    }
    let mut target = shape.to_vec();
    let (mut scales, mut of_extents) = (vec![1.0; rank], true);
    for (axis, (extent, scale)) in targets {
        target[*axis] = extent.clone();
        match scale {
            Scale::OfExtents => {}
            Scale::Number(scale) => (scales[*axis], of_extents) = (*scale, false),
            Scale::Read(_) => return Ok(None),
        }
    }
    // An image of one row stands for a sequence.
    let image = |shape: &[PrimExpr]| match shape {
        [n, c, w] => [n.clone(), c.clone(), PrimExpr::index(1), w.clone()],
        _ => [0, 1, 2, 3].map(|axis| shape[axis].clone()),
    };
    let size = image(&target)[2..].to_vec();
    if !of_extents {
        let scales = if rank == 3 { vec![1.0, scales[2]] } else { scales[2..].to_vec() };
        attrs.set("scales", AttrValue::List(scales.into_iter().map(AttrValue::Float).collect()));
    }
    let data = if rank == 3 { node.reshape(x, &image(shape))? } else { x.clone() };
    let res = node.op("image.resize2d", &[data, Arg::Shape(size.into())], attrs)?;
    if rank == 3 { node.reshape(&res, &target).map(Some) } else { Ok(Some(res)) }
}

/// Targets of given extents.
fn sized(
    node: &mut Node<'_, '_>,
    axes: &[i64],
    shape: &[PrimExpr],
    sizes: Vec<PrimExpr>,
) -> Result<Vec<(usize, Target)>, OnnxError> {
    let pairs: Vec<(usize, PrimExpr)> =
        pairs(node, axes, &sizes)?.map(|(axis, size)| (axis, size.clone())).collect();
    let combine = match node.str_or("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => {
            return Ok(pairs.into_iter().map(|(axis, size)| (axis, (size, Scale::OfExtents))).collect());
        }
        "not_larger" => "minimum",
        "not_smaller" => "maximum",
        policy => {
            let policy = crate::names::show(policy);
            return Err(node.malformed(format!("attribute `keep_aspect_ratio_policy` is `{policy}`")));
        }
    };
    let mut common: Option<Arg> = None;
    for (axis, size) in &pairs {
        let ratio = ratio(node, size, &shape[*axis])?;
        common = Some(match common {
            Some(common) => node.call(combine, &[common, ratio])?,
            None => ratio,
        });
    }
    let common = common.ok_or_else(|| node.malformed("there are no sizes"))?;
    let mut res = Vec::new();
    for (axis, _) in pairs {
        let out = rounded(node, &shape[axis], &common, 0.5)?;
        res.push((axis, (out, Scale::Read(common.clone()))));
    }
    Ok(res)
}

/// The ratio of two extents, as f32.
fn ratio(node: &mut Node<'_, '_>, out: &PrimExpr, extent: &PrimExpr) -> Result<Arg, OnnxError> {
    let (out, extent) = (node.float_of(out)?, node.float_of(extent)?);
    node.call("divide", &[out, extent])
}

/// Targets of scales that only a run knows.
fn scaled_when_run(
    node: &mut Node<'_, '_>,
    axes: &[i64],
    shape: &[PrimExpr],
    scales: &Arg,
) -> Result<Vec<(usize, Target)>, OnnxError> {
    let mut res = Vec::new();
    for (i, &axis) in axes.iter().enumerate() {
        let at = PrimExpr::index(i as i64);
        let scale = row_at(node, scales, at)?;
        let scale = node.cast(&scale, DataType::F32)?;
        // A scale that should produce a whole extent may fall slightly short of it.
        let out = rounded(node, &shape[axis as usize], &scale, 1e-4)?;
        res.push((axis as usize, (out, Scale::Read(scale))));
    }
    Ok(res)
}

/// The whole part of `extent * scale + more`, which is read when the program runs.
fn rounded(
    node: &mut Node<'_, '_>,
    extent: &PrimExpr,
    scale: &Arg,
    more: f64,
) -> Result<PrimExpr, OnnxError> {
    let extent = node.float_of(extent)?;
    let exact = node.call("multiply", &[extent, scale.clone()])?;
    let more = node.scalar(more, DataType::F32)?;
    let exact = node.call("add", &[exact, more])?;
    let whole = node.call("floor", &[exact])?;
    let whole = node.cast(&whole, DataType::I64)?;
    match &node.read(&whole)?[..] {
        [extent] => Ok(extent.clone()),
        _ => Err(node.malformed("a scale is one number")),
    }
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
