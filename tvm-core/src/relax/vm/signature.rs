//! Types as the runtime knows them: signatures of kernels, types of parameters and results.

use tvm_runtime::vm::ValueType;
use tvm_runtime::{DimSig, KernelSig, ParamKind, ParamSig};

use crate::ir::Type;
use crate::tir::{BinaryOp, Buffer, Param, PrimExpr, PrimFunc};

/// The signature of `func` as a kernel named `name`.
pub fn kernel_sig(name: &str, func: &PrimFunc) -> KernelSig {
    let tensor = |buffer: &Buffer, kind| ParamSig {
        name: buffer.name.to_string(),
        kind,
        dtype: buffer.dtype,
        shape: buffer.shape.iter().map(dim_sig).collect(),
    };
    let params = func.params.iter().map(|param| match param {
        Param::In(buffer) => tensor(buffer, ParamKind::In),
        Param::Out(buffer) => tensor(buffer, ParamKind::Out),
        Param::Scalar(var) => ParamSig {
            name: var.name().to_string(),
            kind: ParamKind::Scalar,
            dtype: var.dtype(),
            shape: Vec::new(),
        },
    });
    KernelSig { name: name.to_string(), params: params.collect() }
}

fn dim_sig(dim: &PrimExpr) -> DimSig {
    match (dim.as_int(), dim.as_var()) {
        (Some(value), _) => DimSig::Const(value),
        (None, Some(var)) => DimSig::Var(var.name().to_string()),
        (None, None) => DimSig::Expr(dim_text(dim)),
    }
}

/// A type as callers and tools see it.
pub fn value_type(ty: &Type) -> ValueType {
    match ty {
        Type::Prim(dtype) if dtype.is_float() => ValueType::Float,
        Type::Prim(_) => ValueType::Int,
        Type::Tensor(tensor) => ValueType::Tensor {
            dtype: tensor.dtype,
            shape: tensor.known_shape().map(|shape| shape.iter().map(dim_sig).collect()),
        },
        Type::Shape(shape) => ValueType::Shape(shape.ndim.map(|ndim| ndim as u32)),
        Type::Tuple(fields) => ValueType::Tuple(fields.iter().map(value_type).collect()),
        Type::Func(func) => {
            ValueType::Func(func.params.iter().map(value_type).collect(), Box::new(value_type(&func.ret)))
        }
        Type::Adt(adt) => ValueType::Adt(adt.name.to_string()),
        Type::Ref(inner) => ValueType::Ref(Box::new(value_type(inner))),
        Type::Param(_) | Type::Object => ValueType::Object,
    }
}

/// An extent as a message shows it.
pub(super) fn dim_text(dim: &PrimExpr) -> String {
    match dim {
        PrimExpr::IntImm(it) => it.value.to_string(),
        PrimExpr::Var(var) => var.name().to_string(),
        PrimExpr::Cast(it) => dim_text(&it.value),
        PrimExpr::Binary(it) => {
            let (a, b) = (dim_text(&it.a), dim_text(&it.b));
            match it.op {
                BinaryOp::Add => format!("({a} + {b})"),
                BinaryOp::Sub => format!("({a} - {b})"),
                BinaryOp::Mul => format!("{a} * {b}"),
                BinaryOp::Div => format!("{a} / {b}"),
                BinaryOp::Mod => format!("{a} % {b}"),
                op => format!("{}({a}, {b})", format!("{op:?}").to_lowercase()),
            }
        }
        other => format!("{other:?}"),
    }
}
