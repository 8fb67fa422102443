//! Places: the device that each tensor of a function is on.
//!
//! A parameter is where its type says (`vdevice`), or else on the default device, which is that of the target. `to_vdevice`
//! moves a tensor. Everything else computes where its arguments are, and they must be in one place. Constants are anywhere:
//! they are copied to where they are needed. What takes no tensor computes where its result is used, or moved to; otherwise on
//! the default device, as do results of the function. Functions in destination-passing style run on the host, and their results are then copied to the default
//! device.
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
    /// What is known by now of the places that were [open](Place::Open).
    open: Vec<Option<Place>>,
    /// Open places that a tensor is moved from, and where to.
    moved: Vec<(usize, Device)>,
}

/// Where the tensors in a value are.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// Anywhere, or nowhere: a constant, a value without tensors.
    Any,
    /// On a device.
    On(Device),
    /// On a device that is not known yet; the number of an entry in [`Places::open`].
    Open(usize),
    /// A tuple.
    Tuple(Vec<Place>),
}

impl Places {
    /// Finds the device of each tensor of `func`; `default` is the default device.
    ///
    /// # Errors
    /// When an operation has tensors on several devices.
    pub fn new(func: &Function, module: &IRModule, default: Device) -> Result<Places, IrError> {
        let (open, moved) = (Vec::new(), Vec::new());
        let mut places = Places { default, places: FxHashMap::default(), open, moved };
        places.function(func, module)?;
        for (number, device) in std::mem::take(&mut places.moved) {
            if let Place::Open(number) = places.known(Place::Open(number)) {
                places.open[number] = Some(Place::On(device));
            }
        }
        Ok(places)
    }

    fn function(&mut self, func: &Function, module: &IRModule) -> Result<(), IrError> {
        for param in func.params.iter() {
            self.places.insert(param.id(), self.declared(param.ty()));
        }
        let result = self.body(&func.body, module)?;
        self.settle(result);
        Ok(())
    }

    /// What is open in `place` is on the default device.
    fn settle(&mut self, place: Place) {
        match self.known(place) {
            Place::Tuple(fields) => fields.into_iter().for_each(|field| self.settle(field)),
            Place::Open(number) => self.open[number] = Some(Place::On(self.default)),
            Place::On(_) | Place::Any => {}
        }
    }

    /// The device of the tensor, or of all tensors of the tuple, in `var`; `None` for the default device.
    pub fn device(&self, var: &Var) -> Option<Device> {
        let device = self.one_device(self.places.get(&var.id())?)?;
        (device != self.default).then_some(device)
    }

    /// The device of all tensors in `place`, if it is known and the same one.
    fn one_device(&self, place: &Place) -> Option<Device> {
        match self.known(place.clone()) {
            Place::On(device) => Some(device),
            Place::Tuple(fields) => {
                let mut devices = fields.iter().filter(|it| **it != Place::Any).map(|it| self.one_device(it));
                let first = devices.next()??;
                devices.all(|it| it == Some(first)).then_some(first)
            }
            Place::Any | Place::Open(_) => None,
        }
    }

    /// What is known of `place`.
    fn known(&self, mut place: Place) -> Place {
        while let Place::Open(number) = place
            && let Some(Some(known)) = self.open.get(number)
        {
            place = known.clone();
        }
        place
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

    /// The place of a value of type `ty` that is computed from tensors in `place`; without tensors, it is open.
    fn spread(&mut self, place: Place, ty: &Type) -> Place {
        fn spread(place: &Place, ty: &Type) -> Place {
            match ty {
                Type::Tensor(_) => place.clone(),
                Type::Tuple(fields) => {
                    Place::Tuple(fields.iter().map(|field| spread(place, field)).collect())
                }
                _ => Place::Any,
            }
        }
        if place != Place::Any {
            return spread(&place, ty);
        }
        self.open.push(None);
        spread(&Place::Open(self.open.len() - 1), ty)
    }

    /// Fails unless the tensors that `holder` takes are on the default device: their place would be forgotten there.
    fn on_default(&mut self, holder: &str, place: Place) -> Result<(), IrError> {
        match self.known(place) {
            Place::Tuple(fields) => fields.into_iter().try_for_each(|field| self.on_default(holder, field)),
            place @ Place::Open(_) => {
                self.settle(place);
                Ok(())
            }
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
            Expr::Arg(Arg::Const(_)) => self.spread(Place::Any, ty),
            Expr::Arg(arg) => self.of(arg),
            Expr::TupleGetItem(arg, index) => match self.known(self.of(arg)) {
                Place::Tuple(mut fields) if *index < fields.len() => fields.swap_remove(*index),
                place => place,
            },
            Expr::Call(call) => self.call(call, ty, module).map_err(|err| err.at(&call.span))?,
            Expr::If(it) => {
                let then_place = self.body(&it.then_branch, module)?;
                let else_place = self.body(&it.else_branch, module)?;
                self.same("the arms of `if` have results", then_place, else_place)?
            }
            Expr::Match(it) => {
                let mut place = Place::Any;
                for clause in it.clauses.iter() {
                    let new = self.body(&clause.body, module)?;
                    place = self.same("the arms of `match` have results", place, new)?;
                }
                place
            }
            Expr::Function(func) => {
                self.function(func, module)?;
                Place::Any
            }
            Expr::RefCreate(arg) | Expr::RefWrite(_, arg) => {
                let place = self.of(arg);
                self.on_default("a reference cell", place)?;
                Place::Any
            }
            Expr::RefRead(_) => self.declared(ty),
        })
    }

    fn call(&mut self, call: &Call, ty: &Type, module: &IRModule) -> Result<Place, IrError> {
        let args: Vec<Place> = call.args.iter().map(|arg| self.of(arg)).collect();
        Ok(match &call.callee {
            Callee::Op(op) if op.name == device::TO_VDEVICE => {
                let device = device::device(op.name, &call.attrs)?;
                for place in args {
                    if let Place::Open(number) = self.known(place) {
                        self.moved.push((number, device));
                    }
                }
                Place::On(device)
            }
            Callee::Op(op) => {
                let place = self.join(op.name, args)?;
                self.spread(place, ty)
            }
            Callee::Tir(gv) | Callee::TirInplace(gv) => {
                let place = self.join(gv.name(), args)?;
                self.spread(place, ty)
            }
            Callee::DpsPacked(_) => self.spread(Place::On(self.default), ty),
            Callee::Packed(_) => self.declared(ty),
            Callee::Global(gv) => {
                if let Some(BaseFunc::Relax(func)) = module.get(gv) {
                    for (param, place) in func.params.iter().zip(args) {
                        let what =
                            format!("parameter `{}` of `{}` and the argument are", param.name(), gv.name());
                        self.same(&what, self.declared(param.ty()), place)?;
                    }
                }
                self.declared(ty)
            }
            Callee::Var(var) => {
                let holder = format!("the closure `{}`", var.name());
                args.into_iter().try_for_each(|place| self.on_default(&holder, place))?;
                self.declared(ty)
            }
            Callee::Constructor(it) => {
                let holder = format!("`{}::{}`", it.ty, it.name);
                args.into_iter().try_for_each(|place| self.on_default(&holder, place))?;
                Place::Any
            }
        })
    }

    /// The one place of all tensors in `places`, for the operation `what`.
    fn join(&mut self, what: &str, places: Vec<Place>) -> Result<Place, IrError> {
        places.into_iter().try_fold(Place::Any, |all, place| {
            let place = match self.known(place) {
                Place::Tuple(fields) => self.join(what, fields)?,
                place => place,
            };
            self.same(&format!("`{what}` has tensors"), all, place)
        })
    }

    /// The place that is both `a` and `b`.
    fn same(&mut self, what: &str, a: Place, b: Place) -> Result<Place, IrError> {
        match (self.known(a), self.known(b)) {
            (Place::Any, place) | (place, Place::Any) => Ok(place),
            (Place::Tuple(a), Place::Tuple(b)) if a.len() == b.len() => {
                let fields = a.into_iter().zip(b).map(|(a, b)| self.same(what, a, b));
                fields.collect::<Result<_, _>>().map(Place::Tuple)
            }
            (a, b) if a == b => Ok(a),
            (Place::Open(number), place @ (Place::On(_) | Place::Open(_)))
            | (place @ Place::On(_), Place::Open(number)) => {
                self.open[number] = Some(place.clone());
                Ok(place)
            }
            (a, b) => {
                let message = format!("{what} on different devices: {} and {}", show(&a), show(&b));
                Err(IrError::new(message, &crate::ir::Span::none())
                    .help(format!("`{}(x, device = \"cpu\")` moves a tensor", device::TO_VDEVICE)))
            }
        }
    }
}

fn show(place: &Place) -> String {
    match place {
        Place::On(device) => device.to_string(),
        Place::Any | Place::Open(_) => "any".into(),
        Place::Tuple(fields) => {
            let fields: Vec<String> = fields.iter().map(show).collect();
            format!("({})", fields.join(", "))
        }
    }
}
