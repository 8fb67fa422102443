//! `RewriteDataflowReshape`: operators that only change a shape become views.
//!
//! Ensures that no [view operator](crate::ir::OpDef::is_view) of known shape is left: `y = reshape(x, …)` becomes
//! `y = vm.reshape_tensor(x, shape)`.
//!
//! TVM counterpart: `relax.transform.RewriteDataflowReshape`, Relay's `ManifestReshape`.

use crate::ir::{FirstError, Type};
use crate::pass::{Pass, function_pass};
use crate::relax::mutator::walk_binding;
use crate::relax::op::memory;
use crate::relax::{Arg, Binding, Callee, Expr, ExprMutator};

/// The pass.
pub fn rewrite_dataflow_reshape() -> Pass {
    function_pass("RewriteDataflowReshape", |func, _, _| {
        let mut rewrite = Rewrite::default();
        let new = rewrite.mutate_function(func);
        rewrite.err.finish(new)
    })
}

#[derive(Default)]
struct Rewrite {
    err: FirstError,
}

impl ExprMutator for Rewrite {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let Expr::Call(call) = &binding.value else {
            return walk_binding(self, binding).map(|it| vec![it]);
        };
        let Callee::Op(op) = call.callee else { return None };
        let Type::Tensor(ty) = binding.var.ty() else { return None };
        if !op.is_view() {
            return None;
        }
        let shape = match (ty.known_shape(), &*call.args) {
            (Some(shape), _) => Arg::Shape(shape.into()),
            (None, [_, shape]) => shape.clone(),
            _ => return None,
        };
        let reshaped =
            memory::call(memory::RESHAPE_TENSOR, [call.args.first()?.clone(), shape], Default::default());
        let value = self.err.keep(reshaped.map_err(|err| err.at(&call.span)))?;
        Some(vec![Binding { value, ..binding.clone() }])
    }
}
