//! The parts of a convolution by Winograd's algorithm, on channels in blocks. `ConvertLayout` makes calls of them.
//!
//! TVM counterpart: relay's `nn.contrib_conv2d_winograd_without_weight_transform`, in one part.

use super::window::padding;
use crate::ir::{AttrKind, Attrs, InferContext, IrError, OpDef, OpPattern, TensorShape, Type};
use crate::relax::analysis::{differ, show_dim, simplify_dim};
use crate::relax::op::context::{known, single, tensor_type};
use crate::relax::op::def::{attr, required, tensor};
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi::{self, Winograd, tiles};

pub(in crate::relax::op) static OPS: &[OpDef] = &[
    OpDef::new("nn.winograd_data", "transformed tiles of data for windows of 3×3", infer_data)
        .args(&[tensor("data")])
        .attrs(&[required("tile", AttrKind::Int), attr("padding", AttrKind::Ints).default("0")])
        .tensor_program(|cx| {
            let (ctx, shape) = (cx.infer(), cx.out_shape(0)?);
            let (winograd, pads) = (algorithm(&ctx)?, padding(&ctx, 2)?);
            let pads = ([pads.before[0], pads.before[1]], [pads.after[0], pads.after[1]]);
            let func = single(cx, |x| {
                let [height, width] = [0, 1].map(|d| x[0].dim(2 + d) + (pads.0[d] + pads.1[d] - 2));
                let size = (&simplify_dim(&height), &simplify_dim(&width));
                Ok(topi::winograd_data("winograd_data", &x[0], &winograd, pads, size, shape))
            })?;
            Ok(unfused(func, OpPattern::Opaque))
        }),
    OpDef::new("nn.winograd_product", "products of transformed data and transformed weights", infer_product)
        .args(&[tensor("data"), tensor("weight")])
        .tensor_program(|cx| {
            let shape = cx.out_shape(0)?;
            single(cx, |x| Ok(topi::winograd_product("winograd_product", &x[0], &x[1], shape)))
        }),
    OpDef::new(
        "nn.winograd_result",
        "the result of a convolution from products of transformed tiles",
        infer_result,
    )
    .args(&[tensor("products")])
    .attrs(&[required("tile", AttrKind::Int), required("out_size", AttrKind::Ints)])
    .tensor_program(|cx| {
        let (winograd, shape) = (algorithm(&cx.infer())?, cx.out_shape(0)?);
        let func = single(cx, |x| Ok(topi::winograd_result("winograd_result", &x[0], &winograd, shape)))?;
        Ok(unfused(func, OpPattern::OutEWiseFusable))
    }),
];

/// A program whose loops are not to be mixed with those of injective operators.
fn unfused(func: PrimFunc, pattern: OpPattern) -> PrimFunc {
    let attrs: Attrs = func.attrs.clone().with("op_pattern", format!("{pattern:?}"));
    PrimFunc { attrs, ..func }
}

fn algorithm(ctx: &InferContext<'_>) -> Result<Winograd, IrError> {
    let tile = ctx.attrs.int("tile").unwrap_or(0);
    Winograd::of(tile).ok_or_else(|| ctx.error(format!("attribute `tile` is 2 or 4, got {tile}")))
}

fn infer_data(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (winograd, dtype, pads) = (algorithm(ctx)?, ctx.tensor(0)?.dtype, padding(ctx, 2)?);
    let Some(dims) = ctx.dims(0, 5)? else { return Ok(tensor_type(TensorShape::Rank(5), dtype)) };
    let mut count = dims[0].clone();
    for d in 0..2 {
        let out = simplify_dim(&(&dims[2 + d] + (pads.before[d] + pads.after[d] - 2)));
        if out.as_int().is_some_and(|it| it < 0) {
            let extent = show_dim(&dims[2 + d]);
            return Err(ctx.error(format!("a window of 3 does not fit axis {} of {extent}", 2 + d)));
        }
        count = count * tiles(&out, winograd.tile);
    }
    let size = PrimExpr::index(winograd.size());
    Ok(tensor_type(known(vec![size.clone(), size, dims[1].clone(), count, dims[4].clone()]), dtype))
}

fn infer_product(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let dtype = ctx.same_dtype()?;
    let (Some(data), Some(weight)) = (ctx.dims(0, 5)?, ctx.dims(1, 6)?) else {
        return Ok(tensor_type(TensorShape::Rank(5), dtype));
    };
    for (axis, of_weight) in [(0, 0), (1, 1), (2, 3), (4, 4)] {
        if differ(&data[axis], &weight[of_weight]) {
            let (a, b) = (show_dim(&data[axis]), show_dim(&weight[of_weight]));
            return Err(
                ctx.error(format!("axis {axis} of the data is {a}, axis {of_weight} of the weight {b}"))
            );
        }
    }
    let dims = [&data[0], &data[1], &weight[2], &data[3], &weight[5]].map(Clone::clone);
    Ok(tensor_type(known(dims.into()), dtype))
}

fn infer_result(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (winograd, dtype) = (algorithm(ctx)?, ctx.tensor(0)?.dtype);
    let size: Vec<PrimExpr> = ctx.ints("out_size", 2, 0)?.into_iter().map(PrimExpr::index).collect();
    let Some(dims) = ctx.dims(0, 5)? else { return Ok(tensor_type(TensorShape::Rank(5), dtype)) };
    let of_image = tiles(&size[0], winograd.tile) * tiles(&size[1], winograd.tile);
    if let Some(bad) = dims[..2].iter().find(|dim| differ(dim, &PrimExpr::index(winograd.size()))) {
        let (got, expected) = (show_dim(bad), winograd.size());
        return Err(ctx.error(format!("products of tiles of {expected}×{expected}, got an extent of {got}")));
    }
    let batch = dims[3].clone().floordiv(of_image.max(1));
    let [height, width] = [&size[0], &size[1]].map(Clone::clone);
    Ok(tensor_type(known(vec![batch, dims[2].clone(), height, width, dims[4].clone()]), dtype))
}
