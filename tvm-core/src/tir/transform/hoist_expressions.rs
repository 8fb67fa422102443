//! Computes before a loop what is the same in all its iterations.
//!
//! An expression that costs at least a function call moves out of each loop that it does not depend on: it uses no variable and no buffer
//! that the loop binds, reads nothing that the loop writes, and every iteration evaluates it. What may fail (a load, a
//! quotient) moves only past statements that cannot end the call, and out of loops that have an iteration; a loop that may have
//! none gets a condition around it and the expression. Vectors stay inside of parallel loops.
//!
//! Compilers move most arithmetic themselves. LLVM does not move calls of functions of the C library, which may set `errno`, and nothing
//! moves out of the function that a parallel loop becomes.
//!
//! TVM counterpart: `HoistExpression` (`HoistedLetBindings`).
//! Requires: flat buffers, no vectorized and unrolled loops.

use super::context::reads;
use super::util::{Inside, body_pass, is_no_value, rewrite_loops, with_parts};
use crate::arith::Memo;
use crate::ir::Var;
use crate::pass::Pass;
use crate::support::with_stack;
use crate::tir::analysis::{WORTH_A_NAME, own_weight};
use crate::tir::{
    AssertStmt, BinaryOp, Bind, For, ForKind, IfThenElse, Intrinsic, Let, Mutator, PrimCallee, PrimExpr,
    Stmt, Visitor, walk_expr,
};

/// Computes before a loop what is the same in all its iterations.
pub fn hoist_expressions() -> Pass {
    body_pass("HoistExpressions", |func| rewrite_loops(func, hoist))
}

/// `node` with the body `body`, and before it what does not depend on it; `None` if there is nothing. `runs` says that it has an
/// iteration.
fn hoist(node: &For, body: &Stmt, runs: bool) -> Option<Stmt> {
    let mut inside = Inside::of(body);
    inside.vars.insert(node.loop_var.id());
    let guardable = !reads(&node.extent);
    let mut hoist = Hoist {
        inside,
        memo: Memo::default(),
        scalars: node.kind == ForKind::Parallel,
        may_fail: runs || guardable,
        fails: false,
        out: Vec::new(),
    };
    let stmts = match body {
        Stmt::SeqStmt(stmts) => &**stmts,
        other => std::slice::from_ref(other),
    };
    let stmts: Vec<Stmt> = stmts.iter().filter_map(|stmt| hoist.statement(stmt)).collect();
    if hoist.out.is_empty() {
        return None;
    }
    let guarded = hoist.fails && !runs;
    let inner = For { body: Stmt::seq(stmts), ..node.clone() };
    let condition = inner.extent.clone().greater_equal(1);
    let all = Stmt::seq(hoist.out.into_iter().chain([inner.into()]));
    Some(if guarded { Stmt::if_then_else(condition, all, None) } else { all })
}

/// What is known about an expression.
#[derive(Clone, Copy)]
struct Info {
    /// It is the same in all iterations.
    fixed: bool,
    weight: u32,
    fails: bool,
}

/// Moves expressions out of the statements of a loop, in order.
struct Hoist {
    inside: Inside,
    memo: Memo<Info>,
    /// Only scalars move.
    scalars: bool,
    /// What may fail may move, here.
    may_fail: bool,
    /// Something that may fail has moved.
    fails: bool,
    out: Vec<Stmt>,
}

impl Hoist {
    /// The statement that stays; `None` if it moves.
    fn statement(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let new = match stmt {
            Stmt::BufferStore(it) => {
                let indices = self.mutate_exprs(&it.indices);
                let predicate = it.predicate.as_ref().and_then(|it| self.mutate_expr(it));
                let value = self.mutate_expr(&it.value);
                with_parts(it, indices, value, predicate).map(Stmt::from)
            }
            Stmt::Bind(it) => {
                if self.moves(&it.value) {
                    self.out.push(stmt.clone());
                    self.inside.vars.remove(&it.var.id());
                    self.memo = Memo::default();
                    return None;
                }
                self.mutate_expr(&it.value).map(|value| Bind { var: it.var.clone(), value }.into())
            }
            Stmt::IfThenElse(it) => {
                let condition = self.mutate_expr(&it.condition);
                condition.map(|condition| IfThenElse { condition, ..(**it).clone() }.into())
            }
            Stmt::AssertStmt(it) => {
                let condition = self.mutate_expr(&it.condition);
                condition.map(|condition| AssertStmt { condition, failure: it.failure.clone() }.into())
            }
            Stmt::For(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::While(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_) => None,
        };
        self.may_fail &= !Inside::of(stmt).ends;
        Some(new.unwrap_or_else(|| stmt.clone()))
    }

    /// True if `expr`, which every iteration evaluates, moves out; it is taken to do so.
    fn moves(&mut self, expr: &PrimExpr) -> bool {
        let dtype = expr.dtype();
        if dtype.is_bool() || dtype.is_handle() || self.scalars && !dtype.is_scalar() {
            return false;
        }
        let info = self.info(expr);
        let moves = info.fixed && info.weight >= WORTH_A_NAME && (self.may_fail || !info.fails);
        self.fails |= moves && info.fails;
        moves
    }

    fn info(&mut self, expr: &PrimExpr) -> Info {
        self.memo.get(expr).unwrap_or_else(|| {
            let info = with_stack(|| self.node(expr));
            self.memo.insert(expr, info);
            info
        })
    }

    fn node(&mut self, expr: &PrimExpr) -> Info {
        let mut info = Info { fixed: true, weight: own_weight(expr), fails: false };
        match expr {
            PrimExpr::Var(var) => info.fixed = !self.inside.vars.contains(&var.id()),
            PrimExpr::BufferLoad(it) => {
                info.fixed = !self.inside.buffers.contains(&it.buffer.id);
                info.fails = true;
            }
            PrimExpr::Call(it) => info.fixed = !is_no_value(it),
            PrimExpr::Binary(it) => {
                let divides =
                    matches!(it.op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod);
                let shifts = matches!(it.op, BinaryOp::Shl | BinaryOp::Shr);
                info.fails = (divides || shifts)
                    && it.a.dtype().is_integer()
                    && it.b.as_int().is_none_or(|it| it == 0);
            }
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::Select(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_) => {}
        }
        struct Operands<'a>(&'a mut Hoist, Info);
        impl Visitor for Operands<'_> {
            fn visit_expr(&mut self, expr: &PrimExpr) {
                let Info { fixed, weight, fails } = self.0.info(expr);
                self.1.fixed &= fixed;
                self.1.weight = self.1.weight.saturating_add(weight);
                self.1.fails |= fails;
            }
        }
        let mut operands = Operands(self, info);
        walk_expr(&mut operands, expr);
        operands.1
    }

    /// `expr` without what moves out of its operands.
    fn rest(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Let(it) => {
                let value = self.mutate_expr(&it.value)?;
                Some(PrimExpr::Let(Let { var: it.var.clone(), value, body: it.body.clone() }.into()))
            }
            PrimExpr::Call(it) if is_no_value(it) => None,
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                let mut args = it.args.to_vec();
                args[0] = self.mutate_expr(&args[0])?;
                Some(PrimExpr::Call(it.with_args(args).into()))
            }
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::Binary(_)
            | PrimExpr::Select(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Call(_) => self.walk_expr(expr),
        }
    }
}

impl Mutator for Hoist {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        // Of a vector of equal lanes, and of the place of a contiguous access, the scalars move.
        let of_scalars = matches!(expr, PrimExpr::Broadcast(_) | PrimExpr::Ramp(_));
        if of_scalars || !self.moves(expr) {
            return if self.info(expr).weight < WORTH_A_NAME { None } else { self.rest(expr) };
        }
        let var = Var::prim("fixed", expr.dtype());
        self.out.push(Bind { var: var.clone(), value: expr.clone() }.into());
        Some(var.into())
    }
}

#[cfg(test)]
mod tests;
