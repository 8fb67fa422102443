//! The verifier: checks an [`Executable`] before its first instruction runs.
//!
//! The rules, which errors cite by number:
//! - V1 names of functions are unique and not empty; names of kernels are unique.
//! - V2 a function has a register for each parameter, and at most [`MAX_REGS`].
//! - V3 every register that an instruction names belongs to the function.
//! - V4 every function, kernel, packed function and constant that an instruction names exists.
//! - V5 every jump goes to an instruction of the same function.
//! - V6 a function has code, and its last instruction does not fall through.
//! - V7 functions and kernels are called with as many arguments as they have parameters; a closure captures no more.
//! - V8 a constant shape is not negative and its size fits; an alignment is a power of two up to [`MAX_ALIGN`].
//! - V9 elements of tensors are scalars and not handles; constant tensors are on the host.
//!
//! Whether a register was written before it is read, and holds the kind of value that the instruction needs, is checked
//! at run time.

use std::collections::HashSet;

use super::executable::{Constant, Executable, VmFunction};
use super::instruction::{DimCheck, Instruction, IntOperand, Pc, Reg};
use crate::device::Device;
use crate::dtype::DataType;
use crate::tensor::byte_size;

/// Maximum number of registers of one function.
pub const MAX_REGS: u32 = 1 << 20;
/// Largest alignment of a storage, in bytes.
pub const MAX_ALIGN: u32 = 4096;

/// A violation of a rule by bytecode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid bytecode: {location}: {message} ({rule})")]
pub struct VerifyError {
    /// Number of the rule.
    pub rule: &'static str,
    /// Function and instruction, or table, of the violation.
    pub location: String,
    /// Description of the violation.
    pub message: String,
}

/// Checks all rules; returns the first violation.
pub fn verify(exe: &Executable) -> Result<(), VerifyError> {
    let fail = |rule, location: String, message: String| Err(VerifyError { rule, location, message });
    let mut names = HashSet::new();
    for (i, func) in exe.functions.iter().enumerate() {
        if func.name.is_empty() || !names.insert(&*func.name) {
            return fail(
                "V1",
                format!("function {i}"),
                format!("its name `{}` is empty or taken", func.name),
            );
        }
    }
    let mut names = HashSet::new();
    for sig in &exe.kernels {
        if !names.insert(&sig.name) {
            return fail("V1", "kernels".into(), format!("`{}` occurs twice", sig.name));
        }
    }
    for (i, constant) in exe.constants.iter().enumerate() {
        if let Constant::Tensor(tensor) = constant
            && (tensor.device() != Device::cpu() || !is_element(tensor.dtype()))
        {
            return fail("V9", format!("constant {i}"), format!("{} on {}", tensor.dtype(), tensor.device()));
        }
    }
    for func in &exe.functions {
        let error = |(rule, pc, message): Broken| {
            let location = match pc {
                Some(pc) => format!("`{}` at {pc}", func.name),
                None => format!("`{}`", func.name),
            };
            VerifyError { rule, location, message }
        };
        verify_function(exe, func).map_err(error)?;
    }
    Ok(())
}

type Broken = (&'static str, Option<usize>, String);

fn verify_function(exe: &Executable, func: &VmFunction) -> Result<(), Broken> {
    let (num_params, num_regs) = (func.params.len(), func.num_regs);
    if num_regs > MAX_REGS || num_params > num_regs as usize {
        return Err((
            "V2",
            None,
            format!("{num_regs} registers for {num_params} parameter(s), at most {MAX_REGS}"),
        ));
    }
    match func.code.last() {
        Some(last) if !last.falls_through() => {}
        Some(_) => return Err(("V6", None, "its last instruction falls through".into())),
        None => return Err(("V6", None, "it has no code".into())),
    }
    for (pc, instruction) in func.code.iter().enumerate() {
        let checker = Checker { exe, func };
        checker.check(instruction).map_err(|(rule, message)| (rule, Some(pc), message))?;
    }
    Ok(())
}

fn is_element(dtype: DataType) -> bool {
    dtype.is_scalar() && !dtype.is_handle() && dtype.bytes() > 0
}

impl Instruction {
    /// True if execution may continue with the next instruction.
    pub fn falls_through(&self) -> bool {
        !matches!(
            self,
            Instruction::Ret { .. }
                | Instruction::TailInvoke { .. }
                | Instruction::TailInvokeClosure { .. }
                | Instruction::If { .. }
                | Instruction::Goto { .. }
                | Instruction::Fatal { .. }
        )
    }
}

struct Checker<'a> {
    exe: &'a Executable,
    func: &'a VmFunction,
}

type Check = Result<(), (&'static str, String)>;

impl Checker<'_> {
    fn regs<'a>(&self, regs: impl IntoIterator<Item = &'a Reg>) -> Check {
        match regs.into_iter().find(|reg| reg.0 >= self.func.num_regs) {
            Some(reg) => Err(("V3", format!("register {reg} of {}", self.func.num_regs))),
            None => Ok(()),
        }
    }

    fn ints<'a>(&self, operands: impl IntoIterator<Item = &'a IntOperand>) -> Check {
        operands.into_iter().try_for_each(|operand| match operand {
            IntOperand::Const(_) => Ok(()),
            IntOperand::Reg(reg) => self.regs([reg]),
        })
    }

    fn dims(&self, dims: &[DimCheck]) -> Check {
        dims.iter().try_for_each(|dim| match dim {
            DimCheck::Any | DimCheck::Const(_) => Ok(()),
            DimCheck::Reg(reg) | DimCheck::Bind(reg) => self.regs([reg]),
        })
    }

    fn pcs(&self, pcs: &[Pc]) -> Check {
        match pcs.iter().find(|pc| pc.index() >= self.func.code.len()) {
            Some(pc) => Err(("V5", format!("jump to {pc} of {}", self.func.code.len()))),
            None => Ok(()),
        }
    }

    fn index(&self, index: u32, len: usize, what: &str) -> Check {
        if (index as usize) < len { Ok(()) } else { Err(("V4", format!("{what} {index} of {len}"))) }
    }

    /// Checks the function index; returns the function's number of parameters.
    fn callee(&self, func: u32) -> Result<usize, (&'static str, String)> {
        self.index(func, self.exe.functions.len(), "function")?;
        Ok(self.exe.functions[func as usize].params.len())
    }

    fn arity(&self, expected: usize, got: usize) -> Check {
        if expected == got { Ok(()) } else { Err(("V7", format!("{got} argument(s), expected {expected}"))) }
    }

    fn dtype(&self, dtype: DataType) -> Check {
        if is_element(dtype) { Ok(()) } else { Err(("V9", format!("elements of type {dtype}"))) }
    }

    fn check(&self, instruction: &Instruction) -> Check {
        match instruction {
            Instruction::Move { dst, src }
            | Instruction::MakeUnique { dst, src }
            | Instruction::GetField { dst, src, .. }
            | Instruction::GetTag { dst, src }
            | Instruction::ShapeOf { dst, src }
            | Instruction::ShapeDim { dst, src, .. }
            | Instruction::ShapeToTensor { dst, src }
            | Instruction::TensorToShape { dst, src }
            | Instruction::ReadScalar { dst, src }
            | Instruction::DeviceCopy { dst, src, .. }
            | Instruction::RefNew { dst, src }
            | Instruction::RefGet { dst, src }
            | Instruction::RefSet { cell: dst, src } => self.regs([dst, src]),
            Instruction::Ret { src: reg }
            | Instruction::KillRegister { reg }
            | Instruction::LoadConsti { dst: reg, .. } => self.regs([reg]),
            Instruction::Invoke { dst, func, args } => {
                self.arity(self.callee(func.0)?, args.len())?;
                self.regs(args.iter().chain([dst]))
            }
            Instruction::TailInvoke { func, args } => {
                self.arity(self.callee(func.0)?, args.len())?;
                self.regs(args)
            }
            Instruction::InvokeClosure { dst, closure, args } => self.regs(args.iter().chain([dst, closure])),
            Instruction::TailInvokeClosure { closure, args } => self.regs(args.iter().chain([closure])),
            Instruction::InvokeKernel { kernel, args } => {
                self.index(kernel.0, self.exe.kernels.len(), "kernel")?;
                self.arity(self.exe.kernels[kernel.index()].params.len(), args.len())?;
                self.regs(args)
            }
            Instruction::InvokePacked { dst, func, args } => {
                self.index(func.0, self.exe.packed.len(), "packed function")?;
                self.regs(args.iter().chain([dst]))
            }
            Instruction::InvokeDpsPacked { func, inputs, outputs } => {
                self.index(func.0, self.exe.packed.len(), "packed function")?;
                self.regs(inputs.iter().chain(outputs))
            }
            Instruction::AllocStorage { dst, size, align, .. } => {
                if !align.is_power_of_two() || *align > MAX_ALIGN {
                    return Err(("V8", format!("alignment {align}")));
                }
                self.regs([dst])?;
                self.ints([size])
            }
            Instruction::AllocTensor { dst, storage, offset, dtype, shape } => {
                self.dtype(*dtype)?;
                if byte_size(shape, *dtype).is_none() {
                    return Err(("V8", format!("shape {shape:?} of {dtype}")));
                }
                self.regs([dst, storage])?;
                self.ints([offset])
            }
            Instruction::AllocTensorReg { dst, storage, offset, dtype, shape, .. } => {
                self.dtype(*dtype)?;
                self.regs([dst, storage, shape])?;
                self.ints([offset])
            }
            Instruction::MakeScalar { dst, src, dtype } => {
                self.dtype(*dtype)?;
                self.regs([dst, src])
            }
            Instruction::AllocADT { dst, fields, .. } => self.regs(fields.iter().chain([dst])),
            Instruction::AllocClosure { dst, func, captured } => {
                let params = self.callee(func.0)?;
                if captured.len() > params {
                    return Err((
                        "V7",
                        format!("{} captured value(s) for {params} parameter(s)", captured.len()),
                    ));
                }
                self.regs(captured.iter().chain([dst]))
            }
            Instruction::If { test, on_eq, on_ne, .. } => {
                self.regs([test])?;
                self.pcs(&[*on_eq, *on_ne])
            }
            Instruction::Goto { target } => self.pcs(&[*target]),
            Instruction::LoadConst { dst, index } => {
                self.index(index.0, self.exe.constants.len(), "constant")?;
                self.regs([dst])
            }
            Instruction::MakeShape { dst, dims } => {
                self.regs([dst])?;
                self.ints(dims)
            }
            Instruction::ReshapeTensor { dst, src, shape } => self.regs([dst, src, shape]),
            Instruction::IntOp { dst, lhs, rhs, .. } => {
                self.regs([dst])?;
                self.ints([lhs, rhs])
            }
            Instruction::CheckTensor { src, dims, .. } => {
                self.regs([src])?;
                self.dims(dims.as_deref().unwrap_or_default())
            }
            Instruction::CheckShape { src, dims, .. } => {
                self.regs([src])?;
                self.dims(dims)
            }
            Instruction::CheckBound { src, .. } => self.regs([src]),
            Instruction::CheckIndices { src, extents, .. } => self.regs([src, extents]),
            Instruction::Fatal { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim_bound::DimBound;
    use crate::kernel::KernelSig;
    use crate::tensor::Tensor;
    use crate::vm::Instruction as I;
    use crate::vm::{ConstIdx, FuncIdx, IntOpKind, KernelIdx, PackedIdx, ValueType, VmParam};

    fn reg(reg: u32) -> Reg {
        Reg(reg)
    }

    /// A program of one function (one parameter, two registers), a constant, a kernel without parameters, and a packed
    /// function.
    fn program(code: Vec<Instruction>) -> Executable {
        let params = vec![VmParam { name: "x".into(), ty: ValueType::Object }];
        let ret = ValueType::Object;
        Executable {
            functions: vec![VmFunction { name: "f".into(), params, ret, num_regs: 2, public: true, code }],
            constants: vec![Constant::Int(1)],
            kernels: vec![KernelSig { name: "k".into(), params: vec![] }],
            packed: vec!["p".into()],
            ..Executable::default()
        }
    }

    fn rule(exe: &Executable) -> Option<&'static str> {
        verify(exe).err().map(|err| err.rule)
    }

    #[test]
    fn each_rule_is_checked_in_each_instruction() {
        let (ok, bad) = (reg(1), reg(2));
        let int = IntOperand::Reg(bad);
        let (dtype, device) = (DataType::F32, Device::cpu());
        let shape = || [1i64].into();
        let handle = DataType::HANDLE;
        let good = || IntOperand::Const(0);
        let storage = |align| I::AllocStorage { dst: ok, size: good(), align, device };
        let tensor = |dtype, shape| I::AllocTensor { dst: ok, storage: ok, offset: good(), dtype, shape };
        let tensor_reg = |dtype, shape| I::AllocTensorReg {
            dst: ok,
            storage: ok,
            offset: good(),
            dtype,
            shape,
            max_bytes: None,
        };
        let cases = [
            ("V3", I::Move { dst: bad, src: ok }),
            ("V3", I::Move { dst: ok, src: bad }),
            ("V3", I::Move { dst: reg(u32::MAX), src: ok }),
            ("V3", I::Ret { src: bad }),
            ("V3", I::Invoke { dst: bad, func: FuncIdx(0), args: [ok].into() }),
            ("V3", I::Invoke { dst: ok, func: FuncIdx(0), args: [bad].into() }),
            ("V4", I::Invoke { dst: ok, func: FuncIdx(1), args: [ok].into() }),
            ("V7", I::Invoke { dst: ok, func: FuncIdx(0), args: [].into() }),
            ("V3", I::TailInvoke { func: FuncIdx(0), args: [bad].into() }),
            ("V4", I::TailInvoke { func: FuncIdx(9), args: [ok].into() }),
            ("V7", I::TailInvoke { func: FuncIdx(0), args: [ok, ok].into() }),
            ("V3", I::InvokeClosure { dst: ok, closure: bad, args: [].into() }),
            ("V3", I::InvokeClosure { dst: ok, closure: ok, args: [bad].into() }),
            ("V3", I::TailInvokeClosure { closure: bad, args: [].into() }),
            ("V4", I::InvokeKernel { kernel: KernelIdx(1), args: [].into() }),
            ("V7", I::InvokeKernel { kernel: KernelIdx(0), args: [ok].into() }),
            ("V4", I::InvokePacked { dst: ok, func: PackedIdx(1), args: [].into() }),
            ("V3", I::InvokePacked { dst: ok, func: PackedIdx(0), args: [bad].into() }),
            ("V4", I::InvokeDpsPacked { func: PackedIdx(1), inputs: [].into(), outputs: [].into() }),
            ("V3", I::InvokeDpsPacked { func: PackedIdx(0), inputs: [bad].into(), outputs: [].into() }),
            ("V3", I::InvokeDpsPacked { func: PackedIdx(0), inputs: [].into(), outputs: [bad].into() }),
            ("V3", I::MakeUnique { dst: ok, src: bad }),
            ("V3", I::MakeUnique { dst: bad, src: ok }),
            ("V8", storage(0)),
            ("V8", storage(3)),
            ("V8", storage(8192)),
            ("V3", I::AllocStorage { dst: ok, size: int, align: 1, device }),
            ("V8", tensor(dtype, [-1].into())),
            ("V8", tensor(dtype, [i64::MAX].into())),
            ("V9", tensor(handle, shape())),
            ("V9", tensor(dtype.with_lanes(4), shape())),
            ("V3", I::AllocTensor { dst: ok, storage: bad, offset: good(), dtype, shape: shape() }),
            ("V3", I::AllocTensor { dst: ok, storage: ok, offset: int, dtype, shape: shape() }),
            ("V3", tensor_reg(dtype, bad)),
            ("V9", tensor_reg(handle, ok)),
            ("V3", I::AllocADT { dst: ok, tag: 0, fields: [bad].into() }),
            ("V4", I::AllocClosure { dst: ok, func: FuncIdx(1), captured: [].into() }),
            ("V7", I::AllocClosure { dst: ok, func: FuncIdx(0), captured: [ok, ok].into() }),
            ("V3", I::AllocClosure { dst: ok, func: FuncIdx(0), captured: [bad].into() }),
            ("V3", I::GetField { dst: ok, src: bad, index: 0 }),
            ("V5", I::If { test: ok, target: 0, on_eq: Pc(0), on_ne: Pc(2) }),
            ("V5", I::If { test: ok, target: 0, on_eq: Pc(2), on_ne: Pc(0) }),
            ("V5", I::Goto { target: Pc(u32::MAX) }),
            ("V4", I::LoadConst { dst: ok, index: ConstIdx(1) }),
            ("V3", I::LoadConsti { dst: bad, value: 0 }),
            ("V3", I::MakeShape { dst: ok, dims: [int].into() }),
            ("V3", I::ReshapeTensor { dst: ok, src: ok, shape: bad }),
            ("V3", I::CheckIndices { src: bad, extents: ok, context: "".into() }),
            ("V3", I::CheckIndices { src: ok, extents: bad, context: "".into() }),
            ("V9", I::MakeScalar { dst: ok, src: ok, dtype: handle }),
            ("V3", I::IntOp { op: IntOpKind::Add, dst: ok, lhs: int, rhs: good() }),
            ("V3", I::IntOp { op: IntOpKind::Add, dst: ok, lhs: good(), rhs: int }),
            ("V3", I::CheckShape { src: ok, dims: [DimCheck::Reg(bad)].into(), context: "".into() }),
            (
                "V3",
                I::CheckBound { src: bad, bound: DimBound::ANY, dim: "".into(), arg: "".into(), axis: None },
            ),
            (
                "V3",
                I::CheckTensor {
                    src: ok,
                    dtype: None,
                    dims: Some([DimCheck::Bind(bad)].into()),
                    context: "".into(),
                },
            ),
            ("V3", I::KillRegister { reg: bad }),
            ("V3", I::RefSet { cell: bad, src: ok }),
        ];
        for (expected, instruction) in cases {
            let text = format!("{instruction:?}");
            let exe = program(vec![instruction, I::Ret { src: ok }]);
            assert_eq!(rule(&exe), Some(expected), "{text}");
        }
    }

    #[test]
    fn tables_are_checked() {
        let ret = || vec![I::Ret { src: reg(0) }];
        assert_eq!(rule(&program(ret())), None);
        assert_eq!(rule(&program(vec![])), Some("V6"));
        assert_eq!(rule(&program(vec![I::KillRegister { reg: reg(0) }])), Some("V6"));
        type Break = fn(&mut Executable);
        let cases: [(&str, Break); 7] = [
            ("V1", |exe| exe.functions.push(exe.functions[0].clone())),
            ("V1", |exe| exe.functions[0].name = "".into()),
            ("V1", |exe| exe.kernels.push(exe.kernels[0].clone())),
            ("V2", |exe| exe.functions[0].num_regs = 0),
            ("V2", |exe| exe.functions[0].num_regs = MAX_REGS + 1),
            ("V9", |exe| {
                let tensor = Tensor::zeros(&[1], DataType::F32.with_lanes(2));
                exe.constants.extend(tensor.map(Constant::Tensor));
            }),
            ("V9", |exe| {
                exe.constants.extend(Tensor::zeros(&[1], DataType::HANDLE).map(Constant::Tensor));
            }),
        ];
        for (expected, spoil) in cases {
            let mut exe = program(ret());
            spoil(&mut exe);
            assert_eq!(rule(&exe), Some(expected));
        }
        let err = verify(&program(vec![I::Ret { src: reg(7) }])).unwrap_err();
        assert_eq!(err.to_string(), "invalid bytecode: `f` at 0: register %7 of 2 (V3)");
    }
}
