//! Lets threads of a kernel go on while elements are copied from memory of the GPU to shared memory.
//!
//! ```text
//! for t in threadIdx.x {                              for t in threadIdx.x {
//!     for k in 0..9 (async_copy) {                        for k in 0..9 {
//!         s[128 * k + t] = x[128 * k + t]                     s[128 * k + t] = async_copy(x[128 * k + t])
//!     }                                                   }
//! }                                                   }
//! ```
//!
//! Such a store takes place as late as at the next barrier, so all copies of a thread are under way together. What reads `s` is in
//! another loop over the threads, and [`thread_sync`](super::thread_sync) puts a barrier before it.
//!
//! TVM counterpart: `InjectPTXAsyncCopy`, and the block attribute `async_scope`.
//! Requires: kernels without barriers. Ensures: no loop has the annotation. A loop over threads that does more than copy so stays as
//! it is.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::thread_sync::for_each_loop;
use crate::ir::{BufferId, IrError, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::is_shared;
use crate::tir::derive_blocks::{collect_stores, is_injective_in};
use crate::tir::{
    BufferStore, For, ForKind, Intrinsic, Mutator, PrimCallee, PrimExpr, PrimFunc, Range, Scope, Stmt,
    Visitor, walk_expr, walk_stmt,
};

/// Annotation of a loop in a kernel: a thread need not wait for what the loop copies to shared memory before it goes on.
pub const ASYNC_COPY: &str = "async_copy";

/// Marks the stores of copies to shared memory in loops with the annotation.
pub fn async_copies() -> Pass {
    prim_func_pass("AsyncCopies", |func, _, _| -> Result<_, IrError> {
        let body = Marked { threads: None, fits: false }.mutate_stmt(&func.body);
        Ok(body.map(|body| PrimFunc { body, ..func.clone() }))
    })
}

/// Marks copies in loops with the annotation, and removes it.
struct Marked {
    /// The innermost loop over threads.
    threads: Option<Arc<For>>,
    /// True in a loop with the annotation whose stores can be marked.
    fits: bool,
}

impl Mutator for Marked {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) if matches!(node.kind, ForKind::ThreadBinding(_)) => {
                let outer = self.threads.replace(node.clone());
                let new = self.walk_stmt(stmt);
                self.threads = outer;
                new
            }
            Stmt::For(node) if node.annotations.get(ASYNC_COPY).is_some() => {
                let mut plain = (**node).clone();
                plain.annotations.remove(ASYNC_COPY);
                let outer = self.fits;
                self.fits = self.threads.as_ref().is_some_and(|it| copies_alone(it));
                let body = self.mutate_stmt(&plain.body);
                self.fits = outer;
                Some(For { body: body.unwrap_or_else(|| plain.body.clone()), ..plain }.into())
            }
            Stmt::BufferStore(store) if self.fits => marked(store),
            _ => self.walk_stmt(stmt),
        }
    }
}

/// True if the loop `threads` copies to shared memory alone, reads none of it, and each thread writes an element once: nothing says
/// which of two copies to the same place is the last.
fn copies_alone(threads: &For) -> bool {
    let accesses = Accesses::of(&threads.body);
    let mut loops: Vec<(Var, Range)> = vec![(threads.loop_var.clone(), threads.range())];
    for_each_loop(&threads.body, &mut |it| loops.push((it.loop_var.clone(), it.range())));
    let once = |store: &BufferStore| {
        accesses.writes.iter().filter(|id| **id == store.buffer.id).count() == 1
            && loops
                .iter()
                .filter(|it| !it.1.extent.is_const(1))
                .all(|(var, _)| store.indices.iter().any(|index| is_injective_in(index, var, &loops)))
    };
    let stores = collect_stores(&threads.body);
    accesses.plain
        && stores.iter().all(|it| is_shared(it.buffer.scope) && once(it))
        && !accesses.writes.iter().any(|id| accesses.reads.contains(id))
}

/// The store, asynchronous; `None` if it is no plain copy from memory of the GPU.
fn marked(store: &BufferStore) -> Option<Stmt> {
    is_copy(&store.value).then(|| {
        let value = PrimExpr::call(Intrinsic::AsyncCopy, [store.value.clone()], store.value.dtype());
        BufferStore { value, ..store.clone() }.into()
    })
}

/// True for elements of memory of the GPU of a size that can be copied so, also those that are 0 where a condition does not hold.
fn is_copy(value: &PrimExpr) -> bool {
    match value {
        PrimExpr::BufferLoad(load) => {
            load.buffer.scope == Scope::Global && [4, 8].contains(&load.buffer.dtype.bytes())
        }
        PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
            matches!(&call.args[1], PrimExpr::BufferLoad(_))
                && is_copy(&call.args[1])
                && call.args[2].is_zero()
        }
        _ => false,
    }
}

/// Marks all stores of plain copies.
pub(super) struct Asynchronous;

impl Mutator for Asynchronous {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::BufferStore(store) => marked(store),
            _ => self.walk_stmt(stmt),
        }
    }
}

/// What a statement accesses.
#[derive(Default)]
pub(super) struct Accesses {
    pub(super) reads: Vec<BufferId>,
    pub(super) writes: Vec<BufferId>,
    /// False if there is something with another effect, as a barrier or an assertion.
    pub(super) plain: bool,
}

impl Accesses {
    pub(super) fn of(stmt: &Stmt) -> Accesses {
        let mut accesses = Accesses { plain: true, ..Accesses::default() };
        accesses.visit_stmt(stmt);
        accesses
    }

    /// True if it writes buffers of `own` alone, and reads others alone.
    pub(super) fn fills(&self, own: &[BufferId]) -> bool {
        self.plain
            && !self.writes.is_empty()
            && self.writes.iter().all(|id| own.contains(id))
            && !self.reads.iter().any(|id| own.contains(id))
    }
}

impl Visitor for Accesses {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr {
            self.reads.push(load.buffer.id);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::BufferStore(store) => self.writes.push(store.buffer.id),
            Stmt::Evaluate(_) | Stmt::AssertStmt(_) | Stmt::While(_) => self.plain = false,
            Stmt::For(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_) => {}
        }
        walk_stmt(self, stmt);
    }
}
