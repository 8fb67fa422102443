//! Conditions, loop bounds and `let`s above blocks.
//!
//! A condition that reads no memory goes into the predicates of the blocks under it. A statement whose condition or bounds
//! read memory is enclosed in a block whose regions include that read; if the statement also writes that memory, the value
//! is read once, into a buffer of one element. If no explicit block is inside, the whole statement becomes one block.

use std::sync::Arc;

use super::classify::inner_buffers;
use super::{Derive, collect_stores};
use crate::ir::Var;
use crate::tir::analysis::{add_predicate, holds_blocks, reads_memory};
use crate::tir::{
    AllocBuffer, Bind, Block, BlockRealize, Buffer, For, IfThenElse, Mutator, PrimExpr, Scope, Stmt,
    any_expr, substitute_expr, substitute_stmt, uses_var,
};

impl Derive {
    /// True when `heads`, the condition or bounds of `stmt`, read memory, and either the regions of no enclosing block
    /// include that read or `stmt` holds no explicit block.
    pub(super) fn is_enclosed(&self, stmt: &Stmt, heads: &[&PrimExpr]) -> bool {
        let reads = |it: &&&PrimExpr| reads_memory(it);
        let told = |changing: &Vec<Buffer>| !heads.iter().any(|it| uses_any(it, changing));
        heads.iter().any(|it| reads(&it)) && !(holds_blocks(stmt) && self.changing.as_ref().is_some_and(told))
    }

    /// Moves a condition above blocks into their predicates.
    pub(super) fn branch(&mut self, it: &IfThenElse) -> Stmt {
        let then_case = add_predicate(&self.stmt(&it.then_case), &it.condition);
        let otherwise = !it.condition.clone();
        let else_case = it.else_case.as_ref().map(|stmt| add_predicate(&self.stmt(stmt), &otherwise));
        Stmt::seq([then_case].into_iter().chain(else_case))
    }

    /// Encloses a loop or condition that reads memory in a block whose regions include that read.
    pub(super) fn enclose(&mut self, stmt: &Stmt) -> Stmt {
        if !holds_blocks(stmt) {
            return self.block(stmt, vec![]);
        }
        let mut written = written_in(stmt);
        let heads: Vec<&PrimExpr> = match stmt {
            Stmt::For(it) => vec![&it.min, &it.extent],
            Stmt::IfThenElse(it) => vec![&it.condition],
            _ => vec![],
        };
        if !heads.iter().any(|it| uses_any(it, &written)) {
            let name = self.unique("reads");
            let span = collect_stores(stmt).first().map(|store| store.span.clone()).unwrap_or_default();
            let depth = self.loops.len();
            let body = self.inside(depth, Some(std::mem::take(&mut written)), |inner| inner.stmt(stmt));
            return self.realize(name, &body, vec![], &span).0;
        }
        let mut before = Vec::new();
        let mut read_once = |expr: &PrimExpr| {
            if !reads_memory(expr) {
                return expr.clone();
            }
            let (buffer, stmts) = stored("value", expr);
            before.extend(stmts);
            buffer.load([])
        };
        let after: Stmt = match stmt {
            Stmt::For(it) => {
                let (min, extent) = (read_once(&it.min), read_once(&it.extent));
                For { min, extent, ..(**it).clone() }.into()
            }
            Stmt::IfThenElse(it) => {
                IfThenElse { condition: read_once(&it.condition), ..(**it).clone() }.into()
            }
            _ => stmt.clone(),
        };
        before.push(after);
        self.seq(&before)
    }

    /// `rest`, a sequence with explicit blocks after a `let` whose value changes later: the value is stored in a buffer.
    pub(super) fn stored(&mut self, bind: &Bind, rest: &Stmt) -> Stmt {
        let (buffer, mut stmts) = stored(bind.var.name(), &bind.value);
        let vars = [(bind.var.id(), buffer.load([]))].into_iter().collect();
        match substitute_stmt(rest, &vars) {
            Stmt::SeqStmt(rest) => stmts.extend(rest.iter().cloned()),
            rest => stmts.push(rest),
        }
        self.seq(&stmts)
    }

    /// An explicit block that holds blocks.
    pub(super) fn explicit(&mut self, it: &Arc<BlockRealize>) -> Stmt {
        let mut changing = written_in(&it.block.body);
        changing.extend(it.block.alloc_buffers.iter().cloned());
        let (loops, locals) = (std::mem::take(&mut self.loops), std::mem::take(&mut self.locals));
        let body = self.inside(0, Some(changing), |inner| inner.stmt(&it.block.body));
        (self.loops, self.locals) = (loops, locals);
        let block = Block { body, ..(*it.block).clone() };
        BlockRealize { block: block.into(), ..(**it).clone() }.into()
    }

    /// Runs `f` in the state for the inside of a block around everything from loop `base` on.
    pub(super) fn inside(
        &mut self,
        base: usize,
        changing: Option<Vec<Buffer>>,
        f: impl FnOnce(&mut Derive) -> Stmt,
    ) -> Stmt {
        let mut inner = Derive {
            loops: self.loops.clone(),
            base,
            locals: self.locals.clone(),
            taken: std::mem::take(&mut self.taken),
            reduced: self.reduced.clone(),
            changing,
        };
        let res = f(&mut inner);
        self.taken = inner.taken;
        res
    }
}

/// A buffer of one element, and the statements that allocate it and store `value`.
fn stored(name: &str, value: &PrimExpr) -> (Buffer, Vec<Stmt>) {
    let buffer = Buffer::with_scope(name, [], value.dtype(), Scope::Global);
    let alloc = AllocBuffer::new(buffer.clone()).into();
    let store = Stmt::store(&buffer, [], value.clone());
    (buffer, vec![alloc, store])
}

/// True when the layout of `buffer` uses `var`.
pub(super) fn layout_uses(buffer: &Buffer, var: &Var) -> bool {
    let mut parts = buffer.shape.iter().chain(buffer.strides.iter()).chain(&buffer.elem_offset);
    parts.any(|part| uses_var(part, var))
}

/// True when the layout of a buffer allocated in `stmt` uses `var`.
pub(super) fn sizes_a_buffer(var: &Var, stmt: &Stmt) -> bool {
    inner_buffers(stmt).iter().any(|buffer| layout_uses(buffer, var))
}

fn written_in(stmt: &Stmt) -> Vec<Buffer> {
    collect_stores(stmt).iter().map(|store| store.buffer.clone()).collect()
}

fn uses_any(expr: &PrimExpr, buffers: &[Buffer]) -> bool {
    any_expr(expr, &mut |it| matches!(it, PrimExpr::BufferLoad(load) if buffers.contains(&load.buffer)))
}

/// `stmt` with its blocks replaced by their bodies; blocks with an init or matched buffers stay.
pub(super) fn without_blocks(stmt: &Stmt) -> Stmt {
    struct Unblock;
    impl Mutator for Unblock {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }

        fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
            let walked = self.walk_stmt(stmt);
            let Stmt::BlockRealize(it) = walked.as_ref().unwrap_or(stmt) else { return walked };
            let block = &it.block;
            if block.init.is_some() || !block.match_buffers.is_empty() {
                return walked;
            }
            let axes = block.iter_vars.iter().zip(it.iter_values.iter());
            let vars = axes.map(|(iter, value)| (iter.var.id(), value.clone())).collect();
            let allocs = block.alloc_buffers.iter().map(|buffer| AllocBuffer::new(buffer.clone()).into());
            let body = Stmt::seq(allocs.chain([substitute_stmt(&block.body, &vars)]));
            let (condition, span) = (substitute_expr(&it.predicate, &vars), block.span.clone());
            Some(IfThenElse { condition, then_case: body, else_case: None, span }.folded())
        }
    }
    Unblock.mutate_stmt(stmt).unwrap_or_else(|| stmt.clone())
}
