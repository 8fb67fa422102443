//! Operators that sample images at computed positions, bilinearly: `RoiAlign`, `DeformConv`.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{product, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::window::window;
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] =
    &[row("DeformConv", 19, With(deformable)), row("RoiAlign", 10, With(roi_align))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Images as rows of pixels, (pixels, channels): those of all images one after the other.
struct Images {
    pixels: Arg,
    height: PrimExpr,
    width: PrimExpr,
}

impl Images {
    fn new(node: &mut Node<'_, '_>, x: &Arg) -> Result<Images> {
        let [batch, channels, height, width] = &node.shape(x)?[..] else {
            return Err(node.unsupported("images of other than two spatial axes"));
        };
        let last = node.permuted(x, &[0, 2, 3, 1])?;
        let count = product(&[batch.clone(), height.clone(), width.clone()]);
        let pixels = node.reshape(&last, &[count, channels.clone()])?;
        Ok(Images { pixels, height: height.clone(), width: width.clone() })
    }

    /// The four pixels around positions (y, x) of the images `image`, all vectors of one length: for each of them their
    /// values, (positions, channels), and their weights, a vector. Weights outside of the image are 0 if `clipped`.
    fn corners(
        &self,
        node: &mut Node<'_, '_>,
        image: &Arg,
        [y, x]: [&Arg; 2],
        clipped: bool,
    ) -> Result<Vec<(Arg, Arg)>> {
        let axis = |node: &mut Node<'_, '_>, at: &Arg, extent: &PrimExpr| -> Result<Vec<(Arg, Arg)>> {
            let low = node.map("floor", at)?;
            let upper = node.apply("subtract", at, &low)?;
            let lower = node.with("multiply", &upper, -1.0)?;
            let lower = node.with("add", &lower, 1.0)?;
            let low = node.cast(&low, DataType::I64)?;
            let next = node.with_dim("add", &low, 1)?;
            let mut res = Vec::new();
            for (place, weight) in [(low, lower), (next, upper)] {
                let inside = node.with_dim("maximum", &place, 0)?;
                let inside = node.with_dim("minimum", &inside, simplify_dim(&(extent - 1i64)))?;
                let weight = if clipped {
                    let (same, zero) =
                        (node.apply("equal", &inside, &place)?, node.scalar(0.0, DataType::F32)?);
                    node.choice(&same, &weight, &zero)?
                } else {
                    weight
                };
                res.push((inside, weight));
            }
            Ok(res)
        };
        let (rows, columns) = (axis(node, y, &self.height)?, axis(node, x, &self.width)?);
        let start = node.with_dim("multiply", image, product(&[self.height.clone(), self.width.clone()]))?;
        let mut res = Vec::new();
        for (y, down) in &rows {
            for (x, across) in &columns {
                let place = node.with_dim("multiply", y, self.width.clone())?;
                let place = node.apply("add", &place, x)?;
                let place = node.apply("add", &place, &start)?;
                let weight = node.apply("multiply", down, across)?;
                res.push((node.take(&self.pixels, &place, 0)?, weight));
            }
        }
        Ok(res)
    }
}

/// Combines the terms `value * weight` by `op`.
fn weighted(node: &mut Node<'_, '_>, corners: Vec<(Arg, Arg)>, op: &str) -> Result<Arg> {
    let mut res: Option<Arg> = None;
    for (value, weight) in corners {
        let value = node.cast(&value, DataType::F32)?;
        let weight = node.along(&weight, 0, 2)?;
        let term = node.apply("multiply", &value, &weight)?;
        res = Some(match res {
            Some(res) => node.apply(op, &res, &term)?,
            None => term,
        });
    }
    res.ok_or_else(|| node.malformed("there are no pixels"))
}

/// Regions of images resampled to one size: each element is the mean, or the maximum, of samples of its part of the region.
fn roi_align(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (x, rois, images) = (node.arg(0)?, node.arg(1)?, node.arg(2)?);
    let dtype = node.dtype(&x)?;
    let (high, wide) = (node.int_or("output_height", 1)?, node.int_or("output_width", 1)?);
    let (samples, scale) = (node.int_or("sampling_ratio", 0)?, node.float_or("spatial_scale", 1.0)?);
    if !(1..1 << 12).contains(&samples) {
        return Err(node.unsupported("a number of samples that depends on the region (sampling_ratio = 0)"));
    }
    let half = match node.opset {
        ..16 => false,
        _ => node.str_or("coordinate_transformation_mode", "half_pixel")? == "half_pixel",
    };
    let maximum = match node.str_or("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => return Err(node.malformed(format!("attribute `mode` is `{}`", crate::names::show(other)))),
    };
    let pixels = Images::new(node, &x)?;
    let count = node.extent(&rois, 0)?;
    let rois = node.cast(&rois, DataType::F32)?;
    let mut limit = Vec::new();
    for i in 0..4i64 {
        let column = node.part(&rois, 1, i, i + 1)?;
        let scaled = node.with("multiply", &column, scale)?;
        limit.push(if half { node.with("subtract", &scaled, 0.5)? } else { scaled });
    }
    // Positions along one axis: (regions, elements · samples).
    let along = |node: &mut Node<'_, '_>, from: &Arg, to: &Arg, out: i64| -> Result<Arg> {
        let mut size = node.apply("subtract", to, from)?;
        if !half {
            size = node.with("maximum", &size, 1.0)?;
        }
        let steps = node.count(&PrimExpr::index(out * samples), DataType::F32)?;
        let steps = node.with("add", &steps, 0.5)?;
        let steps = node.with("divide", &steps, (out * samples) as f64)?;
        let steps = node.along(&steps, 1, 2)?;
        let offset = node.apply("multiply", &size, &steps)?;
        node.apply("add", &offset, from)
    };
    let (y, x_at) = (along(node, &limit[1], &limit[3], high)?, along(node, &limit[0], &limit[2], wide)?);
    let (rows, columns) = (PrimExpr::index(high * samples), PrimExpr::index(wide * samples));
    let grid = [count.clone(), rows.clone(), columns.clone()];
    let total = product(&grid);
    let spread = |node: &mut Node<'_, '_>, x: &Arg, shape: [PrimExpr; 3]| -> Result<Arg> {
        let x = node.reshape(x, &shape)?;
        let x = node.broadcast(&x, &grid)?;
        node.reshape(&x, std::slice::from_ref(&total))
    };
    let y = spread(node, &y, [count.clone(), rows, 1.into()])?;
    let x_at = spread(node, &x_at, [count.clone(), 1.into(), columns])?;
    let images = node.cast(&images, DataType::I64)?;
    let image = spread(node, &images, [count.clone(), 1.into(), 1.into()])?;
    // Up to one pixel outside, positions are those of the border; beyond, samples are 0.
    let mut inside: Option<Arg> = None;
    let mut limited = |node: &mut Node<'_, '_>, at: &Arg, extent: &PrimExpr| -> Result<Arg> {
        let last = node.float_of(extent)?;
        let low = node.with("greater_equal", at, -1.0)?;
        let high = node.apply("less_equal", at, &last)?;
        let both = node.apply("logical_and", &low, &high)?;
        inside = Some(match inside.take() {
            Some(inside) => node.apply("logical_and", &inside, &both)?,
            None => both,
        });
        let last = node.with("subtract", &last, 1.0)?;
        let at = node.with("maximum", at, 0.0)?;
        node.apply("minimum", &at, &last)
    };
    let (y, x_at) = (limited(node, &y, &pixels.height)?, limited(node, &x_at, &pixels.width)?);
    let corners = pixels.corners(node, &image, [&y, &x_at], false)?;
    let mut value = weighted(node, corners, if maximum { "maximum" } else { "add" })?;
    if let Some(inside) = inside {
        let (inside, zero) = (node.along(&inside, 0, 2)?, node.scalar(0.0, DataType::F32)?);
        value = node.choice(&inside, &value, &zero)?;
    }
    let channels = node.extent(&value, 1)?;
    let parts = [count, high.into(), samples.into(), wide.into(), samples.into(), channels];
    let value = node.reshape(&value, &parts)?;
    let over = Attrs::new().with("axis", vec![2i64, 4]).with("keepdims", false);
    let value = node.op(if maximum { "max" } else { "mean" }, &[value], over)?;
    let value = node.permuted(&value, &[0, 3, 1, 2])?;
    one(node.cast(&value, dtype))
}

/// A convolution whose window takes each element from a place of its own.
fn deformable(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (x, weight, offsets) = (node.arg(0)?, node.arg(1)?, node.arg(2)?);
    let (shape, kernel) = (node.shape(&x)?, node.shape(&weight)?);
    let ([batch, channels, ..], [outputs, inputs, ..]) = (&shape[..], &kernel[..]) else {
        return Err(node.malformed("the input has four axes"));
    };
    if shape.len() != 4 || kernel.len() != 4 {
        return Err(node.unsupported("other than two spatial axes"));
    }
    let window = window(node, &shape[2..], Some(&kernel[2..]))?;
    let (groups, own) = (node.int_or("group", 1)?, node.int_or("offset_group", 1)?);
    if groups < 1 || own < 1 {
        return Err(node.malformed("the numbers of groups are positive"));
    }
    let [_, _, rows, columns] = &node.shape(&offsets)?[..] else {
        return Err(node.malformed("the offsets have four axes"));
    };
    let (kh, kw) = (window.kernel[0], window.kernel[1]);
    let elements = kh * kw;
    let per_offset = simplify_dim(&channels.clone().floordiv(own));
    // One image for each group of channels with offsets of its own.
    let split = [simplify_dim(&(batch * own)), per_offset.clone(), shape[2].clone(), shape[3].clone()];
    let images = node.reshape(&x, &split)?;
    let pixels = Images::new(node, &images)?;
    let grid = [split[0].clone(), elements.into(), rows.clone(), columns.clone()];
    let total = product(&grid);
    let offsets = node.cast(&offsets, DataType::F32)?;
    let offsets = node
        .reshape(&offsets, &[split[0].clone(), elements.into(), 2.into(), rows.clone(), columns.clone()])?;
    let mut positions = Vec::new();
    for (d, count) in [rows, columns].into_iter().enumerate() {
        let shift = node.part(&offsets, 2, d as i64, d as i64 + 1)?;
        let shift = node.reshape(&shift, &grid)?;
        let starts = node.count(count, DataType::F32)?;
        let starts = node.with("multiply", &starts, window.strides[d] as f64)?;
        let starts = node.with("subtract", &starts, window.pads[d] as f64)?;
        let starts = node.along(&starts, 2 + d, 4)?;
        let own = node.count(&PrimExpr::index(window.kernel[d]), DataType::F32)?;
        let own = node.with("multiply", &own, window.dilations[d] as f64)?;
        let own = node.along(&own, d, 2)?;
        let own = node.broadcast(&own, &[kh.into(), kw.into()])?;
        let own = node.reshape(&own, &[1.into(), elements.into(), 1.into(), 1.into()])?;
        let place = node.apply("add", &starts, &own)?;
        let place = node.apply("add", &shift, &place)?;
        positions.push(node.reshape(&place, std::slice::from_ref(&total))?);
    }
    let image = node.count(&split[0], DataType::I64)?;
    let image = node.along(&image, 0, 4)?;
    let image = node.broadcast(&image, &grid)?;
    let image = node.reshape(&image, std::slice::from_ref(&total))?;
    let corners = pixels.corners(node, &image, [&positions[0], &positions[1]], true)?;
    let mut value = weighted(node, corners, "add")?;
    if let Some(mask) = node.opt_arg(4)? {
        let mask = node.cast(&mask, DataType::F32)?;
        let mask = node.reshape(&mask, &[total, 1.into()])?;
        value = node.apply("multiply", &value, &mask)?;
    }
    // (batch, groups of offsets, elements, places, channels) to (batch, groups, places, channels of a group · elements).
    let places = simplify_dim(&(rows * columns));
    let parts = [batch.clone(), own.into(), elements.into(), places.clone(), per_offset];
    let value = node.reshape(&value, &parts)?;
    let value = node.permuted(&value, &[0, 3, 1, 4, 2])?;
    let terms = simplify_dim(&(inputs * elements));
    let value = node.reshape(&value, &[batch.clone(), places.clone(), groups.into(), terms.clone()])?;
    let value = node.permuted(&value, &[0, 2, 1, 3])?;
    let of_group = simplify_dim(&outputs.clone().floordiv(groups));
    let weight = node.cast(&weight, DataType::F32)?;
    let weight = node.reshape(&weight, &[1.into(), groups.into(), of_group, terms])?;
    let weight = node.permuted(&weight, &[0, 1, 3, 2])?;
    let res = node.call("matmul", &[value, weight])?;
    let res = node.permuted(&res, &[0, 1, 3, 2])?;
    let res = node.reshape(&res, &[batch.clone(), outputs.clone(), rows.clone(), columns.clone()])?;
    let dtype = node.dtype(&x)?;
    let res = node.cast(&res, dtype)?;
    let Some(bias) = node.opt_arg(3)? else { return Ok(vec![res.into()]) };
    let bias = node.along(&bias, 1, 4)?;
    one(node.apply("add", &res, &bias))
}
