//! Activations with attributes or along an axis; element-wise activations without attributes are in `unary.rs`.
//!
//! TVM counterpart: `src/relax/op/nn/nn.cc`.

use crate::ir::{AttrKind, InferContext, IrError, LegalizeContext, OpDef, Type};
use crate::relax::op::context::single;
use crate::relax::op::def::{attr, tensor};
use crate::relax::op::unary::{self, Kind};
use crate::te::TensorExpr;
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi;

pub(in crate::relax::op) static OPS: &[OpDef] = &[
    OpDef::new("nn.leakyrelu", "x where it is positive, alpha * x elsewhere; ONNX `LeakyRelu`", |cx| {
        unary::infer(cx, Kind::Float)
    })
    .args(&[tensor("data")])
    .attrs(&[attr("alpha", AttrKind::Float).default("0.01")])
    .tensor_program(|cx| {
        let alpha = cx.infer().float("alpha", 0.01);
        unary::lower(cx, |x| {
            let alpha = PrimExpr::float(alpha, x.dtype());
            x.clone().greater(0).select(x.clone(), x * alpha)
        })
    })
    .elementwise(),
    OpDef::new(
        "nn.prelu",
        "x where it is positive, its channel's alpha times x elsewhere; ONNX `PRelu`",
        |cx| {
            cx.same_dtype()?;
            cx.dims(1, 1)?;
            if let Some(ndim) = cx.tensor(0)?.ndim() {
                cx.axis(cx.attrs.int("axis").unwrap_or(1), ndim)?;
            }
            unary::infer(cx, Kind::Float)
        },
    )
    .args(&[tensor("data"), tensor("alpha")])
    .attrs(&[attr("axis", AttrKind::Int).default("1")])
    .tensor_program(|cx| {
        single(cx, |x| {
            let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(1), x[0].ndim())?;
            Ok(crate::te::compute("prelu", x[0].shape(), &[&x[0], &x[1]], |i| {
                let index = if x[1].shape()[0].is_const(1) { PrimExpr::index(0) } else { i[axis].clone() };
                let value = x[0].at(i);
                value.clone().greater(0).select(value.clone(), value * x[1].at([index]))
            }))
        })
    }),
    OpDef::new("nn.softplus", "log(1 + exp(beta * x)) / beta; ONNX `Softplus`", |cx| {
        unary::infer(cx, Kind::Float)
    })
    .args(&[tensor("data")])
    .attrs(&[
        attr("beta", AttrKind::Float).default("1.0"),
        attr("threshold", AttrKind::Float).default("20.0"),
    ])
    .tensor_program(|cx| {
        let (beta, threshold) = (cx.infer().float("beta", 1.0), cx.infer().float("threshold", 20.0));
        unary::lower(cx, |x| topi::softplus(x, beta, threshold))
    })
    .elementwise(),
    OpDef::new("nn.dropout", "x itself: nothing is dropped at inference; ONNX `Dropout`", |cx| {
        unary::infer(cx, Kind::Float)
    })
    .args(&[tensor("data")])
    .attrs(&[attr("rate", AttrKind::Float).default("unused")])
    .tensor_program(|cx| unary::lower(cx, |x| x))
    .elementwise(),
    OpDef::new("nn.softmax", "exp(x) / sum(exp(x)) along an axis; ONNX `Softmax`", infer_softmax)
        .args(&[tensor("data")])
        .attrs(&[attr("axis", AttrKind::Int).default("-1")])
        .tensor_program(|cx| lower_softmax(cx, topi::softmax)),
    OpDef::new("nn.log_softmax", "x - log(sum(exp(x))) along an axis; ONNX `LogSoftmax`", infer_softmax)
        .args(&[tensor("data")])
        .attrs(&[attr("axis", AttrKind::Int).default("-1")])
        .tensor_program(|cx| lower_softmax(cx, topi::log_softmax)),
];

fn infer_softmax(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    if let Some(ndim) = ctx.tensor(0)?.ndim() {
        ctx.axis(ctx.attrs.int("axis").unwrap_or(-1), ndim)?;
    }
    unary::infer(ctx, Kind::Float)
}

fn lower_softmax(
    cx: &LegalizeContext<'_>,
    softmax: fn(&TensorExpr, usize) -> TensorExpr,
) -> Result<PrimFunc, IrError> {
    single(cx, |x| {
        let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(-1), x[0].ndim())?;
        Ok(softmax(&x[0], axis))
    })
}
