//! Products with weights whose layout has panels of columns. `ConvertLayout` makes calls of them.
//!
//! TVM counterpart: relay's `nn.contrib_dense_pack`.

use tvm_runtime::DataType;

use super::dense_int4::DENSE_INT4;
use super::window::{check_blocks, layout};
use crate::ir::{AttrKind, InferContext, IrError, OpDef, TensorShape, Type};
use crate::relax::analysis::{differ, show_dim, show_dims, simplify_dim};
use crate::relax::op::context::{rank, single, tensor_type};
use crate::relax::op::def::{attr, required, tensor};
use crate::tir::{Layout, PrimExpr, words};
use crate::topi;

/// Letters of the axes of the weights: columns of the result, terms.
const LETTERS: &str = "NK";

pub(in crate::relax::op) static OPS: &[OpDef] = &[DENSE_PACK, DENSE_INT4];

const DENSE_PACK: OpDef = OpDef::new(
    "nn.dense_pack",
    "product of the last axis of data [.., k] with weights [k, n] in a layout of `NK` such as `NK32n`; `units` columns of \
     the weights are used, all unless set; weights of i32 are words of two neighbouring terms of bf16, or of four of i8 for data of u8",
    infer,
)
.args(&[tensor("data"), tensor("weight")])
.attrs(&[
    required("weight_layout", AttrKind::Str),
    attr("units", AttrKind::Int).default("all columns"),
    attr("out_dtype", AttrKind::DType).default("that of the data; i32 for data of u8"),
])
.tensor_program(|cx| {
    let (layout, shape, dtype) = (weight_layout(&cx.infer())?, cx.out_shape(0)?, cx.out_dtype(0)?);
    single(cx, |x| Ok(topi::dense_pack(&x[0], &x[1], &layout, shape, dtype)))
});

fn weight_layout(ctx: &InferContext<'_>) -> Result<Layout, IrError> {
    layout(ctx, "weight_layout", LETTERS, "N", LETTERS)
}

fn infer(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (layout, data) = (weight_layout(ctx)?, ctx.tensor(0)?);
    let of_words = match (data.dtype, ctx.tensor(1)?.dtype) {
        (Some(data), Some(weight)) => words::dot(data, weight).map(|_| words::parts(data)),
        (None, _) | (_, None) => None,
    };
    let dtype = match (ctx.attrs.dtype("out_dtype"), of_words, data.dtype) {
        (Some(given), ..) => Some(given),
        (None, Some(_), Some(DataType::U8)) => Some(DataType::I32),
        (None, Some(_), dtype) => dtype,
        (None, None, _) => ctx.same_dtype()?,
    };
    if let Some(bool) = dtype.filter(|it| it.is_bool()) {
        return Err(ctx.error(format!("expected number elements, got {bool}")));
    }
    if data.ndim() == Some(0) {
        return Err(ctx.error("argument `data` has rank 1 or more, got rank 0"));
    }
    let (Some(data), Some(weight)) = (data.known_shape(), ctx.dims(1, layout.ndim())?) else {
        return Ok(tensor_type(rank(data.ndim()), dtype));
    };
    check_blocks(ctx, "weight", &layout, weight)?;
    let weight = &layout.undivided_shape(LETTERS, weight)[..];
    let (Some((depth, rows)), [columns, terms]) = (data.split_last(), weight) else {
        return Ok(tensor_type(rank(Some(data.len())), dtype));
    };
    let (needed, unit) = match of_words {
        Some(2) => (&simplify_dim(&(depth.clone() + 1).floordiv(2)), "words of two terms"),
        Some(parts) => (&simplify_dim(&(depth.clone() + (parts - 1)).floordiv(parts)), "words of four terms"),
        None => (depth, "terms"),
    };
    if differ(needed, terms) {
        let (shape, got, terms) = (show_dims(data), show_dim(depth), show_dim(terms));
        let message =
            format!("the last axis of `data` {shape} has extent {got}, `weight` has {terms} {unit}");
        return Err(ctx.error(message));
    }
    let dims: Vec<PrimExpr> = rows.iter().cloned().chain([units(ctx, columns)?]).collect();
    Ok(tensor_type(TensorShape::Known(dims.into()), dtype))
}

/// The columns of the result: as many as the attribute `units` says, or all `columns` of the weights.
pub(super) fn units(ctx: &InferContext<'_>, columns: &PrimExpr) -> Result<PrimExpr, IrError> {
    match (ctx.attrs.int("units"), columns.as_int()) {
        (None, _) => Ok(columns.clone()),
        (Some(units), most) if units < 0 || most.is_some_and(|most| units > most) => {
            let most = show_dim(columns);
            Err(ctx.error(format!("attribute `units` is 0 to {most}, got {units}")))
        }
        (Some(units), _) => Ok(PrimExpr::index(units)),
    }
}
