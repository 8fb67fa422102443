//! Shared parts of convolutions and poolings: attributes per spatial axis, layout checks, number of windows.

use crate::ir::{InferContext, IrError};
use crate::relax::analysis::{differ, show_dim, simplify_dim};
use crate::tir::{Layout, PrimExpr};

/// Letters of one, two and three spatial axes in layout names, outermost axis first.
const LETTERS: [&str; 3] = ["W", "HW", "DHW"];

/// Padding before and after the data along every spatial axis.
pub(super) struct Padding {
    pub(super) before: Vec<i64>,
    pub(super) after: Vec<i64>,
}

/// Attribute `padding`: one value for all sides, one value per axis for both its sides, or the values before the data for
/// all axes followed by those after it. The default is 0.
pub(super) fn padding(ctx: &InferContext<'_>, spatial: usize) -> Result<Padding, IrError> {
    let given = ctx.attrs.int_list("padding").unwrap_or_else(|| vec![0]);
    if given.iter().any(|&it| it < 0) {
        return Err(ctx.error(format!("attribute `padding` is not negative, got {given:?}")));
    }
    let (before, after) = match given.len() {
        1 => (vec![given[0]; spatial], vec![given[0]; spatial]),
        n if n == spatial => (given.clone(), given),
        n if n == 2 * spatial => (given[..spatial].to_vec(), given[spatial..].to_vec()),
        n => {
            let message = format!("attribute `padding` is 1, {spatial} or {} integers, got {n}", 2 * spatial);
            return Err(ctx.error(message));
        }
    };
    Ok(Padding { before, after })
}

/// Attribute `name` as one positive integer per spatial axis. A single integer applies to all axes; the default is 1.
pub(super) fn positive(ctx: &InferContext<'_>, name: &str, spatial: usize) -> Result<Vec<i64>, IrError> {
    let values = ctx.ints(name, spatial, 1)?;
    match values.iter().find(|&&it| it < 1) {
        Some(_) => Err(ctx.error(format!("attribute `{name}` is positive, got {values:?}"))),
        None => Ok(values),
    }
}

/// The axes of data with this many spatial axes: `NCHW` for two.
pub(super) fn data_letters(spatial: usize) -> String {
    format!("NC{}", LETTERS[spatial - 1])
}

/// Attribute `name` as a layout of the axes `letters`, of which `divisible` may be divided into blocks. The default is
/// `default`.
pub(in crate::relax::op) fn layout(
    ctx: &InferContext<'_>,
    name: &str,
    letters: &str,
    divisible: &str,
    default: &str,
) -> Result<Layout, IrError> {
    let text = ctx.attrs.str(name).filter(|it| !it.is_empty()).unwrap_or(default);
    let layout: Layout = text.parse().map_err(|why| ctx.error(format!("attribute `{name}`: {why}")))?;
    if !layout.is_of(letters) {
        return Err(ctx.error(format!("attribute `{name}` is a layout of `{letters}`, got `{text}`")));
    }
    match letters.chars().find(|&it| layout.block(it) > 1 && !divisible.contains(it)) {
        Some(axis) => {
            Err(ctx.error(format!("attribute `{name}`: axis `{axis}` of `{text}` is not divided here")))
        }
        None => Ok(layout),
    }
}

/// Checks that the inner axes of the argument `name` have the extents that its layout says.
pub(in crate::relax::op) fn check_blocks(
    ctx: &InferContext<'_>,
    name: &str,
    layout: &Layout,
    dims: &[PrimExpr],
) -> Result<(), IrError> {
    for (axis, dim) in layout.axes().iter().zip(dims) {
        if let Some(factor) = axis.factor
            && differ(dim, &PrimExpr::index(factor))
        {
            let got = show_dim(dim);
            return Err(
                ctx.error(format!("argument `{name}` has layout `{layout}`, but {got} instead of {factor}"))
            );
        }
    }
    Ok(())
}

/// The layout of a pooling, whose result has the layout of the data, and the spatial axes in it.
pub(super) fn pool_layout(ctx: &InferContext<'_>, spatial: usize) -> Result<(Layout, Vec<usize>), IrError> {
    let letters = data_letters(spatial);
    let data = layout(ctx, "layout", &letters, "C", &letters)?;
    let out = layout(ctx, "out_layout", &letters, "C", &data.to_string())?;
    if data != out {
        return Err(ctx
            .error(format!(
                "the result has the layout `{data}` of the data, attribute `out_layout` is `{out}`"
            ))
            .help("bring the result to another layout with `layout_transform`"));
    }
    let position = |letter: char| data.axes().iter().position(|axis| axis.letter == letter).unwrap_or(0);
    let axes = letters.chars().skip(2).map(position).collect();
    Ok((data, axes))
}

/// Checks that the layout attributes of a transposed convolution that are set name the only supported layouts.
pub(super) fn check_layouts(ctx: &InferContext<'_>, spatial: usize) -> Result<(), IrError> {
    let letters = LETTERS[spatial - 1];
    for (name, prefix) in [("data_layout", "NC"), ("out_layout", "NC"), ("kernel_layout", "IO")] {
        let expected = format!("{prefix}{letters}");
        if let Some(got) = ctx.attrs.str(name)
            && !got.is_empty()
            && got != expected
        {
            let err = ctx.error(format!("attribute `{name}` is `{expected}`, got `{got}`"));
            return Err(err.help("bring the tensor to that layout with `layout_transform`"));
        }
    }
    Ok(())
}

/// Parameters that determine the number of windows along an axis.
pub(super) struct Windows<'a> {
    pub(super) extent: &'a PrimExpr,
    pub(super) window: &'a PrimExpr,
    pub(super) stride: i64,
    pub(super) pads: (i64, i64),
    pub(super) dilation: i64,
    /// Whether to count a last window that fits only partly; it must start before the trailing padding.
    pub(super) ceil: bool,
}

impl Windows<'_> {
    pub(super) fn count(&self, ctx: &InferContext<'_>, axis: usize) -> Result<PrimExpr, IrError> {
        let (stride, (before, after)) = (self.stride, self.pads);
        let reach = (self.window - 1i64) * self.dilation + 1i64;
        let room = simplify_dim(&(self.extent + (before + after) - reach));
        if room.as_int().is_some_and(|it| it < 0) {
            let (window, extent) = (show_dim(self.window), show_dim(self.extent));
            let message = format!(
                "a window of {window} (dilation {}) does not fit axis {axis} of {extent} (padding {before} and {after})",
                self.dilation
            );
            return Err(ctx.error(message));
        }
        if !self.ceil {
            return Ok(simplify_dim(&(room.floordiv(stride) + 1i64)));
        }
        let all = (room + (stride - 1)).floordiv(stride) + 1i64;
        let starting = (self.extent + (before - 1)).floordiv(stride) + 1i64;
        Ok(simplify_dim(&all.min(starting)))
    }
}
