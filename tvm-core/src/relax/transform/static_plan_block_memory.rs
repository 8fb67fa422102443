//! `StaticPlanBlockMemory`: tensors that are not alive at the same time share memory.
//!
//! Requires explicit allocations (`CallTIRRewrite`). A tensor that may leave the body — as its result, in a closure, a
//! data type, a cell, an argument of an unknown function — keeps memory of its own. Sizes are compared as constants, or,
//! where they are symbolic, by proof; `tir_var_upper_bound.NAME` among the attributes of a function bounds the
//! dimension `NAME` and makes such sizes constant. Ensures:
//!
//! ```text
//! y = builtin.alloc_tensor(shape[4])
//! // becomes
//! s = memory.alloc_storage(16);  y = memory.alloc_tensor(s, 0, shape[4])
//! ```
//!
//! TVM counterpart: `relax.transform.StaticPlanBlockMemory`.

use indexmap::IndexSet;
use rustc_hash::FxHashMap;

use crate::ir::{Attrs, FirstError, IrError, Type, Var, VarId};
use crate::pass::{Pass, function_pass};
use crate::relax::analysis::prove_equal;
use crate::relax::mutator::{walk_binding, walk_function};
use crate::relax::op::memory;
use crate::relax::visitor::{walk_arg, walk_expr};
use crate::relax::{Arg, Binding, Body, Call, Callee, Expr, Function, Mutator, Visitor};
use crate::tir::{BinaryOp, PrimExpr};

/// The pass.
pub fn static_plan_block_memory() -> Pass {
    function_pass("StaticPlanBlockMemory", |func, _, _| {
        let mut lifetimes = Lifetimes::default();
        let returned = lifetimes.body(&func.body);
        lifetimes.escape(returned);
        let mut plan = Plan { attrs: &func.attrs, storages: Vec::new(), places: FxHashMap::default() };
        plan.body(&func.body, &lifetimes);
        if plan.places.is_empty() {
            return Ok(None);
        }
        let mut rewrite = Rewrite { plan, err: FirstError::default() };
        let new = walk_function(&mut rewrite, func);
        rewrite.err.finish(new)
    })
}

/// Tensors whose memory a value may share, by their variables.
type Aliases = IndexSet<VarId>;

/// How long tensors live: found in one walk, in evaluation order.
#[derive(Default)]
struct Lifetimes {
    tensors: FxHashMap<VarId, Lifetime>,
    aliases: FxHashMap<VarId, Aliases>,
    /// The binding under way in each open body.
    at: Vec<VarId>,
}

struct Lifetime {
    /// Nesting of the body that allocates it.
    depth: usize,
    /// The binding of that body that uses it last.
    last_use: VarId,
    escapes: bool,
}

/// The call of the operator `name`.
fn call_of<'a>(expr: &'a Expr, name: &str) -> Option<&'a Call> {
    match expr {
        Expr::Call(call) if matches!(&call.callee, Callee::Op(op) if op.name == name) => Some(call),
        _ => None,
    }
}

impl Visitor for Lifetimes {
    fn visit_arg(&mut self, arg: &Arg) {
        if let Arg::Var(var) = arg {
            for tensor in self.aliases.get(&var.id()).into_iter().flatten() {
                if let Some(lifetime) = self.tensors.get_mut(tensor) {
                    lifetime.last_use = self.at[lifetime.depth];
                }
            }
        }
        walk_arg(self, arg);
    }

    fn visit_function(&mut self, func: &Function) {
        // A local function runs at another time: nothing that it uses is planned, and it is planned when lifted.
        let mut inner = Lifetimes { aliases: std::mem::take(&mut self.aliases), ..Lifetimes::default() };
        let used: Aliases = crate::relax::analysis::captures(func)
            .iter()
            .flat_map(|var| inner.aliases.get(&var.id()).into_iter().flatten().copied())
            .collect();
        self.aliases = std::mem::take(&mut inner.aliases);
        self.escape(used);
    }
}

impl Lifetimes {
    fn escape(&mut self, tensors: Aliases) {
        for tensor in tensors {
            if let Some(lifetime) = self.tensors.get_mut(&tensor) {
                lifetime.escapes = true;
            }
        }
    }

    fn aliases_of(&self, arg: &Arg) -> Aliases {
        match arg {
            Arg::Var(var) => self.aliases.get(&var.id()).cloned().unwrap_or_default(),
            Arg::Tuple(fields) => fields.iter().flat_map(|field| self.aliases_of(field)).collect(),
            Arg::Const(_) | Arg::Global(_) | Arg::Shape(_) | Arg::Prim(_) | Arg::DType(_) | Arg::Str(_) => {
                Aliases::default()
            }
        }
    }

    /// Walks `body`; what its result may share memory with.
    fn body(&mut self, body: &Body) -> Aliases {
        let depth = self.at.len();
        for binding in body.bindings() {
            let var = binding.var.id();
            self.at.truncate(depth);
            self.at.push(var);
            let aliases = self.value(&binding.value, var, depth);
            self.aliases.insert(var, aliases);
        }
        self.visit_arg(&body.ret);
        self.at.truncate(depth);
        let returned = self.aliases_of(&body.ret);
        // What the body allocates and returns outlives it; what is from outside is followed there.
        let (inner, outer) = returned
            .into_iter()
            .partition(|tensor| self.tensors.get(tensor).is_some_and(|it| it.depth == depth));
        self.escape(inner);
        outer
    }

    /// What the value of the variable `var` may share memory with.
    fn value(&mut self, expr: &Expr, var: VarId, depth: usize) -> Aliases {
        match expr {
            Expr::If(it) => {
                self.visit_arg(&it.cond);
                return expr.bodies().into_iter().flat_map(|body| self.body(body)).collect();
            }
            Expr::Match(it) => {
                self.visit_arg(&it.value);
                return it.clauses.iter().flat_map(|clause| self.body(&clause.body)).collect();
            }
            Expr::Arg(_)
            | Expr::Call(_)
            | Expr::TupleGetItem(..)
            | Expr::Function(_)
            | Expr::RefCreate(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..) => walk_expr(self, expr),
        }
        if call_of(expr, memory::ALLOC).is_some() {
            self.tensors.insert(var, Lifetime { depth, last_use: var, escapes: false });
            return [var].into_iter().collect();
        }
        if call_of(expr, memory::INVOKE_TVM_OP).is_some() || call_of(expr, "shape_of").is_some() {
            return Aliases::default();
        }
        match expr {
            Expr::Arg(arg) | Expr::TupleGetItem(arg, _) => self.aliases_of(arg),
            Expr::Call(call) if call_of(expr, memory::RESHAPE_TENSOR).is_some() => {
                self.aliases_of(&Arg::Tuple(call.args.clone()))
            }
            Expr::Call(call) => {
                let args = self.aliases_of(&Arg::Tuple(call.args.clone()));
                self.escape(args);
                Aliases::default()
            }
            Expr::RefCreate(arg) | Expr::RefWrite(_, arg) => {
                let args = self.aliases_of(arg);
                self.escape(args);
                Aliases::default()
            }
            Expr::If(_) | Expr::Match(_) | Expr::Function(_) | Expr::RefRead(_) => Aliases::default(),
        }
    }
}

/// A block of memory that tensors of one body share.
struct Storage {
    var: Var,
    size: PrimExpr,
    free: bool,
}

/// Which tensor lies where.
struct Plan<'a> {
    attrs: &'a Attrs,
    storages: Vec<Storage>,
    /// Storage of each planned tensor, and whether it is the first there.
    places: FxHashMap<VarId, (usize, bool)>,
}

/// A constant storage serves requests that are at most so many times smaller, or larger.
const MATCH_RANGE: i64 = 16;

impl Plan<'_> {
    fn body(&mut self, body: &Body, lifetimes: &Lifetimes) {
        // Storages of the outer body are not seen: a branch shares memory within itself only.
        let start = self.storages.len();
        let mut dying: FxHashMap<VarId, Vec<usize>> = FxHashMap::default();
        for binding in body.bindings() {
            binding.value.bodies().into_iter().for_each(|body| self.body(body, lifetimes));
            let id = binding.var.id();
            if let Some(lifetime) = lifetimes.tensors.get(&id).filter(|it| !it.escapes)
                && let Some(size) = self.byte_size(binding.var.ty())
            {
                let (storage, first) = self.request(size, start);
                self.places.insert(id, (storage, first));
                dying.entry(lifetime.last_use).or_default().push(storage);
            }
            for storage in dying.remove(&id).into_iter().flatten() {
                self.storages[storage].free = true;
            }
        }
        // Whoever comes after this body does not see its storages.
        self.storages[start..].iter_mut().for_each(|it| it.free = false);
    }

    /// A storage among those from `start` on, and whether it is new.
    fn request(&mut self, size: PrimExpr, start: usize) -> (usize, bool) {
        let free = self.storages.iter().enumerate().skip(start).filter(|(_, it)| it.free);
        let found = match size.as_int() {
            Some(bytes) => {
                let constant = free.filter_map(|(i, it)| Some((i, it.size.as_int()?)));
                let near =
                    constant.filter(|(_, have)| have / MATCH_RANGE <= bytes && bytes / MATCH_RANGE <= *have);
                // The smallest that fits, or the largest, which grows.
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
            self.storages.push(Storage { var, size, free: false });
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
            let value = memory::call(memory::ALLOC_STORAGE, [Arg::Prim(storage.size.clone())], Attrs::new())?;
            out.push(Binding::new(storage.var.clone(), value));
        }
        let shape = call.args.iter().cloned();
        let args = [Arg::from(&storage.var), Arg::Prim(PrimExpr::index(0))].into_iter().chain(shape);
        let value = memory::call(memory::ALLOC_TENSOR, args.collect::<Vec<_>>(), call.attrs.clone())?;
        out.push(Binding { value, ..binding.clone() });
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
