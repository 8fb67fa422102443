//! The host's part of a program: from the shapes of the arguments to allocations and launches.
//!
//! The host reads no memory of the GPU, so its steps depend on the shapes and scalars of a call alone: they are computed before
//! anything runs. The statements of the host become instructions of the runtime ([`tvm_runtime::HostProgram`]): whoever runs them
//! needs neither the program nor a compiler. What the host cannot do becomes an instruction that refuses the call.
//! TVM counterpart: the host function that `SplitHostDevice` leaves, which is machine code there.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_core::ir::{BufferId, VarId};
use tvm_core::tir::Param;
use tvm_core::tir::{
    AssertStmt, Binary, BinaryOp, DeclBuffer, Failure, For, ForKind, IfThenElse, Intrinsic, PrimCall,
    PrimCallee, PrimExpr, PrimFunc, Stmt,
};
use tvm_runtime::{
    DataType, HostInstr, HostOp, HostParam, HostQuery, HostReg, KernelFailure, LaunchArg, LaunchError,
    LaunchPlan, Value,
};

use super::CudaKernel;
use crate::c::device::DeviceParam;

/// A program as its kernels and the host's part.
#[derive(Clone, Debug)]
pub struct CudaProgram {
    /// What the host does.
    pub code: tvm_runtime::HostProgram,
    /// The kernels, in program order.
    pub kernels: Vec<CudaKernel>,
}

/// What `failure` reports, for the runtime.
pub(super) fn kernel_failure(failure: &Failure) -> KernelFailure {
    let text = |text: Arc<str>| Some(text).filter(|it| !it.is_empty());
    let (what, place) = (text(failure.what.clone()), text(failure.span.text()));
    KernelFailure { status: failure.status, arg: failure.arg, axis: failure.axis, what, place }
}

impl CudaProgram {
    pub(super) fn new(func: &PrimFunc, kernels: Vec<CudaKernel>) -> CudaProgram {
        let mut writer = Writer { kernels: &kernels, ..Writer::default() };
        match &*func.params {
            [Param::Scalar(list), Param::Scalar(count), Param::Scalar(_)] => {
                // The list of arguments is an address for machine code only.
                let (reg, dst) = (writer.int(0), writer.reg());
                writer.code.push(HostInstr::Count { dst });
                writer.vars.extend([(list.id(), reg), (count.id(), dst)]);
                writer.stmt(&func.body);
            }
            _ => writer.refuse("a program that is not lowered"),
        }
        let code = tvm_runtime::HostProgram { registers: writer.registers, code: writer.code };
        CudaProgram { code, kernels }
    }

    /// Evaluates the host's part of a call with these arguments, of whose tensors only shapes and types are read.
    ///
    /// # Errors
    /// When an argument does not fit, or a launch exceeds what the GPU can do.
    pub fn plan(&self, args: &[Value]) -> Result<LaunchPlan, LaunchError> {
        let describe = |value| match value {
            &Value::Int(value) => Ok(LaunchArg::Int(value)),
            &Value::Float(value) => Ok(LaunchArg::Float(value)),
            Value::Tensor(it) => Ok(LaunchArg::Tensor { shape: it.shape(), dtype: it.dtype() }),
            other => {
                let message = format!("the host cannot evaluate an argument that is {}", other.kind());
                Err(LaunchError::Refused(message))
            }
        };
        self.plan_launch(&args.iter().map(describe).collect::<Result<Vec<_>, _>>()?)
    }

    /// As [`CudaProgram::plan`], for arguments of which nothing else is known.
    ///
    /// # Errors
    /// As for [`CudaProgram::plan`].
    pub fn plan_launch(&self, args: &[LaunchArg<'_>]) -> Result<LaunchPlan, LaunchError> {
        self.code.plan(args)
    }
}

/// Writes the instructions of a program.
#[derive(Default)]
struct Writer<'a> {
    kernels: &'a [CudaKernel],
    vars: FxHashMap<VarId, HostReg>,
    buffers: FxHashMap<BufferId, HostReg>,
    /// The number of the next kernel in program order.
    next_kernel: usize,
    registers: u32,
    code: Vec<HostInstr>,
}

impl Writer<'_> {
    fn reg(&mut self) -> HostReg {
        self.registers += 1;
        self.registers - 1
    }

    fn int(&mut self, value: i64) -> HostReg {
        let dst = self.reg();
        self.code.push(HostInstr::Int { dst, value });
        dst
    }

    fn refuse(&mut self, what: impl Into<String>) {
        let message = format!("the host cannot evaluate {}", what.into());
        self.code.push(HostInstr::Refuse { message });
    }

    /// Refuses the call; the register is for what comes after.
    fn refused(&mut self, what: impl Into<String>) -> HostReg {
        self.refuse(what);
        self.reg()
    }

    fn here(&self) -> u32 {
        u32::try_from(self.code.len()).unwrap_or(u32::MAX)
    }

    /// Adds a jump, whose place [`Writer::land`] sets.
    fn jump(&mut self, jump: HostInstr) -> usize {
        self.code.push(jump);
        self.code.len() - 1
    }

    /// Lets the jump at `jump` go to the next instruction.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        if let HostInstr::Jump { to }
        | HostInstr::JumpIfZero { to, .. }
        | HostInstr::JumpUnlessLess { to, .. } = &mut self.code[jump]
        {
            *to = here;
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::SeqStmt(stmts) => stmts.iter().for_each(|it| self.stmt(it)),
            Stmt::Bind(it) => {
                let value = self.expr(&it.value);
                self.vars.insert(it.var.id(), value);
            }
            Stmt::AssertStmt(it) => self.assertion(it),
            Stmt::DeclBuffer(it) => self.declare(it),
            Stmt::AllocBuffer(it) => {
                let extents = it.buffer.shape.iter().map(|extent| self.expr(extent)).collect();
                let (dst, name) = (self.reg(), it.buffer.name.to_string());
                let bytes = it.buffer.dtype.bytes() as u64;
                self.code.push(HostInstr::Alloc { dst, name, bytes, extents });
                self.buffers.insert(it.buffer.id, dst);
            }
            Stmt::IfThenElse(it) => self.branch(it),
            Stmt::For(it) => match it.kind {
                ForKind::ThreadBinding(_) => self.launch(),
                ForKind::Serial | ForKind::Parallel | ForKind::Vectorized | ForKind::Unrolled => {
                    self.repeat(it);
                }
            },
            Stmt::While(_) | Stmt::BufferStore(_) | Stmt::BlockRealize(_) | Stmt::Evaluate(_) => {
                self.refuse("a statement that touches memory");
            }
        }
    }

    fn assertion(&mut self, it: &AssertStmt) {
        let test = self.expr(&it.condition);
        let fails = self.jump(HostInstr::JumpIfZero { test, to: 0 });
        let holds = self.jump(HostInstr::Jump { to: 0 });
        self.land(fails);
        let (expected, got) = (self.expr(&it.failure.expected), self.expr(&it.failure.got));
        self.code.push(HostInstr::Fail { failure: kernel_failure(&it.failure), expected, got });
        self.land(holds);
    }

    fn branch(&mut self, it: &IfThenElse) {
        let test = self.expr(&it.condition);
        let other = self.jump(HostInstr::JumpIfZero { test, to: 0 });
        self.stmt(&it.then_case);
        match &it.else_case {
            Some(case) => {
                let end = self.jump(HostInstr::Jump { to: 0 });
                self.land(other);
                self.stmt(case);
                self.land(end);
            }
            None => self.land(other),
        }
    }

    fn repeat(&mut self, node: &For) {
        let (min, extent) = (self.expr(&node.min), self.expr(&node.extent));
        // A register of its own: that of `min` may be a variable.
        let (counter, end) = (self.reg(), self.reg());
        self.code.push(HostInstr::Copy { dst: counter, src: min });
        let add = |dst, a, b| HostInstr::Binary { op: HostOp::Add, dst, a, b, dtype: DataType::I64 };
        self.code.push(add(end, min, extent));
        let one = self.int(1);
        let first = self.here();
        let exit = self.jump(HostInstr::JumpUnlessLess { a: counter, b: end, to: 0 });
        self.vars.insert(node.loop_var.id(), counter);
        self.stmt(&node.body);
        self.code.push(add(counter, counter, one));
        self.code.push(HostInstr::Jump { to: first });
        self.land(exit);
    }

    fn declare(&mut self, it: &DeclBuffer) {
        let memory = self.expr(&it.data);
        self.buffers.insert(it.buffer.id, memory);
    }

    fn launch(&mut self) {
        let at = self.next_kernel;
        self.next_kernel += 1;
        let Some(kernel) = self.kernels.get(at) else { return self.refuse("a kernel without code") };
        let zero = self.int(0);
        let (mut extents, mut nothing) = ([zero; 6], Vec::new());
        let all = kernel.kernel.grid().into_iter().chain(kernel.kernel.block());
        for (place, extent) in extents.iter_mut().zip(all) {
            *place = self.expr(&extent);
            if extent.as_int().is_none_or(|it| it <= 0) {
                // No thread at all.
                nothing.push(self.jump(HostInstr::JumpUnlessLess { a: zero, b: *place, to: 0 }));
            }
        }
        let shared = self.expr(&kernel.kernel.dynamic().bytes);
        let mut params = Vec::new();
        for param in &kernel.params {
            let param = match param {
                DeviceParam::Memory(id) => self.buffers.get(id).map(|reg| HostParam::Memory(*reg)),
                DeviceParam::Scalar(var) => {
                    self.vars.get(&var.id()).map(|reg| HostParam::Scalar(*reg, var.dtype()))
                }
                DeviceParam::Failure => Some(HostParam::Failure),
            };
            match param {
                Some(param) => params.push(param),
                None => return self.refuse(format!("a parameter of `{}` that has no value", kernel.name)),
            }
        }
        let (kernel, name) = (u32::try_from(at).unwrap_or(u32::MAX), kernel.name.clone());
        self.code.push(HostInstr::Launch { kernel, name, extents, shared, params });
        nothing.into_iter().for_each(|jump| self.land(jump));
    }

    /// The register with the value of `expr`.
    fn expr(&mut self, expr: &PrimExpr) -> HostReg {
        match expr {
            PrimExpr::IntImm(it) => self.int(it.value),
            PrimExpr::FloatImm(it) => {
                let dst = self.reg();
                self.code.push(HostInstr::Float { dst, value: it.value });
                dst
            }
            PrimExpr::Var(var) => match self.vars.get(&var.id()) {
                Some(reg) => *reg,
                None => self.refused(format!("`{}`, which has no value", var.name())),
            },
            PrimExpr::Cast(it) => {
                let (src, dst) = (self.expr(&it.value), self.reg());
                self.code.push(HostInstr::Cast { dst, src, from: it.value.dtype(), to: it.dtype });
                dst
            }
            PrimExpr::Not(it) => {
                let (src, dst) = (self.expr(&it.value), self.reg());
                self.code.push(HostInstr::Not { dst, src });
                dst
            }
            PrimExpr::Binary(it) => self.binary(it),
            PrimExpr::Select(it) => self.select(&it.condition, &it.true_value, &it.false_value),
            PrimExpr::Let(it) => {
                let value = self.expr(&it.value);
                self.vars.insert(it.var.id(), value);
                self.expr(&it.body)
            }
            PrimExpr::Call(it) => self.call(it, expr),
            PrimExpr::StringImm(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_) => self.refused(format!("`{expr}`")),
        }
    }

    fn binary(&mut self, it: &Binary) -> HostReg {
        // The second operand of `and` and `or` is evaluated where the first one does not decide.
        let Some(op) = it.op.on_host() else {
            let [no, yes] = [0, 1].map(|it| PrimExpr::int(it, DataType::BOOL));
            let is_and = it.op == BinaryOp::And;
            return if is_and { self.select(&it.a, &it.b, &no) } else { self.select(&it.a, &yes, &it.b) };
        };
        let (a, b, dst) = (self.expr(&it.a), self.expr(&it.b), self.reg());
        self.code.push(HostInstr::Binary { op, dst, a, b, dtype: it.a.dtype() });
        dst
    }

    /// One of two values, of which only that one is evaluated.
    fn select(&mut self, test: &PrimExpr, yes: &PrimExpr, no: &PrimExpr) -> HostReg {
        let (test, dst) = (self.expr(test), self.reg());
        let other = self.jump(HostInstr::JumpIfZero { test, to: 0 });
        let src = self.expr(yes);
        self.code.push(HostInstr::Copy { dst, src });
        let end = self.jump(HostInstr::Jump { to: 0 });
        self.land(other);
        let src = self.expr(no);
        self.code.push(HostInstr::Copy { dst, src });
        self.land(end);
        dst
    }

    fn call(&mut self, it: &PrimCall, expr: &PrimExpr) -> HostReg {
        let PrimCallee::Intrinsic(intrinsic) = it.callee else { return self.refused(format!("`{expr}`")) };
        let instr: fn(HostReg, HostReg) -> HostInstr = match (intrinsic, &*it.args) {
            (Intrinsic::Likely, [value]) => return self.expr(value),
            (Intrinsic::IfThenElse, [condition, a, b]) => return self.select(condition, a, b),
            (Intrinsic::IsNan, [value]) => {
                let (src, dst) = (self.expr(value), self.reg());
                self.code.push(HostInstr::IsNan { dst, src });
                return dst;
            }
            (Intrinsic::IsInf, [value]) => {
                let (src, dst) = (self.expr(value), self.reg());
                self.code.push(HostInstr::IsInf { dst, src });
                return dst;
            }
            (Intrinsic::ArgShape, [_, at, axis]) => {
                let (arg, axis, dst) = (self.expr(at), self.expr(axis), self.reg());
                self.code.push(HostInstr::Shape { dst, arg, axis });
                return dst;
            }
            (Intrinsic::ArgScalar, [_, at]) => {
                let (arg, dst) = (self.expr(at), self.reg());
                self.code.push(HostInstr::Scalar { dst, arg, dtype: it.dtype });
                return dst;
            }
            (Intrinsic::ArgData, [_, _]) => |dst, arg| HostInstr::Query { what: HostQuery::Data, dst, arg },
            (Intrinsic::ArgNdim, [_, _]) => |dst, arg| HostInstr::Query { what: HostQuery::Ndim, dst, arg },
            (Intrinsic::ArgDType, [_, _]) => |dst, arg| HostInstr::Query { what: HostQuery::DType, dst, arg },
            (Intrinsic::ArgIsCompact, [_, _]) => {
                |dst, arg| HostInstr::Query { what: HostQuery::IsCompact, dst, arg }
            }
            _ => return self.refused(format!("`{expr}`")),
        };
        let (arg, dst) = (self.expr(&it.args[1]), self.reg());
        self.code.push(instr(dst, arg));
        dst
    }
}
