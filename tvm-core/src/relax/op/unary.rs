//! Unary element-wise operators.
//!
//! TVM counterpart: `src/relax/op/tensor/unary.cc`, `python/tvm/relax/transform/legalize_ops/unary.py`.

use tvm_runtime::DataType;

use super::def::{arg, tensor};
use crate::ir::{ArgDef, ArgKind, InferContext, IrError, LegalizeContext, OpDef, TensorType, Type};
use crate::tir::{Intrinsic, PrimExpr, PrimFunc};
use crate::topi::{self, Operand};

const ARGS: &[ArgDef] = &[tensor("x")];

/// Element types that an operator accepts; the result has the same one, except for `NumberToBool`.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Float,
    Number,
    Bool,
    IntegerOrBool,
    NumberToBool,
}

macro_rules! table {
    ($($name:literal $doc:literal $kind:ident |$x:ident| $body:expr;)*) => {
        pub(super) static OPS: &[OpDef] = &[
            $(OpDef::new($name, $doc, |cx| infer(cx, Kind::$kind)).args(ARGS).tensor_program(|cx| lower(cx, |$x| $body)).elementwise(),)*
            OpDef::new("clip", "x limited to min..=max; ONNX `Clip`", |cx| infer(cx, Kind::Number))
                .args(&[tensor("x"), arg("min", ArgKind::Prim), arg("max", ArgKind::Prim)])
                .tensor_program(lower_clip)
                .elementwise(),
        ];
    };
}

table! {
    "abs" "absolute value; ONNX `Abs`" Number
        |x| if x.dtype().is_uint() { x } else { x.unary(Intrinsic::Abs) };
    "acos" "inverse cosine" Float |x| x.unary(Intrinsic::Acos);
    "acosh" "inverse hyperbolic cosine" Float |x| x.unary(Intrinsic::Acosh);
    "asin" "inverse sine" Float |x| x.unary(Intrinsic::Asin);
    "asinh" "inverse hyperbolic sine" Float |x| x.unary(Intrinsic::Asinh);
    "atan" "inverse tangent" Float |x| x.unary(Intrinsic::Atan);
    "atanh" "inverse hyperbolic tangent" Float |x| x.unary(Intrinsic::Atanh);
    "bitwise_not" "bitwise complement; ONNX `BitwiseNot`" IntegerOrBool
        |x| if x.dtype().is_bool() { !x } else { x.unary(Intrinsic::BitNot) };
    "ceil" "smallest integer not below x; ONNX `Ceil`" Number |x| rounded(x, Intrinsic::Ceil);
    "cos" "cosine" Float |x| x.unary(Intrinsic::Cos);
    "cosh" "hyperbolic cosine" Float |x| x.unary(Intrinsic::Cosh);
    "erf" "error function; ONNX `Erf`" Float |x| x.unary(Intrinsic::Erf);
    "exp" "e to the x; ONNX `Exp`" Float |x| x.unary(Intrinsic::Exp);
    "floor" "largest integer not above x; ONNX `Floor`" Number |x| rounded(x, Intrinsic::Floor);
    "isfinite" "neither infinite nor NaN" NumberToBool |x| topi::is_finite(x);
    "isinf" "infinite; ONNX `IsInf`" NumberToBool |x| topi::is_inf(x);
    "isnan" "NaN; ONNX `IsNaN`" NumberToBool |x| x.clone().not_equal(x);
    "log" "natural logarithm; ONNX `Log`" Float |x| x.unary(Intrinsic::Log);
    "log1p" "natural logarithm of 1 + x" Float |x| x.unary(Intrinsic::Log1p);
    "logical_not" "negation; ONNX `Not`" Bool |x| !x;
    "negative" "-x; ONNX `Neg`" Number |x| -x;
    "round" "nearest integer, halves to even; ONNX `Round`" Number |x| rounded(x, Intrinsic::Round);
    "rsqrt" "1 / sqrt(x)" Float |x| x.unary(Intrinsic::Rsqrt);
    "sigmoid" "1 / (1 + exp(-x)); ONNX `Sigmoid`" Float |x| x.unary(Intrinsic::Sigmoid);
    "sign" "-1, 0 or 1, NaN for NaN; ONNX `Sign`" Number |x| sign(x);
    "sin" "sine" Float |x| x.unary(Intrinsic::Sin);
    "sinh" "hyperbolic sine" Float |x| x.unary(Intrinsic::Sinh);
    "sqrt" "square root; ONNX `Sqrt`" Float |x| x.unary(Intrinsic::Sqrt);
    "square" "x * x" Number |x| x.clone() * x;
    "tan" "tangent" Float |x| x.unary(Intrinsic::Tan);
    "tanh" "hyperbolic tangent; ONNX `Tanh`" Float |x| x.unary(Intrinsic::Tanh);
    "trunc" "toward zero" Number |x| rounded(x, Intrinsic::Trunc);
    "nn.gelu" "x * normal distribution function of x; ONNX `Gelu`" Float |x| topi::gelu(x);
    "nn.gelu_tanh" "gelu by its tanh approximation" Float |x| topi::gelu_tanh(x);
    "nn.relu" "max(x, 0); ONNX `Relu`" Number |x| topi::relu(x);
    "nn.selu" "scaled exponential linear unit; ONNX `Selu`" Float |x| topi::selu(x);
    "nn.silu" "x * sigmoid(x)" Float |x| x.clone() * x.unary(Intrinsic::Sigmoid);
}

/// The type of the result, which has the shape of the first argument. Checks the element type of that argument.
pub(super) fn infer(ctx: &InferContext<'_>, kind: Kind) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    if let Some(dtype) = ty.dtype {
        let number = dtype.is_float() || dtype.is_integer();
        let (fits, expected) = match kind {
            Kind::Float => (dtype.is_float(), "float"),
            Kind::Number | Kind::NumberToBool => (number, "number"),
            Kind::Bool => (dtype.is_bool(), "bool"),
            Kind::IntegerOrBool => (dtype.is_integer() || dtype.is_bool(), "integer or bool"),
        };
        if !fits {
            let message = format!("expected {expected} elements, got {dtype}");
            return Err(ctx.error(message).help("convert the argument with `astype`"));
        }
    }
    let dtype = match kind {
        Kind::NumberToBool => Some(DataType::BOOL),
        Kind::Float | Kind::Number | Kind::Bool | Kind::IntegerOrBool => ty.dtype,
    };
    Ok(Type::Tensor(TensorType { dtype, ..ty.clone() }))
}

/// The tensor program that applies `f` to every element of the first argument.
pub(super) fn lower(
    cx: &LegalizeContext<'_>,
    f: impl FnOnce(PrimExpr) -> PrimExpr,
) -> Result<PrimFunc, IrError> {
    let inputs = cx.inputs()?;
    let x = Operand::Tensor(inputs[0].clone());
    let name = cx.op.name.rsplit('.').next().unwrap_or(cx.op.name);
    let out = topi::broadcast(name, cx.out_shape(0)?, &[x], |values| f(values[0].clone()));
    cx.finish(&inputs, &[out])
}

fn lower_clip(cx: &LegalizeContext<'_>) -> Result<PrimFunc, IrError> {
    let inputs = cx.inputs()?;
    let out = topi::broadcast("clip", cx.out_shape(0)?, &cx.operands(&inputs), |values| {
        let dtype = values[0].dtype();
        let limit = |i: usize| values[i].clone().cast(dtype);
        values[0].clone().max(limit(1)).min(limit(2))
    });
    cx.finish(&inputs, &[out])
}

/// `x` rounded by `intrinsic`; integers stay as they are.
fn rounded(x: PrimExpr, intrinsic: Intrinsic) -> PrimExpr {
    if x.dtype().is_float() { x.unary(intrinsic) } else { x }
}

fn sign(x: PrimExpr) -> PrimExpr {
    let dtype = x.dtype();
    let one = |value: f64| PrimExpr::constant(value, dtype);
    let positive = x.clone().greater(0);
    if dtype.is_uint() {
        return positive.select(one(1.0), one(0.0));
    }
    // Zeros and NaN stay as they are.
    positive.select(one(1.0), x.clone().less(0).select(one(-1.0), x))
}
