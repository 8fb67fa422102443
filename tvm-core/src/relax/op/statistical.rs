//! Reductions, argmax and argmin, cumulative sums and products.
//!
//! TVM counterpart: `src/relax/op/tensor/statistical.cc`, `search.cc`.

use tvm_runtime::DataType;

use super::context::{rank, single, tensor_type};
use super::def::{attr, tensor};
use crate::ir::{
    ArgDef, AttrDef, AttrKind, InferContext, IrError, LegalizeContext, OpDef, TensorShape, TensorType, Type,
};
use crate::te;
use crate::tir::{Intrinsic, PrimExpr, PrimFunc};
use crate::topi;

const X: &[ArgDef] = &[tensor("x")];
const REDUCE: &[AttrDef] =
    &[attr("axis", AttrKind::Ints).default("all axes"), attr("keepdims", AttrKind::Bool).default("false")];
const ARG: &[AttrDef] = &[
    attr("axis", AttrKind::Int).default("all elements, row-major"),
    attr("keepdims", AttrKind::Bool).default("false"),
    attr("select_last_index", AttrKind::Bool).default("false"),
];
const CUMULATIVE: &[AttrDef] = &[
    attr("axis", AttrKind::Int).default("the only axis, for rank 1"),
    attr("dtype", AttrKind::DType).default("that of `x`"),
    attr("exclusive", AttrKind::Bool).default("false"),
];

macro_rules! table {
    ($($name:literal $doc:literal $attrs:ident |$infer:ident| $ty:expr, |$cx:ident| $lower:expr;)*) => {
        pub(super) static OPS: &[OpDef] = &[$(
            OpDef::new($name, $doc, |$infer| $ty)
                .args(X)
                .attrs($attrs)
                .tensor_program(|$cx| $lower)
        ),*];
    };
}

table! {
    "sum" "sum over axes (all when none is named); ONNX `ReduceSum`" REDUCE
        |cx| infer_reduce(cx, Numbers::Any),
        |cx| lower_with(cx, |x, axes, keepdims| topi::sum_axes("sum", x, axes, keepdims, |it| it));
    "prod" "product over axes; ONNX `ReduceProd`" REDUCE
        |cx| infer_reduce(cx, Numbers::Any), |cx| lower_reduce(cx, te::prod);
    "max" "largest element over axes, NaN if there is one; ONNX `ReduceMax`" REDUCE
        |cx| infer_reduce(cx, Numbers::Any), |cx| lower_reduce(cx, te::max);
    "min" "smallest element over axes, NaN if there is one; ONNX `ReduceMin`" REDUCE
        |cx| infer_reduce(cx, Numbers::Any), |cx| lower_reduce(cx, te::min);
    "mean" "mean over axes; ONNX `ReduceMean`" REDUCE
        |cx| infer_reduce(cx, Numbers::Float),
        |cx| lower_with(cx, |x, axes, keepdims| topi::scaled_sum("mean", x, axes, keepdims));
    "variance" "mean squared distance to the mean over axes" REDUCE
        |cx| infer_reduce(cx, Numbers::Float), |cx| lower_with(cx, topi::variance);
    "std" "square root of the variance over axes" REDUCE
        |cx| infer_reduce(cx, Numbers::Float),
        |cx| lower_with(cx, |x, axes, keepdims| {
            topi::map("std", &topi::variance(x, axes, keepdims), |it| it.unary(Intrinsic::Sqrt))
        });
    "argmax" "position of the largest element along an axis (of all, row-major, when none); ONNX `ArgMax`" ARG
        |cx| infer_arg(cx), |cx| lower_arg(cx, true);
    "argmin" "position of the smallest element along an axis (of all, row-major, when none); ONNX `ArgMin`" ARG
        |cx| infer_arg(cx), |cx| lower_arg(cx, false);
    "cumsum" "running sum along an axis; ONNX `CumSum`" CUMULATIVE
        |cx| infer_cumulative(cx), |cx| lower_cumulative(cx, 0.0, |a, b| a + b);
    "cumprod" "running product along an axis" CUMULATIVE
        |cx| infer_cumulative(cx), |cx| lower_cumulative(cx, 1.0, |a, b| a * b);
}

/// Element types that a reduction accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Any,
    Float,
}

fn infer_reduce(ctx: &InferContext<'_>, takes: Numbers) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    if let Some(dtype) = ty.dtype {
        let number = dtype.is_float() || (takes == Numbers::Any && dtype.is_integer());
        if !number {
            let expected = if takes == Numbers::Any { "number" } else { "float" };
            let message = format!("expected {expected} elements, got {dtype}");
            return Err(ctx.error(message).help("convert the argument with `astype`"));
        }
    }
    Ok(tensor_type(reduced_shape(ctx, ty)?, ty.dtype))
}

/// The shape of the result: without the axes of attribute `axis`, or with extent 1 there under `keepdims`.
fn reduced_shape(ctx: &InferContext<'_>, ty: &TensorType) -> Result<TensorShape, IrError> {
    let keepdims = ctx.attrs.bool("keepdims").unwrap_or(false);
    let Some(ndim) = ty.ndim() else {
        let scalar = !keepdims && ctx.attrs.get("axis").is_none();
        return Ok(if scalar { TensorShape::Known([].into()) } else { TensorShape::Unknown });
    };
    let axes = ctx.axes("axis", ndim)?;
    let Some(dims) = ty.known_shape() else {
        return Ok(rank(Some(if keepdims { ndim } else { ndim - axes.len() })));
    };
    let kept = |(axis, dim): (usize, &PrimExpr)| match (axes.contains(&axis), keepdims) {
        (false, _) => Some(dim.clone()),
        (true, true) => Some(PrimExpr::index(1)),
        (true, false) => None,
    };
    Ok(TensorShape::Known(dims.iter().enumerate().filter_map(kept).collect()))
}

fn lower_with(
    cx: &LegalizeContext<'_>,
    f: impl FnOnce(&te::TensorExpr, &[usize], bool) -> te::TensorExpr,
) -> Result<PrimFunc, IrError> {
    let keepdims = cx.attrs.bool("keepdims").unwrap_or(false);
    single(cx, |x| Ok(f(&x[0], &cx.infer().axes("axis", x[0].ndim())?, keepdims)))
}

fn lower_reduce(
    cx: &LegalizeContext<'_>,
    make: fn(PrimExpr, &[&te::ReduceAxis]) -> te::Reduce,
) -> Result<PrimFunc, IrError> {
    lower_with(cx, |x, axes, keepdims| topi::reduce_axes(cx.op.name, x, axes, keepdims, |it| it, make))
}

fn infer_arg(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    if let Some(dims) = ty.known_shape() {
        let axes = ctx.axes("axis", dims.len())?;
        if let Some(&axis) = axes.iter().find(|&&axis| dims[axis].is_const(0)) {
            return Err(ctx.error(format!("axis {axis} is empty: there is no such position")));
        }
    }
    Ok(tensor_type(reduced_shape(ctx, ty)?, Some(DataType::I64)))
}

fn lower_arg(cx: &LegalizeContext<'_>, largest: bool) -> Result<PrimFunc, IrError> {
    let last = cx.attrs.bool("select_last_index").unwrap_or(false);
    lower_with(cx, |x, axes, keepdims| topi::arg_extreme(cx.op.name, x, axes, keepdims, largest, last))
}

fn infer_cumulative(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    if let Some(ndim) = ty.ndim() {
        cumulative_axis(ctx, ndim)?;
    }
    Ok(tensor_type(ty.shape.clone(), ctx.attrs.dtype("dtype").or(ty.dtype)))
}

fn cumulative_axis(ctx: &InferContext<'_>, ndim: usize) -> Result<usize, IrError> {
    match ctx.attrs.int("axis") {
        Some(axis) => ctx.axis(axis, ndim),
        None if ndim == 1 => Ok(0),
        None => {
            let err = ctx.error(format!("attribute `axis` must be given for a tensor of rank {ndim}"));
            Err(err.help("flatten the tensor first to run over all of it"))
        }
    }
}

fn lower_cumulative(
    cx: &LegalizeContext<'_>,
    identity: f64,
    combine: fn(PrimExpr, PrimExpr) -> PrimExpr,
) -> Result<PrimFunc, IrError> {
    let identity = PrimExpr::constant(identity, cx.out_dtype(0)?);
    let exclusive = cx.attrs.bool("exclusive").unwrap_or(false);
    single(cx, |x| {
        let axis = cumulative_axis(&cx.infer(), x[0].ndim())?;
        Ok(topi::cumulative(cx.op.name, &x[0], axis, exclusive, identity, combine))
    })
}
