//! Expands floor division and remainder into what machines have.
//!
//! TVM counterpart: `LowerIntrin`.
//! Ensures: no `FloorDiv` and `FloorMod`. Of operands that are not negative they are truncating division and remainder,
//! by a power of two they are a shift and a mask, else the truncated result is corrected.

use std::sync::Arc;

use super::context::{analyzer_for, enter_loop, is_non_negative};
use super::util::body_pass;
use crate::arith::Analyzer;
use crate::ir::Var;
use crate::pass::Pass;
use crate::tir::{BinaryOp, IntoOperand, Let, Mutator, PrimExpr, Stmt, binary};

/// Floor division and remainder become truncating ones.
pub fn lower_intrin() -> Pass {
    body_pass("LowerIntrin", |func| LowerIntrin { analyzer: analyzer_for(func) }.mutate_stmt(&func.body))
}

struct LowerIntrin {
    analyzer: Analyzer,
}

impl LowerIntrin {
    fn non_negative(&self, expr: &PrimExpr) -> bool {
        match expr {
            PrimExpr::Ramp(it) => self.non_negative(&it.base) && self.non_negative(&it.stride),
            PrimExpr::Broadcast(it) => self.non_negative(&it.value),
            _ => is_non_negative(&self.analyzer, expr),
        }
    }

    /// `a op b`, where `op` is `FloorDiv` or `FloorMod`.
    fn floor(&self, op: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr {
        let div = op == BinaryOp::FloorDiv;
        let dtype = a.dtype();
        let divisor = match &b {
            PrimExpr::Broadcast(it) => it.value.as_int(),
            _ => b.as_int(),
        };
        let truncating = |a, b| binary(if div { BinaryOp::Div } else { BinaryOp::Mod }, a, b);
        match divisor {
            Some(n @ 1..) if (n as u64).is_power_of_two() && dtype.is_int() => {
                let shift = i64::from(n.trailing_zeros()).into_operand(dtype);
                return if div {
                    binary(BinaryOp::Shr, a, shift)
                } else {
                    binary(BinaryOp::BitAnd, a, (n - 1).into_operand(dtype))
                };
            }
            _ if self.non_negative(&a) && self.non_negative(&b) => return truncating(a, b),
            _ => {}
        }
        // r is what the truncating remainder is; where its sign differs from the divisor's it is one divisor off.
        let (x, y, r) = (Var::prim("x", dtype), Var::prim("y", dtype), Var::prim("r", dtype));
        let (px, py, pr) = (PrimExpr::from(&x), PrimExpr::from(&y), PrimExpr::from(&r));
        let zero = || 0.into_operand(dtype);
        let off = match divisor {
            Some(1..) => pr.clone().less(zero()),
            _ => pr
                .clone()
                .not_equal(zero())
                .and(binary(BinaryOp::BitXor, pr.clone(), py.clone()).less(zero())),
        };
        let body = if div {
            let quotient = binary(BinaryOp::Div, px.clone(), py.clone());
            quotient - off.select(1.into_operand(dtype), zero())
        } else {
            pr + off.select(py.clone(), zero())
        };
        let let_in = |var, value, body| PrimExpr::Let(Arc::new(Let { var, value, body }));
        let_in(x, a, let_in(y, b, let_in(r, binary(BinaryOp::Mod, px, py), body)))
    }
}

impl Mutator for LowerIntrin {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Binary(it) if matches!(it.op, BinaryOp::FloorDiv | BinaryOp::FloorMod) => {
                // Bounds are those of the operands as they were: their expansions say less.
                let (non_negative_a, non_negative_b) = (self.non_negative(&it.a), self.non_negative(&it.b));
                let a = self.mutate_expr(&it.a).unwrap_or_else(|| it.a.clone());
                let b = self.mutate_expr(&it.b).unwrap_or_else(|| it.b.clone());
                if non_negative_a && non_negative_b {
                    let op = if it.op == BinaryOp::FloorDiv { BinaryOp::Div } else { BinaryOp::Mod };
                    return Some(binary(op, a, b));
                }
                Some(self.floor(it.op, a, b))
            }
            PrimExpr::Let(it) => {
                if it.var.dtype().is_integer() && it.var.dtype().is_scalar() {
                    self.analyzer.bind_bound(&it.var, self.analyzer.const_int_bound(&it.value));
                }
                self.walk_expr(expr)
            }
            _ => self.walk_expr(expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::For(node) = stmt {
            enter_loop(&mut self.analyzer, node);
        }
        if let Stmt::Bind(node) = stmt
            && node.var.dtype().is_integer()
            && node.var.dtype().is_scalar()
        {
            self.analyzer.bind_bound(&node.var, self.analyzer.const_int_bound(&node.value));
        }
        self.walk_stmt(stmt)
    }
}
