//! Replaces atomic updates by plain ones, for CPUs: `y[i] = atomic_add(y[i], x)` becomes `y[i] = y[i] + x`.
//!
//! TVM counterpart: none.
//! Requires: parallel and vectorised loops whose iterations write different elements
//! ([`check_loop_kinds`](super::check_loop_kinds)). Ensures: no atomic updates.

use super::util::body_pass;
use crate::pass::Pass;
use crate::tir::{Mutator, PrimCallee, PrimExpr, binary};

/// Makes atomic updates plain ones.
pub fn drop_atomics() -> Pass {
    body_pass("DropAtomics", |func| DropAtomics.mutate_stmt(&func.body))
}

struct DropAtomics;

impl Mutator for DropAtomics {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let walked = self.walk_expr(expr);
        let PrimExpr::Call(call) = walked.as_ref().unwrap_or(expr) else { return walked };
        let op = match call.callee {
            PrimCallee::Intrinsic(intrinsic) => intrinsic.atomic_op(),
            PrimCallee::PureExtern(_) => None,
        };
        match (op, &*call.args) {
            (Some(op), [element, term]) => Some(binary(op, element.clone(), term.clone())),
            _ => walked,
        }
    }
}
