//! Products with weights of 4 bits in panels of columns, scaled by groups of terms.
//!
//! TVM counterpart: none; MLC-LLM fuses a dequantising program into the product. ONNX: `com.microsoft.MatMulNBits`.

use tvm_runtime::DataType;

use super::dense::units;
use crate::ir::{AttrKind, InferContext, IrError, OpDef, TensorShape, Type};
use crate::relax::analysis::{differ, show_dim, show_dims, simplify_dim};
use crate::relax::op::context::{rank, single, tensor_type};
use crate::relax::op::def::{attr, tensor};
use crate::tir::PrimExpr;
use crate::topi;

pub(super) const DENSE_INT4: OpDef = OpDef::new(
    "nn.dense_int4",
    "product of the last axis of data [.., k] with weights of 4 bits; a byte of weight [panels, k / 2, columns] holds two \
     neighbouring terms from -8 to 7, the first one in its low half, and scale [panels, groups, columns] has a factor for each \
     k / groups of them; `units` columns of the weights are used, all unless set",
    infer,
)
.args(&[tensor("data"), tensor("weight"), tensor("scale")])
.attrs(&[attr("units", AttrKind::Int).default("all columns")])
.tensor_program(|cx| {
    let shape = cx.out_shape(0)?;
    single(cx, |x| Ok(topi::dense_int4(&x[0], &x[1], &x[2], shape)))
});

fn infer(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let f32 = DataType::F32;
    for (at, name, dtype) in [(0, "data", f32), (1, "weight", DataType::U8), (2, "scale", f32)] {
        if let Some(got) = ctx.tensor(at)?.dtype.filter(|it| *it != dtype) {
            return Err(ctx.error(format!("argument `{name}` has elements of {dtype}, got {got}")));
        }
    }
    let data = ctx.tensor(0)?;
    if data.ndim() == Some(0) {
        return Err(ctx.error("argument `data` has rank 1 or more, got rank 0"));
    }
    let (Some(shape), Some(weight), Some(scale)) = (data.known_shape(), ctx.dims(1, 3)?, ctx.dims(2, 3)?)
    else {
        return Ok(tensor_type(rank(data.ndim()), Some(f32)));
    };
    let Some((depth, rows)) = shape.split_last() else {
        return Ok(tensor_type(rank(data.ndim()), Some(f32)));
    };
    let terms = simplify_dim(&(weight[1].clone() * 2));
    if differ(depth, &terms) {
        let (shape, got, terms) = (show_dims(shape), show_dim(depth), show_dim(&terms));
        let message = format!("the last axis of `data` {shape} has extent {got}, `weight` has {terms} terms");
        return Err(ctx.error(message));
    }
    if differ(&weight[0], &scale[0]) || differ(&weight[2], &scale[2]) {
        let (weight, scale) = (show_dims(weight), show_dims(scale));
        let message = format!("`weight` {weight} and `scale` {scale} have the same panels and columns");
        return Err(ctx.error(message));
    }
    let uneven = match (weight[1].as_int(), scale[1].as_int()) {
        (Some(bytes), Some(groups)) => groups < 1 || bytes % groups != 0,
        (None, _) | (_, None) => false,
    };
    if uneven {
        let (bytes, groups) = (show_dim(&weight[1]), show_dim(&scale[1]));
        let message =
            format!("the groups of `scale` divide the bytes of a column, got {bytes} bytes, {groups} groups");
        return Err(ctx.error(message));
    }
    let columns = simplify_dim(&(weight[0].clone() * weight[2].clone()));
    let dims: Vec<PrimExpr> = rows.iter().cloned().chain([units(ctx, &columns)?]).collect();
    Ok(tensor_type(TensorShape::Known(dims.into()), Some(f32)))
}
