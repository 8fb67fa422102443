//! Expressions whose evaluation cannot fail.

use crate::tir::{BinaryOp, PrimExpr, any_expr};

/// True when the evaluation of `expr` cannot fail: it loads no element by index, and divides integers only by constants
/// other than 0.
pub(crate) fn is_total(expr: &PrimExpr) -> bool {
    !any_expr(expr, &mut |expr| match expr {
        PrimExpr::BufferLoad(it) => !it.indices.is_empty(),
        PrimExpr::Binary(it) => {
            let divides =
                matches!(it.op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
            divides && it.a.dtype().is_integer() && it.b.as_int().is_none_or(|it| it == 0)
        }
        _ => false,
    })
}
