//! Purity: whether an expression may be removed when its result is unused.
//!
//! TVM counterpart: `relax.analysis.contains_impure_call`.

use crate::ir::{BaseFunc, IRModule, Type};
use crate::relax::{Body, Callee, Expr};

/// True when computing `expr` has no side effect.
pub fn is_pure(expr: &Expr, module: &IRModule) -> bool {
    match expr {
        Expr::Arg(_) | Expr::TupleGetItem(..) | Expr::Function(_) | Expr::RefCreate(_) | Expr::RefRead(_) => {
            true
        }
        Expr::RefWrite(..) => false,
        Expr::Call(call) => match &call.callee {
            Callee::Op(op) => op.pure,
            Callee::Tir(_) | Callee::TirInplace(_) | Callee::DpsPacked(_) | Callee::Constructor(_) => true,
            Callee::Packed(_) => false,
            Callee::Global(gv) => match module.get(gv) {
                Some(BaseFunc::Relax(func)) => func.pure,
                Some(BaseFunc::Prim(_) | BaseFunc::Extern(_)) | None => false,
            },
            Callee::Var(var) => matches!(var.ty(), Type::Func(ty) if ty.pure),
        },
        Expr::If(_) | Expr::Match(_) => expr.bodies().into_iter().all(|body| is_pure_body(body, module)),
    }
}

fn is_pure_body(body: &Body, module: &IRModule) -> bool {
    body.bindings().all(|binding| !binding.match_cast && is_pure(&binding.value, module))
}
