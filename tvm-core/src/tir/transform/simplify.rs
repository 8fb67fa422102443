//! Simplifies expressions, using the facts known at their place, and statements that become trivial.
//!
//! TVM counterpart: `tir.Simplify` (`StmtSimplify`).
//! Ensures: no branch on a condition of known value, no loop with zero iterations or with one iteration (except those
//! bound to GPU threads); indices are simplified.

use super::context::{analyzer_for, conjuncts, enter_loop, is_lasting};
use super::util::{body_pass, one_iteration};
use crate::arith::Analyzer;
use crate::pass::Pass;
use crate::tir::{Bind, For, ForKind, IfThenElse, Mutator, PrimExpr, Stmt};

/// Simplifies expressions and trivial statements.
pub fn simplify() -> Pass {
    body_pass("Simplify", |func| StmtSimplify { analyzer: analyzer_for(func) }.mutate_stmt(&func.body))
}

struct StmtSimplify {
    analyzer: Analyzer,
}

impl StmtSimplify {
    /// Simplifies `stmt`, which runs only where `condition` holds.
    fn under(&mut self, condition: &PrimExpr, stmt: &Stmt) -> Stmt {
        let outer = self.analyzer.clone();
        let parts = conjuncts(condition).into_iter().filter(|part| is_lasting(part, stmt));
        parts.for_each(|part| self.analyzer.enter_constraint(&part));
        let new = self.mutate_stmt(stmt);
        self.analyzer = outer;
        new.unwrap_or_else(|| stmt.clone())
    }

    fn simplified(&mut self, expr: &PrimExpr) -> PrimExpr {
        self.analyzer.simplify(expr)
    }
}

impl Mutator for StmtSimplify {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if !expr.dtype().is_scalar() {
            // Vectors keep the form that earlier passes gave them; only their scalar parts are simplified.
            return self.walk_expr(expr);
        }
        let new = self.simplified(expr);
        (!new.ptr_eq(expr)).then_some(new)
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                let min = self.simplified(&node.min);
                let extent = self.simplified(&node.extent);
                let thread = matches!(node.kind, ForKind::ThreadBinding(_));
                if !thread && self.analyzer.const_int_bound(&extent).max <= 0 {
                    return Some(Stmt::nop());
                }
                if !thread && extent.is_const(1) {
                    let body = one_iteration(&node.loop_var, &min, &node.body);
                    return Some(self.mutate_stmt(&body).unwrap_or(body));
                }
                let node = For { min, extent, ..(**node).clone() };
                enter_loop(&mut self.analyzer, &node);
                let body = self.mutate_stmt(&node.body).unwrap_or_else(|| node.body.clone());
                Some(For { body, ..node }.into())
            }
            Stmt::IfThenElse(node) => {
                let condition = self.simplified(&node.condition);
                match condition.as_int() {
                    Some(0) => {
                        let taken = node.else_case.clone().unwrap_or_else(Stmt::nop);
                        Some(self.mutate_stmt(&taken).unwrap_or(taken))
                    }
                    Some(_) => {
                        Some(self.mutate_stmt(&node.then_case).unwrap_or_else(|| node.then_case.clone()))
                    }
                    None => {
                        let then_case = self.under(&condition, &node.then_case);
                        let other = !condition.clone();
                        let else_case = node.else_case.as_ref().map(|stmt| self.under(&other, stmt));
                        Some(IfThenElse { condition, then_case, else_case, span: node.span.clone() }.into())
                    }
                }
            }
            Stmt::Bind(node) => {
                let value = self.simplified(&node.value);
                if value.as_int().is_some() || value.as_var().is_some() {
                    self.analyzer.bind_value(&node.var, &value);
                } else if node.var.dtype().is_integer() {
                    self.analyzer.bind_bound(&node.var, self.analyzer.const_int_bound(&value));
                }
                Some(Bind { var: node.var.clone(), value }.into())
            }
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::While(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => self.walk_stmt(stmt),
        }
    }
}
