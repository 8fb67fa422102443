//! Makes the threads of a block wait for each other where they share memory.
//!
//! TVM counterpart: `ThreadSync`.
//! Requires: kernels ([`make_kernels`](super::make_kernels)), whose loops over one thread index are side by side, and
//! iterations of such a loop that are independent of each other ([`check_loop_kinds`](super::check_loop_kinds)).
//! Ensures: between two loops over threads, and between two runs of the same one, there is a barrier if one of them writes
//! shared memory that the other one accesses. All threads of a block reach every barrier; a program in which some threads
//! would not is an error, also if the barrier is its own.

use std::collections::BTreeSet;

use tvm_runtime::DataType;

use crate::ir::{BufferId, FirstError, IrError, Span, Var, VarId};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::reads_memory;
use crate::tir::derive_blocks::{collect_stores, is_injective_in};
use crate::tir::{
    Buffer, Evaluate, For, ForKind, IfThenElse, Intrinsic, Mutator, PrimCallee, PrimExpr, PrimFunc, Range,
    Scope, Stmt, ThreadTag, Visitor, While, any_expr, walk_expr, walk_stmt,
};

/// Inserts barriers.
pub fn thread_sync() -> Pass {
    prim_func_pass("ThreadSync", |func, _, _| {
        let mut kernels =
            Kernels { explicit: has_barrier(&func.body), span: &func.span, errors: FirstError::default() };
        let body = kernels.mutate_stmt(&func.body);
        kernels.errors.finish(body.map(|body| PrimFunc { body, ..func.clone() }))
    })
}

/// Finds the kernels.
struct Kernels<'a> {
    /// True if the program has barriers of its own, which then order accesses to memory of the GPU as well.
    explicit: bool,
    span: &'a Span,
    errors: FirstError,
}

impl Mutator for Kernels<'_> {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) if matches!(node.kind, ForKind::ThreadBinding(_)) => {
                let mut bound = Vec::new();
                for_each_bind(stmt, &mut |var| bound.push(var.id()));
                let mut sync = Sync { global: self.explicit, unshared: None, threads: Vec::new(), bound };
                let new = sync.stmt(stmt, &mut Accesses::default());
                self.errors.keep(reaches_all(&new, self.span));
                if let Some(buffer) = sync.unshared {
                    let message =
                        format!("threads share buffer `{}`, which is not in shared memory", buffer.name);
                    let help = "give it the scope `shared`, or allocate it outside of the kernel";
                    self.errors.keep::<()>(Err(IrError::new(message, &buffer.span).help(help)));
                }
                Some(new)
            }
            _ => self.walk_stmt(stmt),
        }
    }
}

/// Buffers that threads accessed since the last barrier.
#[derive(Clone, Default, PartialEq)]
struct Accesses {
    reads: BTreeSet<BufferId>,
    writes: BTreeSet<BufferId>,
}

impl Accesses {
    /// True if some access of `self` and one of `next` must not happen at the same time.
    fn conflict(&self, next: &Accesses) -> bool {
        !self.writes.is_disjoint(&next.reads)
            || !self.writes.is_disjoint(&next.writes)
            || !self.reads.is_disjoint(&next.writes)
    }

    fn extend(&mut self, other: Accesses) {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
    }
}

/// Inserts barriers outside of the loops over threads.
struct Sync {
    /// True if memory of the GPU counts as shared.
    global: bool,
    /// A buffer that only one thread would have, in a program whose own barriers say that threads share it.
    unshared: Option<Buffer>,
    /// The loops over blocks and threads around the statement.
    threads: Vec<(Var, Range)>,
    /// The variables that the kernel binds.
    bound: Vec<VarId>,
}

impl Sync {
    /// `stmt` with barriers; `pending` are the accesses since the last barrier before it, and then of that after it.
    fn stmt(&mut self, stmt: &Stmt, pending: &mut Accesses) -> Stmt {
        match stmt {
            Stmt::For(node) => match node.kind {
                ForKind::ThreadBinding(_) if has_thread_loops(&node.body) || !is_thread(node.kind) => {
                    let range = Range { min: node.min.clone(), extent: node.extent.clone() };
                    self.threads.push((node.loop_var.clone(), range));
                    let body = self.stmt(&node.body, pending);
                    self.threads.pop();
                    For { body, ..(**node).clone() }.into()
                }
                ForKind::ThreadBinding(_) => self.atom(stmt, pending),
                ForKind::Serial | ForKind::Unrolled | ForKind::Parallel | ForKind::Vectorized => {
                    self.repeated(node, pending)
                }
            },
            Stmt::SeqStmt(stmts) => {
                let stmts: Vec<Stmt> = stmts.iter().map(|stmt| self.stmt(stmt, pending)).collect();
                Stmt::seq(stmts)
            }
            Stmt::IfThenElse(node) => {
                let mut after = pending.clone();
                let (head, new) = self.branch(node, &mut after);
                // One barrier before the branch, instead of one inside of it and one after it.
                if !head && barriers(&new) > 0 {
                    let mut alone = Accesses::default();
                    let (_, new_alone) = self.branch(node, &mut alone);
                    if barriers(&new_alone) < barriers(&new) {
                        *pending = alone;
                        return with_barrier(true, new_alone);
                    }
                }
                *pending = after;
                with_barrier(head, new)
            }
            Stmt::While(node) => {
                // Its condition is read again after each run of the body.
                let mut state = pending.clone();
                loop {
                    let mut after = state.clone();
                    let head = self.head(&[&node.condition], &mut after);
                    let body = self.stmt(&node.body, &mut after);
                    let mut merged = state.clone();
                    merged.extend(after.clone());
                    if merged == state {
                        pending.extend(after);
                        let body = Stmt::seq([body].into_iter().chain(head.then(barrier)));
                        return with_barrier(head, While { body, ..(**node).clone() }.into());
                    }
                    state = merged;
                }
            }
            Stmt::Evaluate(node) if is_barrier(&node.value) => {
                *pending = Accesses::default();
                stmt.clone()
            }
            Stmt::AllocBuffer(alloc) => {
                let own = matches!(alloc.buffer.scope, Scope::Global | Scope::Local);
                if own && self.global {
                    self.unshared.get_or_insert_with(|| alloc.buffer.clone());
                }
                stmt.clone()
            }
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::Bind(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => self.atom(stmt, pending),
        }
    }

    /// `stmt`, after a barrier if it conflicts with the accesses before it. Its own threads are independent of each other.
    fn atom(&mut self, stmt: &Stmt, pending: &mut Accesses) -> Stmt {
        let wait = after(self.accesses(stmt), pending);
        with_barrier(wait, stmt.clone())
    }

    /// True if a barrier must stand before something that evaluates `exprs`.
    fn head(&mut self, exprs: &[&PrimExpr], pending: &mut Accesses) -> bool {
        let mut own = Accesses::default();
        for expr in exprs {
            let value = (*expr).clone();
            own.extend(self.accesses(&Evaluate { value }.into()));
        }
        after(own, pending)
    }

    /// A branch that a block takes or not, and whether a barrier must stand before its condition.
    fn branch(&mut self, node: &IfThenElse, pending: &mut Accesses) -> (bool, Stmt) {
        let head = self.head(&[&node.condition], pending);
        let mut other = pending.clone();
        let then_case = self.stmt(&node.then_case, pending);
        let else_case = node.else_case.as_ref().map(|it| self.stmt(it, &mut other));
        pending.extend(other);
        (head, IfThenElse { then_case, else_case, ..node.clone() }.into())
    }

    /// A loop that a block runs. If what it accesses conflicts with what was accessed before it, but not with what its own
    /// iterations access, the barrier is before the loop instead of inside of it.
    fn repeated(&mut self, node: &For, pending: &mut Accesses) -> Stmt {
        let extents = [&node.min, &node.extent];
        let mut alone = Accesses::default();
        self.head(&extents, &mut alone);
        let body_alone = self.iterated(node, &mut alone);
        let head = self.head(&extents, pending);
        let body = self.iterated(node, pending);
        if barriers(&body_alone) < barriers(&body) {
            *pending = alone;
            return with_barrier(true, For { body: body_alone, ..node.clone() }.into());
        }
        with_barrier(head, For { body, ..node.clone() }.into())
    }

    /// The body of a loop: what is accessed at its end comes before what is accessed at its start.
    fn iterated(&mut self, node: &For, pending: &mut Accesses) -> Stmt {
        let apart = self.written_apart(node);
        loop {
            let mut after = pending.clone();
            let body = self.stmt(&node.body, &mut after);
            let mut merged = pending.clone();
            let mut carried = after.clone();
            carried.writes.retain(|buffer| !apart.contains(buffer));
            merged.extend(carried);
            if merged == *pending {
                // There may be no iteration at all.
                pending.extend(after);
                return body;
            }
            *pending = merged;
        }
    }

    /// The buffers that a loop only writes, with one store, each iteration other elements than the others, whatever the threads.
    /// Nothing is known of indices that depend on memory or on variables that the kernel binds.
    fn written_apart(&self, node: &For) -> Vec<BufferId> {
        let accesses = self.accesses(&node.body);
        let range =
            |it: &For| (it.loop_var.clone(), Range { min: it.min.clone(), extent: it.extent.clone() });
        let mut ranges = self.threads.clone();
        ranges.push(range(node));
        for_each_loop(&node.body, &mut |it| ranges.push(range(it)));
        let stores = collect_stores(&node.body);
        let known = |index: &PrimExpr| {
            !reads_memory(index)
                && !any_expr(index, &mut |it| it.as_var().is_some_and(|var| self.bound.contains(&var.id())))
        };
        let apart = |buffer: &BufferId| {
            let mut own = stores.iter().filter(|it| it.buffer.id == *buffer);
            let (Some(store), None) = (own.next(), own.next()) else { return false };
            store.indices.iter().any(|index| known(index) && is_injective_in(index, &node.loop_var, &ranges))
        };
        accesses.writes.difference(&accesses.reads).filter(|it| apart(it)).copied().collect()
    }

    fn accesses(&self, stmt: &Stmt) -> Accesses {
        let mut collect = Collect { global: self.global, found: Accesses::default() };
        collect.visit_stmt(stmt);
        collect.found
    }
}

/// The number of barriers in `stmt`.
fn barriers(stmt: &Stmt) -> usize {
    let own = matches!(stmt, Stmt::Evaluate(it) if is_barrier(&it.value));
    usize::from(own) + stmt.children().into_iter().map(barriers).sum::<usize>()
}

/// Visits the loops of `stmt`, the outer ones first.
pub(super) fn for_each_loop(stmt: &Stmt, visit: &mut impl FnMut(&For)) {
    if let Stmt::For(node) = stmt {
        visit(node);
    }
    stmt.children().into_iter().for_each(|it| for_each_loop(it, visit));
}

fn for_each_bind(stmt: &Stmt, visit: &mut impl FnMut(&Var)) {
    if let Stmt::Bind(node) = stmt {
        visit(&node.var);
    }
    stmt.children().into_iter().for_each(|it| for_each_bind(it, visit));
}

/// True if a barrier must stand before the accesses `own`, which then follow `pending`.
fn after(own: Accesses, pending: &mut Accesses) -> bool {
    let wait = pending.conflict(&own);
    if wait {
        *pending = Accesses::default();
    }
    pending.extend(own);
    wait
}

/// True for loops over the threads of a block.
fn is_thread(kind: ForKind) -> bool {
    matches!(
        kind,
        ForKind::ThreadBinding(ThreadTag::ThreadIdxX | ThreadTag::ThreadIdxY | ThreadTag::ThreadIdxZ)
    )
}

fn has_thread_loops(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For(it) if is_thread(it.kind)) || stmt.children().into_iter().any(has_thread_loops)
}

fn with_barrier(wait: bool, stmt: Stmt) -> Stmt {
    Stmt::seq(wait.then(barrier).into_iter().chain([stmt]))
}

/// The call at which all threads of a block wait for each other.
fn barrier() -> Stmt {
    let scope = PrimExpr::StringImm(Scope::Shared.name().into());
    Evaluate { value: PrimExpr::call(Intrinsic::StorageSync, [scope], DataType::I32) }.into()
}

fn is_barrier(expr: &PrimExpr) -> bool {
    matches!(expr, PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::StorageSync))
}

/// True for calls at which the threads of a warp exchange values.
fn is_exchange(expr: &PrimExpr) -> bool {
    matches!(expr, PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::WarpShuffleXor))
}

fn has_barrier(stmt: &Stmt) -> bool {
    struct Find(bool);
    impl Visitor for Find {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.0 |= any_expr(expr, &mut |it| is_barrier(it));
        }
    }
    let mut find = Find(false);
    find.visit_stmt(stmt);
    find.0
}

struct Collect {
    global: bool,
    found: Accesses,
}

impl Collect {
    fn counts(&self, buffer: &Buffer) -> bool {
        match buffer.scope {
            Scope::Shared | Scope::SharedDyn | Scope::Warp => true,
            Scope::Global => self.global,
            Scope::Local => false,
        }
    }
}

impl Visitor for Collect {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr
            && self.counts(&load.buffer)
        {
            self.found.reads.insert(load.buffer.id);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt
            && self.counts(&store.buffer)
        {
            self.found.writes.insert(store.buffer.id);
        }
        walk_stmt(self, stmt);
    }
}

/// Checks that all threads of a block reach the barriers that `kernel` has itself.
fn reaches_all(kernel: &Stmt, span: &Span) -> Result<(), IrError> {
    let mut flow =
        Flow { threads: Vec::new(), divergent: None, place: span.clone(), errors: FirstError::default() };
    flow.visit_stmt(kernel);
    flow.errors.finish(())
}

/// Walks over a kernel and keeps what decides whether a statement runs.
struct Flow {
    /// The variables that differ between threads.
    threads: Vec<VarId>,
    /// What decides whether the statement runs, if that may differ between threads.
    divergent: Option<&'static str>,
    place: Span,
    errors: FirstError,
}

impl Flow {
    /// True if `expr` may differ between the threads of a block.
    fn differs(&self, expr: &PrimExpr) -> bool {
        !self.threads.is_empty()
            && (reads_memory(expr)
                || any_expr(expr, &mut |it| it.as_var().is_some_and(|var| self.threads.contains(&var.id()))))
    }

    fn inside(&mut self, heads: &[&PrimExpr], what: &'static str, stmts: &[&Stmt]) {
        let outer = self.divergent;
        if heads.iter().any(|it| self.differs(it)) {
            self.divergent = Some(what);
        }
        stmts.iter().for_each(|it| self.visit_stmt(it));
        self.divergent = outer;
    }
}

impl Visitor for Flow {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        let waits = |it: &PrimExpr| is_barrier(it) || is_exchange(it);
        let Some(what) = self.divergent.filter(|_| any_expr(expr, &mut |it| waits(it))) else { return };
        let message = format!("threads wait for each other in {what} that not all of them take");
        let help = "share memory only between loops over threads that are in no branch or loop of one thread";
        let err = IrError::new(message, &self.place).help(help);
        self.errors.keep::<()>(Err(err));
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        let outer = self.place.clone();
        if !stmt.span().is_none() {
            self.place = stmt.span();
        }
        match stmt {
            Stmt::For(node) => match node.kind {
                ForKind::ThreadBinding(_) => {
                    self.threads.extend(is_thread(node.kind).then(|| node.loop_var.id()));
                    self.visit_stmt(&node.body);
                }
                ForKind::Serial | ForKind::Unrolled | ForKind::Parallel | ForKind::Vectorized => {
                    self.inside(&[&node.min, &node.extent], "a loop", &[&node.body]);
                }
            },
            Stmt::IfThenElse(node) => {
                let cases: Vec<&Stmt> = [&node.then_case].into_iter().chain(&node.else_case).collect();
                self.inside(&[&node.condition], "a branch", &cases);
            }
            Stmt::While(node) => self.inside(&[&node.condition], "a loop", &[&node.body]),
            Stmt::Bind(node) => {
                if self.differs(&node.value) {
                    self.threads.push(node.var.id());
                }
            }
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => walk_stmt(self, stmt),
        }
        self.place = outer;
    }
}
