//! How much is saved by computing an expression once instead of twice.
//!
//! TVM counterpart: none.

use crate::tir::{BinaryOp, Intrinsic, PrimCallee, PrimExpr};

/// Weight from which on it pays to give the value of an expression a name: that of one function call.
pub(crate) const WORTH_A_NAME: u32 = 10;

/// The weight of the node `expr` without its operands, for a scalar or a vector. Integer arithmetic has none: it is part of
/// addresses, which compilers simplify by themselves.
pub(crate) fn own_weight(expr: &PrimExpr) -> u32 {
    match expr {
        PrimExpr::Binary(it) => match it.op {
            BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod => WORTH_A_NAME / 2,
            _ if it.a.dtype().is_float() => 1,
            _ => 0,
        },
        PrimExpr::Call(it) => match it.callee {
            PrimCallee::Intrinsic(
                Intrinsic::IfThenElse | Intrinsic::Likely | Intrinsic::Reinterpret | Intrinsic::AsyncCopy,
            ) => 0,
            PrimCallee::Intrinsic(Intrinsic::Abs | Intrinsic::Copysign) => 1,
            PrimCallee::Intrinsic(
                Intrinsic::Fma | Intrinsic::FMulAdd | Intrinsic::Dot2 | Intrinsic::Dot4,
            ) => 1,
            PrimCallee::Intrinsic(_) | PrimCallee::PureExtern(_) => WORTH_A_NAME,
        },
        PrimExpr::Cast(_) | PrimExpr::Select(_) | PrimExpr::BufferLoad(_) | PrimExpr::Shuffle(_) => 1,
        PrimExpr::IntImm(_)
        | PrimExpr::FloatImm(_)
        | PrimExpr::StringImm(_)
        | PrimExpr::Var(_)
        | PrimExpr::Not(_)
        | PrimExpr::Ramp(_)
        | PrimExpr::Broadcast(_)
        | PrimExpr::Let(_) => 0,
    }
}
