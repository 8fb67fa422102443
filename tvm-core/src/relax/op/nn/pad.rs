//! Padding.
//!
//! TVM counterpart: `nn.pad` (`src/relax/op/nn/nn.cc`).

use crate::ir::{AttrKind, InferContext, IrError, OpDef, TensorShape, Type};
use crate::relax::analysis::show_dims;
use crate::relax::op::context::{known, single, tensor_type};
use crate::relax::op::def::{attr, required, tensor};
use crate::tir::PrimExpr;
use crate::topi::{self, PadMode};

pub(in crate::relax::op) static OPS: &[OpDef] = &[OpDef::new(
    "nn.pad",
    "elements around data: `pad_width` is (before, after) axis by axis; ONNX `Pad`",
    infer,
)
.args(&[tensor("data")])
.attrs(&[
    required("pad_width", AttrKind::Ints),
    attr("pad_mode", AttrKind::Str).default("\"constant\""),
    attr("pad_value", AttrKind::Float).default("0.0"),
])
.tensor_program(|cx| {
    let ctx = cx.infer();
    let mode = mode(&ctx)?;
    single(cx, |x| {
        let (before, after) = widths(&ctx, x[0].ndim())?;
        Ok(topi::pad("pad", &x[0], &before, &after, &mode))
    })
})];

fn widths(ctx: &InferContext<'_>, ndim: usize) -> Result<(Vec<i64>, Vec<i64>), IrError> {
    let given = ctx.attrs.int_list("pad_width").unwrap_or_default();
    if given.len() != 2 * ndim {
        let message = format!("attribute `pad_width` is {} integers, got {}", 2 * ndim, given.len());
        return Err(ctx.error(message));
    }
    Ok((given.iter().step_by(2).copied().collect(), given.iter().skip(1).step_by(2).copied().collect()))
}

fn mode(ctx: &InferContext<'_>) -> Result<PadMode, IrError> {
    let dtype = ctx.tensor(0)?.dtype.unwrap_or(tvm_runtime::DataType::F32);
    match ctx.attrs.str("pad_mode").unwrap_or("constant") {
        "constant" => Ok(PadMode::Constant(PrimExpr::constant(ctx.float("pad_value", 0.0), dtype))),
        "reflect" => Ok(PadMode::Reflect),
        "replicate" | "edge" => Ok(PadMode::Replicate),
        "circular" | "wrap" => Ok(PadMode::Circular),
        other => Err(ctx.error(format!(
            "attribute `pad_mode` is constant, reflect, replicate or circular, got `{other}`"
        ))),
    }
}

fn infer(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    let mode = mode(ctx)?;
    let Some(ndim) = ty.ndim() else { return Ok(Type::Tensor(ty.clone())) };
    let (before, after) = widths(ctx, ndim)?;
    let Some(dims) = ty.known_shape() else {
        return Ok(tensor_type(TensorShape::Rank(ndim), ty.dtype));
    };
    let padded: Vec<PrimExpr> =
        dims.iter().zip(before.iter().zip(&after)).map(|(dim, (a, b))| dim + (a + b)).collect();
    let grows = |axis: usize| before[axis] > 0 || after[axis] > 0;
    let bad = (0..ndim).find(|&axis| {
        let nothing_to_repeat =
            dims[axis].is_const(0) && grows(axis) && !matches!(mode, PadMode::Constant(_));
        nothing_to_repeat || padded[axis].as_int().is_some_and(|it| it < 0)
    });
    if let Some(axis) = bad {
        let message = format!("axis {axis} of {} cannot be padded like that", show_dims(dims));
        return Err(ctx.error(message));
    }
    Ok(tensor_type(known(padded), ty.dtype))
}
