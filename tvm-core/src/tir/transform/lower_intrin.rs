//! Expands integer division, remainder and shifts into operations that machines have.
//!
//! TVM counterpart: `LowerIntrin`.
//! Ensures: no `FloorDiv` and `FloorMod`. With non-negative operands they become truncating division and remainder; with
//! a power of two as divisor, a shift and a mask; otherwise the truncated result is corrected. No integer division or
//! remainder traps: a divisor that may be 0 is replaced, and the result for 0 is 0; `MIN / -1` wraps. A factor of the extent of
//! a loop over threads is no such divisor: without threads, nothing divides. Shift amounts are less than the width: only the
//! low bits of other amounts count.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::context::{analyzer_for, enter_loop, enter_threads, is_non_negative};
use super::util::body_pass;
use crate::arith::{Analyzer, ConstIntBound};
use crate::ir::{BufferId, Var};
use crate::pass::Pass;
use crate::tir::{
    AllocBuffer, Binary, BinaryOp, Buffer, For, ForKind, IntoOperand, Let, Mutator, PrimExpr, Stmt, binary,
};

/// Makes floor division and remainder truncating; no division traps and no shift amount reaches the width.
pub fn lower_intrin() -> Pass {
    body_pass("LowerIntrin", |func| {
        LowerIntrin { analyzer: analyzer_for(func), buffers: FxHashMap::default() }.mutate_stmt(&func.body)
    })
}

struct LowerIntrin {
    analyzer: Analyzer,
    /// Buffers whose extents were expanded, by the old buffer.
    buffers: FxHashMap<BufferId, Buffer>,
}

impl LowerIntrin {
    fn non_negative(&self, expr: &PrimExpr) -> bool {
        match expr {
            PrimExpr::Ramp(it) => self.non_negative(&it.base) && self.non_negative(&it.stride),
            PrimExpr::Broadcast(it) => self.non_negative(&it.value),
            _ => is_non_negative(&self.analyzer, expr),
        }
    }

    /// True when dividing by `expr` neither traps nor overflows.
    fn safe_divisor(&self, expr: &PrimExpr) -> bool {
        match expr {
            PrimExpr::Ramp(it) => self.safe_divisor(&it.base) && self.non_negative(expr),
            PrimExpr::Broadcast(it) => self.safe_divisor(&it.value),
            _ => {
                let bound = self.analyzer.const_int_bound(expr);
                expr.dtype().is_scalar() && (bound.min >= 1 || expr.dtype().is_int() && bound.max <= -2)
            }
        }
    }

    fn operands(&mut self, it: &Binary) -> (PrimExpr, PrimExpr) {
        let mut operand = |expr: &PrimExpr| self.mutate_expr(expr).unwrap_or_else(|| expr.clone());
        (operand(&it.a), operand(&it.b))
    }

    /// The loop `node` over threads. Where a thread runs, the factors of the extent are positive.
    fn threads(&mut self, node: &For, stmt: &Stmt) -> Option<Stmt> {
        let outer = self.analyzer.clone();
        enter_threads(&mut self.analyzer, &node.extent);
        enter_loop(&mut self.analyzer, node);
        let new = self.walk_stmt(stmt);
        self.analyzer = outer;
        new
    }

    /// `a op b`, where `op` is `FloorDiv` or `FloorMod`; `safe` is [`LowerIntrin::safe_divisor`] of `b`.
    fn floor(&self, op: BinaryOp, a: PrimExpr, b: PrimExpr, safe: bool) -> PrimExpr {
        let div = op == BinaryOp::FloorDiv;
        let dtype = a.dtype();
        let divisor = match &b {
            PrimExpr::Broadcast(it) => it.value.as_int(),
            _ => b.as_int(),
        };
        let truncating = |op, a, b| if safe { binary(op, a, b) } else { total(op, a, b) };
        if let Some(n @ 1..) = divisor
            && (n as u64).is_power_of_two()
            && dtype.is_int()
        {
            let shift = i64::from(n.trailing_zeros()).into_operand(dtype);
            return if div {
                binary(BinaryOp::Shr, a, shift)
            } else {
                binary(BinaryOp::BitAnd, a, (n - 1).into_operand(dtype))
            };
        }
        // `r` is the truncating remainder; if its sign differs from the divisor's, it is off by one divisor.
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
            let quotient = truncating(BinaryOp::Div, px.clone(), py.clone());
            quotient - off.select(1.into_operand(dtype), zero())
        } else {
            pr + off.select(py.clone(), zero())
        };
        let_in(x, a, let_in(y, b, let_in(r, truncating(BinaryOp::Mod, px, py), body)))
    }
}

/// The value of all lanes of a broadcast; `expr` itself otherwise.
fn scalar_of(expr: &PrimExpr) -> &PrimExpr {
    if let PrimExpr::Broadcast(it) = expr { &it.value } else { expr }
}

fn is_shift_amount(bound: ConstIntBound, dtype: DataType) -> bool {
    bound.min >= 0 && bound.max < i128::from(dtype.bits())
}

fn let_in(var: Var, value: PrimExpr, body: PrimExpr) -> PrimExpr {
    PrimExpr::Let(Arc::new(Let { var, value, body }))
}

/// Truncating division or remainder, 0 where `b` is 0; `MIN / -1` wraps.
fn total(op: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let dtype = a.dtype();
    let int = |value: i64| value.into_operand(dtype);
    let (x, y) = (Var::prim("x", dtype), Var::prim("y", dtype));
    let (px, py) = (PrimExpr::from(&x), PrimExpr::from(&y));
    let zero = py.clone().equal(int(0));
    let minus_one = dtype.is_int().then(|| py.clone().equal(int(-1)));
    let trapping = minus_one.clone().map_or(zero.clone(), |it| zero.clone().or(it));
    let result = binary(op, px.clone(), trapping.select(int(1), py));
    // The divisor 1 replaces 0 and -1; the remainder by 1 is 0.
    let body = match (op, minus_one) {
        (BinaryOp::Mod, _) => result,
        (_, None) => zero.select(int(0), result),
        (_, Some(minus_one)) => zero.select(int(0), minus_one.select(int(0) - px, result)),
    };
    let_in(x, a, let_in(y, b, body))
}

impl Mutator for LowerIntrin {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Binary(it) if matches!(it.op, BinaryOp::FloorDiv | BinaryOp::FloorMod) => {
                // Take the bounds of the original operands: those of their expansions are weaker.
                let non_negative = self.non_negative(&it.a) && self.non_negative(&it.b);
                let safe = self.safe_divisor(&it.b);
                let (a, b) = self.operands(it);
                if non_negative {
                    let op = if it.op == BinaryOp::FloorDiv { BinaryOp::Div } else { BinaryOp::Mod };
                    return Some(if safe { binary(op, a, b) } else { total(op, a, b) });
                }
                Some(self.floor(it.op, a, b, safe))
            }
            PrimExpr::Binary(it)
                if matches!(it.op, BinaryOp::Div | BinaryOp::Mod)
                    && it.a.dtype().is_integer()
                    && !self.safe_divisor(&it.b) =>
            {
                let (a, b) = self.operands(it);
                Some(total(it.op, a, b))
            }
            PrimExpr::Binary(it)
                if matches!(it.op, BinaryOp::Shl | BinaryOp::Shr)
                    && !is_shift_amount(self.analyzer.const_int_bound(scalar_of(&it.b)), it.b.dtype()) =>
            {
                let (a, b) = self.operands(it);
                let mask = (i64::from(b.dtype().bits()) - 1).into_operand(b.dtype());
                Some(binary(it.op, a, binary(BinaryOp::BitAnd, b, mask)))
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
            if let ForKind::ThreadBinding(_) = node.kind {
                return self.threads(node, stmt);
            }
            enter_loop(&mut self.analyzer, node);
        }
        if let Stmt::Bind(node) = stmt
            && node.var.dtype().is_integer()
            && node.var.dtype().is_scalar()
        {
            self.analyzer.bind_bound(&node.var, self.analyzer.const_int_bound(&node.value));
        }
        if let Stmt::AllocBuffer(node) = stmt
            && let Some(shape) = self.mutate_exprs(&node.buffer.shape)
        {
            // These extents give the size of the allocation.
            let buffer = node.buffer.renew(|it| it.shape = shape);
            self.buffers.insert(node.buffer.id, buffer.clone());
            return Some(AllocBuffer::new(buffer).into());
        }
        self.walk_stmt(stmt)
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        self.buffers.get(&buffer.id).cloned()
    }
}
