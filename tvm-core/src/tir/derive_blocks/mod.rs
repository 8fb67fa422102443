//! Derivation of blocks for plain loops: each store becomes a block of its own whose axes are the loops around it.
//!
//! The result has only loops, sequences and blocks between a block and the blocks inside it. A condition becomes part of
//! the predicates of the blocks under it. A condition or loop bound that reads memory is enclosed in a block whose regions
//! include that read (see [`scopes`]).
//!
//! An axis is spatial when different iterations write different elements, and a reduction when a store updates the
//! element that it reads; else it is opaque, and schedules leave it alone. A `let` becomes one block together with the
//! stores that use it, or is inlined if loops follow. A buffer allocated in a loop belongs to a block around that
//! iteration; if its extents name a value that reads memory, the `let` of that value and all statements after it become one
//! block. Explicit blocks stay as they are, except for conditions, loop bounds and plain statements beside the blocks
//! inside them.
//!
//! TVM counterpart: none (`ScriptCompleter` fills regions only).

mod classify;
mod names;
mod scopes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ir::{Span, Var};
use crate::tir::analysis::{holds_blocks, range_of, with_access_regions};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferStore, For, IterVar, PrimExpr, Range, Stmt, Visitor, any_expr,
    substitute_stmt, walk_stmt,
};

pub(in crate::tir) use classify::is_injective_in;
pub(crate) use names::BlockNames;

/// A loop around a statement.
#[derive(Clone)]
struct Loop {
    var: Var,
    range: Range,
}

/// `body` with every plain store in a block; the names of the new blocks avoid `taken`.
pub(crate) fn derive_blocks(body: &Stmt, taken: BlockNames) -> Stmt {
    let mut derive = Derive { taken, ..Derive::default() };
    collect_stores(body).iter().filter(|it| classify::update(it).is_some()).for_each(|store| {
        derive.reduced.push(store.buffer.clone());
    });
    derive.stmt(body)
}

#[derive(Default)]
struct Derive {
    loops: Vec<Loop>,
    /// The loops before this index belong to an enclosing block.
    base: usize,
    /// Buffers allocated in a loop, with the number of loops around them.
    locals: Vec<(Buffer, usize)>,
    taken: BlockNames,
    /// Buffers that some store accumulates into.
    reduced: Vec<Buffer>,
    /// Buffers that the enclosing block writes or allocates; its regions include what conditions and loop bounds read of all
    /// other buffers. `None` where no enclosing block includes such reads, as in the root block.
    changing: Option<Vec<Buffer>>,
}

impl Derive {
    fn stmt(&mut self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::For(it) if self.is_enclosed(stmt, &[&it.min, &it.extent]) => self.enclose(stmt),
            Stmt::For(it) => {
                self.loops.push(Loop { var: it.loop_var.clone(), range: it.range() });
                let body = self.stmt(&it.body);
                self.loops.pop();
                For { body, ..(**it).clone() }.into()
            }
            Stmt::SeqStmt(stmts) => self.seq(stmts),
            Stmt::AllocBuffer(_) => self.seq(std::slice::from_ref(stmt)),
            Stmt::IfThenElse(it) if !is_leaf(stmt) => match self.is_enclosed(stmt, &[&it.condition]) {
                true => self.enclose(stmt),
                false => self.branch(it),
            },
            Stmt::BlockRealize(it) if holds_blocks(&it.block.body) => self.explicit(it),
            Stmt::BlockRealize(_) | Stmt::DeclBuffer(_) | Stmt::Bind(_) => stmt.clone(),
            Stmt::While(_) => self.block(&scopes::without_blocks(stmt), vec![]),
            Stmt::BufferStore(_) | Stmt::IfThenElse(_) | Stmt::Evaluate(_) | Stmt::AssertStmt(_) => {
                self.block(stmt, vec![])
            }
        }
    }

    /// The statements of one scope.
    fn seq(&mut self, stmts: &[Stmt]) -> Stmt {
        // An allocation whose layout uses a `let` variable stays after the `let`.
        let hoisted = |stmt: &&Stmt| match stmt {
            Stmt::AllocBuffer(it) => !stmts.iter().any(|stmt| match stmt {
                Stmt::Bind(bind) => scopes::layout_uses(&it.buffer, &bind.var),
                _ => false,
            }),
            _ => false,
        };
        let (allocs, rest): (Vec<&Stmt>, Vec<&Stmt>) = stmts.iter().partition(hoisted);
        let allocs: Vec<Buffer> =
            allocs.into_iter().filter_map(|stmt| Some(stmt.as_alloc_buffer()?.buffer.clone())).collect();
        if allocs.is_empty() {
            return self.plain_seq(stmts);
        }
        let rest: Vec<Stmt> = rest.into_iter().cloned().collect();
        let depth = self.loops.len();
        self.locals.extend(allocs.iter().map(|buffer| (buffer.clone(), depth)));
        // The block around the iteration takes its name first; blocks inside it have axes for their own loops only.
        let name = self.unique(&format!("{}_scope", allocs[0].name));
        let body = self.inside(depth, None, |inner| inner.plain_seq(&rest));
        let span = allocs[0].span.clone();
        let res = self.realize(name, &body, allocs, &span);
        self.locals.truncate(self.locals.len() - res.1);
        res.0
    }

    /// The statements of one scope without allocations.
    fn plain_seq(&mut self, stmts: &[Stmt]) -> Stmt {
        let Some(first) = stmts.iter().position(|stmt| matches!(stmt, Stmt::Bind(_))) else {
            return Stmt::seq(stmts.iter().map(|stmt| self.stmt(stmt)).collect::<Vec<_>>());
        };
        let before: Vec<Stmt> = stmts[..first].iter().map(|stmt| self.stmt(stmt)).collect();
        let (Stmt::Bind(bind), rest) = (&stmts[first], &stmts[first + 1..]) else { return Stmt::nop() };
        let rest_seq = Stmt::seq(rest.iter().cloned());
        if scopes::sizes_a_buffer(&bind.var, &rest_seq) {
            let together = scopes::without_blocks(&Stmt::seq(stmts[first..].iter().cloned()));
            return Stmt::seq(before.into_iter().chain([self.block(&together, vec![])]));
        }
        if !is_leaf(&rest_seq) && keeps_value(&bind.value, &rest_seq) {
            let vars = FxHashMap::from_iter([(bind.var.id(), bind.value.clone())]);
            let after = match substitute_stmt(&rest_seq, &vars) {
                Stmt::SeqStmt(stmts) => self.plain_seq(&stmts),
                stmt => self.plain_seq(&[stmt]),
            };
            return Stmt::seq(before.into_iter().chain([after]));
        }
        let together = match holds_blocks(&rest_seq) {
            true => self.stored(bind, &rest_seq),
            false => self.block(&Stmt::seq(stmts[first..].iter().cloned()), vec![]),
        };
        Stmt::seq(before.into_iter().chain([together]))
    }

    /// `stmt` as one block over the loops around it.
    fn block(&mut self, stmt: &Stmt, alloc_buffers: Vec<Buffer>) -> Stmt {
        let stores = collect_stores(stmt);
        let name = match stores.last() {
            Some(store) => {
                let name = &store.buffer.name;
                let updates = stores.iter().any(|store| classify::update(store).is_some());
                let init = self.reduced.contains(&store.buffer) && !updates;
                if init { format!("{name}_init") } else { name.to_string() }
            }
            None if matches!(stmt, Stmt::AssertStmt(_)) => "assert".to_string(),
            None => "block".to_string(),
        };
        let span = stores.first().map(|store| store.span.clone()).unwrap_or_default();
        let name = self.unique(&name);
        self.realize(name, stmt, alloc_buffers, &span).0
    }

    /// A block of `body`, and how many buffers it allocates.
    fn realize(
        &mut self,
        name: Arc<str>,
        body: &Stmt,
        alloc_buffers: Vec<Buffer>,
        span: &Span,
    ) -> (Stmt, usize) {
        let loops = &self.loops[self.base..];
        let kinds = classify::axis_kinds(&scopes::without_blocks(body), &self.loops, self.base, &self.locals);
        let all: Vec<(Var, Range)> = self.loops.iter().map(|it| (it.var.clone(), it.range.clone())).collect();
        let mut vars = FxHashMap::default();
        let mut iter_vars = Vec::new();
        let mut iter_values = Vec::new();
        for (it, kind) in loops.iter().zip(kinds) {
            let value = PrimExpr::from(&it.var);
            let dom = range_of(&value, &all).unwrap_or_else(|| it.range.clone());
            let var = Var::with_span(format!("v{}", it.var.name()), it.var.ty().clone(), span.clone());
            vars.insert(it.var.id(), PrimExpr::from(&var));
            iter_vars.push(IterVar { var, dom, kind });
            iter_values.push(value);
        }
        let count = alloc_buffers.len();
        let block = Block {
            iter_vars: iter_vars.into(),
            alloc_buffers: alloc_buffers.into(),
            span: span.clone(),
            ..Block::new(name, substitute_stmt(body, &vars))
        };
        let block = Arc::new(with_access_regions(block));
        let predicate = PrimExpr::bool(true);
        (BlockRealize { iter_values: iter_values.into(), predicate, block }.into(), count)
    }

    fn unique(&mut self, hint: &str) -> Arc<str> {
        self.taken.unique(hint)
    }
}

/// True when there is no `for` loop, block or allocation inside; a `while` loop counts as a leaf, whatever it contains.
fn is_leaf(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::BufferStore(_) | Stmt::Bind(_) | Stmt::Evaluate(_) | Stmt::AssertStmt(_) => true,
        Stmt::SeqStmt(stmts) => stmts.iter().all(is_leaf),
        Stmt::IfThenElse(it) => is_leaf(&it.then_case) && it.else_case.iter().all(is_leaf),
        Stmt::While(_) => true,
        Stmt::For(_) | Stmt::BlockRealize(_) | Stmt::AllocBuffer(_) | Stmt::DeclBuffer(_) => false,
    }
}

/// True when `stmt` writes nothing that `value` reads.
fn keeps_value(value: &PrimExpr, stmt: &Stmt) -> bool {
    let written = collect_stores(stmt);
    !any_expr(
        value,
        &mut |it| matches!(it, PrimExpr::BufferLoad(load) if written.iter().any(|store| store.buffer == load.buffer)),
    )
}

/// All stores in `stmt`, in order.
pub(in crate::tir) fn collect_stores(stmt: &Stmt) -> Vec<Arc<BufferStore>> {
    struct Stores(Vec<Arc<BufferStore>>);
    impl Visitor for Stores {
        fn visit_expr(&mut self, _: &PrimExpr) {}

        fn visit_stmt(&mut self, stmt: &Stmt) {
            if let Stmt::BufferStore(store) = stmt {
                self.0.push(store.clone());
            }
            walk_stmt(self, stmt);
        }
    }
    let mut stores = Stores(vec![]);
    stores.visit_stmt(stmt);
    stores.0
}
