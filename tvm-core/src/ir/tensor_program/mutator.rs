//! Rewriting traversal of tensor programs: every method returns `None` for "unchanged".
//!
//! TVM counterpart: `ExprMutator`, `StmtExprMutator`, `Substitute`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::nodes::stmt_node;
use super::*;
use crate::ir::{BufferId, VarId};
use crate::support::with_stack;

/// Rewrites a program bottom-up. Override a method, call the matching `walk_*` for the children, and return `None`
/// when nothing changed.
pub trait Mutator {
    /// Rewrites an expression.
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        self.walk_expr(expr)
    }

    /// Rewrites a statement.
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        self.walk_stmt(stmt)
    }

    /// Rewrites a block.
    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        self.walk_block(block)
    }

    /// Rewrites a use or definition of a buffer.
    fn mutate_buffer(&mut self, _buffer: &Buffer) -> Option<Buffer> {
        None
    }

    /// Rewrites a list of expressions.
    fn mutate_exprs(&mut self, exprs: &[PrimExpr]) -> Option<Arc<[PrimExpr]>> {
        mutate_slice(exprs, |expr| self.mutate_expr(expr))
    }

    /// Rewrites the children of an expression.
    fn walk_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        with_stack(|| walk_expr_inner(self, expr))
    }

    /// Rewrites the children of a statement.
    fn walk_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        with_stack(|| walk_stmt_inner(self, stmt))
    }

    /// Rewrites the children of a block.
    fn walk_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        Block::mutate(block, self)
    }
}

/// Rewrites the items of a slice; `None` when none changed.
pub(crate) fn mutate_slice<T: Clone>(items: &[T], mut f: impl FnMut(&T) -> Option<T>) -> Option<Arc<[T]>> {
    let mut out: Option<Vec<T>> = None;
    for (i, item) in items.iter().enumerate() {
        if let Some(new) = f(item) {
            out.get_or_insert_with(|| items.to_vec())[i] = new;
        }
    }
    out.map(Into::into)
}

/// Rewrites the operands; operations are built again by the functions that fold constants.
fn walk_expr_inner<M: Mutator + ?Sized>(m: &mut M, expr: &PrimExpr) -> Option<PrimExpr> {
    Some(match expr {
        PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Var(_) => {
            return None;
        }
        PrimExpr::Cast(it) => it.value.mutate(m)?.cast(it.dtype),
        PrimExpr::Not(it) => !it.value.mutate(m)?,
        PrimExpr::Binary(it) => {
            let it = it.mutate(m)?;
            binary(it.op, it.a.clone(), it.b.clone())
        }
        PrimExpr::Select(it) => {
            let it = it.mutate(m)?;
            it.condition.clone().select(it.true_value.clone(), it.false_value.clone())
        }
        PrimExpr::BufferLoad(it) => PrimExpr::BufferLoad(it.mutate(m)?.into()),
        PrimExpr::Ramp(it) => {
            let it = it.mutate(m)?;
            it.base.clone().ramp(it.stride.clone(), it.lanes)
        }
        PrimExpr::Broadcast(it) => it.value.mutate(m)?.broadcast(it.lanes),
        PrimExpr::Shuffle(it) => PrimExpr::Shuffle(it.mutate(m)?.into()),
        PrimExpr::Let(it) => PrimExpr::Let(it.mutate(m)?.into()),
        PrimExpr::Call(it) => PrimExpr::Call(it.mutate(m)?.into()),
    })
}

fn walk_stmt_inner<M: Mutator + ?Sized>(m: &mut M, stmt: &Stmt) -> Option<Stmt> {
    if let Stmt::IfThenElse(it) = stmt {
        return Some(it.mutate(m)?.folded());
    }
    stmt_node!(
        stmt,
        it => Some(it.mutate(m)?.into()),
        seq => Some(Stmt::seq(it.mutate(m)?.iter().cloned()))
    )
}

/// Replaces variables by expressions and buffers by buffers (the shapes of unreplaced buffers stay as they are).
#[derive(Debug, Default)]
pub struct Substitute {
    /// Replacements of variables.
    pub vars: FxHashMap<VarId, PrimExpr>,
    /// Replacements of buffers.
    pub buffers: FxHashMap<BufferId, Buffer>,
}

impl Mutator for Substitute {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Var(var) => self.vars.get(&var.id()).cloned(),
            _ => self.walk_expr(expr),
        }
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        self.buffers.get(&buffer.id).cloned()
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        // A buffer that matches a region of a replaced buffer gets its scope.
        for matched in block.match_buffers.iter() {
            let Some(scope) = self.buffers.get(&matched.source.buffer.id).map(|it| it.scope) else {
                continue;
            };
            let new = self.buffers.get(&matched.buffer.id).unwrap_or(&matched.buffer);
            if new.scope != scope {
                let new = new.renew(|node| node.scope = scope);
                self.buffers.insert(matched.buffer.id, new);
            }
        }
        self.walk_block(block)
    }
}

/// `expr` with `vars` replaced.
pub fn substitute_expr(expr: &PrimExpr, vars: &FxHashMap<VarId, PrimExpr>) -> PrimExpr {
    let mut substitute = Substitute { vars: vars.clone(), buffers: FxHashMap::default() };
    substitute.mutate_expr(expr).unwrap_or_else(|| expr.clone())
}

/// `stmt` with `vars` replaced.
pub fn substitute_stmt(stmt: &Stmt, vars: &FxHashMap<VarId, PrimExpr>) -> Stmt {
    let mut substitute = Substitute { vars: vars.clone(), buffers: FxHashMap::default() };
    substitute.mutate_stmt(stmt).unwrap_or_else(|| stmt.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::tensor_program::For;
    use crate::ir::{Span, Var};
    use tvm_runtime::DataType;

    #[test]
    fn statements_keep_their_places() {
        let (n, i) = (Var::index("n"), Var::index("i"));
        let x = Buffer::new("x", [PrimExpr::index(8)], DataType::I64);
        let mut line = 0;
        let mut at = || {
            line += 1;
            Span::rust("kernel.rs", line, 1)
        };
        let (value, indices) = (PrimExpr::from(&n), [PrimExpr::from(&i)].into());
        let store = BufferStore { buffer: x, value, indices, predicate: None, span: at() };
        let condition = PrimExpr::from(&n).less(&i);
        let branch =
            IfThenElse { condition: condition.clone(), then_case: store.into(), else_case: None, span: at() };
        let repeat = While { condition, body: branch.into(), span: at() };
        let node = For { span: at(), ..For::serial(i.clone(), &n, repeat.into()) };
        let new = substitute_stmt(&node.into(), &FxHashMap::from_iter([(n.id(), PrimExpr::index(5))]));
        let node = new.as_for().unwrap();
        let repeat = node.body.as_while().unwrap();
        let branch = repeat.body.as_if_then_else().unwrap();
        let store = branch.then_case.as_buffer_store().unwrap();
        let spans = [&store.span, &branch.span, &repeat.span, &node.span];
        assert_eq!(spans.map(|it| it.to_string()), [1, 2, 3, 4].map(|line| format!("kernel.rs:{line}:1")));
    }
}
