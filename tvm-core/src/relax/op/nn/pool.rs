//! Pooling over one, two and three spatial axes.
//!
//! TVM counterpart: `src/relax/op/nn/pooling.cc`.

use super::window::{Windows, padding, pool_layout, positive};
use crate::ir::{
    ArgDef, AttrDef, AttrKind, InferContext, IrError, LegalizeContext, OpDef, TensorShape, Type,
};
use crate::relax::op::context::{known, single, tensor_type};
use crate::relax::op::def::{attr, required, tensor};
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi::{self, PoolParams};

const X: &[ArgDef] = &[tensor("data")];
const ATTRS: &[AttrDef] = &[
    required("pool_size", AttrKind::Ints),
    attr("strides", AttrKind::Ints).default("1"),
    attr("padding", AttrKind::Ints).default("0"),
    attr("dilation", AttrKind::Ints).default("1"),
    attr("ceil_mode", AttrKind::Bool).default("false"),
    attr("count_include_pad", AttrKind::Bool).default("false"),
    attr("layout", AttrKind::Str).default("`NCHW` and the like"),
    attr("out_layout", AttrKind::Str).default("`layout`"),
];
const ADAPTIVE: &[AttrDef] = &[
    attr("output_size", AttrKind::Ints).default("that of the data"),
    attr("layout", AttrKind::Str).default("`NCHW` and the like"),
    attr("out_layout", AttrKind::Str).default("`layout`"),
];

macro_rules! pools {
    ($($max:literal $avg:literal $adaptive:literal $spatial:literal;)*) => {
        &[$(
            OpDef::new($max, "largest element of every window; ONNX `MaxPool`", |cx| infer(cx, $spatial))
                .args(X)
                .attrs(ATTRS)
                .tensor_program(|cx| lower(cx, $spatial, topi::max_pool)),
            OpDef::new($avg, "mean of every window, with or without the padding; ONNX `AveragePool`", |cx| infer(cx, $spatial))
                .args(X)
                .attrs(ATTRS)
                .tensor_program(|cx| lower(cx, $spatial, topi::avg_pool)),
            OpDef::new($adaptive, "means of windows that give a shape (the input's when none); ONNX `GlobalAveragePool` for 1", |cx| infer_adaptive(cx, $spatial))
                .args(X)
                .attrs(ADAPTIVE)
                .tensor_program(|cx| {
                    let shape = cx.out_shape(0)?;
                    let name = cx.op.name.trim_start_matches("nn.");
                    let (_, axes) = pool_layout(&cx.infer(), $spatial)?;
                    single(cx, |x| Ok(topi::adaptive_avg_pool(name, &x[0], &axes, shape)))
                }),
        )*]
    };
}

pub(in crate::relax::op) static OPS: &[OpDef] = pools! {
    "nn.max_pool1d" "nn.avg_pool1d" "nn.adaptive_avg_pool1d" 1;
    "nn.max_pool2d" "nn.avg_pool2d" "nn.adaptive_avg_pool2d" 2;
    "nn.max_pool3d" "nn.avg_pool3d" "nn.adaptive_avg_pool3d" 3;
};

fn params(ctx: &InferContext<'_>, spatial: usize) -> Result<PoolParams, IrError> {
    let pads = padding(ctx, spatial)?;
    let params = PoolParams {
        axes: pool_layout(ctx, spatial)?.1,
        window: positive(ctx, "pool_size", spatial)?,
        strides: positive(ctx, "strides", spatial)?,
        pad_before: pads.before,
        pad_after: pads.after,
        dilation: positive(ctx, "dilation", spatial)?,
        count_include_pad: ctx.attrs.bool("count_include_pad").unwrap_or(false),
    };
    for d in 0..spatial {
        let reach = (params.window[d] - 1) * params.dilation[d] + 1;
        let pad = params.pad_before[d].max(params.pad_after[d]);
        if pad >= reach {
            let message = format!("a padding of {pad} holds a whole window of {}", params.window[d]);
            return Err(ctx.error(message));
        }
    }
    Ok(params)
}

fn infer(ctx: &InferContext<'_>, spatial: usize) -> Result<Type, IrError> {
    let (layout, axes) = pool_layout(ctx, spatial)?;
    let (params, dtype) = (params(ctx, spatial)?, ctx.tensor(0)?.dtype);
    let Some(data) = ctx.dims(0, layout.ndim())? else {
        return Ok(tensor_type(TensorShape::Rank(layout.ndim()), dtype));
    };
    let mut dims = data.to_vec();
    for (d, &axis) in axes.iter().enumerate() {
        let windows = Windows {
            extent: &data[axis],
            window: &PrimExpr::index(params.window[d]),
            stride: params.strides[d],
            pads: (params.pad_before[d], params.pad_after[d]),
            dilation: params.dilation[d],
            ceil: ctx.attrs.bool("ceil_mode").unwrap_or(false),
        };
        dims[axis] = windows.count(ctx, axis)?;
    }
    Ok(tensor_type(known(dims), dtype))
}

fn lower(
    cx: &LegalizeContext<'_>,
    spatial: usize,
    pool: fn(&str, &crate::te::TensorExpr, &PoolParams, &[PrimExpr]) -> crate::te::TensorExpr,
) -> Result<PrimFunc, IrError> {
    let (params, shape) = (params(&cx.infer(), spatial)?, cx.out_shape(0)?);
    single(cx, |x| Ok(pool(cx.op.name.trim_start_matches("nn."), &x[0], &params, shape)))
}

fn infer_adaptive(ctx: &InferContext<'_>, spatial: usize) -> Result<Type, IrError> {
    let (layout, axes) = pool_layout(ctx, spatial)?;
    let dtype = ctx.tensor(0)?.dtype;
    let Some(data) = ctx.dims(0, layout.ndim())? else {
        return Ok(tensor_type(TensorShape::Rank(layout.ndim()), dtype));
    };
    let mut dims = data.to_vec();
    if ctx.attrs.int_list("output_size").is_some() {
        for (axis, size) in axes.into_iter().zip(positive(ctx, "output_size", spatial)?) {
            dims[axis] = PrimExpr::index(size);
        }
    }
    Ok(tensor_type(TensorShape::Known(dims.into()), dtype))
}
