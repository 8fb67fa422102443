//! Conditions as sets of conjuncts.

use crate::tir::{BinaryOp, PrimExpr};

/// The conditions that `condition` is the conjunction of; none when it always holds.
pub fn conjuncts(condition: &PrimExpr) -> Vec<PrimExpr> {
    match condition {
        PrimExpr::Binary(it) if it.op == BinaryOp::And => [conjuncts(&it.a), conjuncts(&it.b)].concat(),
        _ if condition.is_const(1) => Vec::new(),
        _ => vec![condition.clone()],
    }
}

/// The condition that all of `conditions` hold.
pub fn conjunction(conditions: impl IntoIterator<Item = PrimExpr>) -> PrimExpr {
    conditions.into_iter().fold(PrimExpr::bool(true), PrimExpr::and)
}
