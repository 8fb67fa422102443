//! Compiles expressions to closures. The closure of a vector expression computes the current lane, `Machine::lane`.

use tvm_runtime::DataType;

use super::access::{Access, each_lane};
use super::deep::with_room;
use super::machine::{FloatFn, HandleFn, IntFn, Machine, Packed, Trap};
use super::ops::{self, Code};
use super::stmt::Compiler;
use super::{InterpError, InterpErrorKind};
use crate::support::with_stack;
use crate::tir::{BinaryOp, Buffer, Intrinsic, PrimCall, PrimCallee, PrimExpr, Shuffle};
use crate::{ir::Span, tir::Let};

type Compiled<T> = Result<T, InterpError>;

impl Compiler {
    /// Compiles an expression of any type except handle.
    pub(super) fn expr(&mut self, expr: &PrimExpr) -> Compiled<Code> {
        self.depth += 1;
        let code = with_stack(|| self.expr_inner(expr));
        self.depth -= 1;
        Ok(match code? {
            Code::Int(compute) => Code::Int(with_room(self.depth, compute)),
            Code::Float(compute) => Code::Float(with_room(self.depth, compute)),
        })
    }

    fn expr_inner(&mut self, expr: &PrimExpr) -> Compiled<Code> {
        Ok(match expr {
            PrimExpr::IntImm(it) => {
                let value = it.value;
                Code::Int(Box::new(move |_| Ok(value)))
            }
            PrimExpr::FloatImm(it) => {
                let value = it.value;
                Code::Float(Box::new(move |_| Ok(value)))
            }
            PrimExpr::StringImm(_) => return Err(self.malformed("a string", "it is not a number")),
            PrimExpr::Var(var) => {
                let slot = self.slot_of(var)?;
                read_slot(slot, var.dtype())
            }
            PrimExpr::Cast(it) => {
                let value = self.expr(&it.value)?;
                ops::cast(value, it.value.dtype().scalar(), it.dtype.scalar())
            }
            PrimExpr::Not(it) => {
                let value = self.int(&it.value)?;
                Code::Int(Box::new(move |m| Ok(1 - value(m)?)))
            }
            PrimExpr::Binary(it) => {
                let (a, b) = (self.expr(&it.a)?, self.expr(&it.b)?);
                self.binary(it.op, it.a.dtype().scalar(), a, b)?
            }
            PrimExpr::Select(it) => {
                let condition = self.int(&it.condition)?;
                match (self.expr(&it.true_value)?, self.expr(&it.false_value)?) {
                    (Code::Int(a), Code::Int(b)) => Code::Int(Box::new(move |m| {
                        let (a, b) = (a(m)?, b(m)?);
                        Ok(if condition(m)? != 0 { a } else { b })
                    })),
                    (Code::Float(a), Code::Float(b)) => Code::Float(Box::new(move |m| {
                        let (a, b) = (a(m)?, b(m)?);
                        Ok(if condition(m)? != 0 { a } else { b })
                    })),
                    (Code::Int(_), Code::Float(_)) | (Code::Float(_), Code::Int(_)) => {
                        return Err(self.malformed("a select", "its arms differ in type"));
                    }
                }
            }
            PrimExpr::BufferLoad(it) => {
                let load = self.access(&it.buffer, &it.indices, &it.span)?.load();
                match &it.predicate {
                    None => load,
                    Some(predicate) => masked(self.int(predicate)?, load),
                }
            }
            PrimExpr::Ramp(it) => {
                let (base, stride) = (self.int(&it.base)?, self.int(&it.stride)?);
                let dtype = it.base.dtype();
                Code::Int(Box::new(move |m| {
                    let lane = m.lane as i64;
                    let value = base(m)?.wrapping_add(stride(m)?.wrapping_mul(lane));
                    Ok(crate::tir::wrap_int(i128::from(value), dtype))
                }))
            }
            PrimExpr::Broadcast(it) => self.expr(&it.value)?,
            PrimExpr::Shuffle(it) => self.shuffle(it)?,
            PrimExpr::Let(it) => self.let_expr(it)?,
            PrimExpr::Call(it) => self.call(it)?,
        })
    }

    /// Compiles an integer or bool expression.
    pub(super) fn int(&mut self, expr: &PrimExpr) -> Compiled<IntFn> {
        match self.expr(expr)? {
            Code::Int(f) => Ok(f),
            Code::Float(_) => Err(self.malformed(format!("{expr:?}"), "an integer is expected")),
        }
    }

    /// Compiles an access to `buffer[indices]`.
    pub(super) fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr], span: &Span) -> Compiled<Access> {
        let view = self.view_of(buffer)?;
        if indices.len() != buffer.ndim() {
            return Err(self.malformed(format!("`{}`", buffer.name), "it needs one index per dimension"));
        }
        let indices = indices.iter().map(|index| self.int(index)).collect::<Compiled<_>>()?;
        let span = if span.is_none() { self.span.clone() } else { span.clone() };
        let (buffer, dtype) = (buffer.name.clone(), buffer.dtype);
        Ok(Access { view, indices, dtype, buffer, span, atomic: false })
    }

    /// Compiles a handle: a variable, the data of an argument or the address of an element.
    pub(super) fn handle(&mut self, expr: &PrimExpr) -> Compiled<HandleFn> {
        match expr {
            PrimExpr::Var(var) if var.dtype().is_handle() => {
                let slot = self.handle_of(var)?;
                Ok(Box::new(move |m| Ok(m.handles[slot])))
            }
            PrimExpr::Cast(it) if it.dtype.is_handle() => self.handle(&it.value),
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::ArgData) => {
                let index = self.packed_index(it)?;
                Ok(Box::new(move |m| match packed(m, &index)? {
                    Packed::Tensor { mem, .. } => Ok(super::machine::Handle { mem, byte: 0 }),
                    Packed::Int(_) | Packed::Float(_) => Err(not_packed(m, "a tensor")),
                }))
            }
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf) => match &*it.args
            {
                [PrimExpr::BufferLoad(load)] => {
                    let access = self.access(&load.buffer, &load.indices, &load.span)?;
                    Ok(Box::new(move |m| access.pointer(m)))
                }
                _ => Err(self.malformed(format!("{expr:?}"), "it takes the address of an element")),
            },
            _ => Err(self.malformed(format!("{expr:?}"), "a handle is expected")),
        }
    }

    fn let_expr(&mut self, it: &Let) -> Compiled<Code> {
        if it.var.dtype().is_handle() {
            let value = self.handle(&it.value)?;
            let slot = self.new_handle(&it.var);
            let bind = move |m: &mut Machine<'_>| value(m).map(|handle| m.handles[slot] = handle);
            return Ok(after(bind, self.expr(&it.body)?));
        }
        let bind = self.bind_var(&it.var, &it.value)?;
        Ok(after(bind, self.expr(&it.body)?))
    }

    /// Compiles the binding of `value` (all its lanes) to a new slot of `var`.
    pub(super) fn bind_var(
        &mut self,
        var: &crate::ir::Var,
        value: &PrimExpr,
    ) -> Compiled<impl Fn(&mut Machine<'_>) -> Result<(), Trap> + Send + Sync + 'static> {
        let value: IntFn = match self.expr(value)? {
            Code::Int(f) => f,
            Code::Float(f) => Box::new(move |m| Ok(f(m)?.to_bits() as i64)),
        };
        let slot = self.new_slot(var);
        let lanes = usize::from(var.dtype().lanes());
        Ok(move |m: &mut Machine<'_>| {
            if lanes == 1 {
                m.slots[slot] = value(m)?;
                return Ok(());
            }
            let values = each_lane(m, lanes, &value)?;
            m.slots[slot..slot + lanes].copy_from_slice(&values);
            Ok(())
        })
    }

    fn shuffle(&mut self, it: &Shuffle) -> Compiled<Code> {
        let mut lanes = Vec::new();
        let (mut ints, mut floats) = (Vec::<IntFn>::new(), Vec::<FloatFn>::new());
        for (k, vector) in it.vectors.iter().enumerate() {
            lanes.extend((0..usize::from(vector.dtype().lanes())).map(|lane| (k, lane)));
            match self.expr(vector)? {
                Code::Int(f) => ints.push(f),
                Code::Float(f) => floats.push(f),
            }
        }
        let picked: Option<Vec<_>> = it.indices.iter().map(|&i| lanes.get(usize::from(i)).copied()).collect();
        let Some(picked) = picked.filter(|_| ints.is_empty() || floats.is_empty()) else {
            return Err(self.malformed("a shuffle", "its lanes do not exist or differ in type"));
        };
        macro_rules! pick {
            ($vectors:ident) => {
                Box::new(move |m: &mut Machine<'_>| {
                    let saved = m.lane;
                    let (vector, lane) = picked[if picked.len() == 1 { 0 } else { saved }];
                    m.lane = lane;
                    let res = $vectors[vector](m);
                    m.lane = saved;
                    res
                })
            };
        }
        Ok(if floats.is_empty() { Code::Int(pick!(ints)) } else { Code::Float(pick!(floats)) })
    }

    fn call(&mut self, it: &PrimCall) -> Compiled<Code> {
        let intrinsic = match &it.callee {
            PrimCallee::Intrinsic(intrinsic) => *intrinsic,
            PrimCallee::PureExtern(name) => {
                let error = InterpErrorKind::malformed(
                    format!("a call of `{name}`"),
                    "external functions exist only on a target",
                );
                let span = if it.span.is_none() { &self.span } else { &it.span }.clone();
                return Ok(if it.dtype.is_float() {
                    Code::Float(Box::new(move |m| Err(m.fail(error.clone(), &span))))
                } else {
                    Code::Int(Box::new(move |m| Err(m.fail(error.clone(), &span))))
                });
            }
        };
        if it.args.len() != intrinsic.arity() {
            return Err(self.malformed(intrinsic.name(), "it has another number of arguments"));
        }
        if let Some(op) = intrinsic.lane_op() {
            return self.reduced(op, &it.args[0]);
        }
        if intrinsic.atomic_op().is_some() {
            return Err(
                self.malformed(intrinsic.name(), "it is not the whole value of a store to its element")
            );
        }
        match intrinsic {
            Intrinsic::StorageSync => {
                // A barrier between loops over threads; `simt` handles those inside such loops.
                let barrier = super::simt::is_barrier(&PrimExpr::Call(std::sync::Arc::new(it.clone())));
                Ok(Code::Int(Box::new(move |m| {
                    if let Some(watch) = m.watch.as_mut().filter(|_| barrier) {
                        watch.barrier();
                    }
                    Ok(0)
                })))
            }
            Intrinsic::Prefetch | Intrinsic::PrefetchL2 => Ok(Code::Int(Box::new(|_| Ok(0)))),
            Intrinsic::IfThenElse => {
                let condition = self.int(&it.args[0])?;
                match (self.expr(&it.args[1])?, self.expr(&it.args[2])?) {
                    (Code::Int(a), Code::Int(b)) => {
                        Ok(Code::Int(Box::new(move |m| if condition(m)? != 0 { a(m) } else { b(m) })))
                    }
                    (Code::Float(a), Code::Float(b)) => {
                        Ok(Code::Float(Box::new(move |m| if condition(m)? != 0 { a(m) } else { b(m) })))
                    }
                    (Code::Int(_), Code::Float(_)) | (Code::Float(_), Code::Int(_)) => {
                        Err(self.malformed(intrinsic.name(), "its arms differ in type"))
                    }
                }
            }
            Intrinsic::AddressOf | Intrinsic::ArgData => {
                Err(self.malformed(intrinsic.name(), "it is not a number"))
            }
            Intrinsic::ArgNdim
            | Intrinsic::ArgDType
            | Intrinsic::ArgShape
            | Intrinsic::ArgIsCompact
            | Intrinsic::ArgScalar => self.packed_call(intrinsic, it),
            _ => {
                let args = it.args.iter().map(|arg| self.expr(arg)).collect::<Compiled<Vec<_>>>()?;
                super::intrinsic::pure(intrinsic, args, it.args[0].dtype().scalar(), it.dtype.scalar())
                    .ok_or_else(|| {
                        self.malformed(intrinsic.name(), "its argument types have no such function")
                    })
            }
        }
    }

    fn packed_index(&mut self, it: &PrimCall) -> Compiled<IntFn> {
        match it.args.get(1) {
            Some(index) => self.int(index),
            None => Err(self.malformed("an argument of a packed call", "it has no number")),
        }
    }

    fn packed_call(&mut self, intrinsic: Intrinsic, it: &PrimCall) -> Compiled<Code> {
        let index = self.packed_index(it)?;
        let axis = it.args.get(2).map(|axis| self.int(axis)).transpose()?;
        if intrinsic == Intrinsic::ArgScalar && it.dtype.is_float() {
            return Ok(Code::Float(Box::new(move |m| match packed(m, &index)? {
                Packed::Float(value) => Ok(value),
                Packed::Int(_) | Packed::Tensor { .. } => Err(not_packed(m, "a float")),
            })));
        }
        Ok(Code::Int(Box::new(move |m| {
            let axis = axis.as_ref().map_or(Ok(0), |axis| axis(m))?;
            match (intrinsic, packed(m, &index)?) {
                (Intrinsic::ArgScalar, Packed::Int(value)) => Ok(value),
                (Intrinsic::ArgNdim, Packed::Tensor { shape, .. }) => Ok(shape.len() as i64),
                (Intrinsic::ArgDType, Packed::Tensor { dtype, .. }) => {
                    Ok(tvm_runtime::abi::pack_dtype(dtype))
                }
                (Intrinsic::ArgIsCompact, Packed::Tensor { .. }) => Ok(1),
                (Intrinsic::ArgShape, Packed::Tensor { shape, .. }) => {
                    shape.get(axis as usize).copied().ok_or_else(|| not_packed(m, "an axis of a tensor"))
                }
                _ => Err(not_packed(m, "an argument of another kind")),
            }
        })))
    }

    /// `a op b`, of the type `dtype` both.
    pub(super) fn binary(&self, op: BinaryOp, dtype: DataType, a: Code, b: Code) -> Compiled<Code> {
        match (a, b) {
            (Code::Int(a), Code::Int(b)) => Ok(Code::Int(ops::int_binary(op, dtype, a, b, &self.span))),
            (Code::Float(a), Code::Float(b)) => ops::float_binary(op, dtype, a, b)
                .ok_or_else(|| self.malformed(format!("{op:?}"), "floats have no such operation")),
            (Code::Int(_), Code::Float(_)) | (Code::Float(_), Code::Int(_)) => {
                Err(self.malformed(format!("{op:?}"), "its operands differ in type"))
            }
        }
    }

    pub(super) fn malformed(&self, what: impl Into<String>, why: &'static str) -> InterpError {
        InterpErrorKind::malformed(what, why).at(&self.span)
    }
}

/// A load of the lanes in which `predicate` holds; zero in the others.
fn masked(predicate: IntFn, load: Code) -> Code {
    match load {
        Code::Int(load) => Code::Int(Box::new(move |m| if predicate(m)? != 0 { load(m) } else { Ok(0) })),
        Code::Float(load) => {
            Code::Float(Box::new(move |m| if predicate(m)? != 0 { load(m) } else { Ok(0.0) }))
        }
    }
}

/// Reads a variable (its current lane).
fn read_slot(slot: usize, dtype: DataType) -> Code {
    match (dtype.is_float(), dtype.lanes()) {
        (false, 1) => Code::Int(Box::new(move |m| Ok(m.slots[slot]))),
        (false, _) => Code::Int(Box::new(move |m| Ok(m.slots[slot + m.lane]))),
        (true, 1) => Code::Float(Box::new(move |m| Ok(f64::from_bits(m.slots[slot] as u64)))),
        (true, _) => Code::Float(Box::new(move |m| Ok(f64::from_bits(m.slots[slot + m.lane] as u64)))),
    }
}

/// Runs `first`, then `body`.
fn after(first: impl Fn(&mut Machine<'_>) -> Result<(), Trap> + Send + Sync + 'static, body: Code) -> Code {
    match body {
        Code::Int(body) => Code::Int(Box::new(move |m| first(m).and_then(|()| body(m)))),
        Code::Float(body) => Code::Float(Box::new(move |m| first(m).and_then(|()| body(m)))),
    }
}

fn packed(m: &mut Machine<'_>, index: &IntFn) -> Result<Packed, Trap> {
    let index = index(m)?;
    let arg = usize::try_from(index).ok().and_then(|index| m.packed.get(index)).cloned();
    arg.ok_or_else(|| not_packed(m, "an existing argument"))
}

fn not_packed(m: &mut Machine<'_>, what: &'static str) -> Trap {
    m.fail(InterpErrorKind::malformed("an argument of a packed call", what), &Span::none())
}
