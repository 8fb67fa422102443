//! Separates what the host does from what the GPU does: launches, and memory that a thread cannot allocate.
//!
//! TVM counterpart: `SplitHostDevice`, `LowerDeviceStorageAccessInfo`. The kernels stay in the program, as the bodies of the
//! loops that launch them; [`DeviceKernel`](crate::tir::analysis::DeviceKernel) takes them out for code generators.
//! Requires: flat buffers, kernels of one thread each ([`unify_thread_binding`](super::unify_thread_binding)). Ensures: memory
//! of a thread has a constant size; other memory is allocated by the host before the launch, a part for each thread. The
//! host's allocations are in memory of the GPU. Before a launch whose extents are symbolic, they are compared with the limits
//! of the GPU.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::abi::Status;

use crate::ir::{BufferId, FirstError, IrError, Span, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::target::{GpuArch, GpuLimits};
use crate::tir::analysis::{DeviceKernel, is_shared, reads_memory};
use crate::tir::{
    AllocBuffer, AssertStmt, Buffer, BufferLoad, BufferStore, Failure, For, ForKind, Mutator, PrimExpr,
    PrimFunc, Scope, Stmt, any_expr,
};

/// The most elements that all threads of a kernel allocate together.
const MOST_ELEMENTS: i64 = 1 << 44;

/// Separates host and device.
pub fn split_host_device() -> Pass {
    prim_func_pass("SplitHostDevice", |func, _, ctx| {
        let limits = *ctx.target.gpu_arch().unwrap_or(GpuArch::DEFAULT).limits();
        let mut host = Host { limits, span: &func.span, errors: FirstError::default() };
        let body = host.mutate_stmt(&func.body);
        host.errors.finish(body.map(|body| PrimFunc { body, ..func.clone() }))
    })
}

struct Host<'a> {
    limits: GpuLimits,
    span: &'a Span,
    errors: FirstError,
}

impl Mutator for Host<'_> {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) if matches!(node.kind, ForKind::ThreadBinding(_)) => {
                let launch = DeviceKernel::of(node).map(|kernel| self.launch(node, &kernel));
                self.errors.keep(launch?)?
            }
            _ => self.walk_stmt(stmt),
        }
    }
}

impl Host<'_> {
    /// The launch of `kernel`, after what the host does for it; `None` if that is nothing.
    fn launch(&self, node: &For, kernel: &DeviceKernel) -> Result<Option<Stmt>, IrError> {
        let span = if node.span.is_none() { self.span } else { &node.span };
        let mut threads = Threads::of(kernel);
        threads.local = self.limits.local_bytes;
        let body = threads.mutate_stmt(&kernel.body);
        if let Some(buffer) = threads.refused {
            let message = format!(
                "the size of buffer `{}`, which each thread has, is not known at the launch",
                buffer.name
            );
            let help =
                "allocate it outside of the kernel, with extents that depend on those of parameters alone";
            return Err(IrError::new(message, span).help(help));
        }
        let checks: Vec<Stmt> = self.checks(kernel, span).chain(threads.checks).collect();
        if body.is_none() && checks.is_empty() {
            return Ok(None);
        }
        let allocs = threads.workspaces.into_iter().map(|buffer| Stmt::from(AllocBuffer::new(buffer)));
        let body = body.unwrap_or_else(|| kernel.body.clone());
        let nest = with_body(&Stmt::from(node.clone()), kernel.threads.len(), &body);
        Ok(Some(Stmt::seq(checks.into_iter().chain(allocs).chain([nest]))))
    }

    /// Comparisons of symbolic extents with the limits.
    fn checks(&self, kernel: &DeviceKernel, span: &Span) -> impl Iterator<Item = Stmt> {
        let (grid, block) = (kernel.grid(), kernel.block());
        let extents = || grid.iter().zip(self.limits.grid).chain(block.iter().zip(self.limits.block));
        let names = ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"];
        let mut checks = Vec::new();
        for (name, (extent, limit)) in names.iter().zip(extents()) {
            if extent.as_int().is_none() {
                let what = format!("a GPU runs at most {limit} iterations of a loop over {name}");
                checks.push(at_most(extent, limit, &what, span));
            }
        }
        if block.iter().any(|it| it.as_int().is_none()) {
            let limit = self.limits.threads_per_block;
            let what = format!("a GPU runs at most {limit} threads in a block");
            let product = block.iter().cloned().reduce(|a, b| a * b);
            checks.extend(product.map(|it| at_most(&it, limit, &what, span)));
        }
        // The others have been compared when the program was compiled.
        let bytes = kernel.dynamic().bytes;
        if bytes.as_int().is_none() {
            let fixed = kernel.shared.iter().filter(|it| it.buffer.scope == Scope::Shared);
            let fixed =
                fixed.filter_map(|it| Some(it.buffer.shape[0].as_int()? * it.buffer.dtype.bytes() as i64));
            let limit = self.limits.shared_bytes - fixed.sum::<i64>();
            let what = format!("a block has {limit} bytes of shared memory at most");
            checks.push(at_most(&bytes, limit, &what, span));
        }
        checks.into_iter()
    }
}

/// Fails the call if `value` is greater than `limit`.
pub(super) fn at_most(value: &PrimExpr, limit: impl Into<PrimExpr>, what: &str, span: &Span) -> Stmt {
    let limit = limit.into();
    let failure = Failure::new(Status::Assert as i32, -1, -1, limit.clone(), value.clone());
    let failure = Failure { what: what.into(), span: span.clone(), ..failure };
    AssertStmt { condition: value.clone().less_equal(limit), failure }.into()
}

/// `nest` with another body inside of its `loops` outer loops.
pub(super) fn with_body(nest: &Stmt, loops: usize, body: &Stmt) -> Stmt {
    match nest {
        Stmt::For(node) if loops > 0 => {
            For { body: with_body(&node.body, loops - 1, body), ..(**node).clone() }.into()
        }
        Stmt::SeqStmt(stmts) if loops > 0 => Stmt::seq(stmts.iter().map(|it| match it {
            Stmt::For(_) => with_body(it, loops, body),
            other => other.clone(),
        })),
        _ => body.clone(),
    }
}

/// Decides where the memory of threads is.
struct Threads {
    /// The number of the thread among all threads of the kernel, and how many there are.
    index: PrimExpr,
    count: PrimExpr,
    /// Variables of the host that the kernel uses.
    host: Vec<Var>,
    /// Bytes that a thread may still have of its own.
    local: i64,
    new: FxHashMap<BufferId, Buffer>,
    /// For buffers that the host allocates, the index of the first element of this thread.
    base: FxHashMap<BufferId, PrimExpr>,
    workspaces: Vec<Buffer>,
    checks: Vec<Stmt>,
    refused: Option<Buffer>,
}

impl Threads {
    fn of(kernel: &DeviceKernel) -> Threads {
        let (mut index, mut count) = (PrimExpr::index(0), PrimExpr::index(1));
        for (_, var, extent) in &kernel.threads {
            index = index * extent + PrimExpr::from(var);
            // A loop of negative extent has no iteration.
            count = count * if extent.as_int().is_some() { extent.clone() } else { extent.clone().max(0) };
        }
        Threads {
            index,
            count,
            host: kernel.vars.clone(),
            local: 0,
            new: FxHashMap::default(),
            base: FxHashMap::default(),
            workspaces: Vec::new(),
            checks: Vec::new(),
            refused: None,
        }
    }

    fn allocate(&mut self, alloc: &AllocBuffer) -> Stmt {
        let buffer = &alloc.buffer;
        let [extent] = &*buffer.shape else { return alloc.clone().into() };
        let bytes = extent.as_int().and_then(|n| n.max(0).checked_mul(buffer.dtype.bytes() as i64));
        if let Some(bytes) = bytes.filter(|it| *it <= self.local) {
            self.local -= bytes;
            let extent = extent.as_int().unwrap_or(1).max(1);
            let new = buffer.renew(|node| {
                node.scope = Scope::Local;
                node.shape = [PrimExpr::index(extent)].into();
            });
            self.new.insert(buffer.id, new.clone());
            return AllocBuffer { buffer: new, ..alloc.clone() }.into();
        }
        let known = |it: &PrimExpr| it.as_var().is_none_or(|var| self.host.contains(var));
        if reads_memory(extent) || any_expr(extent, &mut |it| !known(it)) {
            self.refused.get_or_insert_with(|| buffer.clone());
            return Stmt::nop();
        }
        // A negative size has been refused before, where the program allocates the buffer.
        let size = extent.clone().max(0);
        let most = PrimExpr::index(MOST_ELEMENTS).floordiv(self.count.clone().max(1));
        self.checks.push(at_most(
            &size,
            most,
            "the memory of all threads together is too large",
            &buffer.span,
        ));
        let new = buffer.renew(|node| {
            node.scope = Scope::Global;
            node.shape = [size.clone() * &self.count].into();
        });
        self.new.insert(buffer.id, new.clone());
        self.base.insert(new.id, self.index.clone() * size);
        self.workspaces.push(new);
        Stmt::nop()
    }

    fn indices(&mut self, buffer: &Buffer, indices: &[PrimExpr]) -> Option<Arc<[PrimExpr]>> {
        let walked = self.mutate_exprs(indices);
        let Some(base) = self.base.get(&buffer.id) else { return walked };
        let indices = walked.as_deref().unwrap_or(indices);
        Some(indices.iter().map(|index| moved(index, base)).collect())
    }
}

/// `index` after `base` other elements.
fn moved(index: &PrimExpr, base: &PrimExpr) -> PrimExpr {
    match index {
        PrimExpr::Ramp(ramp) => (ramp.base.clone() + base).ramp(ramp.stride.clone(), ramp.lanes),
        _ => index.clone() + base.clone().broadcast(index.dtype().lanes()),
    }
}

impl Mutator for Threads {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let PrimExpr::BufferLoad(load) = expr else { return self.walk_expr(expr) };
        let buffer = self.new.get(&load.buffer.id).cloned();
        let indices = self.indices(buffer.as_ref().unwrap_or(&load.buffer), &load.indices);
        let predicate = load.predicate.as_ref().and_then(|it| self.mutate_expr(it));
        (buffer.is_some() || indices.is_some() || predicate.is_some()).then(|| {
            PrimExpr::BufferLoad(Arc::new(BufferLoad {
                buffer: buffer.unwrap_or_else(|| load.buffer.clone()),
                indices: indices.unwrap_or_else(|| load.indices.clone()),
                predicate: predicate.or_else(|| load.predicate.clone()),
                span: load.span.clone(),
            }))
        })
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::AllocBuffer(alloc) if !is_shared(alloc.buffer.scope) => Some(self.allocate(alloc)),
            Stmt::BufferStore(store) => {
                let buffer = self.new.get(&store.buffer.id).cloned();
                let indices = self.indices(buffer.as_ref().unwrap_or(&store.buffer), &store.indices);
                let value = self.mutate_expr(&store.value);
                let predicate = store.predicate.as_ref().and_then(|it| self.mutate_expr(it));
                let changed = buffer.is_some() || indices.is_some() || value.is_some() || predicate.is_some();
                changed.then(|| {
                    BufferStore {
                        buffer: buffer.unwrap_or_else(|| store.buffer.clone()),
                        indices: indices.unwrap_or_else(|| store.indices.clone()),
                        value: value.unwrap_or_else(|| store.value.clone()),
                        predicate: predicate.or_else(|| store.predicate.clone()),
                        span: store.span.clone(),
                    }
                    .into()
                })
            }
            _ => self.walk_stmt(stmt),
        }
    }
}
