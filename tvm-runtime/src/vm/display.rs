//! Disassembly of executables.

use std::fmt;

use super::executable::{Constant, Executable, VmFunction};
use super::instruction::{DimCheck, Instruction, IntOperand, Reg};
use crate::kernel::fmt_list;

impl fmt::Display for IntOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOperand::Const(value) => write!(f, "{value}"),
            IntOperand::Reg(reg) => write!(f, "{reg}"),
        }
    }
}

impl fmt::Display for DimCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DimCheck::Any => write!(f, "_"),
            DimCheck::Const(value) => write!(f, "{value}"),
            DimCheck::Reg(reg) => write!(f, "{reg}"),
            DimCheck::Bind(reg) => write!(f, "={reg}"),
        }
    }
}

/// Displays a list in brackets.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        fmt_list(f, self.0)?;
        write!(f, "]")
    }
}

/// An instruction, displayed with the names of the functions, kernels and packed functions that it refers to.
struct Named<'a>(&'a Executable, &'a Instruction);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named(exe, instruction) = self;
        let name = instruction.name();
        let func = |index: usize| exe.functions.get(index).map_or("?", |func| &func.name);
        let call =
            |f: &mut fmt::Formatter<'_>, dst: Option<&Reg>, callee: &dyn fmt::Display, args: &[Reg]| {
                if let Some(dst) = dst {
                    write!(f, "{dst} = ")?;
                }
                write!(f, "{name} {callee}(")?;
                fmt_list(f, args)?;
                write!(f, ")")
            };
        match instruction {
            Instruction::Ret { src } => write!(f, "{name} {src}"),
            Instruction::Move { dst, src }
            | Instruction::MakeUnique { dst, src }
            | Instruction::GetTag { dst, src }
            | Instruction::ShapeOf { dst, src }
            | Instruction::ShapeToTensor { dst, src }
            | Instruction::TensorToShape { dst, src }
            | Instruction::ReadScalar { dst, src }
            | Instruction::RefNew { dst, src }
            | Instruction::RefGet { dst, src } => write!(f, "{dst} = {name} {src}"),
            Instruction::Invoke { dst, func: callee, args } => {
                call(f, Some(dst), &func(callee.index()), args)
            }
            Instruction::TailInvoke { func: callee, args } => call(f, None, &func(callee.index()), args),
            Instruction::InvokeClosure { dst, closure, args } => call(f, Some(dst), closure, args),
            Instruction::TailInvokeClosure { closure, args } => call(f, None, closure, args),
            Instruction::InvokeKernel { kernel, args } => {
                call(f, None, &exe.kernels.get(kernel.index()).map_or("?", |sig| &sig.name), args)
            }
            Instruction::InvokePacked { dst, func: callee, args } => {
                call(f, Some(dst), &exe.packed.get(callee.index()).map_or("?", |name| name), args)
            }
            Instruction::InvokeDpsPacked { func: callee, inputs, outputs } => {
                call(f, None, &exe.packed.get(callee.index()).map_or("?", |name| name), inputs)?;
                write!(f, " to {}", List(outputs))
            }
            Instruction::AllocStorage { dst, size, align, device } => {
                write!(f, "{dst} = {name} {size} bytes align {align} on {device}")
            }
            Instruction::AllocTensor { dst, storage, offset, dtype, shape } => {
                write!(f, "{dst} = {name} {dtype}{} in {storage} at {offset}", List(shape))
            }
            Instruction::AllocTensorReg { dst, storage, offset, dtype, shape, max_bytes } => {
                write!(f, "{dst} = {name} {dtype} {shape} in {storage} at {offset}")?;
                max_bytes.map_or(Ok(()), |bytes| write!(f, ", at most {bytes} bytes"))
            }
            Instruction::AllocADT { dst, tag, fields } => write!(f, "{dst} = {name} {tag} {}", List(fields)),
            Instruction::AllocClosure { dst, func: callee, captured } => {
                write!(f, "{dst} = {name} {} {}", func(callee.index()), List(captured))
            }
            Instruction::GetField { dst, src, index } => write!(f, "{dst} = {name} {src}.{index}"),
            Instruction::If { test, target, on_eq, on_ne } => {
                write!(f, "{name} {test} == {target} goto {on_eq} else {on_ne}")
            }
            Instruction::Goto { target } => write!(f, "{name} {target}"),
            Instruction::LoadConst { dst, index } => write!(f, "{dst} = {name} {index}"),
            Instruction::LoadConsti { dst, value } => write!(f, "{dst} = {name} {value}"),
            Instruction::ShapeDim { dst, src, axis } => write!(f, "{dst} = {name} {src} axis {axis}"),
            Instruction::MakeShape { dst, dims } => write!(f, "{dst} = {name} {}", List(dims)),
            Instruction::ReshapeTensor { dst, src, shape } => write!(f, "{dst} = {name} {src} to {shape}"),
            Instruction::MakeScalar { dst, src, dtype } => write!(f, "{dst} = {name} {src} as {dtype}"),
            Instruction::IntOp { dst, lhs, rhs, .. } => write!(f, "{dst} = {name} {lhs}, {rhs}"),
            Instruction::CheckTensor { src, dtype, dims, context } => {
                write!(f, "{name} {src} is ")?;
                match dtype {
                    Some(dtype) => write!(f, "{dtype}")?,
                    None => write!(f, "_")?,
                }
                if let Some(dims) = dims {
                    write!(f, "{}", List(dims))?;
                }
                write!(f, " // {context}")
            }
            Instruction::CheckShape { src, dims, context } => {
                write!(f, "{name} {src} is {} // {context}", List(dims))
            }
            Instruction::CheckBound { src, bound, dim, arg, axis } => {
                write!(f, "{name} {src} is {bound} // dimension `{dim}`, argument `{arg}`")?;
                axis.map_or(Ok(()), |axis| write!(f, " axis {axis}"))
            }
            Instruction::CheckIndices { src, extents, context } => {
                write!(f, "{name} {src} within {extents} // {context}")
            }
            Instruction::DeviceCopy { dst, src, device } => write!(f, "{dst} = {name} {src} to {device}"),
            Instruction::KillRegister { reg } => write!(f, "{name} {reg}"),
            Instruction::RefSet { cell, src } => write!(f, "{name} {cell} = {src}"),
            Instruction::Fatal { message } => write!(f, "{name} {message:?}"),
        }
    }
}

impl VmFunction {
    fn fmt_in(&self, exe: &Executable, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}fn {}(", if self.public { "pub " } else { "" }, self.name)?;
        for (i, param) in self.params.iter().enumerate() {
            write!(f, "{}%{i} {}: {}", if i == 0 { "" } else { ", " }, param.name, param.ty)?;
        }
        writeln!(f, ") -> {} {{ // {} registers", self.ret, self.num_regs)?;
        for (pc, instruction) in self.code.iter().enumerate() {
            writeln!(f, "{pc:>5}: {}", Named(exe, instruction))?;
        }
        writeln!(f, "}}")
    }
}

/// The whole program in readable form; tensors of the constant pool are shown by type and shape.
impl fmt::Display for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "target {:?}", self.target)?;
        for (key, value) in &self.metadata {
            writeln!(f, "metadata {key}: {value:?}")?;
        }
        for (i, constant) in self.constants.iter().enumerate() {
            match constant {
                Constant::Tensor(it) => writeln!(f, "const c{i}: {}{:?}", it.dtype(), it.shape())?,
                other => writeln!(f, "const c{i}: {other:?}")?,
            }
        }
        self.kernels.iter().try_for_each(|sig| writeln!(f, "kernel {sig}"))?;
        self.packed.iter().try_for_each(|name| writeln!(f, "packed {name}"))?;
        for object in &self.objects {
            writeln!(f, "object {} ({:?}, {} bytes)", object.name, object.kind, object.bytes.len())?;
        }
        self.functions.iter().try_for_each(|func| {
            writeln!(f)?;
            func.fmt_in(self, f)
        })
    }
}
