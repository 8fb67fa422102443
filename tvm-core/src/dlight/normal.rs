//! A form that the rules know, of the same program: loops count from 0, a value that a block names before its only store is
//! part of the stored value, and both sides of an expression that chooses are computed, where they are cheap and read only
//! what exists.
//!
//! ```text
//! for i in 1..n {                              for i in 0..n - 1 {
//!     block("y", [S(i)], |[vi]| {                  block("y", [S(i + 1)], |[vi]| {
//!         let t = f(vi);                               y[[vi]] = { let t = f(vi); select(t < 3, t, x[[vi]]) };
//!         y[[vi]] = if t < 3 { t } else { x[[vi]] };     });
//!     });                                      }
//! }
//! ```

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::inline::{in_bounds, operations};
use crate::ir::Var;
use crate::tir::analysis::reads_memory;
use crate::tir::{
    BinaryOp, Block, BufferStore, For, ForKind, Intrinsic, Let, Mutator, PrimCallee, PrimExpr, PrimFunc,
    Stmt, Visitor, any_expr, substitute_stmt, uses_var, walk_expr,
};

/// `func` in this form; `None` if it has it.
pub(super) fn normalized(func: &PrimFunc) -> Option<PrimFunc> {
    let body = Normalize.mutate_stmt(&func.body)?;
    Some(PrimFunc { body, ..func.clone() })
}

struct Normalize;

impl Mutator for Normalize {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        match walked.as_ref().unwrap_or(stmt) {
            Stmt::For(node) => from_zero(node).or(walked),
            _ => walked,
        }
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let named = one_store(&block.body);
        let body = named.as_ref().unwrap_or(&block.body);
        let mut selects = Selects { block, names: names(body) };
        let chosen = body.as_buffer_store().and_then(|_| selects.mutate_stmt(body));
        match chosen.or(named) {
            Some(body) => Some(Block { body, ..(**block).clone() }),
            None => self.walk_block(block),
        }
    }
}

/// `node`, which begins at another number than 0, with a variable that begins at 0.
fn from_zero(node: &For) -> Option<Stmt> {
    let first = node.min.as_int().filter(|&first| first != 0)?;
    if node.kind != ForKind::Serial || !node.annotations.is_empty() {
        return None;
    }
    let loop_var = node.loop_var.renew();
    let value = PrimExpr::from(&loop_var) + first;
    let body = substitute_stmt(&node.body, &FxHashMap::from_iter([(node.loop_var.id(), value)]));
    Some(For { loop_var, min: PrimExpr::index(0), body, ..node.clone() }.into())
}

/// The store after some `let`s, whose indices do not use them, with the `let`s in its value.
fn one_store(body: &Stmt) -> Option<Stmt> {
    let Stmt::SeqStmt(stmts) = body else { return None };
    let (Stmt::BufferStore(store), lets) = stmts.split_last()? else { return None };
    let mut value = store.value.clone();
    for stmt in lets.iter().rev() {
        let Stmt::Bind(bind) = stmt else { return None };
        if store.indices.iter().chain(&store.predicate).any(|it| uses_var(it, &bind.var)) {
            return None;
        }
        value =
            PrimExpr::Let(Arc::new(Let { var: bind.var.clone(), value: bind.value.clone(), body: value }));
    }
    Some(Stmt::from(BufferStore { value, ..(**store).clone() }))
}

/// Operations of an arm that may be computed where it is not chosen.
const CHEAP: usize = 8;

/// Replaces `if c { a } else { b }` by `select(c, a, b)` in a block.
struct Selects<'a> {
    block: &'a Block,
    /// What the block names.
    names: Vec<Var>,
}

/// The names of values in `stmt`.
fn names(stmt: &Stmt) -> Vec<Var> {
    struct Names(Vec<Var>);
    impl Visitor for Names {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if let PrimExpr::Let(it) = expr {
                self.0.push(it.var.clone());
            }
            walk_expr(self, expr);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_stmt(stmt);
    names.0
}

impl Mutator for Selects<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let walked = self.walk_expr(expr);
        if let PrimExpr::Call(call) = walked.as_ref().unwrap_or(expr)
            && let (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [condition, a, b]) =
                (&call.callee, &*call.args)
            && self.depends_on_data(condition)
            && self.is_harmless(a)
            && self.is_harmless(b)
        {
            return Some(condition.clone().select(a.clone(), b.clone()));
        }
        walked
    }
}

impl Selects<'_> {
    /// True if `condition` depends on more than where the block runs: loops cannot be divided where it changes.
    fn depends_on_data(&self, condition: &PrimExpr) -> bool {
        reads_memory(condition) || self.names.iter().any(|name| uses_var(condition, name))
    }

    /// True if `expr` is cheap and defined wherever the block runs.
    fn is_harmless(&self, expr: &PrimExpr) -> bool {
        let refused = &mut |it: &PrimExpr| match it {
            PrimExpr::BufferLoad(load) => {
                load.predicate.is_some() || !in_bounds(self.block, &load.indices, &load.buffer)
            }
            PrimExpr::Binary(it) => {
                let divides =
                    [BinaryOp::Div, BinaryOp::Mod, BinaryOp::FloorDiv, BinaryOp::FloorMod].contains(&it.op);
                divides && !it.a.dtype().is_float()
            }
            PrimExpr::Call(_) | PrimExpr::Let(_) | PrimExpr::StringImm(_) => true,
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::Select(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_) => false,
        };
        operations(expr) <= CHEAP && !any_expr(expr, refused)
    }
}
