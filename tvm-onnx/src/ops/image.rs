//! Operators on images.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("Resize", 10, With(|node| resize(node, 1))),
    row("Resize", 11, With(|node| resize(node, 2))),
    row("Upsample", 7, With(|node| resize(node, 1))),
];

/// Input `scales` are factors; the one behind it, from opset 11 on, extents. Images are the last two of four axes.
fn resize(node: &mut Node<'_, '_>, scales: usize) -> Result<Vec<Value>, OnnxError> {
    let modern = node.opset >= 11 && node.op_type() == "Resize";
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let extents: Option<Vec<i64>> = shape.iter().map(PrimExpr::as_int).collect();
    let Some(extents) = extents.filter(|it| it.len() == 4) else {
        return Err(
            node.unsupported("inputs that are not images (batch, channel, height, width) of known size")
        );
    };
    let axes = match node.attr_ints("axes")? {
        Some(axes) => node.axes(axes, 4)?,
        None => (0..4).collect(),
    };
    let mut target = extents.clone();
    if modern && node.has(scales + 1) {
        let sizes = node.ints(scales + 1)?;
        if node.str_or("keep_aspect_ratio_policy", "stretch")? != "stretch" {
            return Err(node.unsupported("attribute `keep_aspect_ratio_policy`"));
        }
        pairs(node, &axes, &sizes)?.for_each(|(axis, &size)| target[axis] = size);
    } else {
        let factors = if node.opset < 9 && node.op_type() == "Upsample" {
            let factors = node.attr_floats("scales")?;
            node.required("scales", factors)?.iter().map(|&it| f64::from(it)).collect()
        } else {
            super::numbers(&node.tensor(scales)?)
        };
        for (axis, &factor) in pairs(node, &axes, &factors)? {
            let extent = extents[axis] as f64 * factor;
            if !(0.0..1e9).contains(&extent) {
                return Err(node.malformed(format!("a scale is {factor}")));
            }
            if (extent - extent.round()).abs() > 1e-4 {
                return Err(node.unsupported("scales that do not give whole extents"));
            }
            target[axis] = extent.round() as i64;
        }
    }
    if target[..2] != extents[..2] {
        return Err(node.unsupported("scales of the batch or channel axis"));
    }
    if target.iter().any(|&it| it < 1) {
        return Err(node.malformed("an extent is not positive"));
    }
    let attrs = attributes(node, modern)?;
    let size: Vec<PrimExpr> = target[2..].iter().map(|&it| PrimExpr::index(it)).collect();
    one(node.op("image.resize2d", &[x, Arg::Shape(size.into())], attrs))
}

/// Axes with their values.
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

fn attributes(node: &Node<'_, '_>, modern: bool) -> Result<Attrs, OnnxError> {
    let method = match node.str_or("mode", "nearest")? {
        "nearest" => "nearest_neighbor",
        "linear" | "bilinear" => "linear",
        mode => return Err(node.unsupported(format!("mode {}", crate::names::show(mode)))),
    };
    if node.flag("antialias", false)? || node.flag("exclude_outside", false)? {
        return Err(node.unsupported("attributes `antialias` and `exclude_outside`"));
    }
    let (coordinates, rounding) = if modern {
        let coordinates = node.str_or("coordinate_transformation_mode", "half_pixel")?;
        (coordinates, node.str_or("nearest_mode", "round_prefer_floor")?)
    } else {
        ("asymmetric", "floor")
    };
    if !["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"].contains(&coordinates) {
        return Err(node.unsupported(format!("coordinates {}", crate::names::show(coordinates))));
    }
    Ok(Attrs::new()
        .with("method", method)
        .with("coordinate_transformation_mode", coordinates)
        .with("rounding_method", rounding))
}
