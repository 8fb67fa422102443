//! Rewrites of floats that change no bit of any result.

use tvm_runtime::DataType;

use crate::ir::tensor_program::{Binary, BinaryOp, PrimExpr};

/// Folds constants, and drops operations with neutral elements.
pub(super) fn fold(it: &Binary) -> Option<PrimExpr> {
    let dtype = it.a.dtype();
    let constant = |expr: &PrimExpr| match expr {
        PrimExpr::FloatImm(it) => Some(it.value),
        PrimExpr::Broadcast(it) => match &it.value {
            PrimExpr::FloatImm(it) => Some(it.value),
            _ => None,
        },
        _ => None,
    };
    let (a, b) = (constant(&it.a), constant(&it.b));
    match (it.op, a, b) {
        (BinaryOp::Mul, _, Some(1.0)) | (BinaryOp::Div, _, Some(1.0)) => return Some(it.a.clone()),
        (BinaryOp::Mul, Some(1.0), _) => return Some(it.b.clone()),
        // -0 + -0 is -0, and 0 - 0 is 0: only a zero of the right sign is neutral.
        (BinaryOp::Sub, _, Some(zero)) if zero == 0.0 && zero.is_sign_positive() => {
            return Some(it.a.clone());
        }
        (BinaryOp::Add, _, Some(zero)) if zero == 0.0 && zero.is_sign_negative() => {
            return Some(it.a.clone());
        }
        (BinaryOp::Add, Some(zero), _) if zero == 0.0 && zero.is_sign_negative() => {
            return Some(it.b.clone());
        }
        _ => {}
    }
    // For these two types, computing in f64 and rounding gives the correctly rounded result.
    let (a, b) = (a?, b?);
    if !matches!(dtype.scalar(), DataType::F32 | DataType::F64) {
        return None;
    }
    let value = match it.op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Min if a < b => a,
        BinaryOp::Min if b < a => b,
        BinaryOp::Max if a > b => a,
        BinaryOp::Max if b > a => b,
        _ => return compare(it.op, a, b).map(|res| PrimExpr::bool(res).broadcast(dtype.lanes())),
    };
    Some(PrimExpr::float(value, dtype.scalar()).broadcast(dtype.lanes()))
}

fn compare(op: BinaryOp, a: f64, b: f64) -> Option<bool> {
    Some(match op {
        BinaryOp::Eq => a == b,
        BinaryOp::Ne => a != b,
        BinaryOp::Lt => a < b,
        BinaryOp::Le => a <= b,
        BinaryOp::Gt => a > b,
        BinaryOp::Ge => a >= b,
        _ => return None,
    })
}
