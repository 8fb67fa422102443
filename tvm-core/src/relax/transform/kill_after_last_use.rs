//! `KillAfterLastUse`: kills tensors and storages right after their last use, so that their memory is freed.
//!
//! Requires copy propagation (`CanonicalizeBindings`): each alias of a tensor keeps it alive on its own. Ensures that
//! no returned value is killed, and that calls in tail position stay there. Marks the function with [`FORCE_PURE`],
//! because its effects are explicit from then on.
//!
//! TVM counterpart: `relax.transform.KillAfterLastUse`.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{FirstError, Type, Var, VarId};
use crate::pass::{Pass, function_pass};
use crate::relax::analysis::{FORCE_PURE, last_uses};
use crate::relax::mutator::walk_binding;
use crate::relax::op::memory;
use crate::relax::visitor::walk_arg;
use crate::relax::{Arg, Binding, BindingBlock, Body, Expr, ExprMutator, ExprVisitor, Function};

/// The pass.
pub fn kill_after_last_use() -> Pass {
    function_pass("KillAfterLastUse", |func, _, _| {
        // Killing a variable does not free memory that others still refer to.
        let mut kill = Kill { last_uses: last_uses(func, |_| &[]), err: FirstError::default() };
        let new = kill.mutate_function(func);
        let explicit = |func: Function| Function { attrs: func.attrs.clone().with(FORCE_PURE, true), ..func };
        kill.err.finish(new.map(explicit))
    })
}

struct Kill {
    last_uses: FxHashMap<VarId, VarId>,
    err: FirstError,
}

/// Collects the variables in the result of a body.
#[derive(Default)]
struct Uses(FxHashSet<VarId>);

impl ExprVisitor for Uses {
    fn visit_arg(&mut self, arg: &Arg) {
        if let Arg::Var(var) = arg {
            self.0.insert(var.id());
        }
        walk_arg(self, arg);
    }
}

impl ExprMutator for Kill {
    fn mutate_body(&mut self, body: &Body) -> Option<Body> {
        let bindings: Vec<&Binding> = body.bindings().collect();
        let mut returned = Uses::default();
        returned.visit_arg(&body.ret);
        let tail = bindings.last().filter(|it| body.ret.as_var() == Some(&it.var) && transfers(&it.value));
        let mut dying: FxHashMap<VarId, Vec<&Var>> = FxHashMap::default();
        for binding in &bindings {
            let (id, ty) = (binding.var.id(), binding.var.ty());
            if !returned.0.contains(&id) && holds_memory(ty) {
                let last_use = self.last_uses.get(&id).copied().unwrap_or(id);
                dying.entry(last_use).or_default().push(&binding.var);
            }
        }
        let mut changed = false;
        let mut blocks = Vec::with_capacity(body.blocks.len());
        for block in body.blocks.iter() {
            let mut out: Vec<Binding> = Vec::with_capacity(block.bindings.len());
            for binding in block.bindings.iter() {
                let new = walk_binding(self, binding);
                changed |= new.is_some();
                out.push(new.unwrap_or_else(|| binding.clone()));
                if !tail.is_some_and(|tail| tail.var == binding.var)
                    && let Some(dying) = dying.get(&binding.var.id())
                {
                    changed = true;
                    out.extend(dying.iter().filter_map(|var| self.kill(var)));
                }
            }
            blocks.push(BindingBlock { dataflow: block.dataflow, bindings: out.into() });
        }
        changed.then(|| Body { blocks: blocks.into(), ret: body.ret.clone() })
    }
}

/// True for values that keep tensors alive.
fn holds_memory(ty: &Type) -> bool {
    match ty {
        Type::Tuple(fields) => !fields.is_empty(),
        Type::Tensor(_) | Type::Adt(_) | Type::Func(_) | Type::Ref(_) | Type::Param(_) | Type::Object => true,
        Type::Prim(_) | Type::Shape(_) => false,
    }
}

impl Kill {
    fn kill(&mut self, var: &Var) -> Option<Binding> {
        let value = self.err.keep(memory::call(memory::KILL, [Arg::from(var)], Default::default()))?;
        Some(Binding::new(Var::new("_", Type::unit()), value))
    }
}

/// True for expressions that can be in tail position.
fn transfers(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(_) | Expr::If(_) | Expr::Match(_))
}
