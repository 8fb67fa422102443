//! Conditions as sets of conjuncts.

use crate::support::with_stack;
use crate::tir::{BinaryOp, BlockRealize, Effect, For, IfThenElse, PrimCallee, PrimExpr, Stmt, any_expr};

/// The conditions whose conjunction is `condition`; none when it always holds.
pub fn conjuncts(condition: &PrimExpr) -> Vec<PrimExpr> {
    match condition {
        PrimExpr::Binary(it) if it.op == BinaryOp::And => {
            let mut left = with_stack(|| conjuncts(&it.a));
            left.extend(with_stack(|| conjuncts(&it.b)));
            left
        }
        _ if condition.is_const(1) => Vec::new(),
        _ => vec![condition.clone()],
    }
}

/// The condition that all of `conditions` hold.
pub fn conjunction(conditions: impl IntoIterator<Item = PrimExpr>) -> PrimExpr {
    conditions.into_iter().fold(PrimExpr::bool(true), PrimExpr::and)
}

/// What is at least 1 where the comparison `condition` of integers holds: `b - a` for `a < b`.
pub(crate) fn slack(condition: &PrimExpr) -> Option<PrimExpr> {
    let PrimExpr::Binary(it) = condition else { return None };
    match it.op {
        BinaryOp::Lt => Some(&it.b - &it.a),
        BinaryOp::Le => Some(&it.b - &it.a + 1),
        BinaryOp::Gt => Some(&it.a - &it.b),
        BinaryOp::Ge => Some(&it.a - &it.b + 1),
        _ => None,
    }
}

/// `stmt`, whose outermost blocks run only where `condition` holds too.
pub(crate) fn add_predicate(stmt: &Stmt, condition: &PrimExpr) -> Stmt {
    match stmt {
        Stmt::BlockRealize(it) => {
            let predicate = it.predicate.clone().and(condition.clone());
            BlockRealize { predicate, ..(**it).clone() }.into()
        }
        Stmt::For(it) => {
            For { body: with_stack(|| add_predicate(&it.body, condition)), ..(**it).clone() }.into()
        }
        Stmt::SeqStmt(stmts) => {
            Stmt::SeqStmt(stmts.iter().map(|stmt| add_predicate(stmt, condition)).collect())
        }
        Stmt::IfThenElse(it) => {
            let then_case = add_predicate(&it.then_case, condition);
            let else_case = it.else_case.as_ref().map(|stmt| add_predicate(stmt, condition));
            IfThenElse { then_case, else_case, ..(**it).clone() }.into()
        }
        Stmt::While(_)
        | Stmt::BufferStore(_)
        | Stmt::Bind(_)
        | Stmt::AllocBuffer(_)
        | Stmt::DeclBuffer(_)
        | Stmt::Evaluate(_)
        | Stmt::AssertStmt(_) => stmt.clone(),
    }
}

/// True when the value of `expr` depends on memory, or evaluating it has an effect.
pub(crate) fn reads_memory(expr: &PrimExpr) -> bool {
    any_expr(expr, &mut |it| match it {
        PrimExpr::BufferLoad(_) => true,
        PrimExpr::Call(call) => match &call.callee {
            PrimCallee::Intrinsic(intrinsic) => intrinsic.effect() != Effect::Pure,
            PrimCallee::PureExtern(_) => false,
        },
        _ => false,
    })
}

/// True when `stmt` contains a block.
pub(crate) fn holds_blocks(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::BlockRealize(_)) || with_stack(|| stmt.children().into_iter().any(holds_blocks))
}
