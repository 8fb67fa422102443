//! The kernels of a program for a GPU: what is launched, by how many threads, and with which arguments.
//!
//! TVM counterpart: the functions that `SplitHostDevice` splits off, with their `thread_extent`s.

use indexmap::IndexMap;
use rustc_hash::FxHashSet;

use super::Addresses;
use crate::ir::{BufferId, Var, VarId};
use crate::tir::derive_blocks::collect_stores;
use crate::tir::{
    AllocBuffer, Buffer, For, ForKind, PrimExpr, PrimFunc, Scope, Stmt, ThreadTag, Visitor, walk_expr,
    walk_stmt,
};

/// One kernel in a program whose kernels have the form that
/// [`unify_thread_binding`](crate::tir::transform::unify_thread_binding) makes: loops over blocks, allocations of shared memory,
/// loops over threads, and what one thread does.
#[derive(Clone, Debug)]
pub struct DeviceKernel {
    /// The index of each loop over blocks or threads, outermost first.
    pub threads: Vec<(ThreadTag, Var, PrimExpr)>,
    /// Memory that the threads of a block share.
    pub shared: Vec<AllocBuffer>,
    /// What one thread does.
    pub body: Stmt,
    /// Variables of the host that the kernel uses, in order of first use.
    pub vars: Vec<Var>,
    /// Memory of the host's allocations and parameters that the kernel uses, in order of first use.
    pub buffers: Vec<Buffer>,
}

impl DeviceKernel {
    /// The kernel that the loop `node` launches; `None` if it is over no thread index.
    pub fn of(node: &For) -> Option<DeviceKernel> {
        let ForKind::ThreadBinding(_) = node.kind else { return None };
        let mut kernel = DeviceKernel {
            threads: Vec::new(),
            shared: Vec::new(),
            body: Stmt::nop(),
            vars: Vec::new(),
            buffers: Vec::new(),
        };
        let mut body = Stmt::from(node.clone());
        loop {
            body = match &body {
                Stmt::For(it) => match it.kind {
                    ForKind::ThreadBinding(tag) => {
                        kernel.threads.push((tag, it.loop_var.clone(), it.extent.clone()));
                        it.body.clone()
                    }
                    _ => break,
                },
                Stmt::SeqStmt(stmts) => {
                    let shared =
                        |it: &&Stmt| matches!(it, Stmt::AllocBuffer(it) if is_shared(it.buffer.scope));
                    let count = stmts.iter().take_while(shared).count();
                    let inner = matches!(&stmts[count..], [Stmt::For(it)] if matches!(it.kind, ForKind::ThreadBinding(_)));
                    if count == 0 || !inner {
                        break;
                    }
                    kernel.shared.extend(stmts[..count].iter().filter_map(|it| match it {
                        Stmt::AllocBuffer(it) => Some((**it).clone()),
                        _ => None,
                    }));
                    stmts[count].clone()
                }
                _ => break,
            };
        }
        kernel.body = body;
        let mut used = Used::default();
        used.own.extend(kernel.threads.iter().map(|(_, var, _)| var.id()));
        used.allocated.extend(kernel.shared.iter().map(|it| it.buffer.id));
        for (_, place) in kernel.dynamic().buffers {
            used.visit_expr(&place);
        }
        used.visit_stmt(&kernel.body);
        kernel.vars = used.vars.into_values().collect();
        kernel.buffers = used.buffers.into_values().collect();
        Some(kernel)
    }

    /// The buffers that the kernel may write: those that it stores to, and those of which it takes an address.
    pub fn written(&self) -> FxHashSet<BufferId> {
        let mut addresses = Addresses::default();
        addresses.visit_stmt(&self.body);
        addresses.0.extend(collect_stores(&self.body).iter().map(|it| it.buffer.id));
        addresses.0
    }

    /// All kernels of `func`, in program order.
    pub fn all(func: &PrimFunc) -> Vec<DeviceKernel> {
        struct Find(Vec<DeviceKernel>);
        impl Visitor for Find {
            fn visit_expr(&mut self, _: &PrimExpr) {}

            fn visit_stmt(&mut self, stmt: &Stmt) {
                match stmt {
                    Stmt::For(node) if matches!(node.kind, ForKind::ThreadBinding(_)) => {
                        self.0.extend(DeviceKernel::of(node));
                    }
                    _ => walk_stmt(self, stmt),
                }
            }
        }
        let mut find = Find(Vec::new());
        find.visit_stmt(&func.body);
        find.0
    }

    /// The extents of the grid, along x, y and z.
    pub fn grid(&self) -> [PrimExpr; 3] {
        [ThreadTag::BlockIdxX, ThreadTag::BlockIdxY, ThreadTag::BlockIdxZ].map(|tag| self.extent(tag))
    }

    /// The extents of a block, along x, y and z.
    pub fn block(&self) -> [PrimExpr; 3] {
        [ThreadTag::ThreadIdxX, ThreadTag::ThreadIdxY, ThreadTag::ThreadIdxZ].map(|tag| self.extent(tag))
    }

    /// What of the shared memory has its size from the launch (scope `shared.dyn`), with the byte at which each buffer begins.
    /// Requires flat buffers.
    pub fn dynamic(&self) -> DynamicShared<'_> {
        let all = self.shared.iter().filter(|it| it.buffer.scope == Scope::SharedDyn);
        // First those whose places are constants.
        let (constant, symbolic): (Vec<_>, Vec<_>) = all.partition(|it| bytes_of(it).as_int().is_some());
        let (mut buffers, mut end) = (Vec::new(), 0);
        for alloc in constant {
            buffers.push((alloc, PrimExpr::index(end)));
            end = bytes_of(alloc).as_int().map_or(i64::MAX, |bytes| end.saturating_add(bytes));
        }
        let mut end = PrimExpr::index(end);
        for alloc in symbolic {
            buffers.push((alloc, end.clone()));
            end = end + bytes_of(alloc);
        }
        DynamicShared { buffers, bytes: end }
    }

    fn extent(&self, tag: ThreadTag) -> PrimExpr {
        let found = self.threads.iter().find(|it| it.0 == tag);
        found.map_or_else(|| PrimExpr::index(1), |it| it.2.clone())
    }
}

/// The shared memory of a block whose size the launch gives.
#[derive(Clone, Debug)]
pub struct DynamicShared<'a> {
    /// The buffers, and the byte at which each of them begins.
    pub buffers: Vec<(&'a AllocBuffer, PrimExpr)>,
    /// The bytes of all of them.
    pub bytes: PrimExpr,
}

/// The widest load of a thread; every buffer begins at a multiple of so many bytes.
const ALIGNMENT: i64 = 16;

/// The bytes of a flat buffer, as a multiple of the alignment.
fn bytes_of(alloc: &AllocBuffer) -> PrimExpr {
    let size = alloc.buffer.dtype.bytes() as i64;
    let count = |it: &PrimExpr| it.as_int().map(|it| it.max(0));
    let constant = alloc.buffer.shape.iter().try_fold(size, |bytes, it| bytes.checked_mul(count(it)?));
    if let Some(bytes) = constant {
        return PrimExpr::index((bytes.saturating_add(ALIGNMENT - 1)) / ALIGNMENT * ALIGNMENT);
    }
    let extents = alloc.buffer.shape.iter().map(|it| it.clone().max(0));
    let elements = extents.reduce(|a, b| a * b).unwrap_or_else(|| PrimExpr::index(1));
    // So many elements have a whole number of units of the alignment.
    let unit = (ALIGNMENT / size).max(1);
    (elements + (unit - 1)).floordiv(unit) * (unit * size)
}

/// True for memory that the threads of a block share.
pub(in crate::tir) const fn is_shared(scope: Scope) -> bool {
    match scope {
        Scope::Shared | Scope::SharedDyn => true,
        Scope::Global | Scope::Local | Scope::Warp => false,
    }
}

/// The variables and buffers that a statement uses and does not define.
#[derive(Default)]
struct Used {
    own: FxHashSet<VarId>,
    allocated: FxHashSet<BufferId>,
    vars: IndexMap<VarId, Var>,
    buffers: IndexMap<BufferId, Buffer>,
}

impl Used {
    fn buffer(&mut self, buffer: &Buffer) {
        if !self.allocated.contains(&buffer.id) {
            self.buffers.entry(buffer.id).or_insert_with(|| buffer.clone());
        }
    }
}

impl Visitor for Used {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::Var(var) if !self.own.contains(&var.id()) => {
                self.vars.entry(var.id()).or_insert_with(|| var.clone());
            }
            PrimExpr::Let(it) => {
                self.visit_expr(&it.value);
                self.own.insert(it.var.id());
                return self.visit_expr(&it.body);
            }
            PrimExpr::BufferLoad(load) => self.buffer(&load.buffer),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) => {
                self.visit_expr(&node.min);
                self.visit_expr(&node.extent);
                self.own.insert(node.loop_var.id());
                return self.visit_stmt(&node.body);
            }
            Stmt::Bind(node) => {
                self.visit_expr(&node.value);
                self.own.insert(node.var.id());
                return;
            }
            Stmt::AllocBuffer(node) => {
                node.buffer.shape.iter().for_each(|extent| self.visit_expr(extent));
                self.allocated.insert(node.buffer.id);
            }
            Stmt::BufferStore(store) => self.buffer(&store.buffer),
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}
