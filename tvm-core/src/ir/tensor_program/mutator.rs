//! Rewriting traversal of tensor programs: every method returns `None` for "unchanged".
//!
//! TVM counterpart: `ExprMutator`, `StmtExprMutator`, `Substitute`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

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
        let iter_vars = mutate_slice(&block.iter_vars, |iter| {
            let dom = self.mutate_range(&iter.dom)?;
            Some(IterVar { dom, ..iter.clone() })
        });
        let alloc_buffers = mutate_slice(&block.alloc_buffers, |buffer| self.mutate_buffer(buffer));
        let match_buffers = mutate_slice(&block.match_buffers, |it| {
            let buffer = self.mutate_buffer(&it.buffer);
            let source = self.mutate_region(&it.source);
            (buffer.is_some() || source.is_some()).then(|| MatchBufferRegion {
                buffer: buffer.unwrap_or_else(|| it.buffer.clone()),
                source: source.unwrap_or_else(|| it.source.clone()),
            })
        });
        let reads = mutate_slice(&block.reads, |region| self.mutate_region(region));
        let writes = mutate_slice(&block.writes, |region| self.mutate_region(region));
        let init = block.init.as_ref().and_then(|init| self.mutate_stmt(init));
        let body = self.mutate_stmt(&block.body);
        let changed = iter_vars.is_some()
            || alloc_buffers.is_some()
            || match_buffers.is_some()
            || reads.is_some()
            || writes.is_some()
            || init.is_some()
            || body.is_some();
        changed.then(|| Block {
            id: block.id,
            name: block.name.clone(),
            iter_vars: iter_vars.unwrap_or_else(|| block.iter_vars.clone()),
            reads: reads.unwrap_or_else(|| block.reads.clone()),
            writes: writes.unwrap_or_else(|| block.writes.clone()),
            alloc_buffers: alloc_buffers.unwrap_or_else(|| block.alloc_buffers.clone()),
            match_buffers: match_buffers.unwrap_or_else(|| block.match_buffers.clone()),
            annotations: block.annotations.clone(),
            init: init.or_else(|| block.init.clone()),
            body: body.unwrap_or_else(|| block.body.clone()),
            span: block.span.clone(),
        })
    }

    /// Rewrites a range.
    fn mutate_range(&mut self, range: &Range) -> Option<Range> {
        let (min, extent) =
            pair(self.mutate_expr(&range.min), self.mutate_expr(&range.extent), &range.min, &range.extent)?;
        Some(Range { min, extent })
    }

    /// Rewrites a region.
    fn mutate_region(&mut self, region: &BufferRegion) -> Option<BufferRegion> {
        let buffer = self.mutate_buffer(&region.buffer);
        let ranges = mutate_slice(&region.region, |range| self.mutate_range(range));
        (buffer.is_some() || ranges.is_some()).then(|| BufferRegion {
            buffer: buffer.unwrap_or_else(|| region.buffer.clone()),
            region: ranges.unwrap_or_else(|| region.region.clone()),
        })
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

fn pair<A: Clone, B: Clone>(a: Option<A>, b: Option<B>, old_a: &A, old_b: &B) -> Option<(A, B)> {
    (a.is_some() || b.is_some())
        .then(|| (a.unwrap_or_else(|| old_a.clone()), b.unwrap_or_else(|| old_b.clone())))
}

fn walk_expr_inner<M: Mutator + ?Sized>(m: &mut M, expr: &PrimExpr) -> Option<PrimExpr> {
    Some(match expr {
        PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Var(_) => {
            return None;
        }
        PrimExpr::Cast(it) => m.mutate_expr(&it.value)?.cast(it.dtype),
        PrimExpr::Not(it) => !m.mutate_expr(&it.value)?,
        PrimExpr::Binary(it) => {
            let (a, b) = pair(m.mutate_expr(&it.a), m.mutate_expr(&it.b), &it.a, &it.b)?;
            binary(it.op, a, b)
        }
        PrimExpr::Select(it) => {
            let condition = m.mutate_expr(&it.condition);
            let arms = pair(
                m.mutate_expr(&it.true_value),
                m.mutate_expr(&it.false_value),
                &it.true_value,
                &it.false_value,
            );
            let (condition, (a, b)) =
                pair(condition, arms, &it.condition, &(it.true_value.clone(), it.false_value.clone()))?;
            condition.select(a, b)
        }
        PrimExpr::BufferLoad(it) => {
            let (buffer, indices) =
                pair(m.mutate_buffer(&it.buffer), m.mutate_exprs(&it.indices), &it.buffer, &it.indices)?;
            PrimExpr::BufferLoad(Arc::new(BufferLoad { buffer, indices, span: it.span.clone() }))
        }
        PrimExpr::Ramp(it) => {
            let (base, stride) =
                pair(m.mutate_expr(&it.base), m.mutate_expr(&it.stride), &it.base, &it.stride)?;
            base.ramp(stride, it.lanes)
        }
        PrimExpr::Broadcast(it) => m.mutate_expr(&it.value)?.broadcast(it.lanes),
        PrimExpr::Shuffle(it) => {
            let vectors = m.mutate_exprs(&it.vectors)?;
            PrimExpr::Shuffle(Arc::new(Shuffle { vectors, indices: it.indices.clone() }))
        }
        PrimExpr::Let(it) => {
            let (value, body) = pair(m.mutate_expr(&it.value), m.mutate_expr(&it.body), &it.value, &it.body)?;
            PrimExpr::Let(Arc::new(Let { var: it.var.clone(), value, body }))
        }
        PrimExpr::Call(it) => {
            let args = m.mutate_exprs(&it.args)?;
            PrimExpr::Call(Arc::new(it.with_args(args)))
        }
    })
}

fn walk_stmt_inner<M: Mutator + ?Sized>(m: &mut M, stmt: &Stmt) -> Option<Stmt> {
    Some(match stmt {
        Stmt::BufferStore(it) => {
            let indices = m.mutate_exprs(&it.indices);
            let value = m.mutate_expr(&it.value);
            let target = pair(m.mutate_buffer(&it.buffer), indices, &it.buffer, &it.indices);
            let ((buffer, indices), value) =
                pair(target, value, &(it.buffer.clone(), it.indices.clone()), &it.value)?;
            BufferStore { buffer, value, indices, span: it.span.clone() }.into()
        }
        Stmt::For(it) => {
            let bounds = pair(m.mutate_expr(&it.min), m.mutate_expr(&it.extent), &it.min, &it.extent);
            let body = m.mutate_stmt(&it.body);
            let ((min, extent), body) = pair(bounds, body, &(it.min.clone(), it.extent.clone()), &it.body)?;
            For { min, extent, body, ..(**it).clone() }.into()
        }
        Stmt::BlockRealize(it) => {
            let values = pair(
                m.mutate_exprs(&it.iter_values),
                m.mutate_expr(&it.predicate),
                &it.iter_values,
                &it.predicate,
            );
            let block = m.mutate_block(&it.block).map(Arc::new);
            let ((iter_values, predicate), block) =
                pair(values, block, &(it.iter_values.clone(), it.predicate.clone()), &it.block)?;
            BlockRealize { iter_values, predicate, block }.into()
        }
        Stmt::SeqStmt(it) => Stmt::seq(mutate_slice(it, |stmt| m.mutate_stmt(stmt))?.iter().cloned()),
        Stmt::IfThenElse(it) => {
            let condition = m.mutate_expr(&it.condition);
            let then_case = m.mutate_stmt(&it.then_case);
            let else_case = it.else_case.as_ref().and_then(|stmt| m.mutate_stmt(stmt));
            if condition.is_none() && then_case.is_none() && else_case.is_none() {
                return None;
            }
            IfThenElse {
                condition: condition.unwrap_or_else(|| it.condition.clone()),
                then_case: then_case.unwrap_or_else(|| it.then_case.clone()),
                else_case: else_case.or_else(|| it.else_case.clone()),
                span: it.span.clone(),
            }
            .folded()
        }
        Stmt::While(it) => {
            let (condition, body) =
                pair(m.mutate_expr(&it.condition), m.mutate_stmt(&it.body), &it.condition, &it.body)?;
            While { condition, body, span: it.span.clone() }.into()
        }
        Stmt::Bind(it) => Bind { var: it.var.clone(), value: m.mutate_expr(&it.value)? }.into(),
        Stmt::AllocBuffer(it) => AllocBuffer { buffer: m.mutate_buffer(&it.buffer)? }.into(),
        Stmt::DeclBuffer(it) => {
            let (buffer, data) =
                pair(m.mutate_buffer(&it.buffer), m.mutate_expr(&it.data), &it.buffer, &it.data)?;
            DeclBuffer { buffer, data }.into()
        }
        Stmt::Evaluate(it) => Evaluate { value: m.mutate_expr(&it.value)? }.into(),
        Stmt::AssertStmt(it) => {
            let values = pair(
                m.mutate_expr(&it.failure.expected),
                m.mutate_expr(&it.failure.got),
                &it.failure.expected,
                &it.failure.got,
            );
            let old = (it.failure.expected.clone(), it.failure.got.clone());
            let (condition, (expected, got)) =
                pair(m.mutate_expr(&it.condition), values, &it.condition, &old)?;
            AssertStmt { condition, failure: Failure { expected, got, ..it.failure.clone() } }.into()
        }
    })
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
        let store = BufferStore { buffer: x, value, indices, span: at() };
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
