//! Makes one program of a thread of each kernel: the loops over threads become the indices of the thread that runs it.
//!
//! ```text
//! for bx in blockIdx.x {                        for bx in blockIdx.x {
//!     for k in 0..n {                               alloc tile, shared;
//!         for a in threadIdx.x { tile[a] = .. }     for tx in threadIdx.x {
//!         storage_sync();                               for k in 0..n {
//!         for b in threadIdx.x { .. tile[7 - b] }           tile[tx] = ..; storage_sync(); .. tile[7 - tx]
//! ```
//!
//! TVM counterpart: `UnifyThreadBinding`, and the part of `LowerThreadAllreduce` and `MakeDeviceKernel` that moves
//! allocations.
//! Requires: kernels with barriers ([`thread_sync`](super::thread_sync)). Ensures: a kernel is loops over blocks,
//! allocations of shared memory, loops over threads, and a body without such loops; every store is run by each thread once.
//! Extents of loops over one index are equal, and known to the host. Memory of a thread is allocated in its body.

#[cfg(test)]
pub(super) mod tests;

use rustc_hash::{FxHashMap, FxHashSet};

use super::context::analyzer_for;
use super::util::{DeepSubstitute, accesses};
use crate::arith::{Analyzer, same};
use crate::ir::{BufferId, IrError, Span, Var, VarId};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::{is_shared, reads_memory};
use crate::tir::{
    AllocBuffer, Buffer, For, ForKind, IfThenElse, Mutator, PrimExpr, PrimFunc, Scope, Stmt, ThreadTag,
    While, any_expr,
};

/// The order of the loops, outermost first.
const ORDER: [ThreadTag; 6] = [
    ThreadTag::BlockIdxZ,
    ThreadTag::BlockIdxY,
    ThreadTag::BlockIdxX,
    ThreadTag::ThreadIdxZ,
    ThreadTag::ThreadIdxY,
    ThreadTag::ThreadIdxX,
];

/// Turns loops over threads into the indices of one thread.
pub fn unify_thread_binding() -> Pass {
    prim_func_pass("UnifyThreadBinding", |func, _, _| {
        let mut host = Host { analyzer: analyzer_for(func), span: &func.span };
        Ok(Some(PrimFunc { body: host.stmt(&func.body, &[])?, ..func.clone() }))
    })
}

/// The part of a program outside of its kernels.
struct Host<'a> {
    analyzer: Analyzer,
    span: &'a Span,
}

impl Host<'_> {
    /// `stmt` with its kernels in the new form; `allocs` are to be allocated in the kernel that uses them.
    fn stmt(&mut self, stmt: &Stmt, allocs: &[AllocBuffer]) -> Result<Stmt, IrError> {
        match stmt {
            Stmt::For(node) => match node.kind {
                ForKind::ThreadBinding(_) => self.kernel(node, allocs),
                ForKind::Serial | ForKind::Parallel | ForKind::Vectorized | ForKind::Unrolled => {
                    Ok(For { body: self.stmt(&node.body, allocs)?, ..(**node).clone() }.into())
                }
            },
            Stmt::IfThenElse(node) => {
                let then_case = self.stmt(&node.then_case, allocs)?;
                let else_case = node.else_case.as_ref().map(|it| self.stmt(it, allocs)).transpose()?;
                Ok(IfThenElse { then_case, else_case, ..(**node).clone() }.into())
            }
            Stmt::SeqStmt(stmts) => self.sequence(stmts, allocs),
            Stmt::While(_)
            | Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => Ok(stmt.clone()),
        }
    }

    /// Moves the allocations of what a kernel has for itself into the kernel.
    fn sequence(&mut self, stmts: &[Stmt], allocs: &[AllocBuffer]) -> Result<Stmt, IrError> {
        let mut moved = allocs.to_vec();
        let mut new = Vec::new();
        let mut global = Rescope::default();
        for (at, stmt) in stmts.iter().enumerate() {
            let Stmt::AllocBuffer(alloc) = stmt else { continue };
            let buffer = &alloc.buffer;
            let kernels: usize = stmts[at + 1..].iter().map(|it| runs_of(it, buffer)).sum();
            match buffer.scope {
                Scope::Global => {}
                _ if kernels <= 1 => moved.push((**alloc).clone()),
                // What several kernels use is in memory of the GPU.
                Scope::Local => global.add(buffer),
                Scope::Shared | Scope::SharedDyn | Scope::Warp => {
                    let (name, scope) = (&buffer.name, buffer.scope.name());
                    let message = format!("buffer `{name}` in {scope} memory is used by several kernels");
                    let span = if buffer.span.is_none() { self.span } else { &buffer.span };
                    return Err(IrError::new(message, span).help(
                        "memory of a block lasts as long as one kernel: use global memory between kernels",
                    ));
                }
            }
        }
        for stmt in stmts {
            let stmt = match stmt {
                Stmt::AllocBuffer(it) if moved.iter().any(|moved| moved.buffer == it.buffer) => continue,
                other => self.stmt(other, &moved)?,
            };
            new.push(global.mutate_stmt(&stmt).unwrap_or(stmt));
        }
        Ok(Stmt::seq(new))
    }

    fn kernel(&mut self, node: &For, allocs: &[AllocBuffer]) -> Result<Stmt, IrError> {
        let stmt = Stmt::from(node.clone());
        let allocs: Vec<&AllocBuffer> = allocs.iter().filter(|it| accesses(&stmt, &it.buffer)).collect();
        let (shared, own): (Vec<_>, Vec<_>) = allocs.into_iter().partition(|it| is_shared(it.buffer.scope));
        let place = |span: &Span| if span.is_none() { self.span.clone() } else { span.clone() };
        let mut kernel = Kernel {
            analyzer: self.analyzer.clone(),
            span: place(&node.span),
            loops: Vec::new(),
            around: Vec::new(),
            bound: FxHashSet::default(),
            shared: shared.into_iter().cloned().collect(),
        };
        kernel.collect(&stmt)?;
        let body = kernel.body(&stmt)?;
        if !kernel.shared.is_empty() {
            kernel.complete();
        }
        let mut body = Stmt::seq(own.into_iter().map(|it| it.clone().into()).chain([body]));
        let mut at = ORDER.len();
        while at > 0 {
            at -= 1;
            let tag = ORDER[at];
            if tag == ThreadTag::BlockIdxX {
                let shared = std::mem::take(&mut kernel.shared);
                body = Stmt::seq(shared.into_iter().map(Stmt::from).chain([body]));
            }
            if let Some(it) = kernel.loops.iter().find(|it| it.tag == tag) {
                let kind = ForKind::ThreadBinding(tag);
                let head = For::serial(it.var.clone(), it.extent.clone(), body);
                body = For { kind, span: it.span.clone(), ..head }.into();
            }
        }
        Ok(body)
    }
}

/// How many kernels in `stmt` use `buffer`, or 2 if a loop may run one several times.
fn runs_of(stmt: &Stmt, buffer: &Buffer) -> usize {
    if !accesses(stmt, buffer) {
        return 0;
    }
    match stmt {
        Stmt::For(node) => match node.kind {
            ForKind::ThreadBinding(_) => 1,
            ForKind::Serial | ForKind::Parallel | ForKind::Vectorized | ForKind::Unrolled => 2,
        },
        _ => stmt.children().into_iter().map(|it| runs_of(it, buffer)).sum(),
    }
}

/// Moves buffers to memory of the GPU.
#[derive(Default)]
struct Rescope(FxHashMap<BufferId, Buffer>);

impl Rescope {
    fn add(&mut self, buffer: &Buffer) {
        self.0.insert(buffer.id, buffer.renew(|node| node.scope = Scope::Global));
    }
}

impl Mutator for Rescope {
    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        self.0.get(&buffer.id).cloned()
    }
}

/// The loops over one thread index.
struct Loop {
    tag: ThreadTag,
    /// The index, from 0.
    var: Var,
    extent: PrimExpr,
    span: Span,
}

/// A kernel while it is rewritten.
struct Kernel {
    analyzer: Analyzer,
    span: Span,
    loops: Vec<Loop>,
    /// The indices of the loops around the current statement.
    around: Vec<ThreadTag>,
    /// Variables that have their value in the kernel.
    bound: FxHashSet<VarId>,
    shared: Vec<AllocBuffer>,
}

const fn is_block(tag: ThreadTag) -> bool {
    matches!(tag, ThreadTag::BlockIdxX | ThreadTag::BlockIdxY | ThreadTag::BlockIdxZ)
}

impl Kernel {
    fn error(&self, message: String, span: &Span, help: &str) -> IrError {
        let span = if span.is_none() { &self.span } else { span };
        IrError::new(message, span).help(help)
    }

    /// Finds the loops over thread indices and checks them.
    fn collect(&mut self, stmt: &Stmt) -> Result<(), IrError> {
        match stmt {
            Stmt::For(node) => {
                self.bound.insert(node.loop_var.id());
                let ForKind::ThreadBinding(tag) = node.kind else { return self.collect(&node.body) };
                self.check(tag, node)?;
                self.around.push(tag);
                let res = self.collect(&node.body);
                self.around.pop();
                res
            }
            Stmt::Bind(node) => {
                self.bound.insert(node.var.id());
                Ok(())
            }
            Stmt::SeqStmt(_) | Stmt::IfThenElse(_) | Stmt::While(_) => {
                stmt.children().into_iter().try_for_each(|it| self.collect(it))
            }
            Stmt::BufferStore(_)
            | Stmt::BlockRealize(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => Ok(()),
        }
    }

    fn check(&mut self, tag: ThreadTag, node: &For) -> Result<(), IrError> {
        let (name, var) = (tag.name(), node.loop_var.name());
        if self.around.contains(&tag) {
            let message = format!("loop `{var}` over {name} is inside of a loop over {name}");
            let help = "one thread has one index: bind one of the loops, or put them beside each other";
            return Err(self.error(message, &node.span, help));
        }
        if is_block(tag) && self.around.iter().any(|it| !is_block(*it)) {
            let message = format!("loop `{var}` over {name} is inside of a loop over the threads of a block");
            return Err(self.error(
                message,
                &node.span,
                "put loops over blocks outside of loops over threads",
            ));
        }
        let inner = |it: &PrimExpr| it.as_var().is_some_and(|var| self.bound.contains(&var.id()));
        if reads_memory(&node.extent) || any_expr(&node.extent, &mut |it| inner(it)) {
            let message =
                format!("the number of iterations of loop `{var}` over {name} is not known at the launch");
            let help = "bind a loop whose extent is a constant or depends on extents of parameters alone";
            return Err(self.error(message, &node.span, help));
        }
        let Some(known) = self.loops.iter().find(|it| it.tag == tag) else {
            let (var, extent, span) = (node.loop_var.renew(), node.extent.clone(), node.span.clone());
            self.loops.push(Loop { tag, var, extent, span });
            return Ok(());
        };
        if same(&known.extent, &node.extent) || self.analyzer.can_prove_equal(&known.extent, &node.extent) {
            return Ok(());
        }
        let message = format!(
            "loop `{var}` over {name} has {} iterations, another loop over {name} of the same kernel has {}",
            node.extent, known.extent
        );
        Err(self.error(message, &node.span, "split one of the loops, so that both have the same extent"))
    }

    /// What one thread does in `stmt`.
    fn body(&mut self, stmt: &Stmt) -> Result<Stmt, IrError> {
        Ok(match stmt {
            Stmt::For(node) => {
                let ForKind::ThreadBinding(tag) = node.kind else {
                    return Ok(For { body: self.body(&node.body)?, ..(**node).clone() }.into());
                };
                self.around.push(tag);
                let body = self.body(&node.body);
                self.around.pop();
                let index = self.loops.iter().find(|it| it.tag == tag).map(|it| PrimExpr::from(&it.var));
                let value = node.min.clone() + index.unwrap_or_else(|| PrimExpr::index(0));
                DeepSubstitute::stmt(FxHashMap::from_iter([(node.loop_var.id(), value)]), &body?)
            }
            Stmt::IfThenElse(node) => {
                let then_case = self.body(&node.then_case)?;
                let else_case = node.else_case.as_ref().map(|it| self.body(it)).transpose()?;
                IfThenElse { then_case, else_case, ..(**node).clone() }.into()
            }
            Stmt::While(node) => While { body: self.body(&node.body)?, ..(**node).clone() }.into(),
            Stmt::SeqStmt(stmts) => {
                let stmts: Vec<Stmt> = stmts.iter().map(|it| self.body(it)).collect::<Result<_, _>>()?;
                Stmt::seq(stmts)
            }
            Stmt::AllocBuffer(node) if is_shared(node.buffer.scope) => {
                self.allocate(node)?;
                Stmt::nop()
            }
            Stmt::BufferStore(node) => {
                self.runs_once(&format!("a store to `{}`", node.buffer.name), &node.span)?;
                stmt.clone()
            }
            Stmt::BlockRealize(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => stmt.clone(),
        })
    }

    /// Fails unless the current statement is in a loop over every thread index of the kernel: without one of them, each of
    /// its threads would run the statement.
    fn runs_once(&self, what: &str, span: &Span) -> Result<(), IrError> {
        let Some(missing) = self.loops.iter().find(|it| !self.around.contains(&it.tag)) else {
            return Ok(());
        };
        let name = missing.tag.name();
        let message = format!("{what} is in a kernel with loops over {name}, but in none of these loops");
        Err(self.error(
            message,
            span,
            &format!("bind a loop around it to {name}, or compute it in another kernel"),
        ))
    }

    /// Adds a loop over blocks and one over threads where there are none: between them, shared memory is allocated.
    fn complete(&mut self) {
        for (blocks, tag, name) in [(true, ThreadTag::BlockIdxX, "bx"), (false, ThreadTag::ThreadIdxX, "tx")]
        {
            if self.loops.iter().all(|it| is_block(it.tag) != blocks) {
                let (var, extent, span) = (Var::index(name), PrimExpr::index(1), self.span.clone());
                self.loops.push(Loop { tag, var, extent, span });
            }
        }
    }

    /// Moves an allocation of shared memory out of the loops over threads.
    fn allocate(&mut self, node: &AllocBuffer) -> Result<(), IrError> {
        let buffer = &node.buffer;
        if self.around.iter().any(|it| !is_block(*it)) {
            let message = format!("buffer `{}` in shared memory is allocated by each thread", buffer.name);
            return Err(self.error(message, &buffer.span, "allocate it outside of the loops over threads"));
        }
        self.shared.push(node.clone());
        Ok(())
    }
}
