//! Read-only traversal of tensor programs.
//!
//! TVM counterpart: `ExprVisitor`, `StmtExprVisitor`.

use smallvec::{SmallVec, smallvec};

use super::*;
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
    with_stack(|| match expr {
        PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Var(_) => {}
        PrimExpr::Cast(it) => v.visit_expr(&it.value),
        PrimExpr::Not(it) => v.visit_expr(&it.value),
        PrimExpr::Binary(it) => {
            v.visit_expr(&it.a);
            v.visit_expr(&it.b);
        }
        PrimExpr::Select(it) => {
            v.visit_expr(&it.condition);
            v.visit_expr(&it.true_value);
            v.visit_expr(&it.false_value);
        }
        PrimExpr::BufferLoad(it) => it.indices.iter().for_each(|index| v.visit_expr(index)),
        PrimExpr::Ramp(it) => {
            v.visit_expr(&it.base);
            v.visit_expr(&it.stride);
        }
        PrimExpr::Broadcast(it) => v.visit_expr(&it.value),
        PrimExpr::Shuffle(it) => it.vectors.iter().for_each(|vector| v.visit_expr(vector)),
        PrimExpr::Let(it) => {
            v.visit_expr(&it.value);
            v.visit_expr(&it.body);
        }
        PrimExpr::Call(it) => it.args.iter().for_each(|arg| v.visit_expr(arg)),
    })
}

/// Visits the children of `stmt`.
pub fn walk_stmt<V: Visitor + ?Sized>(v: &mut V, stmt: &Stmt) {
    with_stack(|| match stmt {
        Stmt::BufferStore(it) => {
            it.indices.iter().for_each(|index| v.visit_expr(index));
            v.visit_expr(&it.value);
        }
        Stmt::For(it) => {
            v.visit_expr(&it.min);
            v.visit_expr(&it.extent);
            v.visit_stmt(&it.body);
        }
        Stmt::BlockRealize(it) => {
            it.iter_values.iter().for_each(|value| v.visit_expr(value));
            v.visit_expr(&it.predicate);
            v.visit_block(&it.block);
        }
        Stmt::SeqStmt(it) => it.iter().for_each(|stmt| v.visit_stmt(stmt)),
        Stmt::IfThenElse(it) => {
            v.visit_expr(&it.condition);
            v.visit_stmt(&it.then_case);
            it.else_case.iter().for_each(|stmt| v.visit_stmt(stmt));
        }
        Stmt::While(it) => {
            v.visit_expr(&it.condition);
            v.visit_stmt(&it.body);
        }
        Stmt::Bind(it) => v.visit_expr(&it.value),
        Stmt::AllocBuffer(_) => {}
        Stmt::DeclBuffer(it) => v.visit_expr(&it.data),
        Stmt::Evaluate(it) => v.visit_expr(&it.value),
        Stmt::AssertStmt(it) => {
            v.visit_expr(&it.condition);
            v.visit_expr(&it.failure.expected);
            v.visit_expr(&it.failure.got);
        }
    })
}

/// Visits the children of `block`: domains, regions, init, body.
pub fn walk_block<V: Visitor + ?Sized>(v: &mut V, block: &Block) {
    let regions =
        block.match_buffers.iter().map(|it| &it.source).chain(block.reads.iter()).chain(block.writes.iter());
    let ranges = block.iter_vars.iter().map(|it| &it.dom).chain(regions.flat_map(|it| it.region.iter()));
    for range in ranges {
        v.visit_expr(&range.min);
        v.visit_expr(&range.extent);
    }
    block.init.iter().for_each(|stmt| v.visit_stmt(stmt));
    v.visit_stmt(&block.body);
}

/// True when `pred` holds for `expr` or an expression inside it.
pub fn any_expr(expr: &PrimExpr, pred: &mut dyn FnMut(&PrimExpr) -> bool) -> bool {
    let mut open: SmallVec<[&PrimExpr; 16]> = smallvec![expr];
    while let Some(expr) = open.pop() {
        if pred(expr) {
            return true;
        }
        let first = open.len();
        match expr {
            PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Var(_) => {}
            PrimExpr::Cast(it) => open.push(&it.value),
            PrimExpr::Not(it) => open.push(&it.value),
            PrimExpr::Binary(it) => open.extend([&it.a, &it.b]),
            PrimExpr::Select(it) => open.extend([&it.condition, &it.true_value, &it.false_value]),
            PrimExpr::BufferLoad(it) => open.extend(it.indices.iter()),
            PrimExpr::Ramp(it) => open.extend([&it.base, &it.stride]),
            PrimExpr::Broadcast(it) => open.push(&it.value),
            PrimExpr::Shuffle(it) => open.extend(it.vectors.iter()),
            PrimExpr::Let(it) => open.extend([&it.value, &it.body]),
            PrimExpr::Call(it) => open.extend(it.args.iter()),
        }
        // Visit the children from left to right.
        open[first..].reverse();
    }
    false
}
