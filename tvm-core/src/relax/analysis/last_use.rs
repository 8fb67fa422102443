//! Last uses: the binding after which a variable is no longer used.
//!
//! TVM counterpart: the collectors of `KillAfterLastUse` and of `StaticPlanBlockMemory`.

use rustc_hash::FxHashMap;

use crate::ir::VarId;
use crate::relax::visitor::walk_arg;
use crate::relax::{Arg, Body, Function, Visitor};
use crate::support::with_stack;

/// Maps every variable that a body of `func` binds to the last binding of the same body that uses it, or to its own
/// binding if none does. A use of a variable counts as a use of every variable that `stands_for` returns for it.
pub fn last_uses<'a>(func: &Function, stands_for: impl Fn(VarId) -> &'a [VarId]) -> FxHashMap<VarId, VarId> {
    let mut uses =
        LastUses { stands_for, at: Vec::new(), depth: FxHashMap::default(), last: FxHashMap::default() };
    uses.visit_body(&func.body);
    uses.last
}

struct LastUses<F> {
    stands_for: F,
    /// The binding being visited in each open body.
    at: Vec<VarId>,
    /// Nesting depth of the body that binds a variable.
    depth: FxHashMap<VarId, usize>,
    last: FxHashMap<VarId, VarId>,
}

impl<'a, F: Fn(VarId) -> &'a [VarId]> LastUses<F> {
    fn used(&mut self, var: VarId) {
        if let Some(binding) = self.depth.get(&var).and_then(|&depth| self.at.get(depth)) {
            self.last.insert(var, *binding);
        }
    }
}

impl<'a, F: Fn(VarId) -> &'a [VarId]> Visitor for LastUses<F> {
    fn visit_arg(&mut self, arg: &Arg) {
        if let Arg::Var(var) = arg {
            self.used(var.id());
            (self.stands_for)(var.id()).iter().for_each(|it| self.used(*it));
        }
        walk_arg(self, arg);
    }

    fn visit_body(&mut self, body: &Body) {
        with_stack(|| {
            let depth = self.at.len();
            for binding in body.bindings() {
                let var = binding.var.id();
                self.at.truncate(depth);
                self.at.push(var);
                self.visit_expr(&binding.value);
                self.depth.insert(var, depth);
                self.last.insert(var, var);
            }
            self.visit_arg(&body.ret);
            self.at.truncate(depth);
        });
    }
}
