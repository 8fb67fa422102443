//! Places: the device that each tensor of a function is on.
//!
//! A parameter is where its type says (`vdevice`), or else on the default device, which is that of the target. `to_vdevice`
//! moves a tensor. Everything else computes where its arguments are, and they must be in one place. Constants are anywhere:
//! they are copied to where they are needed. Functions in destination-passing style run on the host, and their results are then
//! copied to the default device.
//!
//! TVM counterpart: `RealizeVDevice`, Relay's `PlanDevices`.

use rustc_hash::FxHashMap;
use tvm_runtime::Device;

use crate::ir::{BaseFunc, IRModule, IrError, Type, Var, VarId};
use crate::relax::op::device;
use crate::relax::{Arg, Body, Call, Callee, Expr, Function};
use crate::support::with_stack;

/// The device of each tensor of a function.
#[derive(Debug)]
pub struct Places {
    default: Device,
    places: FxHashMap<VarId, Place>,
}

/// Where the tensors in a value are.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// Anywhere, or nowhere: a constant, a value without tensors.
    Any,
    /// On a device.
    On(Device),
    /// A tuple.
    Tuple(Vec<Place>),
}

impl Places {
    /// Finds the device of each tensor of `func`; `default` is the default device.
    ///
    /// # Errors
    /// When an operation has tensors on several devices.
    pub fn new(func: &Function, module: &IRModule, default: Device) -> Result<Places, IrError> {
        let mut places = Places { default, places: FxHashMap::default() };
        for param in func.params.iter() {
            places.places.insert(param.id(), places.declared(param.ty()));
        }
        places.body(&func.body, module)?;
        Ok(places)
    }

    /// The device of the tensor, or of all tensors of the tuple, in `var`; `None` for the default device.
    pub fn device(&self, var: &Var) -> Option<Device> {
        match join("value", [self.places.get(&var.id())?.clone()]) {
            Ok(Place::On(device)) if device != self.default => Some(device),
            _ => None,
        }
    }

    /// The default device.
    pub fn default_device(&self) -> Device {
        self.default
    }

    /// The place that a type declares.
    fn declared(&self, ty: &Type) -> Place {
        match ty {
            Type::Tensor(it) => Place::On(it.vdevice.unwrap_or(self.default)),
            Type::Tuple(fields) => Place::Tuple(fields.iter().map(|field| self.declared(field)).collect()),
            _ => Place::Any,
        }
    }

    /// The place of a value of type `ty` whose tensors are all in `place`; without tensor arguments, that is the default
    /// device.
    fn spread(&self, place: &Place, ty: &Type) -> Place {
        match (ty, place) {
            (Type::Tensor(_), Place::On(device)) => Place::On(*device),
            (Type::Tensor(_), _) => Place::On(self.default),
            (Type::Tuple(fields), _) => {
                Place::Tuple(fields.iter().map(|field| self.spread(place, field)).collect())
            }
            _ => Place::Any,
        }
    }

    /// Fails unless the tensors that `holder` takes are on the default device: their place would be forgotten there.
    fn on_default(&self, holder: &str, place: Place) -> Result<(), IrError> {
        match place {
            Place::Tuple(fields) => fields.into_iter().try_for_each(|field| self.on_default(holder, field)),
            Place::On(device) if device != self.default => {
                let default = self.default;
                let message =
                    format!("{holder} takes tensors of the default device {default}, got one on {device}");
                Err(IrError::new(message, &crate::ir::Span::none())
                    .help(format!("move it with `{}` first", device::TO_VDEVICE)))
            }
            Place::On(_) | Place::Any => Ok(()),
        }
    }

    fn of(&self, arg: &Arg) -> Place {
        match arg {
            Arg::Var(var) => self.places.get(&var.id()).cloned().unwrap_or_else(|| self.declared(var.ty())),
            Arg::Tuple(fields) => Place::Tuple(fields.iter().map(|field| self.of(field)).collect()),
            Arg::Const(_) | Arg::Global(_) | Arg::Shape(_) | Arg::Prim(_) | Arg::DType(_) | Arg::Str(_) => {
                Place::Any
            }
        }
    }

    /// The place of the result of `body`.
    fn body(&mut self, body: &Body, module: &IRModule) -> Result<Place, IrError> {
        with_stack(|| {
            for binding in body.bindings() {
                let place = self.value(&binding.value, binding.var.ty(), module);
                self.places.insert(binding.var.id(), place.map_err(|err| err.at(binding.var.span()))?);
            }
            Ok(self.of(&body.ret))
        })
    }

    fn value(&mut self, expr: &Expr, ty: &Type, module: &IRModule) -> Result<Place, IrError> {
        Ok(match expr {
            Expr::Arg(arg) => self.of(arg),
            Expr::TupleGetItem(arg, index) => match self.of(arg) {
                Place::Tuple(mut fields) if *index < fields.len() => fields.swap_remove(*index),
                place => place,
            },
            Expr::Call(call) => self.call(call, ty, module).map_err(|err| err.at(&call.span))?,
            Expr::If(it) => {
                let then_place = self.body(&it.then_branch, module)?;
                let else_place = self.body(&it.else_branch, module)?;
                same("the arms of `if` have results", then_place, else_place)?
            }
            Expr::Match(it) => {
                let mut place = Place::Any;
                for clause in it.clauses.iter() {
                    let new = self.body(&clause.body, module)?;
                    place = same("the arms of `match` have results", place, new)?;
                }
                place
            }
            Expr::Function(func) => {
                self.places.extend(Places::new(func, module, self.default)?.places);
                Place::Any
            }
            Expr::RefCreate(arg) | Expr::RefWrite(_, arg) => {
                self.on_default("a reference cell", self.of(arg))?;
                Place::Any
            }
            Expr::RefRead(_) => self.declared(ty),
        })
    }

    fn call(&self, call: &Call, ty: &Type, module: &IRModule) -> Result<Place, IrError> {
        let args = || call.args.iter().map(|arg| self.of(arg));
        Ok(match &call.callee {
            Callee::Op(op) if op.name == device::TO_VDEVICE => {
                Place::On(device::device(op.name, &call.attrs)?)
            }
            Callee::Op(op) => self.spread(&join(op.name, args())?, ty),
            Callee::Tir(gv) | Callee::TirInplace(gv) => self.spread(&join(gv.name(), args())?, ty),
            Callee::DpsPacked(_) => self.spread(&Place::On(self.default), ty),
            Callee::Packed(_) => self.declared(ty),
            Callee::Global(gv) => {
                if let Some(BaseFunc::Relax(func)) = module.get(gv) {
                    for (param, place) in func.params.iter().zip(args()) {
                        let what =
                            format!("parameter `{}` of `{}` and the argument are", param.name(), gv.name());
                        same(&what, self.declared(param.ty()), place)?;
                    }
                }
                self.declared(ty)
            }
            Callee::Var(var) => {
                args()
                    .try_for_each(|place| self.on_default(&format!("the closure `{}`", var.name()), place))?;
                self.declared(ty)
            }
            Callee::Constructor(it) => {
                args().try_for_each(|place| self.on_default(&format!("`{}::{}`", it.ty, it.name), place))?;
                Place::Any
            }
        })
    }
}

/// The one place of all tensors in `places`, for the operation `what`.
fn join(what: &str, places: impl IntoIterator<Item = Place>) -> Result<Place, IrError> {
    places.into_iter().try_fold(Place::Any, |all, place| {
        let place = match place {
            Place::Tuple(fields) => join(what, fields)?,
            place => place,
        };
        same(&format!("`{what}` has tensors"), all, place)
    })
}

fn same(what: &str, a: Place, b: Place) -> Result<Place, IrError> {
    match (a, b) {
        (Place::Any, place) | (place, Place::Any) => Ok(place),
        (Place::Tuple(a), Place::Tuple(b)) if a.len() == b.len() => {
            let fields = a.into_iter().zip(b).map(|(a, b)| same(what, a, b));
            fields.collect::<Result<_, _>>().map(Place::Tuple)
        }
        (a, b) if a == b => Ok(a),
        (a, b) => {
            let message = format!("{what} on different devices: {} and {}", show(&a), show(&b));
            Err(IrError::new(message, &crate::ir::Span::none())
                .help(format!("`{}(x, device = \"cpu\")` moves a tensor", device::TO_VDEVICE)))
        }
    }
}

fn show(place: &Place) -> String {
    match place {
        Place::On(device) => device.to_string(),
        Place::Any => "any".into(),
        Place::Tuple(fields) => {
            let fields: Vec<String> = fields.iter().map(show).collect();
            format!("({})", fields.join(", "))
        }
    }
}
