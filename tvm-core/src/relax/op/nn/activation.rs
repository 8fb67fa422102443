//! Activations that have attributes or look along an axis; those of one element alone are in `unary.rs`.
//!
//! TVM counterpart: `src/relax/op/nn/nn.cc`.

use crate::ir::{AttrKind, InferContext, IrError, LegalizeContext, OpDef, Type};
use crate::relax::op::context::single;
use crate::relax::op::def::{attr, tensor};
use crate::relax::op::unary::{self, Kind};
use crate::te::Tensor;
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi;

pub(in crate::relax::op) static OPS: &[OpDef] = &[
    OpDef {
        name: "nn.leakyrelu",
        doc: "x where it is positive, alpha * x elsewhere; ONNX `LeakyRelu`",
        args: &[tensor("data")],
        attrs: &[attr("alpha", AttrKind::Float)],
        infer: |cx| unary::infer(cx, Kind::Float),
        legalize: Some(|cx| {
            let alpha = cx.infer().float("alpha", 0.01);
            unary::lower(cx, |x| {
                let alpha = PrimExpr::float(alpha, x.dtype());
                x.clone().greater(0).select(x.clone(), x * alpha)
            })
        }),
        pure: true,
    },
    OpDef {
        name: "nn.prelu",
        doc: "x where it is positive, its channel's alpha times x elsewhere; ONNX `PRelu`",
        args: &[tensor("data"), tensor("alpha")],
        attrs: &[attr("axis", AttrKind::Int)],
        infer: |cx| {
            cx.same_dtype()?;
            cx.dims(1, 1)?;
            if let Some(ndim) = cx.tensor(0)?.ndim() {
                cx.axis(cx.attrs.int("axis").unwrap_or(1), ndim)?;
            }
            unary::infer(cx, Kind::Float)
        },
        legalize: Some(|cx| {
            single(cx, |x| {
                let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(1), x[0].ndim())?;
                Ok(crate::te::compute("prelu", x[0].shape(), &[&x[0], &x[1]], |i| {
                    let index =
                        if x[1].shape()[0].is_const(1) { PrimExpr::index(0) } else { i[axis].clone() };
                    let value = x[0].at(i);
                    value.clone().greater(0).select(value.clone(), value * x[1].at([index]))
                }))
            })
        }),
        pure: true,
    },
    OpDef {
        name: "nn.softplus",
        doc: "log(1 + exp(beta * x)) / beta; ONNX `Softplus`",
        args: &[tensor("data")],
        attrs: &[attr("beta", AttrKind::Float), attr("threshold", AttrKind::Float)],
        infer: |cx| unary::infer(cx, Kind::Float),
        legalize: Some(|cx| {
            let (beta, threshold) = (cx.infer().float("beta", 1.0), cx.infer().float("threshold", 20.0));
            unary::lower(cx, |x| topi::softplus(x, beta, threshold))
        }),
        pure: true,
    },
    OpDef {
        name: "nn.dropout",
        doc: "x itself: nothing is dropped at inference; ONNX `Dropout`",
        args: &[tensor("data")],
        attrs: &[attr("rate", AttrKind::Float)],
        infer: |cx| unary::infer(cx, Kind::Float),
        legalize: Some(|cx| unary::lower(cx, |x| x)),
        pure: true,
    },
    OpDef {
        name: "nn.softmax",
        doc: "exp(x) / sum(exp(x)) along an axis; ONNX `Softmax`",
        args: &[tensor("data")],
        attrs: &[attr("axis", AttrKind::Int)],
        infer: infer_softmax,
        legalize: Some(|cx| lower_softmax(cx, topi::softmax)),
        pure: true,
    },
    OpDef {
        name: "nn.log_softmax",
        doc: "x - log(sum(exp(x))) along an axis; ONNX `LogSoftmax`",
        args: &[tensor("data")],
        attrs: &[attr("axis", AttrKind::Int)],
        infer: infer_softmax,
        legalize: Some(|cx| lower_softmax(cx, topi::log_softmax)),
        pure: true,
    },
];

fn infer_softmax(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    if let Some(ndim) = ctx.tensor(0)?.ndim() {
        ctx.axis(ctx.attrs.int("axis").unwrap_or(-1), ndim)?;
    }
    unary::infer(ctx, Kind::Float)
}

fn lower_softmax(
    cx: &LegalizeContext<'_>,
    softmax: fn(&Tensor, usize) -> Tensor,
) -> Result<PrimFunc, IrError> {
    single(cx, |x| {
        let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(-1), x[0].ndim())?;
        Ok(softmax(&x[0], axis))
    })
}
