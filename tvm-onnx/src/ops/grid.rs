//! The operator `GridSample`: samples an image at given positions.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::product;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("GridSample", 16, With(grid_sample))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Values outside the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// An element next to a position along one axis: its index, whether it is inside, and its weight (`None` for 1), all of
/// shape (batch, 1, position).
struct Tap {
    index: Arg,
    inside: Option<Arg>,
    weight: Option<Arg>,
}

/// One axis of the image.
struct Axis {
    extent: i64,
    align_corners: bool,
    padding: Padding,
}

/// Calls `op` on `x` and a constant of its type.
fn with(node: &mut Node<'_, '_>, op: &str, x: &Arg, value: f64) -> Result<Arg> {
    let dtype = node.dtype(x)?;
    let value = node.scalar(value, dtype)?;
    node.call(op, &[x.clone(), value])
}

impl Axis {
    /// Converts coordinates in -1..=1 to element positions.
    fn position(&self, node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg> {
        let extent = self.extent as f64;
        let x = with(node, "add", x, 1.0)?;
        let x = if self.align_corners {
            with(node, "multiply", &x, (extent - 1.0) / 2.0)?
        } else {
            let x = with(node, "multiply", &x, extent / 2.0)?;
            with(node, "subtract", &x, 0.5)?
        };
        match self.padding {
            Padding::Zeros => Ok(x),
            Padding::Border => limited(node, x, extent - 1.0),
            Padding::Reflection => self.reflected(node, x),
        }
    }

    /// Reflects `x` at both ends until it lies between them.
    fn reflected(&self, node: &mut Node<'_, '_>, x: Arg) -> Result<Arg> {
        let extent = self.extent as f64;
        let (low, span) = if self.align_corners { (0.0, extent - 1.0) } else { (-0.5, extent) };
        if span == 0.0 {
            return with(node, "multiply", &x, 0.0);
        }
        // Reflection is periodic: the distance to the middle of a period.
        let x = with(node, "subtract", &x, low)?;
        let x = with(node, "floor_mod", &x, 2.0 * span)?;
        let x = with(node, "subtract", &x, span)?;
        let x = node.call("abs", &[x])?;
        let x = node.call("negative", &[x])?;
        with(node, "add", &x, span + low)
    }

    /// The tap for the element index `at`, which may be outside.
    fn tap(&self, node: &mut Node<'_, '_>, at: Arg, weight: Option<Arg>) -> Result<Tap> {
        let last = self.extent as f64 - 1.0;
        let inside = if self.padding == Padding::Zeros {
            let (low, high) = (with(node, "greater_equal", &at, 0.0)?, with(node, "less_equal", &at, last)?);
            Some(node.call("logical_and", &[low, high])?)
        } else {
            None
        };
        let at = if self.padding == Padding::Reflection { self.reflected(node, at)? } else { at };
        let at = limited(node, at, last)?;
        Ok(Tap { index: node.cast(&at, DataType::I64)?, inside, weight })
    }

    fn taps(&self, node: &mut Node<'_, '_>, x: &Arg, mode: &str) -> Result<Vec<Tap>> {
        let x = self.position(node, x)?;
        if mode == "nearest" {
            let at = node.call("round", &[x])?;
            return Ok(vec![self.tap(node, at, None)?]);
        }
        let low = node.call("floor", std::slice::from_ref(&x))?;
        let rest = node.call("subtract", &[x, low.clone()])?;
        let offsets = if mode == "cubic" { -1..=2 } else { 0..=1 };
        let mut taps = Vec::new();
        for offset in offsets {
            let distance = with(node, "subtract", &rest, f64::from(offset))?;
            let distance = node.call("abs", &[distance])?;
            // The weights are polynomials of the distance; coefficients start with the highest power.
            let weight: &[f64] = match (mode, offset) {
                ("cubic", 0 | 1) => &[1.25, -2.25, 0.0, 1.0],
                ("cubic", _) => &[-0.75, 3.75, -6.0, 3.0],
                _ => &[-1.0, 1.0],
            };
            let mut sum = with(node, "multiply", &distance, weight[0])?;
            for &coefficient in &weight[1..weight.len() - 1] {
                sum = with(node, "add", &sum, coefficient)?;
                sum = node.call("multiply", &[sum, distance.clone()])?;
            }
            sum = with(node, "add", &sum, weight[weight.len() - 1])?;
            let at = with(node, "add", &low, f64::from(offset))?;
            taps.push(self.tap(node, at, Some(sum))?);
        }
        Ok(taps)
    }
}

fn limited(node: &mut Node<'_, '_>, x: Arg, last: f64) -> Result<Arg> {
    let x = with(node, "maximum", &x, 0.0)?;
    with(node, "minimum", &x, last)
}

/// Combines two optional values with `op`; an absent one is ignored.
fn joined(node: &mut Node<'_, '_>, op: &str, a: Option<Arg>, b: Option<&Arg>) -> Result<Option<Arg>> {
    match (a, b) {
        (Some(a), Some(b)) => node.call(op, &[a, b.clone()]).map(Some),
        (a, b) => Ok(a.or(b.cloned())),
    }
}

/// Samples the image (batch, channel, spatial…) at the positions (batch, …, axis). The coordinates of a position start
/// with the last axis of the image.
fn grid_sample(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (x, grid) = (node.arg(0)?, node.arg(1)?);
    let (dtype, shape, out) = (node.dtype(&x)?, node.shape(&x)?, node.shape(&grid)?);
    let spatial: Option<Vec<i64>> = shape.iter().skip(2).map(PrimExpr::as_int).collect();
    let spatial = spatial.filter(|it| (1..=3).contains(&it.len()) && it.iter().all(|&it| it > 0));
    let spatial = spatial
        .ok_or_else(|| node.unsupported("images that are not of one to three axes of known extents"))?;
    let n = spatial.len();
    if out.len() != n + 2 || !out[n + 1].is_const(n as i64) {
        return Err(node.malformed(format!("positions are of {n} coordinates")));
    }
    let mode = match node.str_or("mode", "linear")? {
        "linear" | "bilinear" => "linear",
        "cubic" | "bicubic" => "cubic",
        "nearest" => "nearest",
        mode => return Err(node.malformed(format!("attribute `mode` is `{}`", crate::names::show(mode)))),
    };
    let padding = match node.str_or("padding_mode", "zeros")? {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        mode => {
            return Err(node.malformed(format!("attribute `padding_mode` is `{}`", crate::names::show(mode))));
        }
    };
    let align_corners = node.flag("align_corners", false)?;
    let (batch, channels, points) = (out[0].clone(), shape[1].clone(), product(&out[1..=n]));
    let unit = PrimExpr::index(1);
    let grid = node.cast(&grid, DataType::F32)?;
    let grid =
        node.reshape(&grid, &[batch.clone(), unit.clone(), points.clone(), PrimExpr::index(n as i64)])?;
    // All combinations of the elements next to a position, built axis by axis.
    let mut all = vec![Tap { index: node.scalar(0.0, DataType::I64)?, inside: None, weight: None }];
    for (d, &extent) in spatial.iter().enumerate() {
        let column = (n - 1 - d) as i64;
        let (begin, end) = ([PrimExpr::index(column)], [PrimExpr::index(column + 1)]);
        let along = super::index::sliced(node, grid.clone(), &[3], &begin, &end, &[1])?;
        let along = node.reshape(&along, &[batch.clone(), unit.clone(), points.clone()])?;
        let taps = Axis { extent, align_corners, padding }.taps(node, &along, mode)?;
        let mut longer = Vec::new();
        for before in all {
            let row = with(node, "multiply", &before.index, extent as f64)?;
            for tap in &taps {
                longer.push(Tap {
                    index: node.call("add", &[row.clone(), tap.index.clone()])?,
                    inside: joined(node, "logical_and", before.inside.clone(), tap.inside.as_ref())?,
                    weight: joined(node, "multiply", before.weight.clone(), tap.weight.as_ref())?,
                });
            }
        }
        all = longer;
    }
    let flat =
        node.reshape(&x, &[shape[0].clone(), channels.clone(), PrimExpr::index(spatial.iter().product())])?;
    let each = Arg::Shape([batch.clone(), channels.clone(), points].into());
    let wide = if mode == "nearest" { dtype } else { DataType::F32 };
    let zero = node.scalar(0.0, wide)?;
    let mut sum: Option<Arg> = None;
    for tap in all {
        let index = node.call("broadcast_to", &[tap.index, each.clone()])?;
        // The indices were already clamped to the axes.
        let attrs = Attrs::new().with("axis", 2i64).with("mode", "clip");
        let picked = node.op("gather_elements", &[flat.clone(), index], attrs)?;
        let mut part = node.cast(&picked, wide)?;
        if let Some(weight) = tap.weight {
            part = node.call("multiply", &[part, weight])?;
        }
        if let Some(inside) = tap.inside {
            part = node.call("where", &[inside, part, zero.clone()])?;
        }
        sum = joined(node, "add", Some(part), sum.as_ref())?;
    }
    let sum = sum.ok_or_else(|| node.malformed("there is no position"))?;
    let sum = node.cast(&sum, dtype)?;
    let extents = [&[batch, channels], &out[1..=n]].concat();
    one(node.reshape(&sum, &extents))
}
