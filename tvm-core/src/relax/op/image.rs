//! Operators on images.
//!
//! TVM counterpart: `src/relax/op/image/resize.cc`.

use super::context::{known, single, tensor_type};
use super::def::{arg, attr, tensor};
use super::nn::window::{self, check_blocks};
use crate::ir::{ArgKind, AttrKind, AttrValue, InferContext, IrError, OpDef, TensorShape, Type};
use crate::tir::Layout;
use crate::topi::{self, Coordinates, Interpolation, Rounding};

/// The plain layout of images.
const IMAGE: &str = "NCHW";

pub(super) static OPS: &[OpDef] = &[OpDef::new(
    "image.resize2d",
    "images (batch, channel, height, width, or in the order of the layout, whose channels may be in blocks) of another size; ONNX `Resize`",
    infer,
)
.args(&[tensor("data"), arg("size", ArgKind::Shape)])
.attrs(&[
    attr("method", AttrKind::Str).default("\"linear\""),
    attr("coordinate_transformation_mode", AttrKind::Str).default("\"half_pixel\""),
    attr("rounding_method", AttrKind::Str).default("\"round_prefer_floor\""),
    attr("layout", AttrKind::Str).default("\"NCHW\""),
    attr("scales", AttrKind::Floats).default("from the extents"),
])
.tensor_program(|cx| {
    let shape = cx.out_shape(0)?;
    let (method, coordinates) = options(&cx.infer())?;
    let scales = scales(&cx.infer())?;
    let (_, spatial) = layout(&cx.infer())?;
    single(cx, |x| Ok(topi::resize(&x[0], shape, spatial, method, coordinates, scales)))
})];

fn options(ctx: &InferContext<'_>) -> Result<(Interpolation, Coordinates), IrError> {
    let text = |name: &str, default| ctx.attrs.str(name).unwrap_or(default).to_string();
    let unknown = |name: &str, choices: &str, got: &str| {
        Err(ctx.error(format!("attribute `{name}` is {choices}, got `{got}`")))
    };
    let rounding = match text("rounding_method", "round_prefer_floor").as_str() {
        "round_prefer_floor" => Rounding::PreferFloor,
        "round" | "round_prefer_ceil" => Rounding::PreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => {
            return unknown("rounding_method", "round_prefer_floor, round_prefer_ceil, floor or ceil", other);
        }
    };
    let method = match text("method", "linear").as_str() {
        "nearest_neighbor" | "nearest" => Interpolation::Nearest(rounding),
        "linear" => Interpolation::Linear,
        other => return unknown("method", "nearest_neighbor or linear", other),
    };
    let mode = "coordinate_transformation_mode";
    let coordinates = match text(mode, "half_pixel").as_str() {
        "half_pixel" => Coordinates::HalfPixel,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        other => {
            return unknown(mode, "half_pixel, pytorch_half_pixel, align_corners or asymmetric", other);
        }
    };
    Ok((method, coordinates))
}

/// The layout of the images, and its axes that are height and width.
fn layout(ctx: &InferContext<'_>) -> Result<(Layout, [usize; 2]), IrError> {
    let layout = window::layout(ctx, "layout", IMAGE, "C", IMAGE)?;
    let axis = |letter: char| layout.axes().iter().position(|axis| axis.letter == letter).unwrap_or_default();
    let spatial = ['H', 'W'].map(axis);
    Ok((layout, spatial))
}

/// The ratios of the spatial axes, if they are given: positions follow from them instead of from the extents.
fn scales(ctx: &InferContext<'_>) -> Result<Option<[f64; 2]>, IrError> {
    let Some(given) = ctx.attrs.get("scales") else { return Ok(None) };
    let number = |it: &AttrValue| match it {
        AttrValue::Float(value) => Some(*value),
        AttrValue::Int(value) => Some(*value as f64),
        _ => None,
    };
    let numbers: Vec<f64> = match given {
        AttrValue::List(list) => list.iter().filter_map(number).filter(|it| *it > 0.0).collect(),
        _ => Vec::new(),
    };
    match numbers[..] {
        [y, x] => Ok(Some([y, x])),
        _ => Err(ctx.error("attribute `scales` is two positive numbers, of height and width")),
    }
}

fn infer(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    options(ctx)?;
    scales(ctx)?;
    let (layout, [height, width]) = layout(ctx)?;
    let dtype = ctx.tensor(0)?.dtype;
    if let Some(got) = dtype.filter(|it| !it.is_float() && !it.is_integer()) {
        return Err(ctx.error(format!("expected number elements, got {got}")));
    }
    let (Some(dims), Some(size)) = (ctx.dims(0, layout.ndim())?, ctx.shape(1)) else {
        return Ok(tensor_type(TensorShape::Rank(layout.ndim()), dtype));
    };
    check_blocks(ctx, "data", &layout, dims)?;
    let [rows, columns] = size else {
        return Err(ctx.error(format!("the size is height and width, got {} values", size.len())));
    };
    let mut dims = dims.to_vec();
    (dims[height], dims[width]) = (rows.clone(), columns.clone());
    Ok(tensor_type(known(dims), dtype))
}
