//! `StaticPlanBlockMemory`: tensors that are not alive at the same time share memory.
//!
//! Requires explicit allocations (`CallTIRRewrite`). A tensor whose memory [escapes](crate::relax::analysis::Aliases) keeps
//! memory of its own. The memory of any other tensor is reused after the last use of every value that may share it. Sizes
//! are compared as constants, or, where they are symbolic, by proof. The function attribute `tir_var_upper_bound.NAME`
//! bounds the dimension `NAME` and makes such sizes constant. Ensures:
//!
//! ```text
//! y = builtin.alloc_tensor(shape[4])
//! // becomes
//! s = memory.alloc_storage(16);  y = memory.alloc_tensor(s, 0, shape[4])
//! ```
//!
//! TVM counterpart: `relax.transform.StaticPlanBlockMemory`.

use rustc_hash::FxHashMap;

use crate::ir::{AttrValue, Attrs, FirstError, IrError, Type, Var, VarId};
use crate::pass::{Pass, function_pass};
use crate::relax::analysis::{Aliases, last_uses, prove_equal};
use crate::relax::mutator::{walk_binding, walk_function};
use crate::relax::op::device::DEVICE;
use crate::relax::op::memory::{self, dtype_of};
use crate::relax::{Arg, Binding, Body, Call, Callee, Expr, Mutator};
use crate::tir::{BinaryOp, PrimExpr};

/// The pass.
pub fn static_plan_block_memory() -> Pass {
    function_pass("StaticPlanBlockMemory", |func, _, _| {
        let aliases = Aliases::new(func);
        let last_uses = last_uses(func, |var| aliases.of(var));
        let mut plan = Plan {
            attrs: &func.attrs,
            aliases,
            last_uses,
            storages: Vec::new(),
            places: FxHashMap::default(),
        };
        plan.body(&func.body);
        if plan.places.is_empty() {
            return Ok(None);
        }
        let mut rewrite = Rewrite { plan, err: FirstError::default() };
        let new = walk_function(&mut rewrite, func);
        rewrite.err.finish(new)
    })
}

/// The call in `expr`, if it calls the operator `name`.
fn call_of<'a>(expr: &'a Expr, name: &str) -> Option<&'a Call> {
    match expr {
        Expr::Call(call) if matches!(&call.callee, Callee::Op(op) if op.name == name) => Some(call),
        _ => None,
    }
}

/// A block of memory that tensors of one body share.
struct Storage {
    var: Var,
    size: PrimExpr,
    /// Attribute of the allocations: the device, if it is not the default one.
    device: Option<AttrValue>,
    free: bool,
}

/// The assignment of tensors to storages.
struct Plan<'a> {
    attrs: &'a Attrs,
    aliases: Aliases,
    /// For each allocation, the binding that uses its memory last, through whatever alias.
    last_uses: FxHashMap<VarId, VarId>,
    storages: Vec<Storage>,
    /// Storage of each planned tensor, and whether it is the first there.
    places: FxHashMap<VarId, (usize, bool)>,
}

/// A storage of constant size serves requests that are at most this many times smaller or larger.
const MATCH_RANGE: i64 = 16;

impl Plan<'_> {
    fn body(&mut self, body: &Body) {
        // Storages of the outer body are not reused: a branch shares memory within itself only.
        let start = self.storages.len();
        let mut dying: FxHashMap<VarId, Vec<usize>> = FxHashMap::default();
        for binding in body.bindings() {
            binding.value.bodies().into_iter().for_each(|body| self.body(body));
            let id = binding.var.id();
            if let Some(call) = call_of(&binding.value, memory::ALLOC)
                && !self.aliases.escapes(id)
                && let Some(last_use) = self.last_uses.get(&id).copied()
                && let Some(size) = self.byte_size(binding.var.ty())
            {
                let (storage, first) = self.request(size, call.attrs.get(DEVICE), start);
                self.places.insert(id, (storage, first));
                dying.entry(last_use).or_default().push(storage);
            }
            for storage in dying.remove(&id).into_iter().flatten() {
                self.storages[storage].free = true;
            }
        }
        // Code after this body does not reuse its storages.
        self.storages[start..].iter_mut().for_each(|it| it.free = false);
    }

    /// Reserves a storage of `size` bytes on `device`, a free one from `start` on or a new one; returns its index and whether it is new.
    fn request(&mut self, size: PrimExpr, device: Option<&AttrValue>, start: usize) -> (usize, bool) {
        let fits = |it: &Storage| it.free && it.device.as_ref() == device;
        let free = self.storages.iter().enumerate().skip(start).filter(|(_, it)| fits(it));
        let found = match size.as_int() {
            Some(bytes) => {
                let constant = free.filter_map(|(i, it)| Some((i, it.size.as_int()?)));
                let near =
                    constant.filter(|(_, have)| have / MATCH_RANGE <= bytes && bytes / MATCH_RANGE <= *have);
                // The smallest that is large enough, else the largest, which grows.
                near.min_by_key(|&(_, have)| if have >= bytes { (0, have) } else { (1, -have) })
                    .map(|(i, _)| i)
            }
            None => {
                let mut symbolic = free.filter(|(_, it)| it.size.as_int().is_none());
                symbolic.find(|(_, it)| prove_equal(&it.size, &size)).map(|(i, _)| i)
            }
        };
        let Some(i) = found else {
            let var = Var::new("storage", Type::Object);
            self.storages.push(Storage { var, size, device: device.cloned(), free: false });
            return (self.storages.len() - 1, true);
        };
        let storage = &mut self.storages[i];
        storage.free = false;
        if let (Some(have), Some(bytes)) = (storage.size.as_int(), size.as_int()) {
            storage.size = PrimExpr::index(have.max(bytes));
        }
        (i, false)
    }

    fn byte_size(&self, ty: &Type) -> Option<PrimExpr> {
        let tensor = ty.as_tensor()?;
        let elem = PrimExpr::index(tensor.dtype?.bytes() as i64);
        let size = tensor.known_shape()?.iter().fold(elem, |size, dim| size * dim);
        Some(self.upper_bound(&size).map_or(size, PrimExpr::index))
    }

    /// The largest value of a size whose dimensions are bounded.
    fn upper_bound(&self, size: &PrimExpr) -> Option<i64> {
        match size {
            PrimExpr::IntImm(it) => (it.value >= 0).then_some(it.value),
            PrimExpr::Var(var) => self.attrs.int(&format!("tir_var_upper_bound.{}", var.name())),
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

struct Rewrite<'a> {
    plan: Plan<'a>,
    err: FirstError,
}

impl Mutator for Rewrite<'_> {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let Some(&(storage, first)) = self.plan.places.get(&binding.var.id()) else {
            return walk_binding(self, binding).map(|it| vec![it]);
        };
        let call = call_of(&binding.value, memory::ALLOC)?;
        let placed = self.place(binding, call, &self.plan.storages[storage], first);
        self.err.keep(placed)
    }
}

impl Rewrite<'_> {
    fn place(
        &self,
        binding: &Binding,
        call: &Call,
        storage: &Storage,
        first: bool,
    ) -> Result<Vec<Binding>, IrError> {
        let mut out = Vec::new();
        if first {
            let mut attrs = Attrs::new();
            if let Some(device) = &storage.device {
                attrs = attrs.with(DEVICE, device.clone());
            }
            let value = memory::call(memory::ALLOC_STORAGE, [Arg::Prim(storage.size.clone())], attrs)?;
            out.push(Binding::new(storage.var.clone(), value));
        }
        let shape = call.args.iter().cloned();
        let args = [Arg::from(&storage.var), Arg::Prim(PrimExpr::index(0))].into_iter().chain(shape);
        let dtype = memory::dtype_attr(dtype_of(call)?);
        let value = memory::call(memory::ALLOC_TENSOR, args.collect::<Vec<_>>(), dtype)?;
        out.push(Binding { value, ..binding.clone() });
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
