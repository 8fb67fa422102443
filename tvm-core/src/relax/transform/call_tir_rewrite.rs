//! `CallTIRRewrite`: allocates memory for the results of `call_tir` and `call_dps_packed`, and takes it from the arguments
//! for `call_tir_inplace`.
//!
//! Requires known result shapes. The memory is on the device of the arguments ([`Places`]), to which constants are copied.
//! Ensures that none of these calls is left; the function counts as pure from then on, whatever it writes
//! ([`FORCE_PURE`]):
//!
//! ```text
//! y = call_tir(f, (x,), Tensor<f32, n>)
//! // becomes
//! y = builtin.alloc_tensor(shape[n]) {dtype: f32}
//! _ = vm.invoke_tvm_op(f, (x,), (y,))
//!
//! z = call_tir_inplace(f, (x,), (y,), Tensor<f32, n>)
//! // becomes
//! z = memory.make_unique(y) {last_use: true if nothing else uses y from here on}
//! _ = vm.invoke_tvm_op(f, (x,), (z,))
//! ```
//!
//! A packed function fills memory of the host. If kernels run on another device, its results are copied there.
//!
//! TVM counterpart: `relax.transform.CallTIRRewrite`.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use tvm_runtime::Device;

use crate::ir::{Attrs, FirstError, IrError, TensorType, Type, Var, VarId};
use crate::pass::{Pass, function_pass};
use crate::relax::analysis::{FORCE_PURE, Places, final_uses};
use crate::relax::mutator::walk_binding;
use crate::relax::op::device::{DEVICE, SHAPE_TO_TENSOR, TO_VDEVICE};
use crate::relax::op::memory;
use crate::relax::{Arg, Binding, Call, Callee, Expr, ExprMutator, Function};

/// The pass.
pub fn call_tir_rewrite() -> Pass {
    function_pass("CallTIRRewrite", |func, module, context| {
        let mut rewrite = Rewrite {
            err: FirstError::default(),
            final_uses: final_uses(func),
            places: Places::new(func, module, context.target.device())?,
        };
        let new = rewrite.mutate_function(func);
        let forced = |func: Function| Function { attrs: func.attrs.clone().with(FORCE_PURE, true), ..func };
        rewrite.err.finish(new.map(forced))
    })
}

struct Rewrite {
    err: FirstError,
    final_uses: FxHashSet<(VarId, VarId)>,
    places: Places,
}

impl ExprMutator for Rewrite {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let Expr::Call(call) = &binding.value else {
            if let (Expr::Arg(arg @ Arg::Const(_)), Some(device)) =
                (&binding.value, self.places.device(&binding.var))
            {
                let (mut arg, mut out) = (arg.clone(), Vec::new());
                self.err.keep(move_constant(&mut arg, device, &mut out))?;
                out.push(Binding { value: Expr::Arg(arg), ..binding.clone() });
                return Some(out);
            }
            return walk_binding(self, binding).map(|it| vec![it]);
        };
        let lowered = match &call.callee {
            Callee::Tir(gv) => self.lower(binding, call, gv.name(), Arg::Global(gv.clone())).map(Some),
            Callee::TirInplace(gv) => self.lower(binding, call, gv.name(), Arg::Global(gv.clone())).map(Some),
            Callee::DpsPacked(name) => self.lower(binding, call, name, Arg::Str(name.clone())).map(Some),
            // The virtual machine makes it on the host.
            Callee::Op(op) if op.name == SHAPE_TO_TENSOR => {
                let device = self.places.device(&binding.var)?;
                let attrs = call.attrs.clone().with(DEVICE, device.to_string());
                let value = Call { attrs, ..Call::clone(call) }.into();
                Ok(Some(vec![Binding { value, ..binding.clone() }]))
            }
            Callee::Op(_)
            | Callee::Global(_)
            | Callee::Var(_)
            | Callee::Packed(_)
            | Callee::Constructor(_) => Ok(None),
        };
        self.err.keep(lowered.map_err(|err| err.at(&call.span)))?
    }
}

impl Rewrite {
    /// The bindings for the call of `func`, which errors call `name`.
    fn lower(&self, binding: &Binding, call: &Call, name: &str, func: Arg) -> Result<Vec<Binding>, IrError> {
        let results = results(&binding.var, call, name)?;
        let device = self.places.device(&binding.var);
        let packed = matches!(call.callee, Callee::DpsPacked(_));
        let (mut out, mut args) = (Vec::new(), call.args.to_vec());
        if let Some(device) = device.filter(|_| !packed) {
            args.iter_mut().try_for_each(|arg| move_constant(arg, device, &mut out))?;
        }
        let initial = if let Callee::TirInplace(_) = call.callee {
            args.split_off(args.len().saturating_sub(results.len()))
        } else {
            Vec::new()
        };
        // Where a packed function fills memory and kernels do not run.
        let host = Some(Device::cpu()).filter(|host| packed && self.places.default_device() != *host);
        let filled = if host.is_some() { results.iter().map(on_host).collect() } else { results.clone() };
        for (i, var) in filled.iter().enumerate() {
            out.push(match initial.get(i) {
                Some(arg) => self.take(binding, var, arg)?,
                None => alloc(var, name, host.or(device))?,
            });
        }
        let outputs = Arg::Tuple(filled.iter().map(Arg::from).collect());
        let op = if packed { memory::INVOKE_DPS_PACKED } else { memory::INVOKE_TVM_OP };
        let mut invoke = memory::call(op, [func, Arg::Tuple(args.into()), outputs], Attrs::new())?;
        if let Expr::Call(it) = &mut invoke {
            Arc::make_mut(it).span = call.span.clone();
        }
        out.push(Binding::new(Var::new("_", Type::unit()), invoke));
        for (var, filled) in results.iter().zip(&filled).filter(|_| host.is_some()) {
            let attrs = Attrs::new().with(DEVICE, self.places.default_device().to_string());
            out.push(Binding::new(var.clone(), memory::call(TO_VDEVICE, [Arg::from(filled)], attrs)?));
        }
        if matches!(call.ret, Some(Type::Tuple(_))) {
            let outputs = results.iter().map(Arg::from).collect();
            out.push(Binding::new(binding.var.clone(), Expr::Arg(Arg::Tuple(outputs))));
        }
        Ok(out)
    }

    /// The tensor `arg` as `var`, to be written to for the call that `binding` binds.
    fn take(&self, binding: &Binding, var: &Var, arg: &Arg) -> Result<Binding, IrError> {
        let last = |it: &Var| self.final_uses.contains(&(binding.var.id(), it.id()));
        let attrs = Attrs::new().with("last_use", arg.as_var().is_some_and(last));
        Ok(Binding::new(var.clone(), memory::call(memory::MAKE_UNIQUE, [arg.clone()], attrs)?))
    }
}

/// A variable for the result `var` while it is on the host.
fn on_host(var: &Var) -> Var {
    let Type::Tensor(ty) = var.ty() else { return var.clone() };
    let ty = Type::Tensor(TensorType { vdevice: Some(Device::cpu()), ..ty.clone() });
    Var::with_span(format!("{}_host", var.name()), ty, var.span().clone())
}

/// A variable for each result of `call`; `var` itself for a single one.
fn results(var: &Var, call: &Call, callee: &str) -> Result<Vec<Var>, IrError> {
    match &call.ret {
        None => Err(IrError::new(format!("the call of `{callee}` declares no result type"), &call.span)),
        Some(Type::Tensor(_)) => Ok(vec![var.clone()]),
        Some(Type::Tuple(fields)) if fields.iter().all(|field| field.as_tensor().is_some()) => {
            let field = |(i, field): (usize, &Type)| {
                Var::with_span(format!("{}_{i}", var.name()), field.clone(), call.span.clone())
            };
            Ok(fields.iter().enumerate().map(field).collect())
        }
        Some(_) => {
            let message = format!("the result of `{callee}` must be a tensor or a tuple of tensors");
            Err(IrError::new(message, &call.span))
        }
    }
}

/// Replaces a constant by its copy on `device`.
fn move_constant(arg: &mut Arg, device: Device, out: &mut Vec<Binding>) -> Result<(), IrError> {
    let Arg::Const(tensor) = &*arg else { return Ok(()) };
    let ty = TensorType { vdevice: Some(device), ..TensorType::fixed(tensor.shape(), tensor.dtype()) };
    let copy = Var::new("constant", Type::Tensor(ty));
    let attrs = Attrs::new().with(DEVICE, device.to_string());
    out.push(Binding::new(copy.clone(), memory::call(TO_VDEVICE, [arg.clone()], attrs)?));
    *arg = Arg::from(&copy);
    Ok(())
}

/// Allocates the result `var` of `callee`.
fn alloc(var: &Var, callee: &str, device: Option<Device>) -> Result<Binding, IrError> {
    let unknown = |what: &str| {
        IrError::new(format!("the {what} of the result of `{callee}` is not known"), var.span())
            .help("`match_cast` the arguments to types that determine it")
    };
    let ty = var.ty().as_tensor().ok_or_else(|| unknown("type"))?;
    let shape = ty.known_shape().ok_or_else(|| unknown("shape"))?;
    let mut attrs = memory::dtype_attr(ty.dtype.ok_or_else(|| unknown("element type"))?);
    if let Some(device) = device {
        attrs = attrs.with(DEVICE, device.to_string());
    }
    Ok(Binding::new(var.clone(), memory::call(memory::ALLOC, [Arg::Shape(shape.into())], attrs)?))
}
