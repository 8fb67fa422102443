//! Normalisations, as computed at inference.
//!
//! TVM counterpart: `src/relax/op/nn/nn.cc`. `nn.batch_norm` and `nn.dropout` return only the result, not a tuple with
//! statistics or a mask, which only training needs.

use crate::ir::{ArgDef, AttrDef, AttrKind, InferContext, IrError, LegalizeContext, OpDef, Type};
use crate::relax::analysis::{differ, show_dim, show_dims};
use crate::relax::op::context::single;
use crate::relax::op::def::{attr, required, tensor};
use crate::te::TensorExpr;
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi;

const EPSILON: AttrDef = attr("epsilon", AttrKind::Float).default("1e-5");
const AFFINE: &[ArgDef] = &[tensor("data"), tensor("gamma"), tensor("beta")];

pub(in crate::relax::op) static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.batch_norm",
        "(data - mean) / sqrt(var + epsilon) * gamma + beta per channel; ONNX `BatchNormalization`",
        |cx| infer(cx, |ndim| Ok(vec![cx.axis(cx.attrs.int("axis").unwrap_or(1), ndim)?])),
    )
    .args(&[tensor("data"), tensor("gamma"), tensor("beta"), tensor("moving_mean"), tensor("moving_var")])
    .attrs(&[attr("axis", AttrKind::Int).default("1"), EPSILON])
    .tensor_program(|cx| {
        let epsilon = cx.infer().float("epsilon", 1e-5);
        single(cx, |x| {
            let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(1), x[0].ndim())?;
            Ok(topi::batch_norm(&x[0], [&x[1], &x[2], &x[3], &x[4]], axis, epsilon))
        })
    }),
    OpDef::new(
        "nn.layer_norm",
        "normalised over axes, times gamma plus beta of those axes; ONNX `LayerNormalization`",
        |cx| infer(cx, |ndim| cx.axes("axes", ndim)),
    )
    .args(AFFINE)
    .attrs(&[required("axes", AttrKind::Ints), EPSILON])
    .tensor_program(|cx| lower_over_axes(cx, true)),
    OpDef::new(
        "nn.rms_norm",
        "divided by the root mean square over axes, times the weight; ONNX `RMSNormalization`",
        |cx| infer(cx, |ndim| cx.axes("axes", ndim)),
    )
    .args(&[tensor("data"), tensor("weight")])
    .attrs(&[required("axes", AttrKind::Ints), EPSILON])
    .tensor_program(|cx| lower_over_axes(cx, false)),
    OpDef::new(
        "nn.instance_norm",
        "normalised over axes, times gamma plus beta per channel; ONNX `InstanceNormalization`",
        |cx| {
            infer(cx, |ndim| {
                cx.axes("axes", ndim)?;
                Ok(vec![cx.axis(cx.attrs.int("channel_axis").unwrap_or(1), ndim)?])
            })
        },
    )
    .args(AFFINE)
    .attrs(&[required("axes", AttrKind::Ints), attr("channel_axis", AttrKind::Int).default("1"), EPSILON])
    .tensor_program(lower_instance_norm),
    OpDef::new("nn.lrn", "divided by a power of the squares of neighbouring channels; ONNX `LRN`", |cx| {
        if cx.attrs.int("size").is_some_and(|size| size < 1) {
            return Err(cx.error("attribute `size` is positive"));
        }
        infer(cx, |ndim| Ok(vec![cx.axis(cx.attrs.int("axis").unwrap_or(1), ndim)?]))
    })
    .args(&[tensor("data")])
    .attrs(&[
        required("size", AttrKind::Int),
        attr("axis", AttrKind::Int).default("1"),
        attr("alpha", AttrKind::Float).default("1e-4"),
        attr("beta", AttrKind::Float).default("0.75"),
        attr("bias", AttrKind::Float).default("1.0"),
    ])
    .tensor_program(|cx| {
        let (ctx, size) = (cx.infer(), cx.attrs.int("size").unwrap_or(5));
        let (alpha, beta) = (ctx.float("alpha", 1e-4), ctx.float("beta", 0.75));
        single(cx, |x| {
            let axis = ctx.axis(cx.attrs.int("axis").unwrap_or(1), x[0].ndim())?;
            Ok(topi::lrn(&x[0], size, axis, alpha, beta, ctx.float("bias", 1.0)))
        })
    }),
];

/// The type of the result, which is that of the data. Checks that each other argument has the extents of the axes that
/// `axes` returns for the rank.
fn infer(
    ctx: &InferContext<'_>,
    axes: impl FnOnce(usize) -> Result<Vec<usize>, IrError>,
) -> Result<Type, IrError> {
    let data = ctx.tensor(0)?;
    if let Some(dtype) = ctx.same_dtype()?
        && !dtype.is_float()
    {
        return Err(ctx.error(format!("expected float elements, got {dtype}")));
    }
    let Some(ndim) = data.ndim() else { return Ok(Type::Tensor(data.clone())) };
    let axes = axes(ndim)?;
    let Some(dims) = data.known_shape() else { return Ok(Type::Tensor(data.clone())) };
    let expected: Vec<PrimExpr> = axes.iter().map(|&axis| dims[axis].clone()).collect();
    for i in 1..ctx.types.len() {
        let Some(got) = ctx.dims(i, expected.len())? else { continue };
        if let Some(k) = (0..got.len()).find(|&k| differ(&got[k], &expected[k])) {
            let message = format!(
                "argument `{}` has shape {}, got {}: {} is not {}",
                ctx.op.args[i].name,
                show_dims(&expected),
                show_dims(got),
                show_dim(&got[k]),
                show_dim(&expected[k])
            );
            return Err(ctx.error(message));
        }
    }
    Ok(Type::Tensor(data.clone()))
}

/// The components of index `i` along `axes`.
fn at_axes(i: &[PrimExpr], axes: &[usize]) -> Vec<PrimExpr> {
    axes.iter().map(|&axis| i[axis].clone()).collect()
}

fn lower_over_axes(cx: &LegalizeContext<'_>, center: bool) -> Result<PrimFunc, IrError> {
    let epsilon = cx.infer().float("epsilon", 1e-5);
    let name = cx.op.name.trim_start_matches("nn.");
    single(cx, |x| {
        let axes = cx.infer().axes("axes", x[0].ndim())?;
        let factors: Vec<&TensorExpr> = x[1..].iter().collect();
        Ok(topi::normalize(name, &x[0], &axes, epsilon, center, &factors, |value, i| {
            let scaled = value * x[1].at(at_axes(i, &axes));
            x.get(2).map_or(scaled.clone(), |beta| scaled + beta.at(at_axes(i, &axes)))
        }))
    })
}

fn lower_instance_norm(cx: &LegalizeContext<'_>) -> Result<PrimFunc, IrError> {
    let (ctx, epsilon) = (cx.infer(), cx.infer().float("epsilon", 1e-5));
    single(cx, |x| {
        let axes = cx.attrs.int_list("axes").unwrap_or_default();
        let axes = axes.iter().map(|&axis| ctx.axis(axis, x[0].ndim())).collect::<Result<Vec<_>, _>>()?;
        let channel = ctx.axis(cx.attrs.int("channel_axis").unwrap_or(1), x[0].ndim())?;
        let factors = [&x[1], &x[2]];
        Ok(topi::normalize("instance_norm", &x[0], &axes, epsilon, true, &factors, |value, i| {
            value * x[1].at([i[channel].clone()]) + x[2].at([i[channel].clone()])
        }))
    })
}
