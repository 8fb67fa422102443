//! Computes indices of kernels in 32 bits where they fit: a GPU has no 64-bit multiplication and division.
//!
//! ```text
//! for bx in blockIdx.x, 0..(n * m + 255) / 256 {      assert!(n <= 2147483647); assert!(n * m <= 2147483647); ..
//!     for tx in threadIdx.x, 0..256 {                 for bx .. { for tx .. {
//!         if bx * 256 + tx < n * m {                      if (bx as i32) * 256 + (tx as i32) < n_m {
//!             y[[bx * 256 + tx]] = ..                         y[[((bx as i32) * 256 + (tx as i32)) as i64]] = ..
//! ```
//!
//! An `i64` is computed in `i32` if its value and those of all parts fit, so that nothing wraps. What shows that they fit:
//!
//! - Constant bounds.
//! - The index of an access is less than the number of elements of the buffer, and parts of a sum or product that are not
//!   negative are at most the whole.
//! - With symbolic extents, the host asserts before the launch what the kernel needs: each extent is less than 2^31, and so is
//!   the number of elements of a buffer whose indices are narrow, and the largest value of a divided or compared number (the
//!   sum of the largest values of its parts). Numbers that depend on extents alone are computed by the host.
//!
//! Everything else stays `i64`: data, numbers of which no bound is known, indices of larger buffers. Loop and thread variables
//! are still `i64`, and converted where they are used; so is the index of an access.
//!
//! TVM counterpart: `NarrowDataType`, `ForceNarrowIndexToInt32`.
//! Requires: [the lowered form](super), launches that are [compared with the limits of the GPU](super::split_host_device).
//! Ensures: the lowered form; no integer operation on `i32` that this pass makes wraps.

mod ends;
mod exact;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::DataType;

use super::context::{analyzer_for, conjuncts, enter_loop, enter_threads, is_lasting};
use super::split_host_device::{at_most, with_body};
use super::util::{with_cases, with_parts};
use crate::arith::{Analyzer, ConstIntBound, same};
use crate::ir::{Span, Var, VarId};
use crate::pass::{Pass, prim_func_pass};
use crate::target::{GpuArch, GpuLimits};
use crate::tir::analysis::DeviceKernel;
use crate::tir::{
    Bind, DeclBuffer, For, ForKind, IfThenElse, Intrinsic, Mutator, Param, PrimCallee, PrimExpr, PrimFunc,
    Stmt, ThreadTag, Visitor,
};

/// The largest `i32`.
const MOST: i64 = i32::MAX as i64;

/// What a call that does not fit is told.
const TOO_LARGE: &str = "a GPU kernel with symbolic shapes takes tensors of fewer than 2^31 elements";

/// Computes indices of kernels in 32 bits where they fit.
pub fn narrow_kernel_indices() -> Pass {
    prim_func_pass("NarrowKernelIndices", |func, _, ctx| {
        let limits = *ctx.target.gpu_arch().unwrap_or(GpuArch::DEFAULT).limits();
        let mut narrow = Narrow::new(func, limits);
        Ok(narrow.mutate_stmt(&func.body).map(|body| PrimFunc { body, ..func.clone() }))
    })
}

/// True for scalars of `i64`.
fn is_wide(expr: &PrimExpr) -> bool {
    expr.dtype() == DataType::I64
}

/// What the host asserts to be at most [`MOST`].
#[derive(Clone, Debug)]
struct Need {
    value: PrimExpr,
    /// The tensor whose number of elements, or whose extent, this is.
    of: Option<Arc<str>>,
}

struct Narrow {
    /// Knows that extents are not negative. They are indices, whose sums and products do not overflow.
    wide: Analyzer,
    /// Knows also that extents are less than 2^31.
    tight: Analyzer,
    limits: GpuLimits,
    /// The extents of tensors, which the host asserts.
    dims: Vec<Need>,
    /// The names of the parameters, by their number.
    names: FxHashMap<i64, Arc<str>>,
    /// Variables of the host.
    host: FxHashSet<VarId>,
    /// Those that depend on other than extents of tensors: no call is refused for their values.
    scalars: FxHashSet<VarId>,
    /// What the host has asserted before the current statement.
    asserted: Vec<PrimExpr>,
    /// True in a kernel.
    inside: bool,
    /// True if the kernel depends on values of the host.
    symbolic: bool,
    /// What the host has to assert for the kernel.
    needs: Vec<Need>,
    /// What the host computes for the kernel, in 32 bits.
    hoisted: Vec<(PrimExpr, Var)>,
    /// Variables of the kernel with an `i64`, and those of the same in 32 bits.
    vars: FxHashMap<VarId, Var>,
    /// The largest values of variables of the kernel, which the host can compute.
    ends: FxHashMap<VarId, PrimExpr>,
}

impl Narrow {
    fn new(func: &PrimFunc, limits: GpuLimits) -> Narrow {
        let mut narrow = Narrow {
            wide: analyzer_for(func),
            tight: analyzer_for(func),
            limits,
            dims: Vec::new(),
            names: names(func),
            host: FxHashSet::default(),
            scalars: FxHashSet::default(),
            asserted: Vec::new(),
            inside: false,
            symbolic: false,
            needs: Vec::new(),
            hoisted: Vec::new(),
            vars: FxHashMap::default(),
            ends: FxHashMap::default(),
        };
        for param in func.params.iter() {
            match param {
                Param::In(buffer) | Param::Out(buffer) => {
                    for var in buffer.shape.iter().filter_map(PrimExpr::as_var) {
                        narrow.dim(var, &buffer.name);
                    }
                }
                Param::Scalar(_) => {}
            }
        }
        for param in func.params.iter() {
            if let Param::Scalar(var) = param
                && narrow.host.insert(var.id())
            {
                narrow.scalars.insert(var.id());
            }
        }
        narrow
    }

    /// `var` is an extent of the tensor `name`.
    fn dim(&mut self, var: &Var, name: &Arc<str>) {
        if self.host.insert(var.id()) {
            self.tight.bind_bound(var, ConstIntBound::new(0, MOST.into()));
            self.dims.push(Need { value: var.into(), of: Some(name.clone()) });
        }
    }

    fn on_host(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let before = self.asserted.len();
        match stmt {
            Stmt::For(node) if matches!(node.kind, ForKind::ThreadBinding(_)) => self.kernel(node),
            Stmt::For(node) => {
                self.enter_loop(node);
                self.define(&node.loop_var, [&node.min, &node.extent]);
                let new = self.walk_stmt(stmt);
                self.asserted.truncate(before);
                new
            }
            Stmt::IfThenElse(node) => {
                let then_case = self.mutate_stmt(&node.then_case);
                self.asserted.truncate(before);
                let else_case = node.else_case.as_ref().and_then(|it| self.mutate_stmt(it));
                self.asserted.truncate(before);
                with_cases(node, None, then_case, else_case).map(Stmt::from)
            }
            Stmt::Bind(node) => {
                self.bind_bounds(&node.var, &node.value);
                if let Some(name) = self.extent_of(&node.value) {
                    self.dim(&node.var, &name);
                } else {
                    self.define(&node.var, [&node.value]);
                }
                None
            }
            _ => self.walk_stmt(stmt),
        }
    }

    /// `var` is a variable of the host whose value depends on `of`.
    fn define<const N: usize>(&mut self, var: &Var, of: [&PrimExpr; N]) {
        if of.iter().any(|it| !self.is_of_extents(it)) {
            self.scalars.insert(var.id());
        }
        self.host.insert(var.id());
    }

    /// The name of the tensor of which `value` is an extent.
    fn extent_of(&self, value: &PrimExpr) -> Option<Arc<str>> {
        let PrimExpr::Call(call) = value else { return None };
        match (&call.callee, &*call.args) {
            (PrimCallee::Intrinsic(Intrinsic::ArgShape), [_, at, _]) => {
                let at = at.as_int()?;
                Some(self.names.get(&at).cloned().unwrap_or_else(|| format!("argument {at}").into()))
            }
            _ => None,
        }
    }

    fn enter_loop(&mut self, node: &For) {
        enter_loop(&mut self.wide, node);
        enter_loop(&mut self.tight, node);
    }

    fn bind_bounds(&mut self, var: &Var, value: &PrimExpr) {
        if var.dtype().is_integer() && var.dtype().is_scalar() {
            self.wide.bind_bound(var, self.wide.const_int_bound(value));
            self.tight.bind_bound(var, self.tight.const_int_bound(value));
        }
    }

    /// The launch of a kernel, after what the host asserts and computes for it.
    fn kernel(&mut self, node: &For) -> Option<Stmt> {
        let kernel = DeviceKernel::of(node)?;
        self.symbolic = !kernel.vars.is_empty() || kernel.threads.iter().any(|it| it.2.as_int().is_none());
        let outer = (self.wide.clone(), self.tight.clone());
        for (tag, var, extent) in &kernel.threads {
            enter_threads(&mut self.wide, extent);
            enter_threads(&mut self.tight, extent);
            self.enter_loop(&For::serial(var.clone(), extent.clone(), Stmt::nop()));
            let most = ConstIntBound::new(0, i128::from(self.limit(*tag)) - 1);
            self.tight.bind_bound(var, most);
            if self.is_host(extent) {
                self.ends.insert(var.id(), extent - 1);
            }
        }
        self.inside = true;
        let body = self.mutate_stmt(&kernel.body);
        self.inside = false;
        (self.wide, self.tight) = outer;
        let (needs, hoisted) = (std::mem::take(&mut self.needs), std::mem::take(&mut self.hoisted));
        let nest = with_body(&Stmt::from(node.clone()), kernel.threads.len(), &body?);
        let mut stmts = Vec::new();
        if self.symbolic {
            let dims = self.dims.clone();
            // Failures name a tensor where one is too large.
            let (tensors, others): (Vec<_>, Vec<_>) = needs.into_iter().partition(|it| it.of.is_some());
            for need in dims.into_iter().chain(tensors).chain(others) {
                self.assert(&need, &node.span, &mut stmts);
            }
        }
        for (value, var) in hoisted {
            stmts.push(Bind { var, value: value.cast(DataType::I32) }.into());
        }
        Some(Stmt::seq(stmts.into_iter().chain([nest])))
    }

    /// The largest extent of a loop over `tag`.
    fn limit(&self, tag: ThreadTag) -> i64 {
        let ([gx, gy, gz], [bx, by, bz]) = (self.limits.grid, self.limits.block);
        match tag {
            ThreadTag::BlockIdxX => gx,
            ThreadTag::BlockIdxY => gy,
            ThreadTag::BlockIdxZ => gz,
            ThreadTag::ThreadIdxX => bx,
            ThreadTag::ThreadIdxY => by,
            ThreadTag::ThreadIdxZ => bz,
            ThreadTag::Vthread => MOST,
        }
    }

    fn assert(&mut self, need: &Need, span: &Span, stmts: &mut Vec<Stmt>) {
        if self.asserted.iter().any(|it| same(it, &need.value)) {
            return;
        }
        let what = need.of.as_ref().map_or_else(|| TOO_LARGE.into(), |of| format!("{TOO_LARGE}: `{of}`"));
        stmts.push(at_most(&need.value, MOST, &what, span));
        self.asserted.push(need.value.clone());
    }

    fn mutated(&mut self, expr: &PrimExpr) -> PrimExpr {
        self.mutate_expr(expr).unwrap_or_else(|| expr.clone())
    }

    /// The result of `f` for what runs only where `condition` holds. It is assumed if `lasts` is true of it.
    fn under<R>(
        &mut self,
        condition: &PrimExpr,
        lasts: impl Fn(&PrimExpr) -> bool,
        f: impl FnOnce(&mut Narrow) -> R,
    ) -> R {
        let outer = (self.wide.clone(), self.tight.clone());
        for part in conjuncts(condition).into_iter().filter(lasts) {
            self.wide.enter_constraint(&part);
            self.tight.enter_constraint(&part);
        }
        let res = f(self);
        (self.wide, self.tight) = outer;
        res
    }

    fn under_stmt(&mut self, condition: &PrimExpr, stmt: &Stmt) -> Option<Stmt> {
        self.under(condition, |part| is_lasting(part, stmt), |it| it.mutate_stmt(stmt))
    }

    /// The bound `expr` of a loop: converted from `i32` where it fits, so that the loop may count in 32 bits.
    fn loop_bound(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if expr.as_int().is_some() || !is_wide(expr) || !self.fits(expr) {
            return self.mutate_expr(expr);
        }
        Some(self.narrowed(expr).cast(DataType::I64))
    }

    fn in_kernel(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                let [min, extent] = [&node.min, &node.extent].map(|it| self.loop_bound(it));
                self.enter_loop(node);
                if let (Some(min), Some(extent)) = (self.end(&node.min), self.end(&node.extent)) {
                    self.ends.insert(node.loop_var.id(), min + extent - 1);
                }
                let body = self.mutate_stmt(&node.body);
                if min.is_none() && extent.is_none() && body.is_none() {
                    return None;
                }
                let new = For {
                    min: min.unwrap_or_else(|| node.min.clone()),
                    extent: extent.unwrap_or_else(|| node.extent.clone()),
                    body: body.unwrap_or_else(|| node.body.clone()),
                    ..(**node).clone()
                };
                Some(new.into())
            }
            Stmt::IfThenElse(node) => {
                let condition = self.mutate_expr(&node.condition);
                let then_case = self.under_stmt(&node.condition, &node.then_case);
                let other = !node.condition.clone();
                let else_case = node.else_case.as_ref().and_then(|it| self.under_stmt(&other, it));
                with_cases(node, condition, then_case, else_case).map(IfThenElse::folded)
            }
            Stmt::Bind(node) => {
                self.bind_bounds(&node.var, &node.value);
                if !is_wide(&node.value) || !self.fits(&node.value) {
                    let value = self.mutate_expr(&node.value)?;
                    return Some(Bind { var: node.var.clone(), value }.into());
                }
                let value = self.narrowed(&node.value);
                Some(Bind { var: self.narrow_var(&node.var), value }.into())
            }
            Stmt::BufferStore(node) => {
                let indices = match &*node.indices {
                    [index] => self.index(&node.buffer, index).map(|it| [it].into()),
                    indices => self.mutate_exprs(indices),
                };
                let value = self.mutate_expr(&node.value);
                let predicate = node.predicate.as_ref().and_then(|it| self.mutate_expr(it));
                with_parts(node, indices, value, predicate).map(Stmt::from)
            }
            _ => self.walk_stmt(stmt),
        }
    }

    /// The variable of the same value as `var` in 32 bits.
    fn narrow_var(&mut self, var: &Var) -> Var {
        let new = Var::prim(var.name(), DataType::I32);
        self.vars.insert(var.id(), new.clone());
        new
    }
}

impl Mutator for Narrow {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if self.inside { self.in_kernel_expr(expr) } else { None }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if self.inside { self.in_kernel(stmt) } else { self.on_host(stmt) }
    }
}

/// The names of the tensors that are parameters, by their number.
fn names(func: &PrimFunc) -> FxHashMap<i64, Arc<str>> {
    struct Find(FxHashMap<i64, Arc<str>>);
    impl Visitor for Find {
        fn visit_expr(&mut self, _: &PrimExpr) {}

        fn visit_stmt(&mut self, stmt: &Stmt) {
            match stmt {
                Stmt::DeclBuffer(it) => drop(self.declared(it)),
                Stmt::SeqStmt(stmts) => stmts.iter().for_each(|it| self.visit_stmt(it)),
                _ => {}
            }
        }
    }
    impl Find {
        fn declared(&mut self, it: &DeclBuffer) -> Option<Arc<str>> {
            let PrimExpr::Call(call) = &it.data else { return None };
            let at = call.args.get(1)?.as_int()?;
            self.0.insert(at, it.buffer.name.clone())
        }
    }
    let mut find = Find(FxHashMap::default());
    find.visit_stmt(&func.body);
    find.0
}

#[cfg(test)]
mod tests;
