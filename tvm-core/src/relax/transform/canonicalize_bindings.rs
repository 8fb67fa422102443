//! `CanonicalizeBindings`: copy propagation.
//!
//! Ensures that a variable bound to another variable, a constant, a shape or a scalar is no longer used, and that
//! taking a field of a tuple that the function itself builds is replaced by that field. The bindings themselves are left
//! to `DeadCodeElimination`.
//!
//! TVM counterpart: `relax.transform.CanonicalizeBindings`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ir::VarId;
use crate::pass::{Pass, function_pass};
use crate::relax::mutator::{walk_arg, walk_binding, walk_expr};
use crate::relax::{Arg, Binding, Expr, ExprMutator};

/// The pass.
pub fn canonicalize_bindings() -> Pass {
    function_pass("CanonicalizeBindings", |func, _, _| Ok(Canonicalize::default().mutate_function(func)))
}

#[derive(Default)]
struct Canonicalize {
    copies: FxHashMap<VarId, Arg>,
    tuples: FxHashMap<VarId, Arc<[Arg]>>,
}

impl ExprMutator for Canonicalize {
    fn mutate_arg(&mut self, arg: &Arg) -> Option<Arg> {
        match arg.as_var() {
            Some(var) => self.copies.get(&var.id()).cloned(),
            None => walk_arg(self, arg),
        }
    }

    fn mutate_expr(&mut self, expr: &Expr) -> Option<Expr> {
        let new = walk_expr(self, expr);
        if let Expr::TupleGetItem(arg, index) = new.as_ref().unwrap_or(expr) {
            let fields = match arg {
                Arg::Var(var) => self.tuples.get(&var.id()),
                Arg::Tuple(fields) => Some(fields),
                Arg::Const(_)
                | Arg::Global(_)
                | Arg::Shape(_)
                | Arg::Prim(_)
                | Arg::DType(_)
                | Arg::Str(_) => None,
            };
            if let Some(field) = fields.and_then(|fields| fields.get(*index)) {
                return Some(Expr::Arg(field.clone()));
            }
        }
        new
    }

    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let new = walk_binding(self, binding);
        let binding = new.as_ref().unwrap_or(binding);
        if let (Expr::Arg(arg), false) = (&binding.value, binding.match_cast) {
            if let Arg::Tuple(fields) = arg {
                self.tuples.insert(binding.var.id(), fields.clone());
            } else {
                self.copies.insert(binding.var.id(), arg.clone());
            }
        }
        new.map(|it| vec![it])
    }
}
