//! Scalar functions that are built from intrinsics and operators.

use crate::tir::{Intrinsic, PrimExpr};
use tvm_runtime::DataType;

fn float(value: f64, like: &PrimExpr) -> PrimExpr {
    PrimExpr::float(value, like.dtype())
}

/// `max(x, 0)`.
pub fn relu(x: PrimExpr) -> PrimExpr {
    let zero = PrimExpr::constant(0.0, x.dtype());
    x.max(zero)
}

/// `x / 2 * (1 + erf(x / sqrt(2)))`.
pub fn gelu(x: PrimExpr) -> PrimExpr {
    let erf = (&x * float(std::f64::consts::FRAC_1_SQRT_2, &x)).unary(Intrinsic::Erf);
    &x * float(0.5, &x) * (erf + float(1.0, &x))
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.
pub fn gelu_tanh(x: PrimExpr) -> PrimExpr {
    let cube = &x * &x * &x;
    let inner = (&x + cube * float(0.044715, &x)) * float((2.0 / std::f64::consts::PI).sqrt(), &x);
    &x * float(0.5, &x) * (inner.unary(Intrinsic::Tanh) + float(1.0, &x))
}

/// `scale * (x > 0 ? x : alpha * (exp(x) - 1))`.
pub fn selu(x: PrimExpr) -> PrimExpr {
    let (alpha, scale) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);
    let negative = (x.clone().unary(Intrinsic::Exp) - float(1.0, &x)) * float(alpha, &x);
    x.clone().greater(0).select(x.clone(), negative) * float(scale, &x)
}

/// True if `x` is infinite; always false for integers.
pub fn is_inf(x: PrimExpr) -> PrimExpr {
    if !x.dtype().is_float() {
        return PrimExpr::bool(false);
    }
    PrimExpr::call(Intrinsic::IsInf, [x], DataType::BOOL)
}

/// True if `x` is neither infinite nor NaN.
pub fn is_finite(x: PrimExpr) -> PrimExpr {
    if !x.dtype().is_float() {
        return PrimExpr::bool(true);
    }
    let is_nan = PrimExpr::call(Intrinsic::IsNan, [x.clone()], DataType::BOOL);
    !(is_nan.or(is_inf(x)))
}

/// `log(1 + exp(beta * x)) / beta`, and `x` where `beta * x` is above `threshold`.
pub fn softplus(x: PrimExpr, beta: f64, threshold: f64) -> PrimExpr {
    let scaled = &x * float(beta, &x);
    let soft = scaled.clone().unary(Intrinsic::Exp).unary(Intrinsic::Log1p) / float(beta, &x);
    let limit = float(threshold, &x);
    scaled.greater(limit).select(x, soft)
}
