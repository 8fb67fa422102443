//! `EliminateCommonSubexpr`: replaces a repeated computation with the result of the first.
//!
//! Ensures that two pure bindings of one body, or of a body and one inside it, never have structurally equal values:
//! the second becomes an alias of the first (`CanonicalizeBindings` and `DeadCodeElimination` remove it). Calls of
//! functions, cells and local functions are left alone.
//!
//! TVM counterpart: `relax.transform.EliminateCommonSubexpr`.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use crate::ir::{Var, structural_equal, structural_hash_sampled};
use crate::pass::{Pass, function_pass};
use crate::relax::mutator::{walk_arg, walk_binding, walk_body};
use crate::relax::{Arg, Binding, Body, Callee, Expr, ExprMutator, ExprSubstitute, ExprVisitor};

/// The pass.
pub fn eliminate_common_subexpr() -> Pass {
    function_pass("EliminateCommonSubexpr", |func, _, _| Ok(Cse::default().mutate_function(func)))
}

#[derive(Default)]
struct Cse {
    /// Values computed so far in the open bodies, by hash.
    values: FxHashMap<u64, Vec<(Expr, Var)>>,
    /// Hashes added since each open body began.
    added: Vec<u64>,
    renames: ExprSubstitute,
}

impl ExprMutator for Cse {
    fn mutate_arg(&mut self, arg: &Arg) -> Option<Arg> {
        match arg.as_var() {
            Some(var) => self.renames.args.get(&var.id()).cloned(),
            None => walk_arg(self, arg),
        }
    }

    fn mutate_body(&mut self, body: &Body) -> Option<Body> {
        let outer = self.added.len();
        let new = walk_body(self, body);
        for hash in self.added.drain(outer..).rev() {
            if let Some(values) = self.values.get_mut(&hash) {
                values.pop();
            }
        }
        new
    }

    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let new = walk_binding(self, binding);
        let binding = new.as_ref().unwrap_or(binding);
        if binding.match_cast || !is_value(&binding.value) {
            return new.map(|it| vec![it]);
        }
        let hash = hash_in_scope(&binding.value);
        let values = self.values.entry(hash).or_default();
        let same = values.iter().find(|(value, var)| {
            structural_equal(value, &binding.value).is_ok()
                && structural_equal(var.ty(), binding.var.ty()).is_ok()
        });
        if let Some((_, var)) = same {
            let alias = Arg::Var(var.clone());
            self.renames.args.insert(binding.var.id(), alias.clone());
            return Some(vec![Binding { value: Expr::Arg(alias), ..binding.clone() }]);
        }
        values.push((binding.value.clone(), binding.var.clone()));
        self.added.push(hash);
        new.map(|it| vec![it])
    }
}

/// A hash of `expr` that distinguishes its free variables, which the structural hash does not.
fn hash_in_scope(expr: &Expr) -> u64 {
    struct Ids(FxHasher);
    impl ExprVisitor for Ids {
        fn visit_arg(&mut self, arg: &Arg) {
            if let Arg::Var(var) = arg {
                var.id().hash(&mut self.0);
            }
            crate::relax::visitor::walk_arg(self, arg);
        }
    }
    let mut ids = Ids(FxHasher::default());
    structural_hash_sampled(expr).hash(&mut ids.0);
    ids.visit_expr(expr);
    ids.0.finish()
}

/// True for expressions that depend on their arguments alone and cost something.
fn is_value(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else { return matches!(expr, Expr::TupleGetItem(..)) };
    match &call.callee {
        Callee::Op(op) => op.pure,
        Callee::Tir(_) | Callee::TirInplace(_) | Callee::Constructor(_) => true,
        Callee::Global(_) | Callee::Var(_) | Callee::DpsPacked(_) | Callee::Packed(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tvm_runtime::{DataType, Tensor};

    use super::*;
    use crate::ir::{IRModule, Type};
    use crate::pass::Sequential;
    use crate::relax::If;
    use crate::relax::testing::*;
    use crate::relax::transform::{canonicalize_bindings, dead_code_elimination};
    use crate::tir::PrimExpr;

    #[test]
    fn equal_calls_are_shared_within_scope_only() {
        let mut module = IRModule::new();
        let n = PrimExpr::index(2);
        let sum = add_prim(&mut module, zip("add", vec![n], |a, b| a + b));
        let ty = fixed(&[2]);
        let (x, cond) = (Var::new("x", ty.clone()), Var::new("cond", Type::tensor(vec![], DataType::BOOL)));
        let twice = |x: &Var| bind("t", ty.clone(), call_tir(&sum, &[x.into(), x.into()], ty.clone()));
        let (a, first) = twice(&x);
        let (b, second) = twice(&x);
        // Each branch computes `a` again, which is known there, and `a + a`, which neither branch knows from the other.
        let branch = || {
            let (p, outer) = twice(&x);
            let (q, inner) = twice(&p);
            body(vec![outer, inner], q)
        };
        let span = crate::ir::Span::none();
        let choice = If { cond: (&cond).into(), then_branch: branch(), else_branch: branch(), span };
        let (r, branches) = bind("r", ty.clone(), Expr::If(Arc::new(choice)));
        let (s, last) = bind("s", ty.clone(), call_tir(&sum, &[(&b).into(), (&r).into()], ty.clone()));
        let (u, after) = twice(&a);
        let (v, end) = bind("v", ty.clone(), call_tir(&sum, &[s.into(), u.into()], ty.clone()));
        add(&mut module, function("main", &[&cond, &x], vec![first, second, branches, last, after, end], v));
        let passes = vec![eliminate_common_subexpr(), canonicalize_bindings(), dead_code_elimination()];
        let after = Sequential::new("cse", passes).apply(module.clone()).unwrap();
        let func = after.relax_func(after.global_var("main").unwrap()).unwrap().clone();
        assert_eq!(func.body.bindings().count(), 5, "{func:?}");
        let inner = func.body.bindings().find_map(|it| match &it.value {
            Expr::If(it) => Some((it.then_branch.bindings().count(), it.else_branch.bindings().count())),
            _ => None,
        });
        assert_eq!(inner, Some((1, 1)));
        for on in [true, false] {
            let args = [Tensor::scalar(on).into(), vector(&[1.0, 2.0]).into()];
            let results = [&module, &after].map(|it| elements(&run(it, "main", &args).unwrap()));
            assert_eq!(results, [vec![10.0, 20.0], vec![10.0, 20.0]]);
        }
    }
}
