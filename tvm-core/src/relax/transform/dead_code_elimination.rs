//! `DeadCodeElimination`: removes unused bindings that have no side effect, then private functions that no other
//! function reaches.
//!
//! A function is private when its attribute `private` is true; all others can be called from outside and stay.
//!
//! TVM counterpart: `relax.transform.DeadCodeElimination`.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::ir::{BaseFunc, GlobalVar, IRModule, VarId};
use crate::pass::{Pass, module_pass};
use crate::relax::analysis::is_pure;
use crate::relax::mutator::{walk_binding, walk_function};
use crate::relax::visitor::{walk_arg, walk_call};
use crate::relax::{Arg, Binding, Body, Call, Callee, ExprMutator, ExprVisitor, Function};
use crate::tir::{self, PrimExpr};

/// The pass.
pub fn dead_code_elimination() -> Pass {
    module_pass("DeadCodeElimination", |mut module, _| {
        let mut changed = Vec::new();
        for (gv, func) in module.functions() {
            if let BaseFunc::Relax(func) = func
                && let Some(new) = eliminate(func, &module)
            {
                changed.push((gv.clone(), BaseFunc::Relax(Arc::new(new))));
            }
        }
        changed.into_iter().for_each(|(gv, func)| module.update(gv, func));
        remove_unused_functions(&mut module);
        Ok(module)
    })
}

fn eliminate(func: &Function, module: &IRModule) -> Option<Function> {
    // One walk over the live bindings, from the end to the start of each body, collects the uses.
    let mut live = Live { module, used: FxHashSet::default() };
    live.body(&func.body);
    walk_function(&mut Sweep { used: live.used, module }, func)
}

/// Collects the variables that live bindings use.
struct Live<'a> {
    module: &'a IRModule,
    used: FxHashSet<VarId>,
}

impl Live<'_> {
    fn body(&mut self, body: &Body) {
        crate::support::with_stack(|| {
            self.visit_arg(&body.ret);
            for binding in body.bindings().collect::<Vec<_>>().into_iter().rev() {
                if keeps(binding, &self.used, self.module) {
                    self.visit_expr(&binding.value);
                }
            }
        });
    }
}

fn keeps(binding: &Binding, used: &FxHashSet<VarId>, module: &IRModule) -> bool {
    used.contains(&binding.var.id()) || binding.match_cast || !is_pure(&binding.value, module)
}

impl ExprVisitor for Live<'_> {
    fn visit_arg(&mut self, arg: &Arg) {
        if let Arg::Var(var) = arg {
            self.used.insert(var.id());
        }
        walk_arg(self, arg);
    }

    fn visit_prim(&mut self, expr: &PrimExpr) {
        tir::any_expr(expr, &mut |it| {
            self.used.extend(it.as_var().map(|var| var.id()));
            false
        });
    }

    fn visit_body(&mut self, body: &Body) {
        self.body(body);
    }
}

struct Sweep<'a> {
    used: FxHashSet<VarId>,
    module: &'a IRModule,
}

impl ExprMutator for Sweep<'_> {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        if !keeps(binding, &self.used, self.module) {
            return Some(Vec::new());
        }
        walk_binding(self, binding).map(|it| vec![it])
    }
}

fn remove_unused_functions(module: &mut IRModule) {
    let private = |func: &BaseFunc| match func {
        BaseFunc::Relax(func) => func.attrs.bool("private") == Some(true),
        BaseFunc::Prim(func) => func.attrs.bool("private") == Some(true),
        BaseFunc::Extern(_) => false,
    };
    let mut reached = Reached::default();
    let roots = module.functions().filter(|(_, func)| !private(func)).map(|(gv, _)| gv.clone());
    let mut pending: Vec<GlobalVar> = roots.collect();
    while let Some(gv) = pending.pop() {
        if reached.seen.insert(gv.clone())
            && let Some(func) = module.relax_func(&gv)
        {
            reached.visit_function(func);
            pending.append(&mut reached.found);
        }
    }
    module.retain(|gv, _| reached.seen.contains(gv));
}

#[derive(Default)]
struct Reached {
    seen: FxHashSet<GlobalVar>,
    found: Vec<GlobalVar>,
}

impl ExprVisitor for Reached {
    fn visit_arg(&mut self, arg: &Arg) {
        if let Arg::Global(gv) = arg {
            self.found.push(gv.clone());
        }
        walk_arg(self, arg);
    }

    fn visit_call(&mut self, call: &Call) {
        if let Callee::Tir(gv) | Callee::TirInplace(gv) = &call.callee {
            self.found.push(gv.clone());
        }
        walk_call(self, call);
    }
}
