//! Read-only traversal of tensor programs.
//!
//! TVM counterpart: `ExprVisitor`, `StmtExprVisitor`.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::nodes::{expr_node, stmt_node};
use super::*;
use crate::ir::Var;
use crate::support::with_stack;

/// Visits every node; override a method and call the matching `walk_*` to continue with the children.
pub trait Visitor {
    /// Visits an expression.
    fn visit_expr(&mut self, expr: &PrimExpr) {
        walk_expr(self, expr);
    }

    /// Visits a statement.
    fn visit_stmt(&mut self, stmt: &Stmt) {
        walk_stmt(self, stmt);
    }

    /// Visits a block, after the values and predicate of its realize.
    fn visit_block(&mut self, block: &Block) {
        walk_block(self, block);
    }
}

/// Visits the children of `expr`.
pub fn walk_expr<V: Visitor + ?Sized>(v: &mut V, expr: &PrimExpr) {
    with_stack(|| expr_node!(expr, it => it.walk(v), leaf => {}));
}

/// Visits the children of `stmt`.
pub fn walk_stmt<V: Visitor + ?Sized>(v: &mut V, stmt: &Stmt) {
    with_stack(|| stmt_node!(stmt, it => it.walk(v), seq => it.walk(v)));
}

/// Visits the children of `block`: domains, regions, init, body.
pub fn walk_block<V: Visitor + ?Sized>(v: &mut V, block: &Block) {
    block.walk(v);
}

/// True when `var` occurs in `expr`.
pub fn uses_var(expr: &PrimExpr, var: &Var) -> bool {
    any_expr(expr, &mut |it| it.as_var() == Some(var))
}

/// Calls `f` with every load in `stmt`, in program order.
pub fn for_each_load(stmt: &Stmt, f: &mut dyn FnMut(&Arc<BufferLoad>)) {
    struct Loads<'a>(&'a mut dyn FnMut(&Arc<BufferLoad>));
    impl Visitor for Loads<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if let PrimExpr::BufferLoad(load) = expr {
                (self.0)(load);
            }
            walk_expr(self, expr);
        }
    }
    Loads(f).visit_stmt(stmt);
}

/// True when `pred` holds for `expr` or an expression inside it.
pub fn any_expr(expr: &PrimExpr, pred: &mut dyn FnMut(&PrimExpr) -> bool) -> bool {
    let mut open: SmallVec<[&PrimExpr; 16]> = smallvec![expr];
    while let Some(expr) = open.pop() {
        if pred(expr) {
            return true;
        }
        let first = open.len();
        expr_node!(expr, it => it.each_operand(&mut |operand| open.push(operand)), leaf => {});
        // Visit the children from left to right.
        open[first..].reverse();
    }
    false
}
