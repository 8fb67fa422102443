//! The parts of a convolution by Winograd's algorithm, on channels in blocks. `ConvertLayout` makes calls of them.
//!
//! TVM counterpart: relay's `nn.contrib_conv2d_winograd_without_weight_transform`, in one part.

use super::window::padding;
use crate::ir::{ArgKind, AttrKind, Attrs, InferContext, IrError, OpDef, OpPattern, TensorShape, Type};
use crate::relax::analysis::{differ, show_dim, simplify_dim};
use crate::relax::op::context::{known, single, tensor_type};
use crate::relax::op::def::{arg, attr, required, tensor};
use crate::te::TensorExpr;
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi::{self, Winograd, tiles};

/// Columns of tiles in a part of a row at most.
const MOST_COLUMNS: i64 = 1024;

pub(in crate::relax::op) static OPS: &[OpDef] = &[
    OpDef::new("nn.winograd_data", "transformed tiles of data for windows of 3×3", infer_data)
        .args(&[tensor("data")])
        .attrs(&[required("tile", AttrKind::Int), attr("padding", AttrKind::Ints).default("0")])
        .tensor_program(|cx| {
            let (ctx, shape) = (cx.infer(), cx.out_shape(0)?);
            let (winograd, pads) = (algorithm(&ctx)?, pads(&ctx)?);
            let func =
                single(cx, |x| Ok(topi::winograd_data("winograd_data", &x[0], &winograd, pads, shape)))?;
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
    .args(&[tensor("products"), arg("size", ArgKind::Shape)])
    .attrs(&[required("tile", AttrKind::Int)])
    .tensor_program(|cx| {
        let (winograd, shape) = (algorithm(&cx.infer())?, cx.out_shape(0)?);
        let func = single(cx, |x| Ok(topi::winograd_result("winograd_result", &x[0], &winograd, shape)))?;
        Ok(unfused(func, OpPattern::OutEWiseFusable))
    }),
    OpDef::new(
        "nn.winograd_conv2d",
        "a convolution with transformed weights, whose transformed data and products stay in a cache",
        infer_conv,
    )
    .args(&[tensor("data"), tensor("weight")])
    .attrs(&[
        required("tile", AttrKind::Int),
        attr("padding", AttrKind::Ints).default("0"),
        // Columns of tiles in a part of a row; 0 for rows without parts.
        attr("columns", AttrKind::Int).default("0"),
    ])
    .tensor_program(|cx| {
        let (ctx, shape) = (cx.infer(), cx.out_shape(0)?);
        let (winograd, pads, columns) = (algorithm(&ctx)?, pads(&ctx)?, columns(&ctx)?);
        let name = "winograd_conv2d";
        let conv =
            |x: &[TensorExpr]| Ok(topi::winograd_conv(name, [&x[0], &x[1]], &winograd, pads, columns, shape));
        let func = single(cx, conv)?;
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

/// The number of columns of tiles in a part of a row, if rows have parts.
fn columns(ctx: &InferContext<'_>) -> Result<Option<i64>, IrError> {
    match ctx.attrs.int("columns").unwrap_or(0) {
        0 => Ok(None),
        columns @ 1..=MOST_COLUMNS => Ok(Some(columns)),
        other => Err(ctx.error(format!("attribute `columns` is 0 to {MOST_COLUMNS}, got {other}"))),
    }
}

/// The padding in front of rows and columns, and behind them.
fn pads(ctx: &InferContext<'_>) -> Result<([i64; 2], [i64; 2]), IrError> {
    let pads = padding(ctx, 2)?;
    Ok(([pads.before[0], pads.before[1]], [pads.after[0], pads.after[1]]))
}

/// Data (batch, block, height, width, channel) becomes tiles (row, column, block, batch, row of tiles, column of tiles,
/// channel).
fn infer_data(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (winograd, dtype) = (algorithm(ctx)?, ctx.tensor(0)?.dtype);
    let Some(dims) = ctx.dims(0, 5)? else { return Ok(tensor_type(TensorShape::Rank(7), dtype)) };
    let size = PrimExpr::index(winograd.size());
    let [rows, columns] = out_size(ctx, dims)?.map(|extent| tiles(&extent, winograd.tile));
    let shape = [size.clone(), size, dims[1].clone(), dims[0].clone(), rows, columns, dims[4].clone()];
    Ok(tensor_type(known(shape.into()), dtype))
}

/// Height and width of the result of windows of 3×3 over data (batch, block, height, width, channel).
fn out_size(ctx: &InferContext<'_>, data: &[PrimExpr]) -> Result<[PrimExpr; 2], IrError> {
    let (before, after) = pads(ctx)?;
    let extent = |d: usize| {
        let out = simplify_dim(&(&data[2 + d] + (before[d] + after[d] - 2)));
        if out.as_int().is_some_and(|it| it < 0) {
            let extent = show_dim(&data[2 + d]);
            return Err(ctx.error(format!("a window of 3 does not fit axis {} of {extent}", 2 + d)));
        }
        Ok(out)
    };
    Ok([extent(0)?, extent(1)?])
}

/// Data (batch, block, height, width, channel) and weights (row, column, block out, block in, channel in, channel out).
fn infer_conv(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (winograd, dtype) = (algorithm(ctx)?, ctx.same_dtype()?);
    columns(ctx)?;
    let (Some(data), Some(weight)) = (ctx.dims(0, 5)?, ctx.dims(1, 6)?) else {
        return Ok(tensor_type(TensorShape::Rank(5), dtype));
    };
    if let Some(bad) = weight[..2].iter().find(|dim| differ(dim, &PrimExpr::index(winograd.size()))) {
        let (got, expected) = (show_dim(bad), winograd.size());
        return Err(ctx.error(format!("weights of tiles of {expected}×{expected}, got an extent of {got}")));
    }
    same_extents(ctx, data, weight, [(1, 3), (4, 4)])?;
    let [height, width] = out_size(ctx, data)?;
    let shape = [data[0].clone(), weight[2].clone(), height, width, weight[5].clone()];
    Ok(tensor_type(known(shape.into()), dtype))
}

/// Checks that pairs of axes of data and of weights have the same extents.
fn same_extents<const N: usize>(
    ctx: &InferContext<'_>,
    data: &[PrimExpr],
    weight: &[PrimExpr],
    pairs: [(usize, usize); N],
) -> Result<(), IrError> {
    match pairs.iter().find(|&&(axis, of_weight)| differ(&data[axis], &weight[of_weight])) {
        Some(&(axis, of_weight)) => {
            let (a, b) = (show_dim(&data[axis]), show_dim(&weight[of_weight]));
            Err(ctx.error(format!("axis {axis} of the data is {a}, axis {of_weight} of the weight {b}")))
        }
        None => Ok(()),
    }
}

/// Tiles (row, column, block, tile, channel) times weights (row, column, block out, block in, channel in, channel out).
fn infer_product(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let dtype = ctx.same_dtype()?;
    let (Some(data), Some(weight)) = (ctx.dims(0, 5)?, ctx.dims(1, 6)?) else {
        return Ok(tensor_type(TensorShape::Rank(5), dtype));
    };
    same_extents(ctx, data, weight, [(0, 0), (1, 1), (2, 3), (4, 4)])?;
    let dims = [&data[0], &data[1], &weight[2], &data[3], &weight[5]].map(Clone::clone);
    Ok(tensor_type(known(dims.into()), dtype))
}

/// Products in the order of transformed data become images of height and width `size`.
fn infer_result(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (winograd, dtype) = (algorithm(ctx)?, ctx.tensor(0)?.dtype);
    let (Some(dims), Some(size)) = (ctx.dims(0, 7)?, ctx.shape(1)) else {
        return Ok(tensor_type(TensorShape::Rank(5), dtype));
    };
    let [height, width] = size else {
        return Err(ctx.error(format!("the size is height and width, got {} values", size.len())));
    };
    if let Some(bad) = dims[..2].iter().find(|dim| differ(dim, &PrimExpr::index(winograd.size()))) {
        let (got, expected) = (show_dim(bad), winograd.size());
        return Err(ctx.error(format!("products of tiles of {expected}×{expected}, got an extent of {got}")));
    }
    for (extent, of_tiles) in [(height, &dims[4]), (width, &dims[5])] {
        let expected = simplify_dim(&tiles(extent, winograd.tile));
        if differ(of_tiles, &expected) {
            let [extent, expected, got] = [extent, &expected, of_tiles].map(show_dim);
            return Err(ctx.error(format!("an extent of {extent} has {expected} tiles, got {got}")));
        }
    }
    let shape = [&dims[3], &dims[2], height, width, &dims[6]].map(Clone::clone);
    Ok(tensor_type(known(shape.into()), dtype))
}
