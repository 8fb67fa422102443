//! Last uses: the binding after which a variable is no longer used.
//!
//! TVM counterpart: the collectors of `KillAfterLastUse` and of `StaticPlanBlockMemory`.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Var, VarId};
use crate::relax::visitor::walk_arg;
use crate::relax::{Arg, Body, ExprVisitor, Function};
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

impl<'a, F: Fn(VarId) -> &'a [VarId]> ExprVisitor for LastUses<F> {
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

/// The uses of variables after which they are not needed: pairs of a binding and a variable that its value mentions once,
/// such that nothing that runs after it mentions the variable. Of the arms of a branch or match, one runs. Parameters belong
/// to the body of the function.
pub fn final_uses(func: &Function) -> FxHashSet<(VarId, VarId)> {
    let mut found = FxHashSet::default();
    collect_final_uses(func.params.iter().map(Var::id).collect(), &func.body, &mut found);
    found
}

/// `own` are the variables from outside of `body` that nothing after it mentions.
fn collect_final_uses(mut own: FxHashSet<VarId>, body: &Body, found: &mut FxHashSet<(VarId, VarId)>) {
    with_stack(|| {
        let bindings: Vec<_> = body.bindings().collect();
        own.extend(bindings.iter().map(|binding| binding.var.id()));
        let mut later = FxHashSet::default();
        let mut returned = Mentioned::default();
        returned.visit_arg(&body.ret);
        later.extend(returned.0.into_keys());
        for binding in bindings.into_iter().rev() {
            for arm in binding.value.bodies() {
                let ending = own.iter().filter(|var| !later.contains(*var)).copied();
                collect_final_uses(ending.collect(), arm, found);
            }
            let mut mentioned = Mentioned::default();
            mentioned.visit_expr(&binding.value);
            for (var, times) in mentioned.0 {
                if !later.contains(&var) && times == 1 && own.contains(&var) {
                    found.insert((binding.var.id(), var));
                }
                later.insert(var);
            }
        }
    });
}

/// How often an expression mentions each variable.
#[derive(Default)]
struct Mentioned(FxHashMap<VarId, usize>);

impl ExprVisitor for Mentioned {
    fn visit_arg(&mut self, arg: &Arg) {
        if let Arg::Var(var) = arg {
            *self.0.entry(var.id()).or_default() += 1;
        }
        walk_arg(self, arg);
    }
}
