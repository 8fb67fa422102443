//! The calls of operators in a function, for passes that look for calls of calls, and new ones.

use rustc_hash::FxHashMap;

use crate::ir::{Attrs, IRModule, Op, Span, Var, VarId};
use crate::relax::analysis::infer_type;
use crate::relax::visitor::{walk_arg, walk_binding};
use crate::relax::{Arg, Binding, Call, Callee, Expr, ExprVisitor};

/// The calls of a function by the variable that they are bound to, and how often each variable is used.
#[derive(Default)]
pub(super) struct Calls {
    by_var: FxHashMap<VarId, Call>,
    uses: FxHashMap<VarId, usize>,
}

impl ExprVisitor for Calls {
    fn visit_binding(&mut self, binding: &Binding) {
        if let (Expr::Call(call), false) = (&binding.value, binding.match_cast) {
            self.by_var.insert(binding.var.id(), (**call).clone());
        }
        walk_binding(self, binding);
    }

    fn visit_arg(&mut self, arg: &Arg) {
        match arg {
            Arg::Var(var) => *self.uses.entry(var.id()).or_default() += 1,
            _ => walk_arg(self, arg),
        }
    }
}

impl Calls {
    /// The call of one of `ops` that `arg` is the result of.
    pub(super) fn call(&self, arg: &Arg, ops: &[&str]) -> Option<&Call> {
        let call = self.by_var.get(&arg.as_var()?.id())?;
        ops.contains(&op_name(call)?).then_some(call)
    }

    /// The call of one of `ops` that `arg` is the result of, if nothing else uses it.
    pub(super) fn only_use(&self, arg: &Arg, ops: &[&str]) -> Option<&Call> {
        self.only_use_where(arg, |call| op_name(call).is_some_and(|it| ops.contains(&it)))
    }

    /// The call that `arg` is the result of, if nothing else uses it and `is_wanted` says so.
    pub(super) fn only_use_where(&self, arg: &Arg, is_wanted: impl Fn(&Call) -> bool) -> Option<&Call> {
        let id = arg.as_var()?.id();
        let is_only = self.uses.get(&id) == Some(&1);
        self.by_var.get(&id).filter(|call| is_only && is_wanted(call))
    }
}

/// The name of the operator that is called.
pub(super) fn op_name(call: &Call) -> Option<&'static str> {
    if let Callee::Op(op) = call.callee { Some(op.def().name) } else { None }
}

/// A call of an operator, bound to a new variable; `None` if it is ill-typed.
pub(super) fn bound_call(
    module: &IRModule,
    name: &str,
    op: &str,
    args: &[Arg],
    attrs: Attrs,
    span: &Span,
) -> Option<Binding> {
    let callee = Callee::Op(Op::get(op).ok()?);
    let value: Expr = Call { callee, args: args.into(), attrs, ret: None, span: span.clone() }.into();
    let var = Var::with_span(name, infer_type(&value, module).ok()?, span.clone());
    Some(Binding::new(var, value))
}

/// A call like `call`, of `data` in place of the first argument, bound to a new variable; `None` if it is ill-typed.
pub(super) fn bound_call_on(module: &IRModule, call: &Call, data: Arg) -> Option<Binding> {
    let mut args = call.args.to_vec();
    *args.first_mut()? = data;
    let op = op_name(call)?;
    let name = op.rsplit('.').next().unwrap_or(op);
    bound_call(module, name, op, &args, call.attrs.clone(), &call.span)
}
