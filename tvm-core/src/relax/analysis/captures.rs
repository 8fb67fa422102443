//! Free variables of a function: those that it uses but does not define.
//!
//! TVM counterpart: `relax.analysis.free_vars`, `free_symbolic_vars`.

use indexmap::IndexSet;
use rustc_hash::FxHashSet;

use crate::ir::{Type, Var, VarId};
use crate::relax::visitor::{walk_arg, walk_binding};
use crate::relax::{Arg, Binding, ExprVisitor, Function};
use crate::tir::{self, PrimExpr};

/// The free variables of `func` in order of first use: graph variables, and symbolic dimensions that no parameter and
/// no `match_cast` binds.
pub fn captures(func: &Function) -> Vec<Var> {
    let mut free = FreeVars::default();
    free.visit_function(func);
    free.free.into_iter().collect()
}

/// The symbolic dimensions in `ty`, in order of first use.
pub fn type_dims(ty: &Type) -> Vec<Var> {
    let mut free = FreeVars::default();
    free.visit_type(ty);
    free.free.into_iter().collect()
}

/// Calls `bind` for the symbolic dimensions that a value of type `ty` binds: the extents that are a single variable.
pub fn bound_dims(ty: &Type, bind: &mut dyn FnMut(&Var)) {
    let mut bare = |dims: &[PrimExpr]| dims.iter().filter_map(PrimExpr::as_var).for_each(&mut *bind);
    match ty {
        Type::Tensor(it) => it.known_shape().iter().for_each(|it| bare(it)),
        Type::Shape(it) => it.values.iter().for_each(|it| bare(it)),
        Type::Tuple(fields) => fields.iter().for_each(|field| bound_dims(field, bind)),
        Type::Prim(_) | Type::Func(_) | Type::Adt(_) | Type::Ref(_) | Type::Param(_) | Type::Object => {}
    }
}

#[derive(Default)]
struct FreeVars {
    defined: FxHashSet<VarId>,
    free: IndexSet<Var>,
}

impl FreeVars {
    fn use_var(&mut self, var: &Var) {
        if !self.defined.contains(&var.id()) {
            self.free.insert(var.clone());
        }
    }

    fn bind_dims(&mut self, ty: &Type) {
        bound_dims(ty, &mut |dim| {
            if !self.free.contains(dim) {
                self.defined.insert(dim.id());
            }
        });
    }
}

impl tir::Visitor for FreeVars {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Var(var) = expr {
            self.use_var(var);
        }
        if let PrimExpr::Let(it) = expr {
            self.defined.insert(it.var.id());
        }
        tir::walk_expr(self, expr);
    }
}

impl ExprVisitor for FreeVars {
    fn visit_prim(&mut self, expr: &PrimExpr) {
        tir::Visitor::visit_expr(self, expr);
    }

    fn visit_var_def(&mut self, var: &Var) {
        self.defined.insert(var.id());
        self.visit_type(var.ty());
    }

    fn visit_arg(&mut self, arg: &Arg) {
        match arg.as_var() {
            Some(var) => self.use_var(var),
            None => walk_arg(self, arg),
        }
    }

    fn visit_binding(&mut self, binding: &Binding) {
        if binding.match_cast {
            self.visit_expr(&binding.value);
            self.bind_dims(binding.var.ty());
            self.visit_var_def(&binding.var);
        } else {
            walk_binding(self, binding);
        }
    }

    fn visit_function(&mut self, func: &Function) {
        func.params.iter().for_each(|param| {
            self.defined.insert(param.id());
        });
        func.params.iter().for_each(|param| self.bind_dims(param.ty()));
        crate::relax::visitor::walk_function(self, func);
    }
}
