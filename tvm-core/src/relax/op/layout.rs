//! Changes of layout.
//!
//! TVM counterpart: relay's `layout_transform`; that of relax takes an index map.

use super::context::{known, single, tensor_type};
use super::def::{required, tensor};
use crate::ir::{AttrKind, Attrs, InferContext, IrError, OpDef, TensorShape, Type};
use crate::relax::analysis::{differ, show_dim};
use crate::tir::{Layout, PrimExpr};
use crate::topi;

pub(super) static OPS: &[OpDef] =
    &[OpDef::new("layout_transform", "the elements in another layout: `NCHW` to `NCHW16c`, say", infer)
        .args(&[tensor("x")])
        .attrs(&[required("src_layout", AttrKind::Str), required("dst_layout", AttrKind::Str)])
        .tensor_program(|cx| {
            let (shape, Layouts { letters, src, dst }) = (cx.out_shape(0)?, Layouts::of(&cx.infer())?);
            single(cx, |x| Ok(topi::layout_transform(&x[0], &letters, &src, &dst, shape)))
        })];

/// The layouts of a call.
struct Layouts {
    /// The undivided axes.
    letters: String,
    src: Layout,
    dst: Layout,
}

impl Layouts {
    fn of(ctx: &InferContext<'_>) -> Result<Layouts, IrError> {
        let layout = |name: &str| -> Result<Layout, IrError> {
            let text = attribute(ctx.attrs, name);
            text.parse().map_err(|why| ctx.error(format!("attribute `{name}`: {why}")))
        };
        let (src, dst) = (layout("src_layout")?, layout("dst_layout")?);
        let outer = src.axes().iter().filter(|axis| axis.factor.is_none());
        let letters: String = outer.map(|axis| axis.letter).collect();
        if !dst.is_of(&letters) {
            return Err(ctx.error(format!("the layouts `{src}` and `{dst}` have different axes")));
        }
        Ok(Layouts { letters, src, dst })
    }
}

fn attribute<'a>(attrs: &'a Attrs, name: &str) -> &'a str {
    attrs.str(name).unwrap_or_default()
}

fn infer(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let Layouts { letters, src, dst } = Layouts::of(ctx)?;
    let dtype = ctx.tensor(0)?.dtype;
    let Some(dims) = ctx.dims(0, src.ndim())? else {
        return Ok(tensor_type(TensorShape::Rank(dst.ndim()), dtype));
    };
    for (axis, dim) in src.axes().iter().zip(dims) {
        if let Some(factor) = axis.factor
            && differ(dim, &PrimExpr::index(factor))
        {
            return Err(
                ctx.error(format!("the layout `{src}` has {factor} where the data has {}", show_dim(dim)))
            );
        }
    }
    let whole = src.undivided_shape(&letters, dims);
    match dst.shape(&letters, &whole) {
        Some(dims) => Ok(tensor_type(known(dims), dtype)),
        None => {
            let extents: Vec<String> = whole.iter().map(show_dim).collect();
            Err(ctx.error(format!("blocks of `{dst}` do not divide the extents {}", extents.join(", "))))
        }
    }
}
