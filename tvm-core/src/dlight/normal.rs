//! A form that the rules know, of the same program: loops count from 0, and a value that a block names before its only store is
//! part of the stored value.
//!
//! ```text
//! for i in 1..n {                          for i in 0..n - 1 {
//!     block("y", [S(i)], |[vi]| {              block("y", [S(i + 1)], |[vi]| {
//!         let x = f(vi);                           y[[vi]] = { let x = f(vi); x * x };
//!         y[[vi]] = x * x;                     });
//!     });                                  }
//! }
//! ```

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::tir::{
    Block, BufferStore, For, ForKind, Let, Mutator, PrimExpr, PrimFunc, Stmt, substitute_stmt, uses_var,
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
        match one_store(&block.body) {
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
