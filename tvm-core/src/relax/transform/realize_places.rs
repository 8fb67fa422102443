//! `RealizePlaces`: calls that say where they compute get their arguments there.
//!
//! Requires calls of operators, of which some have the attribute [`PLACE`], the name of a device. Ensures that no call has it: what such
//! a call takes is moved there by `to_vdevice`, and what it gives is moved to the default device where anything else needs it, once for
//! each body. What placed calls of one device hand on to each other stays there, and so does the result of the program. Constants are
//! not moved: `CallTIRRewrite` puts them where they are needed. If the device is the default one, nothing is moved.
//!
//! ```text
//! y = topk(x) {place: "cpu:0"};  z = y * y
//! // becomes
//! a = to_vdevice(x) {device: "cpu:0"};  y = topk(a);  b = to_vdevice(y) {device: "cuda:0"};  z = b * b
//! ```
//!
//! TVM counterpart: `RealizeVDevice`, Relay's `PlanDevices`.

use rustc_hash::FxHashMap;
use tvm_runtime::{Device, DeviceKind};

use crate::ir::{Attrs, FirstError, IRModule, IrError, Type, Var, VarId};
use crate::pass::{Pass, function_pass};
use crate::relax::analysis::captures;
use crate::relax::mutator::{walk_arg, walk_binding, walk_body};
use crate::relax::op::device::{DEVICE, PLACE, SHAPE_OF, TENSOR_TO_SHAPE, TO_VDEVICE};
use crate::relax::op::memory;
use crate::relax::visitor::walk_call;
use crate::relax::{
    Arg, Binding, BindingBlock, Body, Call, Callee, Expr, ExprMutator, ExprVisitor, Function,
};

/// The pass.
pub fn realize_places() -> Pass {
    function_pass("RealizePlaces", |func, module, context| {
        let mut find = Placed(false);
        find.visit_function(func);
        if !find.0 {
            return Ok(None);
        }
        let mut realize = Realize {
            default: context.target.device(),
            placed: FxHashMap::default(),
            copies: FxHashMap::default(),
            renamed: FxHashMap::default(),
            before: Vec::new(),
            // Nothing in the module relies on where its result is.
            keeps_result: func.attrs.bool("private") != Some(true) && is_alone(module),
            depth: 0,
            err: FirstError::default(),
        };
        let new = realize.mutate_function(func);
        realize.err.finish(new)
    })
}

/// True for a module with one graph function.
fn is_alone(module: &IRModule) -> bool {
    module.functions().filter(|(gv, _)| module.relax_func(gv).is_some()).count() == 1
}

/// Whether there is a call that says where it computes.
struct Placed(bool);

impl ExprVisitor for Placed {
    fn visit_call(&mut self, call: &Call) {
        self.0 |= call.attrs.get(PLACE).is_some();
        walk_call(self, call);
    }
}

struct Realize {
    default: Device,
    /// The devices of variables whose tensors are not on the default device, because of a place.
    placed: FxHashMap<VarId, Device>,
    /// The copies of variables on devices that the open bodies have.
    copies: FxHashMap<(VarId, Device), Var>,
    /// What stands for variables from outside in a local function.
    renamed: FxHashMap<VarId, Var>,
    /// The copies that the current binding needs.
    before: Vec<Binding>,
    /// True if the result of the function stays where it is.
    keeps_result: bool,
    /// Number of open bodies.
    depth: usize,
    err: FirstError,
}

impl Realize {
    /// The tensor, or the tuple of tensors, in `var` on `device`.
    fn on(&mut self, var: &Var, device: Device) -> Option<Var> {
        let var = self.renamed.get(&var.id()).unwrap_or(var).clone();
        if self.placed.get(&var.id()).copied().unwrap_or(self.default) == device {
            return Some(var);
        }
        if let Some(copy) = self.copies.get(&(var.id(), device)) {
            return Some(copy.clone());
        }
        let copy = self.moved(&var, device)?;
        self.copies.insert((var.id(), device), copy.clone());
        Some(copy)
    }

    /// Adds the bindings that move the tensors in `var` to `device`; other values stay as they are.
    fn moved(&mut self, var: &Var, device: Device) -> Option<Var> {
        let copy = || Var::with_span(var.name(), var.ty().clone(), var.span().clone());
        match var.ty() {
            Type::Tensor(_) => {
                let attrs = Attrs::new().with(DEVICE, device.to_string());
                let value = self.err.keep(memory::call(TO_VDEVICE, [Arg::from(var)], attrs))?;
                let copy = copy();
                self.before.push(Binding::new(copy.clone(), value));
                Some(copy)
            }
            Type::Tuple(fields) => {
                let mut args = Vec::new();
                for (i, ty) in fields.iter().enumerate() {
                    let field = Var::with_span(format!("{}_{i}", var.name()), ty.clone(), var.span().clone());
                    self.before.push(Binding::new(field.clone(), Expr::TupleGetItem(Arg::from(var), i)));
                    args.push(Arg::from(&self.moved(&field, device)?));
                }
                let copy = copy();
                self.before.push(Binding::new(copy.clone(), Expr::Arg(Arg::Tuple(args.into()))));
                Some(copy)
            }
            _ => Some(var.clone()),
        }
    }

    /// `arg` with its tensors on `device`, but for constants.
    fn arg_on(&mut self, arg: &Arg, device: Device) -> Option<Arg> {
        match arg {
            Arg::Var(var) => Some(Arg::from(&self.on(var, device)?)),
            Arg::Tuple(fields) => {
                let fields = fields.iter().map(|it| self.arg_on(it, device));
                Some(Arg::Tuple(fields.collect::<Option<_>>()?))
            }
            Arg::Const(_) | Arg::Global(_) | Arg::Shape(_) | Arg::Prim(_) | Arg::DType(_) | Arg::Str(_) => {
                Some(arg.clone())
            }
        }
    }

    /// The place of a call, if it has one.
    fn place(&self, call: &Call) -> Result<Option<Device>, IrError> {
        if call.attrs.get(PLACE).is_none() {
            return Ok(None);
        }
        let name = call.attrs.str(PLACE).unwrap_or_default();
        let fail = |message: String| IrError::new(message, &call.span);
        let device: Device = name.parse().map_err(|err| fail(format!("{err}")))?;
        if device.kind != DeviceKind::Cpu && device.kind != self.default.kind {
            let message =
                format!("a node is placed on {device}, but the target computes on {}", self.default);
            return Err(
                fail(message).help("compile for a target with kernels for this device, or place it on `cpu`")
            );
        }
        Ok(Some(device))
    }

    /// The call of `binding` on `device`.
    fn call_on(&mut self, binding: &Binding, call: &Call, device: Device) -> Option<Binding> {
        let args = call.args.iter().map(|arg| self.arg_on(arg, device)).collect::<Option<Vec<_>>>()?;
        let mut attrs = call.attrs.clone();
        attrs.remove(PLACE);
        let takes_tensors = args.iter().any(has_tensors);
        let value = Expr::from(Call { args: args.into(), attrs, ..call.clone() });
        if device == self.default {
            return Some(Binding { value, ..binding.clone() });
        }
        if takes_tensors {
            self.placed.insert(binding.var.id(), device);
            return Some(Binding { value, ..binding.clone() });
        }
        // What takes no tensor is computed where its result is moved to.
        if matches!(binding.var.ty(), Type::Tensor(_)) {
            let made =
                Var::with_span(binding.var.name(), binding.var.ty().clone(), binding.var.span().clone());
            self.before.push(Binding::new(made.clone(), value));
            let attrs = Attrs::new().with(DEVICE, device.to_string());
            let value = self.err.keep(memory::call(TO_VDEVICE, [Arg::from(&made)], attrs))?;
            self.placed.insert(binding.var.id(), device);
            return Some(Binding { value, ..binding.clone() });
        }
        Some(Binding { value, ..binding.clone() })
    }

    /// A local function, in which variables from outside are on the default device.
    fn local_function(&mut self, binding: &Binding, func: &Function) -> Option<Binding> {
        let (renamed, placed) = (self.renamed.clone(), self.placed.clone());
        for var in captures(func) {
            if self.placed.contains_key(&var.id()) {
                let copy = self.on(&var, self.default)?;
                self.placed.remove(&var.id());
                self.renamed.insert(var.id(), copy);
            }
        }
        let copies = std::mem::take(&mut self.copies);
        let before = std::mem::take(&mut self.before);
        let new = self.mutate_function(func);
        (self.renamed, self.placed, self.copies, self.before) = (renamed, placed, copies, before);
        Some(Binding { value: Expr::Function(new?.into()), ..binding.clone() })
    }
}

/// True if there is a variable with tensors in `arg`.
fn has_tensors(arg: &Arg) -> bool {
    match arg {
        Arg::Var(var) => matches!(var.ty(), Type::Tensor(_) | Type::Tuple(_)),
        Arg::Tuple(fields) => fields.iter().any(has_tensors),
        Arg::Const(_) | Arg::Global(_) | Arg::Shape(_) | Arg::Prim(_) | Arg::DType(_) | Arg::Str(_) => false,
    }
}

/// True for operators that the host executes, wherever their argument is.
fn reads_on_host(call: &Call) -> bool {
    matches!(&call.callee, Callee::Op(op) if [SHAPE_OF, TENSOR_TO_SHAPE].contains(&op.name))
}

impl ExprMutator for Realize {
    fn mutate_arg(&mut self, arg: &Arg) -> Option<Arg> {
        match arg {
            Arg::Var(var) => self.on(var, self.default).filter(|it| it != var).map(|it| Arg::from(&it)),
            _ => walk_arg(self, arg),
        }
    }

    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let outer = std::mem::take(&mut self.before);
        let own = |placed: &FxHashMap<VarId, Device>, arg: &Arg| placed.get(&arg.as_var()?.id()).copied();
        let new = match &binding.value {
            Expr::Call(call) => {
                let place = self.place(call);
                match self.err.keep(place).flatten() {
                    Some(device) => self.call_on(binding, call, device),
                    None if reads_on_host(call) && own(&self.placed, &call.args[0]).is_some() => None,
                    None => walk_binding(self, binding),
                }
            }
            Expr::Arg(arg) | Expr::TupleGetItem(arg, _) if own(&self.placed, arg).is_some() => {
                if let Some(device) = own(&self.placed, arg) {
                    self.placed.insert(binding.var.id(), device);
                }
                None
            }
            Expr::Function(func) => self.local_function(binding, func),
            Expr::Arg(_)
            | Expr::TupleGetItem(..)
            | Expr::If(_)
            | Expr::Match(_)
            | Expr::RefCreate(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..) => walk_binding(self, binding),
        };
        let mut before = std::mem::replace(&mut self.before, outer);
        if before.is_empty() && new.is_none() {
            return None;
        }
        before.push(new.unwrap_or_else(|| binding.clone()));
        Some(before)
    }

    fn mutate_body(&mut self, body: &Body) -> Option<Body> {
        let (copies, before) = (self.copies.clone(), std::mem::take(&mut self.before));
        self.depth += 1;
        let new = if self.depth == 1 && self.keeps_result {
            // The result stays where it is.
            let bindings = Body { ret: Arg::Tuple([].into()), ..body.clone() };
            walk_body(self, &bindings).map(|it| Body { ret: body.ret.clone(), ..it })
        } else {
            walk_body(self, body)
        };
        self.depth -= 1;
        self.copies = copies;
        let last = std::mem::replace(&mut self.before, before);
        if last.is_empty() {
            return new;
        }
        let new = new.unwrap_or_else(|| body.clone());
        let block = BindingBlock { dataflow: false, bindings: last.into() };
        Some(Body { blocks: new.blocks.iter().cloned().chain([block]).collect(), ret: new.ret })
    }
}
