//! Resizing of (batch, channel, height, width) images.

use tvm_runtime::DataType;

use crate::te::{TensorExpr, compute};
use crate::tir::{Intrinsic, PrimExpr};

/// How a position in the result maps to a position in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// Pixel centres are halfway between integer positions.
    HalfPixel,
    /// As `HalfPixel`, but a result of one pixel takes the first pixel of the image.
    PytorchHalfPixel,
    /// The corner pixels of result and image coincide.
    AlignCorners,
    /// The first pixels of result and image coincide.
    Asymmetric,
}

/// How values between the pixels are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest pixel.
    Nearest(Rounding),
    /// A weighted mean of the four pixels around.
    Linear,
}

/// How a position is rounded to a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, halves down.
    PreferFloor,
    /// To the nearest, halves up.
    PreferCeil,
    /// Down.
    Floor,
    /// Up.
    Ceil,
}

/// The position in an axis of `extent` pixels of pixel `index` of a result axis of `out` pixels, as f32. `scale` is the
/// ratio of the axes, if it is not that of their extents because `out` was rounded.
fn position(
    index: &PrimExpr,
    extent: &PrimExpr,
    out: &PrimExpr,
    coordinates: Coordinates,
    scale: Option<f64>,
) -> PrimExpr {
    let float = |value: f64| PrimExpr::float(value, DataType::F32);
    let real = |expr: &PrimExpr| expr.clone().cast(DataType::F32);
    let step = || match scale {
        Some(scale) => float(1.0 / scale),
        None => real(extent) / real(out),
    };
    let centre = || (real(index) + float(0.5)) * step() - float(0.5);
    match coordinates {
        Coordinates::Asymmetric => real(index) * step(),
        Coordinates::HalfPixel => centre(),
        Coordinates::PytorchHalfPixel => out.clone().equal(1).select(float(0.0), centre()),
        Coordinates::AlignCorners => {
            let exact = scale.map(|scale| real(extent) * float(scale) - float(1.0));
            let steps = exact.unwrap_or_else(|| real(&(out - 1i64).max(1)));
            let place = real(index) * (real(&(extent - 1i64)) / steps);
            out.clone().equal(1).select(float(0.0), place)
        }
    }
}

/// `x` resized to the extents that `shape` has for its spatial axes, `height` and `width`; its other axes stay. `scales` are the
/// ratios of the spatial axes, if they are not those of their extents because `shape` was rounded.
pub fn resize(
    x: &TensorExpr,
    shape: &[PrimExpr],
    [height, width]: [usize; 2],
    method: Interpolation,
    coordinates: Coordinates,
    scales: Option<[f64; 2]>,
) -> TensorExpr {
    let float = |value: f64| PrimExpr::float(value, DataType::F32);
    let limited =
        |index: PrimExpr, axis: usize| index.cast(DataType::I64).max(0).min(&x.shape()[axis] - 1i64);
    compute("resize", shape, &[x], |i| {
        let at = |axis: usize| {
            let scale = scales.map(|[y, x]| if axis == height { y } else { x });
            position(&i[axis], &x.shape()[axis], &shape[axis], coordinates, scale)
        };
        let pixel_at = |y: PrimExpr, z: PrimExpr| {
            let mut at = i.to_vec();
            (at[height], at[width]) = (y, z);
            x.at(at)
        };
        match method {
            Interpolation::Nearest(rounding) => {
                let index = |axis: usize| {
                    let rounded = match rounding {
                        Rounding::PreferFloor => (at(axis) - float(0.5)).unary(Intrinsic::Ceil),
                        Rounding::PreferCeil => (at(axis) + float(0.5)).unary(Intrinsic::Floor),
                        Rounding::Floor => at(axis).unary(Intrinsic::Floor),
                        Rounding::Ceil => at(axis).unary(Intrinsic::Ceil),
                    };
                    limited(rounded, axis)
                };
                pixel_at(index(height), index(width))
            }
            Interpolation::Linear => {
                let low = |axis: usize| at(axis).unary(Intrinsic::Floor);
                let pixel = |dy: f64, dx: f64| {
                    let y = limited(low(height) + float(dy), height);
                    let z = limited(low(width) + float(dx), width);
                    pixel_at(y, z).cast(DataType::F32)
                };
                let (wy, wx) = (at(height) - low(height), at(width) - low(width));
                let row = |dy: f64| pixel(dy, 0.0) * (float(1.0) - &wx) + pixel(dy, 1.0) * &wx;
                (row(0.0) * (float(1.0) - &wy) + row(1.0) * wy).cast(x.dtype())
            }
        }
    })
}
