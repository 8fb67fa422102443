//! `StaticPlanBlockMemory`: tensors that are not alive at the same time share memory.
//!
//! Requires explicit allocations (`CallTIRRewrite`). The tensors of a function whose sizes are constant lie in one storage
//! per device, the arena, at offsets where tensors that are alive at the same time do not overlap. The
//! [maximum](crate::ir::Var::bound) of a dimension makes such sizes constant; a run in which a tensor is larger ends with an
//! error. Tensors whose sizes are multiples of one product of dimensions, as those of a batch, lie in an arena of their own:
//! its offsets are multiples of that product. A tensor of another size takes over a storage of the same body that is proved to be
//! of the same size. Memory is taken over after the last use of every value that may share it.
//!
//! A tensor whose memory [escapes](crate::relax::analysis::Aliases), or that is updated in place, keeps memory of its own:
//! a run decides by the handles of a storage whether something else uses the tensor in it. Ensures:
//!
//! ```text
//! x = builtin.alloc_tensor(shape[4])
//! y = builtin.alloc_tensor(shape[4])
//! // becomes
//! s = memory.alloc_storage(128)
//! x = memory.alloc_tensor(s, 0, shape[4])
//! y = memory.alloc_tensor(s, 64, shape[4])
//! ```
//!
//! TVM counterpart: `relax.transform.StaticPlanBlockMemory`, whose storages hold one tensor at a time.

mod arena;

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::ALIGNMENT;

use self::arena::{LiveRange, pack};
use crate::ir::{AttrValue, Attrs, FirstError, IrError, Type, Var, VarId};
use crate::pass::{Pass, function_pass};
use crate::relax::analysis::{Aliases, bound_dims, last_uses, prove_equal, simplify_dim};
use crate::relax::mutator::{walk_binding, walk_function};
use crate::relax::op::device::DEVICE;
use crate::relax::op::memory::{self, dtype_of};
use crate::relax::visitor::walk_call;
use crate::relax::{Arg, Binding, Body, Call, Callee, Expr, ExprMutator, ExprVisitor, Function};
use crate::tir::{BinaryOp, PrimExpr};

/// The pass.
pub fn static_plan_block_memory() -> Pass {
    function_pass("StaticPlanBlockMemory", |func, _, _| {
        let mut plan = Plan::new(func);
        plan.body(&func.body, None);
        plan.pack_arenas();
        if plan.places.is_empty() {
            return Ok(None);
        }
        let mut rewrite = Rewrite { plan, err: FirstError::default() };
        let new = walk_function(&mut rewrite, func);
        rewrite.err.finish(new)
    })
}

fn calls(call: &Call, name: &str) -> bool {
    matches!(&call.callee, Callee::Op(op) if op.name == name)
}

/// The call in `expr`, if it allocates a tensor.
fn allocation(expr: &Expr) -> Option<&Call> {
    match expr {
        Expr::Call(call) if calls(call, memory::ALLOC) => Some(call),
        _ => None,
    }
}

/// Collects the memory that is updated in place.
struct Updated<'a> {
    aliases: &'a Aliases,
    memory: FxHashSet<VarId>,
}

impl ExprVisitor for Updated<'_> {
    fn visit_call(&mut self, call: &Call) {
        if calls(call, memory::MAKE_UNIQUE) {
            let vars = call.args.iter().filter_map(Arg::as_var);
            self.memory.extend(vars.flat_map(|var| self.aliases.of(var.id())));
        }
        walk_call(self, call);
    }
}

/// A block of memory that tensors share.
struct Storage {
    var: Var,
    size: PrimExpr,
    /// Attribute of the allocation: the device, if it is not the default one.
    device: Option<AttrValue>,
    /// True if it is not an arena, and another tensor may take it over.
    free: bool,
}

/// The tensors on one device whose sizes are multiples of `unit`.
struct Arena {
    storage: usize,
    device: Option<AttrValue>,
    unit: PrimExpr,
    tenants: Vec<Tenant>,
    /// The sum of the tenants' sizes.
    sum: u64,
}

/// A tensor in an arena.
struct Tenant {
    var: VarId,
    /// Size in bytes for each unit, a multiple of the alignment.
    size: u64,
    /// True if the extents of the tensor are symbolic, and `size` is their bound.
    bounded: bool,
}

/// Where a tensor lies.
struct Place {
    storage: usize,
    /// In bytes.
    offset: PrimExpr,
    /// Size of the place, if the tensor might be larger.
    max_bytes: Option<u64>,
}

/// The assignment of tensors to storages.
struct Plan {
    aliases: Aliases,
    updated: FxHashSet<VarId>,
    /// The dimensions that parameters bind.
    dims: FxHashSet<VarId>,
    /// For each allocation, the binding that uses its memory last, through whatever alias.
    last_uses: FxHashMap<VarId, VarId>,
    /// Position of each binding in the order in which bindings end. Of two branches, one comes after the other.
    times: FxHashMap<VarId, usize>,
    storages: Vec<Storage>,
    arenas: Vec<Arena>,
    /// The storages that are allocated right before a binding.
    allocated: FxHashMap<VarId, Vec<usize>>,
    places: FxHashMap<VarId, Place>,
}

impl Plan {
    fn new(func: &Function) -> Plan {
        let aliases = Aliases::new(func);
        let mut updated = Updated { aliases: &aliases, memory: FxHashSet::default() };
        updated.visit_function(func);
        let mut dims = FxHashSet::default();
        let mut bind = |dim: &Var| {
            dims.insert(dim.id());
        };
        func.params.iter().for_each(|param| bound_dims(param.ty(), &mut bind));
        Plan {
            dims,
            updated: updated.memory,
            last_uses: last_uses(func, |var| aliases.of(var)),
            aliases,
            times: FxHashMap::default(),
            storages: Vec::new(),
            arenas: Vec::new(),
            allocated: FxHashMap::default(),
            places: FxHashMap::default(),
        }
    }

    /// Plans `body`, which belongs to the value of the binding `outer` of the function's own body, or is that body.
    fn body(&mut self, body: &Body, outer: Option<VarId>) {
        // A branch takes over its own storages only; the arena is that of the whole function.
        let start = self.storages.len();
        let mut dying: FxHashMap<VarId, Vec<usize>> = FxHashMap::default();
        for binding in body.bindings() {
            let id = binding.var.id();
            let outer = outer.unwrap_or(id);
            binding.value.bodies().into_iter().for_each(|body| self.body(body, Some(outer)));
            self.times.insert(id, self.times.len());
            if let Some(call) = allocation(&binding.value)
                && !self.aliases.escapes(id)
                && !self.updated.contains(&id)
                && let Some(size) = byte_size(binding.var.ty())
                && let Some(last_use) = self.last_uses.get(&id).copied()
            {
                let device = call.attrs.get(DEVICE);
                let bounded = size.as_int().is_none();
                if let Some(size) = self.max_bytes(binding.var.ty()) {
                    self.rent(Tenant { var: id, size, bounded }, PrimExpr::index(1), device, outer);
                } else if let Some((size, unit)) = self.units(&size) {
                    self.rent(Tenant { var: id, size, bounded: false }, unit, device, outer);
                } else if bounded {
                    let storage = self.take_over(id, size, device, start);
                    let offset = PrimExpr::index(0);
                    self.places.insert(id, Place { storage, offset, max_bytes: None });
                    dying.entry(last_use).or_default().push(storage);
                }
            }
            for storage in dying.remove(&id).into_iter().flatten() {
                self.storages[storage].free = true;
            }
        }
        // Code after this body does not take over its storages.
        self.storages[start..].iter_mut().for_each(|it| it.free = false);
    }

    /// Adds `tenant` to the arena of `device` and `unit`, which is allocated before the binding `outer` or earlier. If the arena
    /// might become too large for an `i64`, the tensor keeps memory of its own.
    fn rent(&mut self, tenant: Tenant, unit: PrimExpr, device: Option<&AttrValue>, outer: VarId) {
        let fits = |it: &Arena| it.device.as_ref() == device && prove_equal(&it.unit, &unit);
        let at = self.arenas.iter().position(fits).unwrap_or_else(|| {
            let storage = self.storage(PrimExpr::index(0), device, outer);
            self.arenas.push(Arena { storage, device: device.cloned(), unit, tenants: Vec::new(), sum: 0 });
            self.arenas.len() - 1
        });
        let arena = &mut self.arenas[at];
        let sum = arena.sum + tenant.size;
        if sum <= i64::MAX as u64 {
            arena.sum = sum;
            arena.tenants.push(tenant);
        }
    }

    /// Assigns offsets to the tenants of all arenas.
    fn pack_arenas(&mut self) {
        for Arena { storage, unit, tenants, .. } in std::mem::take(&mut self.arenas) {
            let ranges = tenants.iter().map(|it| {
                let last = self.times[&self.last_uses[&it.var]];
                LiveRange { size: it.size, first: self.times[&it.var], last }
            });
            let (offsets, size) = pack(&ranges.collect::<Vec<_>>());
            self.storages[storage].size = PrimExpr::index(size as i64) * &unit;
            for (Tenant { var, size, bounded }, offset) in tenants.into_iter().zip(offsets) {
                let offset = PrimExpr::index(offset as i64) * &unit;
                self.places.insert(var, Place { storage, offset, max_bytes: bounded.then_some(size) });
            }
        }
    }

    /// The storage for the tensor `var` of a size that is not constant: a free one from `start` on, or a new one.
    fn take_over(&mut self, var: VarId, size: PrimExpr, device: Option<&AttrValue>, start: usize) -> usize {
        let fits = |it: &Storage| it.free && it.device.as_ref() == device && prove_equal(&it.size, &size);
        match self.storages[start..].iter().position(fits) {
            Some(i) => {
                self.storages[start + i].free = false;
                start + i
            }
            None => self.storage(size, device, var),
        }
    }

    /// Adds a storage that is allocated right before the binding `before`; returns its index.
    fn storage(&mut self, size: PrimExpr, device: Option<&AttrValue>, before: VarId) -> usize {
        let index = self.storages.len();
        let var = Var::new("storage", Type::Object);
        self.storages.push(Storage { var, size, device: device.cloned(), free: false });
        self.allocated.entry(before).or_default().push(index);
        index
    }

    /// `size` as a number of bytes, rounded up to a multiple of the alignment, times a product of dimensions that parameters bind;
    /// `None` if it has no such factor, or rounding takes more than an eighth of it.
    fn units(&self, size: &PrimExpr) -> Option<(u64, PrimExpr)> {
        let (mut bytes, mut unit) = (1i64, PrimExpr::index(1));
        let mut factors = vec![simplify_dim(size)];
        while let Some(factor) = factors.pop() {
            match &factor {
                PrimExpr::IntImm(it) => bytes = bytes.checked_mul(it.value)?,
                PrimExpr::Binary(it) if it.op == BinaryOp::Mul => {
                    factors.extend([it.a.clone(), it.b.clone()])
                }
                PrimExpr::Var(var) if self.dims.contains(&var.id()) => unit = unit * &factor,
                _ => return None,
            }
        }
        let bytes = u64::try_from(bytes).ok()?;
        let rounded = bytes.checked_next_multiple_of(ALIGNMENT as u64)?;
        (unit.as_int().is_none() && rounded - bytes <= bytes / 8).then_some((rounded, unit))
    }

    /// The largest size of a tensor whose dimensions are known or bounded, rounded up to a multiple of the alignment.
    fn max_bytes(&self, ty: &Type) -> Option<u64> {
        let tensor = ty.as_tensor()?;
        let elem = tensor.dtype?.bytes() as i64;
        let dims = tensor.known_shape()?.iter().map(|dim| self.upper_bound(dim));
        let bytes = dims.into_iter().try_fold(elem, |size, dim| size.checked_mul(dim?))?;
        let size = (bytes as u64).next_multiple_of(ALIGNMENT as u64);
        (size <= i64::MAX as u64).then_some(size)
    }

    /// The largest value of an extent whose dimensions are bounded.
    fn upper_bound(&self, extent: &PrimExpr) -> Option<i64> {
        match extent {
            PrimExpr::IntImm(it) => (it.value >= 0).then_some(it.value),
            PrimExpr::Var(var) => var.bound()?.max(),
            PrimExpr::Binary(it) => {
                let (a, b) = (self.upper_bound(&it.a)?, self.upper_bound(&it.b)?);
                match it.op {
                    BinaryOp::Add => a.checked_add(b),
                    BinaryOp::Mul => a.checked_mul(b),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn byte_size(ty: &Type) -> Option<PrimExpr> {
    let tensor = ty.as_tensor()?;
    let elem = PrimExpr::index(tensor.dtype?.bytes() as i64);
    Some(tensor.known_shape()?.iter().fold(elem, |size, dim| size * dim))
}

struct Rewrite {
    plan: Plan,
    err: FirstError,
}

impl ExprMutator for Rewrite {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let id = binding.var.id();
        let mut out = Vec::new();
        for storage in self.plan.allocated.remove(&id).into_iter().flatten() {
            let allocated = allocate(&self.plan.storages[storage]);
            out.push(self.err.keep(allocated)?);
        }
        let new = match self.plan.places.get(&id) {
            Some(place) => {
                let placed = self.plan.place(binding, place);
                Some(self.err.keep(placed)?)
            }
            None => walk_binding(self, binding),
        };
        if out.is_empty() && new.is_none() {
            return None;
        }
        out.push(new.unwrap_or_else(|| binding.clone()));
        Some(out)
    }
}

/// The binding that allocates `storage`.
fn allocate(storage: &Storage) -> Result<Binding, IrError> {
    let mut attrs = Attrs::new();
    if let Some(device) = &storage.device {
        attrs = attrs.with(DEVICE, device.clone());
    }
    let value = memory::call(memory::ALLOC_STORAGE, [Arg::Prim(storage.size.clone())], attrs)?;
    Ok(Binding::new(storage.var.clone(), value))
}

impl Plan {
    /// The allocation `binding` at its place.
    fn place(&self, binding: &Binding, place: &Place) -> Result<Binding, IrError> {
        let Some(call) = allocation(&binding.value) else { return Ok(binding.clone()) };
        let storage = Arg::from(&self.storages[place.storage].var);
        let offset = Arg::Prim(place.offset.clone());
        let args = [storage, offset].into_iter().chain(call.args.iter().cloned());
        let mut attrs = memory::dtype_attr(dtype_of(call)?);
        if let Some(bytes) = place.max_bytes {
            attrs = attrs.with(memory::MAX_BYTES, bytes as i64);
        }
        let value = memory::call(memory::ALLOC_TENSOR, args.collect::<Vec<_>>(), attrs)?;
        Ok(Binding { value, ..binding.clone() })
    }
}

#[cfg(test)]
mod tests;
