//! `CallTIRRewrite`: allocates memory for the results of `call_tir` and `call_dps_packed`.
//!
//! Requires known result shapes. Ensures that no `call_tir` is left; the function counts as pure from then on, whatever
//! it writes ([`FORCE_PURE`]):
//!
//! ```text
//! y = call_tir(f, (x,), Tensor<f32, n>)
//! // becomes
//! y = builtin.alloc_tensor(shape[n]) {dtype: f32}
//! _ = vm.invoke_tvm_op(f, (x,), (y,))
//! ```
//!
//! TVM counterpart: `relax.transform.CallTIRRewrite`.

use std::sync::Arc;

use crate::ir::{FirstError, IrError, TensorType, Type, Var};
use crate::pass::{Pass, function_pass};
use crate::relax::analysis::FORCE_PURE;
use crate::relax::mutator::walk_binding;
use crate::relax::op::memory;
use crate::relax::{Arg, Binding, Call, Callee, Expr, Function, Mutator};

/// The pass.
pub fn call_tir_rewrite() -> Pass {
    function_pass("CallTIRRewrite", |func, _, _| {
        let mut rewrite = Rewrite::default();
        let new = rewrite.mutate_function(func);
        let forced = |func: Function| Function { attrs: func.attrs.clone().with(FORCE_PURE, true), ..func };
        rewrite.err.finish(new.map(forced))
    })
}

#[derive(Default)]
struct Rewrite {
    err: FirstError,
}

impl Mutator for Rewrite {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let Expr::Call(call) = &binding.value else {
            return walk_binding(self, binding).map(|it| vec![it]);
        };
        self.err.keep(lower(binding, call).map_err(|err| err.at(&call.span)))?
    }
}

fn lower(binding: &Binding, call: &Call) -> Result<Option<Vec<Binding>>, IrError> {
    let callee = match &call.callee {
        Callee::Tir(gv) => gv.name(),
        Callee::DpsPacked(name) => name,
        Callee::Op(_) | Callee::Global(_) | Callee::Var(_) | Callee::Packed(_) | Callee::Constructor(_) => {
            return Ok(None);
        }
    };
    let ret = call
        .ret
        .as_ref()
        .ok_or_else(|| IrError::new(format!("the call of `{callee}` declares no result type"), &call.span))?;
    let mut out = Vec::new();
    let results = match ret {
        Type::Tensor(ty) => vec![alloc(&binding.var, ty, callee)?],
        Type::Tuple(fields) => fields
            .iter()
            .enumerate()
            .map(|(i, field)| {
                let ty = field.as_tensor().ok_or_else(|| {
                    IrError::new(format!("result {i} of `{callee}` must be a tensor"), &call.span)
                })?;
                let name = format!("{}_{i}", binding.var.name());
                alloc(&Var::with_span(name, field.clone(), call.span.clone()), ty, callee)
            })
            .collect::<Result<Vec<_>, _>>()?,
        Type::Prim(_)
        | Type::Shape(_)
        | Type::Func(_)
        | Type::Adt(_)
        | Type::Ref(_)
        | Type::Param(_)
        | Type::Object => {
            let message = format!("the result of `{callee}` must be a tensor or a tuple of tensors");
            return Err(IrError::new(message, &call.span));
        }
    };
    let outputs: Arc<[Arg]> = results.iter().map(|it| Arg::from(&it.var)).collect();
    if let Callee::DpsPacked(name) = &call.callee {
        // The result is what the function returns: it may return other tensors than those allocated for it.
        let memory: Vec<Binding> =
            results.into_iter().map(|it| Binding { var: it.var.renew(), ..it }).collect();
        let args = call.args.iter().cloned().chain(memory.iter().map(|it| Arg::from(&it.var))).collect();
        let packed = Call { callee: Callee::Packed(name.clone()), args, ..call.clone() };
        out.extend(memory);
        out.push(Binding { value: packed.into(), ..binding.clone() });
        return Ok(Some(out));
    }
    let Callee::Tir(gv) = &call.callee else { return Ok(None) };
    out.extend(results);
    let args = [Arg::Global(gv.clone()), Arg::Tuple(call.args.clone()), Arg::Tuple(outputs.clone())];
    let mut invoke = memory::call(memory::INVOKE_TVM_OP, args, Default::default())?;
    if let Expr::Call(it) = &mut invoke {
        Arc::make_mut(it).span = call.span.clone();
    }
    out.push(Binding::new(Var::new("_", Type::unit()), invoke));
    if matches!(ret, Type::Tuple(_)) {
        out.push(Binding::new(binding.var.clone(), Expr::Arg(Arg::Tuple(outputs))));
    }
    Ok(Some(out))
}

fn alloc(var: &Var, ty: &TensorType, callee: &str) -> Result<Binding, IrError> {
    let unknown = |what: &str| {
        IrError::new(format!("the {what} of the result of `{callee}` is not known"), var.span())
            .help("`match_cast` the arguments to types that determine it")
    };
    let shape = ty.known_shape().ok_or_else(|| unknown("shape"))?;
    let dtype = ty.dtype.ok_or_else(|| unknown("element type"))?;
    let shape = Arg::Shape(shape.into());
    Ok(Binding::new(var.clone(), memory::call(memory::ALLOC, [shape], memory::dtype_attr(dtype))?))
}
