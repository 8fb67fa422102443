//! The interpreter loop: calls, branches, and dispatch to the other instructions.
//!
//! Calls use an explicit stack, so call depth is a limit with an error and does not use the thread's stack. The code
//! was verified: register, function and constant indices and jump targets are in range. The contents of registers are
//! checked here.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::capture::{CaptureLog, uncapturable};
use super::instruction::{DimCheck, FuncIdx, Instruction, IntOperand, Reg};
use super::lent;
use super::machine::Vm;
use super::options::{CallOptions, CancelToken};
use super::profile::{Profile, ProfileKind};
use super::workspace::{Frame, Workspace};
use crate::device::Device;
use crate::error::RuntimeError;
use crate::packed::PackedFunc;
use crate::tensor::{Shape, Tensor};
use crate::value::{Closure, RefCell, Value};

/// One run of a program.
pub(super) struct Run<'a> {
    vm: &'a Vm,
    pub(super) ws: &'a mut Workspace,
    profile: Option<&'a mut Profile>,
    options: CallOptions<'a>,
    /// Of a run whose work on a device is recorded.
    capture: Option<&'a mut CaptureLog>,
    /// Number of this run; it may write to the storages whose `writer` it is.
    pub(super) writer: u64,
    steps_left: u64,
    /// The current function and its code, the index of the next instruction, and the index of its first register.
    func: usize,
    code: &'a [Instruction],
    pc: usize,
    base: usize,
}

type Args = SmallVec<[Value; 8]>;

/// What to do with a call that cannot be captured.
pub(super) const PLAIN: &str = "call it without capturing it";

impl<'a> Run<'a> {
    pub(super) fn new(
        vm: &'a Vm,
        ws: &'a mut Workspace,
        profile: Option<&'a mut Profile>,
        options: CallOptions<'a>,
    ) -> Run<'a> {
        let steps_left = vm.config.max_steps.unwrap_or(u64::MAX);
        let writer = ws.new_run();
        let capture = None;
        Run { vm, ws, profile, options, capture, writer, steps_left, func: 0, code: &[], pc: 0, base: 0 }
    }

    /// The same run, whose work on a device is recorded.
    pub(super) fn captured(mut self, log: &'a mut CaptureLog) -> Run<'a> {
        self.capture = Some(log);
        self
    }

    /// Calls function number `func`, whose arguments are in the first registers, and runs until it returns.
    pub(super) fn call(&mut self, func: usize) -> Result<Value, RuntimeError> {
        self.enter(func, std::iter::empty())?;
        let res = self.run();
        if let Some(profile) = &mut self.profile {
            profile.instructions += self.vm.config.max_steps.unwrap_or(u64::MAX) - self.steps_left;
        }
        res.map_err(|source| {
            let func = self.vm.exe.functions[self.func].name.clone();
            match source {
                // This error is about the caller's values, not about the program.
                RuntimeError::ShapeCheck { context, detail } => {
                    RuntimeError::ShapeCheck { context: format!("`{func}`: {context}").into(), detail }
                }
                bound @ RuntimeError::ArgBound { .. } if self.checks_bound() => bound,
                RuntimeError::Cancelled => RuntimeError::Cancelled,
                source => {
                    let pc = self.pc.saturating_sub(1);
                    let source = match (source, self.code.get(pc)) {
                        (RuntimeError::Capture { reason }, Some(at)) => {
                            RuntimeError::Capture { reason: format!("`{}`: {reason}", at.name()) }
                        }
                        (source, _) => source,
                    };
                    RuntimeError::Vm { func, pc, source: Box::new(source) }
                }
            }
        })
    }

    /// True when the instruction that ran last checks an argument against bounds: its error is about that argument alone.
    fn checks_bound(&self) -> bool {
        let code = &self.vm.exe.functions[self.func].code;
        matches!(code.get(self.pc.wrapping_sub(1)), Some(Instruction::CheckBound { .. }))
    }

    /// Makes `func` the current function, with its registers at `self.base`.
    fn enter(&mut self, func: usize, args: impl Iterator<Item = Value>) -> Result<(), RuntimeError> {
        let function = &self.vm.exe.functions[func];
        let len = self.base + function.num_regs as usize;
        if len > self.vm.config.max_registers {
            return Err(RuntimeError::Limit {
                limit: "register",
                value: self.vm.config.max_registers as u64,
            });
        }
        self.ws.regs.resize_with(len, Value::default);
        for (reg, arg) in self.ws.regs[self.base..].iter_mut().zip(args) {
            *reg = arg;
        }
        (self.func, self.code, self.pc) = (func, &function.code, 0);
        Ok(())
    }

    fn run(&mut self) -> Result<Value, RuntimeError> {
        let vm = self.vm;
        loop {
            if self.steps_left == 0 {
                return Err(RuntimeError::Limit {
                    limit: "step",
                    value: vm.config.max_steps.unwrap_or(u64::MAX),
                });
            }
            self.steps_left -= 1;
            if self.options.cancel.is_some_and(CancelToken::is_cancelled) {
                return Err(RuntimeError::Cancelled);
            }
            let instruction = &self.code[self.pc];
            self.pc += 1;
            match instruction {
                Instruction::Ret { src } => {
                    let value = self.take(*src)?;
                    if let Some(result) = self.leave(value) {
                        return Ok(result);
                    }
                }
                Instruction::Invoke { dst, func, args } => {
                    let args = self.collect(&[], args)?;
                    self.push(*dst, *func, args)?;
                }
                Instruction::TailInvoke { func, args } => {
                    let args = self.collect(&[], args)?;
                    self.replace(*func, args)?;
                }
                Instruction::InvokeClosure { dst, closure, args } if self.is_packed(*closure) => {
                    let value = self.packed_value(*closure, args)?;
                    self.set(*dst, value);
                }
                Instruction::TailInvokeClosure { closure, args } if self.is_packed(*closure) => {
                    let value = self.packed_value(*closure, args)?;
                    if let Some(result) = self.leave(value) {
                        return Ok(result);
                    }
                }
                Instruction::InvokeClosure { dst, closure, args } => {
                    let (func, args) = self.apply(*closure, args)?;
                    self.push(*dst, func, args)?;
                }
                Instruction::TailInvokeClosure { closure, args } => {
                    let (func, args) = self.apply(*closure, args)?;
                    self.replace(func, args)?;
                }
                Instruction::Goto { target } => self.pc = target.index(),
                Instruction::If { test, target, on_eq, on_ne } => {
                    let equal = self.truth(*test)? == *target;
                    self.pc = if equal { on_eq.index() } else { on_ne.index() };
                }
                Instruction::InvokeKernel { kernel, args } => self.kernel(kernel.index(), args)?,
                Instruction::InvokePacked { dst, func, args } => {
                    let (func, name) = (&vm.packed[func.index()], &vm.exe.packed[func.index()]);
                    let value = self.packed(func, name, args)?;
                    self.set(*dst, value);
                }
                Instruction::InvokeDpsPacked { func, inputs, outputs } => {
                    self.dps(func.index(), inputs, outputs)?;
                }
                Instruction::Fatal { message } => return Err(RuntimeError::Fatal((&**message).into())),
                other => self.step(other)?,
            }
        }
    }

    /// Runs an instruction after which execution continues with the next one.
    #[inline]
    fn step(&mut self, instruction: &Instruction) -> Result<(), RuntimeError> {
        match instruction {
            Instruction::Move { dst, src } => self.set(*dst, self.get(*src)?.clone()),
            Instruction::MakeUnique { dst, src } => {
                let tensor = Tensor::try_from(self.take(*src)?)?;
                let max_bytes = self.max_bytes();
                let tensor = self.ws.unique(tensor, self.writer, max_bytes)?;
                self.set(*dst, Value::Tensor(tensor));
            }
            Instruction::LoadConst { dst, index } => {
                self.set(*dst, self.vm.constants[index.index()].clone());
            }
            Instruction::LoadConsti { dst, value } => self.set(*dst, Value::Int(*value)),
            Instruction::KillRegister { reg } => {
                let value = std::mem::take(self.slot(*reg));
                self.ws.end(value);
            }
            Instruction::IntOp { op, dst, lhs, rhs } => {
                let (lhs, rhs) = (self.int(*lhs)?, self.int(*rhs)?);
                let value = op.eval(lhs, rhs).ok_or(RuntimeError::Arithmetic { op: op.name(), lhs, rhs })?;
                self.set(*dst, Value::Int(value));
            }
            Instruction::AllocStorage { dst, size, align, device } => {
                let size = self.size(*size)?;
                let max_bytes = self.max_bytes();
                let storage = self.ws.storage(size, *align as usize, *device, self.writer, max_bytes)?;
                self.set(*dst, Value::Storage(storage));
            }
            Instruction::AllocTensor { dst, storage, offset, dtype, shape } => {
                let tensor = self.tensor(*dst, *storage, *offset, *dtype, shape)?;
                self.set(*dst, Value::Tensor(tensor));
            }
            Instruction::AllocTensorReg { dst, storage, offset, dtype, shape, max_bytes } => {
                let shape = Shape::from(self.get(*shape)?.try_shape("alloc_tensor_reg")?);
                max_bytes.map_or(Ok(()), |max_bytes| Self::check_place(&shape, *dtype, max_bytes))?;
                let tensor = self.tensor(*dst, *storage, *offset, *dtype, &shape)?;
                self.set(*dst, Value::Tensor(tensor));
            }
            Instruction::AllocADT { dst, tag, fields } => {
                let mut fields = self.collect(&[], fields)?;
                let tuple = self.ws.pool.tuple(*tag, &mut fields);
                self.set(*dst, Value::Adt(tuple));
            }
            Instruction::AllocClosure { dst, func, captured } => {
                let captured = self.collect(&[], captured)?.into_vec();
                self.set(*dst, Value::Closure(Closure::new(self.vm.id, func.0, captured)));
            }
            Instruction::GetField { dst, src, index } => self.set(*dst, self.field(*src, *index)?),
            Instruction::GetTag { dst, src } => {
                let tag = self.get(*src)?.try_adt("get_tag")?.tag();
                self.set(*dst, Value::Int(tag.into()));
            }
            Instruction::RefNew { dst, src } => {
                let cell = RefCell::new(self.get(*src)?.clone());
                self.set(*dst, Value::Ref(cell));
            }
            Instruction::RefGet { dst, src } => {
                let value = self.get(*src)?.try_ref_cell("ref_get")?.get();
                self.set(*dst, value);
            }
            Instruction::RefSet { cell, src } => {
                let value = self.get(*src)?.clone();
                // From now on, other holders of the cell see the value.
                lent::revoke(&value);
                drop(self.get(*cell)?.try_ref_cell("ref_set")?.set(value));
            }
            Instruction::CheckTensor { src, dtype, dims, context } => {
                self.check_tensor(*src, *dtype, dims.as_deref(), context)?;
            }
            Instruction::CheckShape { src, dims, context } => self.check_shape(*src, dims, context)?,
            Instruction::CheckBound { src, bound, dim, arg, axis } => {
                let got = self.int((*src).into())?;
                if !bound.contains(got) {
                    let func = self.vm.exe.functions[self.func].name.clone();
                    let (arg, axis, dim) = ((&**arg).into(), axis.map(i64::from), (&**dim).into());
                    let expected = bound.to_string().into();
                    return Err(RuntimeError::ArgBound { func, arg, axis, dim, expected, got });
                }
            }
            Instruction::CheckIndices { src, extents, context } => {
                self.check_indices(*src, *extents, context)?;
            }
            other => {
                let (dst, value) = self.shape_step(other)?;
                self.set(*dst, value);
            }
        }
        Ok(())
    }

    /// Pushes the current function onto the call stack and enters `func`.
    fn push(&mut self, dst: Reg, func: FuncIdx, args: Args) -> Result<(), RuntimeError> {
        let max_depth = self.vm.config.max_depth;
        if self.ws.frames.len() >= max_depth {
            return Err(RuntimeError::Limit { limit: "call depth", value: max_depth as u64 });
        }
        let (caller, pc, base) = (self.func, self.pc, self.base);
        self.base = self.ws.regs.len();
        if let Err(err) = self.enter(func.index(), args.into_iter()) {
            self.base = base;
            return Err(err);
        }
        self.ws.frames.push(Frame { func: caller, pc, base, dst: dst.index() });
        Ok(())
    }

    /// Replaces the current function by `func` and enters it.
    fn replace(&mut self, func: FuncIdx, args: Args) -> Result<(), RuntimeError> {
        self.ws.truncate(self.base);
        self.enter(func.index(), args.into_iter())
    }

    /// Resolves a closure: returns its function, and its captured values followed by `args`.
    fn apply(&self, closure: Reg, args: &[Reg]) -> Result<(FuncIdx, Args), RuntimeError> {
        let closure = self.get(closure)?.try_closure("invoke_closure")?;
        let args = self.collect(closure.captured(), args)?;
        // A closure may come from outside; its function number is valid only in its own program.
        let func = self.vm.exe.functions.get(closure.func() as usize);
        let Some(func) = func.filter(|_| closure.program() == self.vm.id) else {
            return Err(RuntimeError::ForeignClosure);
        };
        if func.params.len() != args.len() {
            let (expected, got) = (func.params.len(), args.len());
            return Err(RuntimeError::ArgCount { func: func.name.clone(), expected, got });
        }
        Ok((FuncIdx(closure.func()), args))
    }

    fn kernel(&mut self, index: usize, args: &[Reg]) -> Result<(), RuntimeError> {
        let vm = self.vm;
        let kernel = &vm.kernels[index];
        let start = self.profile.is_some().then(Instant::now);
        let regs = &self.ws.regs[self.base..];
        let values = args.iter().map(|reg| &regs[reg.index()]);
        let options = CallOptions { pool: self.options.pool.or(vm.config.pool.as_deref()), ..self.options };
        let mut res = kernel.call_values(values, self.writer, options);
        if let (Some(profile), Some(start)) = (&mut self.profile, start) {
            // The call of a kernel on a device does not wait for it.
            let device = args.iter().find_map(|reg| regs[reg.index()].as_tensor()).map(Tensor::device);
            res = res.and_then(|()| device.map_or(Ok(()), Device::synchronize));
            let values = args.iter().map(|reg| &regs[reg.index()]);
            profile.add((ProfileKind::Kernel, device), kernel.name(), start, values);
        }
        res
    }

    /// Fails if the run is captured: what a function of the application does cannot be done again.
    fn no_capture(&self, name: &str) -> Result<(), RuntimeError> {
        if self.capture.is_none() {
            return Ok(());
        }
        Err(uncapturable(format!("it calls `{name}`, a function of the application\n  help: {PLAIN}")))
    }

    fn packed(&mut self, func: &PackedFunc, name: &str, args: &[Reg]) -> Result<Value, RuntimeError> {
        self.no_capture(name)?;
        let mut args = self.collect(&[], args)?;
        self.move_to_host(&mut args)?;
        let lent = lent::Lent::new(&args);
        let start = self.profile.is_some().then(Instant::now);
        let res = func.call(&args);
        lent.settle(&args);
        if let (Some(profile), Some(start)) = (&mut self.profile, start) {
            profile.add((ProfileKind::Packed, None), name, start, [].iter());
        }
        match res? {
            Value::Null => Err(RuntimeError::BadData("a packed function returned nothing")),
            value => Ok(value),
        }
    }

    /// Replaces tensors that are not on the host by copies, for a packed function.
    fn move_to_host(&mut self, args: &mut Args) -> Result<(), RuntimeError> {
        for arg in args {
            if let Value::Tensor(tensor) = arg
                && tensor.device() != Device::cpu()
            {
                *arg = self.moved(tensor.clone(), Device::cpu())?.into();
            }
        }
        Ok(())
    }

    /// Calls a packed function in destination-passing style.
    fn dps(&mut self, index: usize, inputs: &[Reg], outputs: &[Reg]) -> Result<(), RuntimeError> {
        let vm = self.vm;
        let (func, name) = (&vm.packed[index], &vm.exe.packed[index]);
        self.no_capture(name)?;
        let mut inputs = self.collect(&[], inputs)?;
        self.move_to_host(&mut inputs)?;
        // Nothing that can be reached through a nested input may be an output.
        inputs.iter().filter(|it| it.as_tensor().is_none()).for_each(lent::revoke);
        let output = |reg: &Reg| self.get(*reg)?.try_tensor(name).cloned();
        let outputs = outputs.iter().map(output).collect::<Result<SmallVec<[Tensor; 4]>, _>>()?;
        let lent = lent::Lent::new(&inputs);
        let start = self.profile.is_some().then(Instant::now);
        let res = func.fill(name, &inputs, &outputs, self.writer);
        lent.settle(&inputs);
        if let (Some(profile), Some(start)) = (&mut self.profile, start) {
            profile.add((ProfileKind::Packed, None), name, start, [].iter());
        }
        res
    }

    /// True if the register holds a packed function.
    fn is_packed(&self, reg: Reg) -> bool {
        matches!(self.peek(reg), Value::Func(_))
    }

    /// Calls the packed function in a register.
    fn packed_value(&mut self, func: Reg, args: &[Reg]) -> Result<Value, RuntimeError> {
        let func = self.get(func)?.try_func("invoke_closure")?.clone();
        self.packed(&func, "packed function", args)
    }

    /// Ends the current function with `value`, which is returned if nobody in this run waits for it.
    fn leave(&mut self, value: Value) -> Option<Value> {
        let Some(frame) = self.ws.frames.pop() else { return Some(value) };
        self.ws.truncate(self.base);
        (self.func, self.pc, self.base) = (frame.func, frame.pc, frame.base);
        self.code = &self.vm.exe.functions[frame.func].code;
        self.ws.regs[frame.base + frame.dst] = value;
        None
    }

    /// Collects `first` and then the values of `regs`.
    fn collect(&self, first: &[Value], regs: &[Reg]) -> Result<Args, RuntimeError> {
        let mut res = Args::with_capacity(first.len() + regs.len());
        res.extend(first.iter().cloned());
        for reg in regs {
            res.push(self.get(*reg)?.clone());
        }
        Ok(res)
    }

    /// The integer that an `if` compares.
    fn truth(&self, test: Reg) -> Result<i64, RuntimeError> {
        match self.get(test)? {
            Value::Int(value) => Ok(*value),
            Value::Tensor(tensor) => tensor.read_scalar()?.try_int("condition"),
            other => other.try_int("condition"),
        }
    }

    pub(super) fn vm(&self) -> &'a Vm {
        self.vm
    }

    /// The record of a run that is captured, and the place of the current instruction.
    pub(super) fn capture(&mut self) -> Option<(&mut CaptureLog, (Arc<str>, usize))> {
        let (vm, func, pc) = (self.vm, self.func, self.pc.saturating_sub(1));
        self.capture.as_deref_mut().map(|log| (log, (vm.exe.functions[func].name.clone(), pc)))
    }

    /// The instruction before the current one in the code of the current function.
    pub(super) fn before(&self) -> Option<&'a Instruction> {
        self.code.get(self.pc.checked_sub(2)?)
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.vm.config.max_bytes
    }

    #[inline]
    fn peek(&self, reg: Reg) -> &Value {
        &self.ws.regs[self.base + reg.index()]
    }

    #[inline]
    fn slot(&mut self, reg: Reg) -> &mut Value {
        &mut self.ws.regs[self.base + reg.index()]
    }

    /// The content of a register; null is an error.
    #[inline]
    pub(super) fn get(&self, reg: Reg) -> Result<&Value, RuntimeError> {
        match self.peek(reg) {
            Value::Null => Err(self.null(reg)),
            value => Ok(value),
        }
    }

    /// Takes the content of a register; null is an error.
    pub(super) fn take(&mut self, reg: Reg) -> Result<Value, RuntimeError> {
        match std::mem::take(self.slot(reg)) {
            Value::Null => Err(self.null(reg)),
            value => Ok(value),
        }
    }

    #[inline]
    pub(super) fn set(&mut self, reg: Reg, value: Value) {
        *self.slot(reg) = value;
    }

    #[inline]
    pub(super) fn int(&self, operand: IntOperand) -> Result<i64, RuntimeError> {
        match operand {
            IntOperand::Const(value) => Ok(value),
            IntOperand::Reg(reg) => match self.peek(reg) {
                Value::Int(value) => Ok(*value),
                _ => self.get(reg)?.try_int("operand"),
            },
        }
    }

    #[cold]
    fn null(&self, reg: Reg) -> RuntimeError {
        let what = format!("register {reg}").into();
        RuntimeError::ValueKind { what, expected: "a value", got: Value::Null.kind() }
    }

    /// Compares the extents of the tensor or shape in `src` with their expected values, and binds the others.
    pub(super) fn check_dims(
        &mut self,
        src: Reg,
        dims: &[DimCheck],
        context: &str,
    ) -> Result<(), RuntimeError> {
        let fail = |detail| Err(RuntimeError::ShapeCheck { context: context.into(), detail });
        let rank = self.extents(src, context)?.len();
        if rank != dims.len() {
            return fail(format!("rank is {rank}, expected {}", dims.len()));
        }
        for (axis, dim) in dims.iter().enumerate() {
            let got = self.extents(src, context)?[axis];
            let expected = match *dim {
                DimCheck::Any => continue,
                DimCheck::Bind(reg) => {
                    self.set(reg, Value::Int(got));
                    continue;
                }
                DimCheck::Const(expected) => expected,
                DimCheck::Reg(reg) => self.int(reg.into())?,
            };
            if expected != got {
                return fail(format!("axis {axis} is {got}, expected {expected}"));
            }
        }
        Ok(())
    }

    /// The extents of the tensor or shape in a register.
    fn extents(&self, src: Reg, what: &str) -> Result<&[i64], RuntimeError> {
        match self.get(src)? {
            Value::Tensor(tensor) => Ok(tensor.shape()),
            other => other.try_shape(what),
        }
    }
}
