//! Code generation from graph functions to bytecode.
//!
//! Requires lowered functions: no operators but those of [`memory`] and those on shapes, no local functions
//! (`LambdaLift`), and tensor programs called through `vm.invoke_tvm_op` (`CallTIRRewrite`). Ensures that the executable
//! passes the runtime's verifier. Every binding gets a register of its own; calls in tail position become tail calls.
//!
//! TVM counterpart: `VMCodeGen`, Relay's `VMFunctionCompiler`.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::vm::{Executable, Instruction, IntOperand, Reg, Regs, VmFunction, VmParam};
use tvm_runtime::{ALIGNMENT, Device, Tensor};

use super::bounds::Dim;
use super::builder::{Code, Tables, relax_functions};
use super::value_type::value_type;
use crate::ir::{BaseFunc, GlobalVar, IRModule, IrError, Op, Type, Var, VarId};
use crate::relax::op::device::{self, SHAPE_TO_TENSOR, TO_VDEVICE};
use crate::relax::op::memory::{self, dtype_of};
use crate::relax::{Arg, Binding, Body, Call, Callee, Constructor, Expr, Function, If};
use crate::tir::{Param, PrimExpr, kernel_sig};

/// Compiles the graph functions of `module`: returns the tensor programs that are still to be built, and the executable
/// that calls them with tensors on `device`. Arguments of public functions and constants are copied there if they are
/// elsewhere; results stay there.
///
/// # Errors
/// When a function is not lowered, or a dimension is not bound.
pub fn vm_codegen(module: &IRModule, device: Device) -> Result<(IRModule, Executable), IrError> {
    let mut tables = Tables::new(module, device);
    let mut functions = Vec::new();
    for (gv, func) in relax_functions(module) {
        functions.push(function(&mut tables, gv, func).map_err(|err| err.at(&func.span))?);
    }
    let (constants, kernels, packed) = tables.finish();
    let sigs = kernels.iter().map(|(gv, func)| kernel_sig(gv.name(), func)).collect();
    let mut prim_funcs = IRModule::new();
    prim_funcs.attrs = module.attrs.clone();
    kernels.into_iter().for_each(|(gv, func)| prim_funcs.update(gv, BaseFunc::Prim(func)));
    Ok((prim_funcs, Executable { functions, constants, kernels: sigs, packed, ..Executable::default() }))
}

fn function(tables: &mut Tables<'_>, gv: &GlobalVar, func: &Function) -> Result<VmFunction, IrError> {
    let mut codegen =
        FunctionCodegen { tables, code: Code::default(), regs: FxHashMap::default(), dims: Vec::new() };
    let regs: Vec<Reg> = func.params.iter().map(|param| codegen.define(param)).collect();
    let mut deferred = Vec::new();
    for (param, reg) in func.params.iter().zip(regs) {
        let context = format!("argument `{}`", param.name());
        codegen.check(param.ty(), reg, &context, &mut deferred)?;
    }
    codegen.check_deferred(deferred)?;
    for param in func.params.iter() {
        codegen.check_bound(param, param.name(), None);
        codegen.check_bounds(param.ty(), param.name());
    }
    let public = !func.attrs.bool("private").unwrap_or(false);
    for param in func.params.iter().filter(|_| public) {
        let src = codegen.var(param)?;
        let placed = codegen.placed(src, param.ty());
        codegen.regs.insert(param.id(), placed);
    }
    codegen.body(&func.body, Dest::Ret)?;
    let params = func.params.iter();
    Ok(VmFunction {
        name: gv.name().into(),
        params: params.map(|it| VmParam { name: it.name().to_string(), ty: value_type(it.ty()) }).collect(),
        ret: value_type(&func.ret),
        num_regs: codegen.code.num_regs,
        public,
        code: codegen.code.instructions,
    })
}

/// Where the result of a body goes.
#[derive(Clone, Copy)]
pub(super) enum Dest {
    /// To the caller.
    Ret,
    /// To a register.
    Reg(Reg),
}

/// Code generator of one function.
pub(super) struct FunctionCodegen<'a, 'm> {
    pub(super) tables: &'a mut Tables<'m>,
    pub(super) code: Code,
    /// Registers of variables and symbolic dimensions.
    pub(super) regs: FxHashMap<VarId, Reg>,
    /// The dimensions of the parameters.
    pub(super) dims: Vec<Dim>,
}

impl FunctionCodegen<'_, '_> {
    /// Assigns a fresh register to `var`.
    pub(super) fn define(&mut self, var: &Var) -> Reg {
        let reg = self.code.reg();
        self.regs.insert(var.id(), reg);
        reg
    }

    /// The register of `var`.
    pub(super) fn var(&self, var: &Var) -> Result<Reg, IrError> {
        self.regs.get(&var.id()).copied().ok_or_else(|| {
            let what = if matches!(var.ty(), Type::Prim(_)) { "symbolic dimension" } else { "variable" };
            IrError::new(format!("the {what} `{}` is not bound here", var.name()), var.span())
                .help("a parameter must have it as an extent of its own, or a `match_cast` bind it")
        })
    }

    pub(super) fn num_constructors(&self, constructor: &Constructor) -> Option<usize> {
        self.tables.module.type_def(&constructor.ty).map(|def| def.constructors.len())
    }

    /// Emits code that computes `body` and delivers its result to `dest`.
    pub(super) fn body(&mut self, body: &Body, dest: Dest) -> Result<(), IrError> {
        crate::support::with_stack(|| {
            self.check_least_values(body);
            let mut bindings = body.bindings().peekable();
            while let Some(binding) = bindings.next() {
                let last = bindings.peek().is_none() && body.ret.as_var() == Some(&binding.var);
                if last && !binding.match_cast {
                    return self.expr_to(&binding.value, dest);
                }
                self.binding(binding)?;
            }
            let src = self.arg(&body.ret)?;
            self.deliver(src, dest);
            Ok(())
        })
    }

    fn binding(&mut self, binding: &Binding) -> Result<(), IrError> {
        let src = self.expr(&binding.value)?;
        self.regs.insert(binding.var.id(), src);
        if binding.match_cast {
            let mut deferred = Vec::new();
            let context = format!("match_cast to `{}`", binding.var.name());
            self.check(binding.var.ty(), src, &context, &mut deferred)?;
            self.check_deferred(deferred)?;
        }
        Ok(())
    }

    fn deliver(&mut self, src: Reg, dest: Dest) {
        self.code.emit(match dest {
            Dest::Ret => Instruction::Ret { src },
            Dest::Reg(dst) => Instruction::Move { dst, src },
        });
    }

    /// Emits code that computes `expr` as the result of a body.
    fn expr_to(&mut self, expr: &Expr, dest: Dest) -> Result<(), IrError> {
        match (expr, dest) {
            (Expr::If(it), _) => return self.if_expr(it, dest),
            (Expr::Match(it), _) => return self.match_expr(it, dest),
            (Expr::Call(call), Dest::Ret) => {
                let callee = match &call.callee {
                    Callee::Global(gv) => self.tables.function(gv).map(Ok),
                    Callee::Var(var) => Some(Err(self.var(var)?)),
                    Callee::Op(_)
                    | Callee::Tir(_)
                    | Callee::TirInplace(_)
                    | Callee::DpsPacked(_)
                    | Callee::Packed(_)
                    | Callee::Constructor(_) => None,
                };
                if let Some(callee) = callee {
                    let args = self.args(&call.args)?;
                    self.code.emit(match callee {
                        Ok(func) => Instruction::TailInvoke { func, args },
                        Err(closure) => Instruction::TailInvokeClosure { closure, args },
                    });
                    return Ok(());
                }
            }
            (
                Expr::Arg(_)
                | Expr::Call(_)
                | Expr::TupleGetItem(..)
                | Expr::Function(_)
                | Expr::RefCreate(_)
                | Expr::RefRead(_)
                | Expr::RefWrite(..),
                _,
            ) => {}
        }
        let src = self.expr(expr)?;
        self.deliver(src, dest);
        Ok(())
    }

    fn if_expr(&mut self, it: &If, dest: Dest) -> Result<(), IrError> {
        let test = self.arg(&it.cond)?;
        let otherwise = self.code.unless_true(test);
        self.body(&it.then_branch, dest)?;
        let done = (!matches!(dest, Dest::Ret)).then(|| self.code.goto());
        self.code.land(otherwise);
        self.body(&it.else_branch, dest)?;
        done.into_iter().for_each(|from| self.code.land(from));
        Ok(())
    }

    /// Computes `expr` into a register of its own.
    fn expr(&mut self, expr: &Expr) -> Result<Reg, IrError> {
        Ok(match expr {
            Expr::Arg(arg) => {
                let src = self.arg(arg)?;
                let alias = matches!(arg, Arg::Var(_)) || matches!(arg, Arg::Prim(PrimExpr::Var(_)));
                if alias { self.code.emit_to(|dst| Instruction::Move { dst, src }) } else { src }
            }
            Expr::Call(call) => self.call(call).map_err(|err| err.at(&call.span))?,
            Expr::TupleGetItem(arg, index) => {
                let (src, index) = (self.arg(arg)?, *index as u32);
                self.code.emit_to(|dst| Instruction::GetField { dst, src, index })
            }
            Expr::If(it) => {
                let dst = self.code.reg();
                self.if_expr(it, Dest::Reg(dst))?;
                dst
            }
            Expr::Match(it) => {
                let dst = self.code.reg();
                self.match_expr(it, Dest::Reg(dst))?;
                dst
            }
            Expr::Function(func) => {
                let err =
                    IrError::new(format!("the local function `{}` is not lifted", func.name), &func.span);
                return Err(err.help("run `LambdaLift` first"));
            }
            Expr::RefCreate(arg) => {
                let src = self.arg(arg)?;
                self.code.emit_to(|dst| Instruction::RefNew { dst, src })
            }
            Expr::RefRead(arg) => {
                let src = self.arg(arg)?;
                self.code.emit_to(|dst| Instruction::RefGet { dst, src })
            }
            Expr::RefWrite(cell, value) => {
                let (cell, src) = (self.arg(cell)?, self.arg(value)?);
                self.code.emit(Instruction::RefSet { cell, src });
                self.unit()
            }
        })
    }

    fn unit(&mut self) -> Reg {
        self.code.emit_to(|dst| Instruction::AllocADT { dst, tag: 0, fields: Box::new([]) })
    }

    /// A register that holds `arg`.
    pub(super) fn arg(&mut self, arg: &Arg) -> Result<Reg, IrError> {
        let index = match arg {
            Arg::Var(var) => return self.var(var),
            Arg::Global(gv) => {
                let func = self.tables.function(gv).ok_or_else(|| not_a_function(gv))?;
                let captured = Box::new([]);
                return Ok(self.code.emit_to(|dst| Instruction::AllocClosure { dst, func, captured }));
            }
            Arg::Tuple(fields) => {
                let fields = self.args(fields)?;
                return Ok(self.code.emit_to(|dst| Instruction::AllocADT { dst, tag: 0, fields }));
            }
            Arg::Shape(values) => return self.shape(values),
            Arg::Prim(value) => return self.scalar(value),
            Arg::Const(tensor) => {
                let src = self.constant(tensor);
                return Ok(self.on_device(src));
            }
            Arg::DType(dtype) => self.tables.dtype(*dtype),
            Arg::Str(text) => self.tables.string(text),
        };
        Ok(self.code.emit_to(|dst| Instruction::LoadConst { dst, index }))
    }

    /// A register with a constant, which is on the host.
    fn constant(&mut self, tensor: &Tensor) -> Reg {
        let index = self.tables.tensor(tensor);
        self.code.emit_to(|dst| Instruction::LoadConst { dst, index })
    }

    fn args(&mut self, args: &[Arg]) -> Result<Regs, IrError> {
        args.iter().map(|arg| self.arg(arg)).collect()
    }

    fn call(&mut self, call: &Call) -> Result<Reg, IrError> {
        match &call.callee {
            Callee::Op(op) => self.op(*op, call),
            Callee::Global(gv) => {
                if let Some(BaseFunc::Extern(func)) = self.tables.module.get(gv) {
                    return self.packed(&func.symbol, call);
                }
                let func = self.tables.function(gv).ok_or_else(|| not_a_function(gv))?;
                let args = self.args(&call.args)?;
                Ok(self.code.emit_to(|dst| Instruction::Invoke { dst, func, args }))
            }
            Callee::Var(var) => {
                let closure = self.var(var)?;
                let args = self.args(&call.args)?;
                Ok(self.code.emit_to(|dst| Instruction::InvokeClosure { dst, closure, args }))
            }
            Callee::Packed(name) => self.packed(name, call),
            Callee::Constructor(constructor) => {
                let (tag, fields) = (constructor.tag as u32, self.args(&call.args)?);
                Ok(self.code.emit_to(|dst| Instruction::AllocADT { dst, tag, fields }))
            }
            Callee::Tir(gv) | Callee::TirInplace(gv) => {
                let message =
                    format!("the call of the tensor program `{}` has no memory for its result", gv.name());
                Err(IrError::new(message, &call.span).help("run `CallTIRRewrite` first"))
            }
            Callee::DpsPacked(name) => {
                let message = format!("the call of `{name}` has no memory for its result");
                Err(IrError::new(message, &call.span).help("run `CallTIRRewrite` first"))
            }
        }
    }

    /// Calls a packed function; its result is checked against the type that the call declares.
    fn packed(&mut self, name: &Arc<str>, call: &Call) -> Result<Reg, IrError> {
        let func = self.tables.packed(name);
        let args = self.args(&call.args)?;
        let res = self.code.emit_to(|dst| Instruction::InvokePacked { dst, func, args });
        if let Some(ty) = &call.ret {
            let mut deferred = Vec::new();
            self.check(ty, res, &format!("result of `{name}`"), &mut deferred)?;
            self.check_deferred(deferred)?;
            return Ok(self.placed(res, ty));
        }
        Ok(res)
    }

    fn op(&mut self, op: Op, call: &Call) -> Result<Reg, IrError> {
        match (op.name, &*call.args) {
            (memory::INVOKE_TVM_OP, [Arg::Global(gv), Arg::Tuple(inputs), Arg::Tuple(outputs)]) => {
                self.invoke_kernel(gv, inputs, outputs)
            }
            (memory::INVOKE_DPS_PACKED, [Arg::Str(name), Arg::Tuple(inputs), Arg::Tuple(outputs)]) => {
                let func = self.tables.packed(name);
                let inputs = inputs.iter().map(|arg| match arg {
                    // The function gets it on the host, where it is.
                    Arg::Const(tensor) => Ok(self.constant(tensor)),
                    other => self.arg(other),
                });
                let (inputs, outputs) = (inputs.collect::<Result<_, _>>()?, self.args(outputs)?);
                self.code.emit(Instruction::InvokeDpsPacked { func, inputs, outputs });
                // As for kernels, nothing reads the empty tuple.
                Ok(self.code.reg())
            }
            (TO_VDEVICE, [tensor]) => {
                let device = device::device(TO_VDEVICE, &call.attrs)?;
                let src = match tensor {
                    // It is on the host, and goes nowhere in between.
                    Arg::Const(tensor) if device == Device::cpu() => return Ok(self.constant(tensor)),
                    Arg::Const(tensor) => self.constant(tensor),
                    other => self.arg(other)?,
                };
                Ok(self.code.emit_to(|dst| Instruction::DeviceCopy { dst, src, device }))
            }
            (memory::MAKE_UNIQUE, [tensor]) => {
                let mut src = self.arg(tensor)?;
                if !call.attrs.bool("last_use").unwrap_or(false) {
                    let shared = src;
                    src = self.code.emit_to(|dst| Instruction::Move { dst, src: shared });
                }
                Ok(self.code.emit_to(|dst| Instruction::MakeUnique { dst, src }))
            }
            (memory::ALLOC, [shape]) => {
                let size = self.byte_size(shape, dtype_of(call)?.bytes() as i64)?;
                let storage = self.alloc_storage(size, call)?;
                // The tensor replaces the storage, so that it alone has it and can be updated in place.
                self.alloc_tensor(storage, storage, 0.into(), shape, call)
            }
            (memory::ALLOC_STORAGE, [Arg::Prim(size)]) => {
                let size = self.int(size)?;
                self.alloc_storage(size, call)
            }
            (memory::ALLOC_TENSOR, [storage, Arg::Prim(offset), shape]) => {
                let (storage, offset) = (self.arg(storage)?, self.int(offset)?);
                let dst = self.code.reg();
                self.alloc_tensor(dst, storage, offset, shape, call)
            }
            (memory::KILL, [Arg::Var(var)]) => {
                let reg = self.var(var)?;
                self.code.kill(reg);
                // Nobody reads the result of a kill.
                Ok(reg)
            }
            (memory::ALLOC_CLOSURE, [Arg::Global(gv), Arg::Tuple(captured)]) => {
                let func = self.tables.function(gv).ok_or_else(|| not_a_function(gv))?;
                let captured = self.args(captured)?;
                Ok(self.code.emit_to(|dst| Instruction::AllocClosure { dst, func, captured }))
            }
            ("shape_of", [tensor]) => {
                let src = self.arg(tensor)?;
                Ok(self.code.emit_to(|dst| Instruction::ShapeOf { dst, src }))
            }
            (SHAPE_TO_TENSOR, [shape]) => {
                let src = self.arg(shape)?;
                let tensor = self.code.emit_to(|dst| Instruction::ShapeToTensor { dst, src });
                let device = match call.attrs.get(device::DEVICE) {
                    Some(_) => device::device(SHAPE_TO_TENSOR, &call.attrs)?,
                    None => self.tables.device,
                };
                Ok(self.moved(tensor, device))
            }
            ("tensor_to_shape", [tensor]) => {
                let src = self.arg(tensor)?;
                Ok(self.code.emit_to(|dst| Instruction::TensorToShape { dst, src }))
            }
            (memory::CHECK_INDICES, [indices, extents]) => {
                let (indices, extents) = (self.arg(indices)?, self.arg(extents)?);
                let context = call.attrs.str("op").unwrap_or_default().into();
                self.code.emit(Instruction::CheckIndices { src: indices, extents, context });
                Ok(self.code.emit_to(|dst| Instruction::Move { dst, src: indices }))
            }
            (memory::RESHAPE_TENSOR, [tensor, shape]) => {
                let (src, shape) = (self.arg(tensor)?, self.arg(shape)?);
                Ok(self.code.emit_to(|dst| Instruction::ReshapeTensor { dst, src, shape }))
            }
            (name, _) => {
                let err = IrError::new(format!("operator `{name}` is not lowered"), &call.span);
                Err(err.help("run `LegalizeOps` first; an operator without a tensor program cannot run"))
            }
        }
    }

    fn invoke_kernel(&mut self, gv: &GlobalVar, inputs: &[Arg], outputs: &[Arg]) -> Result<Reg, IrError> {
        let (kernel, func) = self.tables.kernel(gv)?;
        let buffers = func.inputs().count();
        let scalars = func.params.iter().filter(|param| matches!(param, Param::Scalar(_))).count();
        let (expected, got) = ((buffers + scalars, func.outputs().count()), (inputs.len(), outputs.len()));
        if expected != got {
            let message = format!(
                "tensor program `{}` takes {} inputs and {} outputs, got {} and {}",
                gv.name(),
                expected.0,
                expected.1,
                got.0,
                got.1
            );
            return Err(IrError::new(message, &func.span));
        }
        let (mut ins, mut scalars, mut outs) =
            (inputs[..buffers].iter(), inputs[buffers..].iter(), outputs.iter());
        let order: Vec<&Arg> = func
            .params
            .iter()
            .filter_map(|param| match param {
                Param::In(_) => ins.next(),
                Param::Out(_) => outs.next(),
                Param::Scalar(_) => scalars.next(),
            })
            .collect();
        let args: Regs = order.into_iter().map(|arg| self.arg(arg)).collect::<Result<_, _>>()?;
        self.code.emit(Instruction::InvokeKernel { kernel, args });
        // The result is the empty tuple, which nothing reads; its variable still needs a register.
        Ok(self.code.reg())
    }

    /// A register that holds the tensor in `src` on the device that kernels run on.
    fn on_device(&mut self, src: Reg) -> Reg {
        self.moved(src, self.tables.device)
    }

    /// A register that holds the tensor in `src` on `device`; it is on the host.
    fn moved(&mut self, src: Reg, device: Device) -> Reg {
        if device == Device::cpu() {
            src
        } else {
            self.code.emit_to(|dst| Instruction::DeviceCopy { dst, src, device })
        }
    }

    /// A register that holds the value in `src`, of type `ty`, with its tensors where their types say, or else on the device that
    /// kernels run on. Tensors inside of closures, cells and data types stay where they are.
    fn placed(&mut self, src: Reg, ty: &Type) -> Reg {
        match ty {
            Type::Tensor(it) => match it.vdevice {
                Some(device) => self.code.emit_to(|dst| Instruction::DeviceCopy { dst, src, device }),
                None => self.on_device(src),
            },
            Type::Tuple(fields) if fields.iter().any(|field| self.moves(field)) => {
                let fields = fields.iter().enumerate().map(|(i, field)| {
                    let index = i as u32;
                    let value = self.code.emit_to(|dst| Instruction::GetField { dst, src, index });
                    self.placed(value, field)
                });
                let fields = fields.collect();
                self.code.emit_to(|dst| Instruction::AllocADT { dst, tag: 0, fields })
            }
            _ => src,
        }
    }

    /// True if a value of type `ty` has tensors that may have to be copied to another device.
    fn moves(&self, ty: &Type) -> bool {
        match ty {
            Type::Tensor(it) => it.vdevice.is_some() || self.tables.device != Device::cpu(),
            Type::Tuple(fields) => fields.iter().any(|field| self.moves(field)),
            _ => false,
        }
    }

    fn alloc_storage(&mut self, size: IntOperand, call: &Call) -> Result<Reg, IrError> {
        let device = match call.attrs.get(device::DEVICE) {
            Some(_) => device::device(memory::ALLOC_STORAGE, &call.attrs)?,
            None => self.tables.device,
        };
        let align = ALIGNMENT as u32;
        Ok(self.code.emit_to(|dst| Instruction::AllocStorage { dst, size, align, device }))
    }

    fn alloc_tensor(
        &mut self,
        dst: Reg,
        storage: Reg,
        offset: IntOperand,
        shape: &Arg,
        call: &Call,
    ) -> Result<Reg, IrError> {
        let dtype = dtype_of(call)?;
        if let Arg::Shape(values) = shape
            && let Some(shape) = values.iter().map(PrimExpr::as_int).collect::<Option<Box<[i64]>>>()
        {
            self.code.emit(Instruction::AllocTensor { dst, storage, offset, dtype, shape });
            return Ok(dst);
        }
        let shape = self.arg(shape)?;
        let max_bytes = call.attrs.int(memory::MAX_BYTES).map(|bytes| bytes.max(0) as u64);
        self.code.emit(Instruction::AllocTensorReg { dst, storage, offset, dtype, shape, max_bytes });
        Ok(dst)
    }

    /// Size in bytes of a tensor of the given shape; `elem` is the size of an element.
    fn byte_size(&mut self, shape: &Arg, elem: i64) -> Result<IntOperand, IrError> {
        let Arg::Shape(values) = shape else {
            let message = "the shape of a tensor that is allocated must be known";
            return Err(IrError::new(message, &crate::ir::Span::none()));
        };
        let size = values.iter().fold(PrimExpr::index(elem), |size, dim| dim.clone() * size);
        self.int(&size)
    }
}

fn not_a_function(gv: &GlobalVar) -> IrError {
    let message = format!("`{}` is not a graph function of the module", gv.name());
    IrError::new(message, &crate::ir::Span::none())
}
