//! Operators that create tensors from shapes and scalars, and triangles and one-hot encodings of tensors.
//!
//! TVM counterpart: `src/relax/op/tensor/create.cc`.

use tvm_runtime::DataType;

use super::context::{known, rank, single, tensor_type};
use super::def::{arg, attr, required, tensor};
use crate::ir::{
    ArgKind, AttrDef, AttrKind, InferContext, IrError, LegalizeContext, OpDef, TensorShape, Type,
};
use crate::relax::Arg;
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi::{self, Operand};

const DTYPE: AttrDef = attr("dtype", AttrKind::DType);
const TRIANGLE: &[crate::ir::ArgDef] = &[tensor("x"), arg("k", ArgKind::Prim)];

macro_rules! constants {
    ($($name:literal $like:literal $value:literal;)*) => {
        &[$(
            OpDef::new($name, concat!($value, " everywhere"), |cx| Ok(tensor_type(given_shape(cx), cx.attrs.dtype("dtype"))))
                .args(&[arg("shape", ArgKind::Shape)])
                .attrs(&[required("dtype", AttrKind::DType)])
                .tensor_program(|cx| constant(cx, $value)),
            OpDef::new($like, concat!($value, " everywhere, in the shape of x"), infer_like)
                .args(&[tensor("x")])
                .attrs(&[DTYPE.default("that of `x`")])
                .tensor_program(|cx| constant(cx, $value)),
        )*]
    };
}

pub(super) static CONSTANTS: &[OpDef] = constants! {
    "ones" "ones_like" 1;
    "zeros" "zeros_like" 0;
};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new("full", "one value everywhere; ONNX `ConstantOfShape`", |cx| {
        Ok(tensor_type(given_shape(cx), cx.attrs.dtype("dtype").or(fill_dtype(cx)?)))
    })
    .args(&[arg("shape", ArgKind::Shape), arg("fill_value", ArgKind::Any)])
    .attrs(&[DTYPE.default("that of `fill_value`")])
    .tensor_program(lower_full),
    OpDef::new("full_like", "one value everywhere, in the shape of x", |cx| {
        fill_dtype(cx)?;
        infer_like(cx)
    })
    .args(&[tensor("x"), arg("fill_value", ArgKind::Any)])
    .attrs(&[DTYPE.default("that of `x`")])
    .tensor_program(lower_full),
    OpDef::new("arange", "start, start + step, … before end; ONNX `Range`", infer_arange)
        .args(&[arg("start", ArgKind::Prim), arg("end", ArgKind::Prim), arg("step", ArgKind::Prim)])
        .attrs(&[DTYPE.default("that of `start`")])
        .tensor_program(|cx| {
            let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
            let [start, _, step] = scalars(&cx.infer())?;
            let like = if dtype.is_float() { start.dtype() } else { DataType::I64 };
            let out = topi::arange(&shape[0], &start.cast(like), &step.cast(like), dtype);
            cx.finish(&[], &[out])
        }),
    OpDef::new("eye", "n rows and m columns, 1 on the k-th diagonal, else 0; ONNX `EyeLike`", |cx| {
        let shape = match scalars(cx) {
            Ok([n, m, _]) => known(vec![n.cast(DataType::I64), m.cast(DataType::I64)]),
            Err(_) => TensorShape::Rank(2),
        };
        Ok(tensor_type(shape, cx.attrs.dtype("dtype")))
    })
    .args(&[arg("n", ArgKind::Prim), arg("m", ArgKind::Prim), arg("k", ArgKind::Prim)])
    .attrs(&[required("dtype", AttrKind::DType)])
    .tensor_program(|cx| {
        let [_, _, k] = scalars(&cx.infer())?;
        let out = topi::eye(cx.out_shape(0)?, &k.cast(DataType::I64), cx.out_dtype(0)?);
        cx.finish(&[], &[out])
    }),
    OpDef::new("tril", "the elements on and under the k-th diagonal, else 0; ONNX `Trilu`", infer_triangle)
        .args(TRIANGLE)
        .tensor_program(|cx| lower_triangle(cx, false)),
    OpDef::new("triu", "the elements on and over the k-th diagonal, else 0; ONNX `Trilu`", infer_triangle)
        .args(TRIANGLE)
        .tensor_program(|cx| lower_triangle(cx, true)),
    OpDef::new(
        "one_hot",
        "along a new axis, one value at the given index and another elsewhere; ONNX `OneHot`",
        infer_one_hot,
    )
    .args(&[tensor("indices"), arg("on_value", ArgKind::Prim), arg("off_value", ArgKind::Prim)])
    .attrs(&[required("depth", AttrKind::Int), attr("axis", AttrKind::Int).default("-1")])
    .tensor_program(|cx| {
        let (Arg::Prim(on), Arg::Prim(off)) = (&cx.args[1], &cx.args[2]) else {
            return Err(cx.infer().error("the values must be known scalars"));
        };
        let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
        let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(-1), shape.len())?;
        single(cx, |x| Ok(topi::one_hot(&x[0], shape, axis, on, off, dtype)))
    }),
];

/// The shape that argument 0 holds, as far as it is known.
pub(super) fn given_shape(ctx: &InferContext<'_>) -> TensorShape {
    shape_argument(ctx, 0)
}

/// The shape that argument `i` holds, as far as it is known.
pub(super) fn shape_argument(ctx: &InferContext<'_>, i: usize) -> TensorShape {
    match (ctx.shape(i), ctx.types.get(i)) {
        (Some(dims), _) => known(dims.to_vec()),
        (None, Some(Type::Shape(ty))) => rank(ty.ndim),
        (None, _) => TensorShape::Unknown,
    }
}

fn infer_like(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    Ok(tensor_type(ty.shape.clone(), ctx.attrs.dtype("dtype").or(ty.dtype)))
}

/// Element type of the fill value, argument 1.
fn fill_dtype(ctx: &InferContext<'_>) -> Result<Option<DataType>, IrError> {
    match &ctx.types[1] {
        Type::Prim(dtype) => Ok(Some(*dtype)),
        Type::Tensor(ty) if ty.ndim().unwrap_or(0) == 0 => Ok(ty.dtype),
        ty => {
            let got = crate::relax::analysis::show_type(ty);
            Err(ctx.error(format!("argument `fill_value` is a scalar or a tensor of rank 0, got {got}")))
        }
    }
}

fn lower_full(cx: &LegalizeContext<'_>) -> Result<PrimFunc, IrError> {
    let inputs = cx.inputs()?;
    let value = match &cx.args[1] {
        Arg::Prim(value) => Operand::Scalar(value.clone()),
        _ => Operand::from(inputs.last().ok_or_else(|| cx.infer().error("the fill value is not known"))?),
    };
    cx.finish(&inputs, &[topi::full(cx.out_shape(0)?, &value, cx.out_dtype(0)?)])
}

fn constant(cx: &LegalizeContext<'_>, value: i64) -> Result<PrimFunc, IrError> {
    let value = Operand::Scalar(PrimExpr::int(value, DataType::I32));
    let out = topi::full(cx.out_shape(0)?, &value, cx.out_dtype(0)?);
    cx.finish(&cx.inputs()?, &[out])
}

/// The values of the three scalar arguments; an error when one is not known.
fn scalars(ctx: &InferContext<'_>) -> Result<[PrimExpr; 3], IrError> {
    match ctx.args {
        [Arg::Prim(a), Arg::Prim(b), Arg::Prim(c)] => Ok([a.clone(), b.clone(), c.clone()]),
        _ => Err(ctx.error("the arguments must be known scalars")),
    }
}

fn infer_arange(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let Ok([start, end, step]) = scalars(ctx) else {
        return Ok(tensor_type(TensorShape::Rank(1), ctx.attrs.dtype("dtype")));
    };
    if start.dtype() != end.dtype() || start.dtype() != step.dtype() {
        let types = [&start, &end, &step].map(|it| it.dtype().to_string()).join(", ");
        return Err(ctx.error(format!("start, end and step have different types: {types}")));
    }
    let dtype = ctx.attrs.dtype("dtype").or(Some(start.dtype()));
    let float = |expr: &PrimExpr| if let PrimExpr::FloatImm(it) = expr { Some(it.value) } else { None };
    let extent = match (float(&start), float(&end), float(&step), step.as_int()) {
        (_, _, Some(0.0), _) | (_, _, _, Some(0)) => return Err(ctx.error("the step is 0")),
        (Some(start), Some(end), Some(step), _) => {
            PrimExpr::index((((end - start) / step).ceil() as i64).max(0))
        }
        (_, _, _, Some(step)) => {
            let (from, to) = if step > 0 { (start, end) } else { (end, start) };
            let distance = to.cast(DataType::I64) - from.cast(DataType::I64);
            topi::ceil_div(distance, &PrimExpr::index(step.saturating_abs())).max(0)
        }
        _ => return Ok(tensor_type(TensorShape::Rank(1), dtype)),
    };
    Ok(tensor_type(known(vec![extent]), dtype))
}

fn infer_triangle(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    match ty.ndim() {
        Some(ndim) if ndim < 2 => Err(ctx.error(format!("expected rank 2 or more, got rank {ndim}"))),
        Some(_) | None => Ok(Type::Tensor(ty.clone())),
    }
}

fn lower_triangle(cx: &LegalizeContext<'_>, upper: bool) -> Result<PrimFunc, IrError> {
    let Arg::Prim(k) = &cx.args[1] else { return Err(cx.infer().error("`k` must be a known scalar")) };
    single(cx, |x| Ok(topi::triangle(&x[0], &k.clone().cast(DataType::I64), upper)))
}

fn infer_one_hot(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (ty, depth) = (ctx.tensor(0)?, ctx.attrs.int("depth").unwrap_or(0));
    if depth < 0 || ty.dtype.is_some_and(|dtype| !dtype.is_integer()) {
        return Err(ctx.error("expected integer indices and a depth that is not negative"));
    }
    let (Type::Prim(on), Type::Prim(off)) = (&ctx.types[1], &ctx.types[2]) else {
        return Err(ctx.error("the values are scalars"));
    };
    if on != off {
        return Err(ctx.error(format!("the values have different types: {on} and {off}")));
    }
    let shape = match (ty.known_shape(), ty.ndim()) {
        (Some(dims), _) => {
            let axis = ctx.axis(ctx.attrs.int("axis").unwrap_or(-1), dims.len() + 1)?;
            let mut dims = dims.to_vec();
            dims.insert(axis, PrimExpr::index(depth));
            TensorShape::Known(dims.into())
        }
        (None, ndim) => rank(ndim.map(|it| it + 1)),
    };
    Ok(tensor_type(shape, Some(*on)))
}
