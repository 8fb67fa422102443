//! The host's part of a program, as data: from the shapes and scalars of a call to its [`LaunchPlan`].
//!
//! A [`HostProgram`] is a list of instructions on registers. Compilers write it, artifacts carry it, and running it needs neither
//! a compiler nor memory of the GPU. TVM counterpart: the host function that `SplitHostDevice` leaves, which is machine code
//! there.
//!
//! Requires nothing of the instructions: [`HostProgram::verify`] finds registers, jumps and kernels that do not exist, and whatever a
//! verified program does, planning ends with a plan or with an error, after a limited number of steps.

use super::number::Number;
use super::{Argument, HostOp, KernelFailure, LaunchArg, LaunchError, LaunchPlan, Step};
use crate::abi::pack_dtype;
use crate::dtype::DataType;

/// The number of a register of a [`HostProgram`].
pub type HostReg = u32;

/// What an instruction asks of an argument of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostQuery {
    /// The memory of a tensor.
    Data,
    /// The number of its dimensions.
    Ndim,
    /// Its element type, as `pack_dtype` writes it.
    DType,
    /// Whether it is compact.
    IsCompact,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostParam {
    /// The memory that the register holds.
    Memory(HostReg),
    /// The number that the register holds, as one of this type.
    Scalar(HostReg, DataType),
    /// Where the first failed assertion is recorded.
    Failure,
}

/// An instruction. Jumps name the place of an instruction in the list, or its end, which ends the plan.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the comments of the variants name the fields")]
pub enum HostInstr {
    /// `dst = value`
    Int { dst: HostReg, value: i64 },
    /// `dst = value`
    Float { dst: HostReg, value: f64 },
    /// `dst = src`
    Copy { dst: HostReg, src: HostReg },
    /// `dst = src`, which is of type `from`, as a number of type `to`.
    Cast { dst: HostReg, src: HostReg, from: DataType, to: DataType },
    /// `dst = src == 0`
    Not { dst: HostReg, src: HostReg },
    /// `dst = a op b`, of operands of type `dtype`.
    Binary { op: HostOp, dst: HostReg, a: HostReg, b: HostReg, dtype: DataType },
    /// `dst` is whether the float `src` is not a number.
    IsNan { dst: HostReg, src: HostReg },
    /// `dst` is whether the float `src` is infinite.
    IsInf { dst: HostReg, src: HostReg },
    /// `dst` is the number of arguments.
    Count { dst: HostReg },
    /// `dst` is what `what` asks of the argument whose number is in `arg`.
    Query { what: HostQuery, dst: HostReg, arg: HostReg },
    /// `dst` is the extent of the axis in `axis` of that argument; 0 if it has no such axis.
    Shape { dst: HostReg, arg: HostReg, axis: HostReg },
    /// `dst` is that argument, a scalar of type `dtype`.
    Scalar { dst: HostReg, arg: HostReg, dtype: DataType },
    /// Goes on at `to`.
    Jump { to: u32 },
    /// Goes on at `to` if `test` is 0.
    JumpIfZero { test: HostReg, to: u32 },
    /// Goes on at `to` unless `a < b`, as signed integers.
    JumpUnlessLess { a: HostReg, b: HostReg, to: u32 },
    /// `dst` is memory for the product of `extents` elements of `bytes` bytes; `name` is for errors.
    Alloc { dst: HostReg, name: String, bytes: u64, extents: Vec<HostReg> },
    /// Launches a kernel with the extents of its grid and its block, and so many bytes of shared memory beside those that its code says.
    /// Without any thread, nothing is launched.
    Launch { kernel: u32, name: String, extents: [HostReg; 6], shared: HostReg, params: Vec<HostParam> },
    /// An assertion does not hold.
    Fail { failure: KernelFailure, expected: HostReg, got: HostReg },
    /// The host cannot do this.
    Refuse { message: String },
}

/// The host's part of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostProgram {
    /// How many registers there are. They are 0 before the first instruction.
    pub registers: u32,
    /// The instructions.
    pub code: Vec<HostInstr>,
}

/// The most registers of a program.
const MAX_REGISTERS: u32 = 1 << 20;
/// The most instructions that one plan takes.
const MAX_STEPS: u64 = 1 << 24;
/// The most memories, launches and parameters of one plan, together.
const MAX_ENTRIES: usize = 1 << 22;

impl HostProgram {
    /// Checks the numbers of registers, jumps and kernels, and types.
    ///
    /// # Errors
    /// With the first violation, for a program with this number of kernels.
    pub fn verify(&self, kernels: usize) -> Result<(), String> {
        if self.registers > MAX_REGISTERS {
            return Err(format!("{} registers, at most {MAX_REGISTERS}", self.registers));
        }
        if self.code.len() > u32::MAX as usize {
            return Err("too many instructions".into());
        }
        for (at, instr) in self.code.iter().enumerate() {
            self.check(instr, kernels).map_err(|message| format!("host instruction {at}: {message}"))?;
        }
        Ok(())
    }

    fn check(&self, instr: &HostInstr, kernels: usize) -> Result<(), String> {
        let regs = |regs: &[HostReg]| match regs.iter().find(|it| **it >= self.registers) {
            Some(reg) => Err(format!("register {reg} of {}", self.registers)),
            None => Ok(()),
        };
        let place = |to: u32| {
            let known = to as usize <= self.code.len();
            known.then_some(()).ok_or_else(|| format!("a jump to {to} of {}", self.code.len()))
        };
        let number = |dtype: DataType| {
            let known = dtype.is_scalar() && dtype.bits() <= 64 && !dtype.is_handle();
            known.then_some(()).ok_or_else(|| format!("{dtype} is no number"))
        };
        match instr {
            HostInstr::Int { dst, .. } | HostInstr::Float { dst, .. } | HostInstr::Count { dst } => {
                regs(&[*dst])
            }
            HostInstr::Copy { dst, src }
            | HostInstr::Not { dst, src }
            | HostInstr::IsNan { dst, src }
            | HostInstr::IsInf { dst, src }
            | HostInstr::Query { dst, arg: src, .. } => regs(&[*dst, *src]),
            HostInstr::Cast { dst, src, from, to } => {
                number(*from)?;
                number(*to)?;
                regs(&[*dst, *src])
            }
            HostInstr::Binary { dst, a, b, dtype, .. } => {
                number(*dtype)?;
                regs(&[*dst, *a, *b])
            }
            HostInstr::Shape { dst, arg, axis } => regs(&[*dst, *arg, *axis]),
            HostInstr::Scalar { dst, arg, dtype } => {
                number(*dtype)?;
                regs(&[*dst, *arg])
            }
            HostInstr::Jump { to } => place(*to),
            HostInstr::JumpIfZero { test, to } => {
                place(*to)?;
                regs(&[*test])
            }
            HostInstr::JumpUnlessLess { a, b, to } => {
                place(*to)?;
                regs(&[*a, *b])
            }
            HostInstr::Alloc { dst, extents, .. } => {
                regs(&[*dst])?;
                regs(extents)
            }
            HostInstr::Launch { kernel, extents, shared, params, .. } => {
                if *kernel as usize >= kernels {
                    return Err(format!("kernel {kernel} of {kernels}"));
                }
                for param in params {
                    match *param {
                        HostParam::Memory(reg) => regs(&[reg])?,
                        HostParam::Scalar(reg, dtype) => {
                            number(dtype)?;
                            regs(&[reg])?;
                        }
                        HostParam::Failure => {}
                    }
                }
                regs(extents)?;
                regs(&[*shared])
            }
            HostInstr::Fail { expected, got, .. } => regs(&[*expected, *got]),
            HostInstr::Refuse { .. } => Ok(()),
        }
    }

    /// Plans a call with these arguments.
    ///
    /// # Errors
    /// When an argument does not fit, a launch is too large, or the program is malformed or does not end.
    pub fn plan(&self, args: &[LaunchArg<'_>]) -> Result<LaunchPlan, LaunchError> {
        let registers = vec![Number::Int(0); self.registers.min(MAX_REGISTERS) as usize];
        let mut run = Run { args, registers, plan: LaunchPlan::default(), entries: 0 };
        let (mut at, mut steps) = (0usize, 0u64);
        while let Some(instr) = self.code.get(at) {
            steps += 1;
            if steps > MAX_STEPS {
                return refused("the host's part of the program takes too many steps");
            }
            at = run.step(instr)?.map_or(at + 1, |to| to as usize);
        }
        Ok(run.plan)
    }
}

fn refused<T>(message: impl Into<String>) -> Result<T, LaunchError> {
    Err(LaunchError::Refused(message.into()))
}

fn too_large(name: &str, extent: i64) -> LaunchError {
    LaunchError::Refused(format!("an extent of `{name}` is {extent}, expected 0 to {}", u32::MAX))
}

/// A plan that is being made.
struct Run<'a> {
    args: &'a [LaunchArg<'a>],
    registers: Vec<Number>,
    plan: LaunchPlan,
    /// Memories, launches and parameters so far.
    entries: usize,
}

impl Run<'_> {
    /// Does one instruction; returns where to go on, if that is not the next one.
    fn step(&mut self, instr: &HostInstr) -> Result<Option<u32>, LaunchError> {
        match *instr {
            HostInstr::Int { dst, value } => self.set(dst, Number::Int(value))?,
            HostInstr::Float { dst, value } => self.set(dst, Number::Float(value))?,
            HostInstr::Copy { dst, src } => self.set(dst, self.get(src)?)?,
            HostInstr::Cast { dst, src, from, to } => match self.get(src)?.cast(from, to) {
                Some(value) => self.set(dst, value)?,
                None => return refused(format!("the host cannot evaluate a cast to {to}")),
            },
            HostInstr::Not { dst, src } => self.set(dst, Number::Int((self.int(src)? == 0).into()))?,
            HostInstr::Binary { op, dst, a, b, dtype } => {
                let value = match (self.get(a)?, self.get(b)?) {
                    (Number::Int(a), Number::Int(b)) => op.ints(a, b, dtype).map(Number::Int),
                    (Number::Float(a), Number::Float(b)) => op.floats(a, b, dtype),
                    _ => None,
                };
                let Some(value) = value else {
                    return refused(format!("the host cannot evaluate {op:?} of these numbers of {dtype}"));
                };
                self.set(dst, value)?;
            }
            HostInstr::IsNan { dst, src } => {
                self.set(dst, Number::Int(self.float(src)?.is_nan().into()))?;
            }
            HostInstr::IsInf { dst, src } => {
                self.set(dst, Number::Int(self.float(src)?.is_infinite().into()))?;
            }
            HostInstr::Count { dst } => self.set(dst, Number::Int(self.args.len() as i64))?,
            HostInstr::Query { what, dst, arg } => {
                let (number, arg) = self.arg(arg)?;
                let LaunchArg::Tensor { shape, dtype } = arg else {
                    return refused(format!("argument {number} is no tensor"));
                };
                let value = match what {
                    HostQuery::Data => Number::Memory(number),
                    HostQuery::Ndim => Number::Int(shape.len() as i64),
                    HostQuery::DType => Number::Int(pack_dtype(dtype)),
                    // Whoever calls the program has checked it.
                    HostQuery::IsCompact => Number::Int(1),
                };
                self.set(dst, value)?;
            }
            HostInstr::Shape { dst, arg, axis } => {
                let (number, arg) = self.arg(arg)?;
                let LaunchArg::Tensor { shape, .. } = arg else {
                    return refused(format!("argument {number} is no tensor"));
                };
                let axis = usize::try_from(self.int(axis)?).ok();
                let extent = axis.and_then(|it| shape.get(it)).copied().unwrap_or(0);
                self.set(dst, Number::Int(extent))?;
            }
            HostInstr::Scalar { dst, arg, dtype } => {
                let value = match self.arg(arg)? {
                    (_, LaunchArg::Int(value)) if !dtype.is_float() => {
                        Number::Int(super::number::wrap_int(value.into(), dtype))
                    }
                    (_, LaunchArg::Float(value)) if dtype.is_float() => Number::Float(value),
                    (number, _) => return refused(format!("argument {number} is no scalar of type {dtype}")),
                };
                self.set(dst, value)?;
            }
            HostInstr::Jump { to } => return Ok(Some(to)),
            HostInstr::JumpIfZero { test, to } => return Ok((self.int(test)? == 0).then_some(to)),
            HostInstr::JumpUnlessLess { a, b, to } => {
                return Ok((self.int(a)? >= self.int(b)?).then_some(to));
            }
            HostInstr::Alloc { dst, ref name, bytes, ref extents } => {
                let mut bytes = bytes;
                for extent in extents {
                    let extent = self.int(*extent)?;
                    let size = u64::try_from(extent).ok().and_then(|it| bytes.checked_mul(it));
                    bytes = size.ok_or_else(|| too_large(name, extent))?;
                }
                self.grow(1)?;
                self.set(dst, Number::Memory(self.args.len() + self.plan.memories.len()))?;
                self.plan.memories.push(bytes);
            }
            HostInstr::Launch { kernel, ref name, extents, shared, ref params } => {
                self.launch(kernel, name, extents, shared, params)?;
            }
            HostInstr::Fail { ref failure, expected, got } => {
                let (expected, got) = (self.int(expected)?, self.int(got)?);
                return Err(LaunchError::Failed { failure: failure.clone(), expected, got });
            }
            HostInstr::Refuse { ref message } => return refused(message.clone()),
        }
        Ok(None)
    }

    fn launch(
        &mut self,
        kernel: u32,
        name: &str,
        extents: [HostReg; 6],
        shared: HostReg,
        params: &[HostParam],
    ) -> Result<(), LaunchError> {
        let mut all = [0u32; 6];
        for (place, extent) in all.iter_mut().zip(extents) {
            let extent = self.int(extent)?;
            if extent <= 0 {
                // No thread at all.
                return Ok(());
            }
            *place = u32::try_from(extent).map_err(|_| too_large(name, extent))?;
        }
        let [grid, block] = [0, 3].map(|at| [all[at], all[at + 1], all[at + 2]]);
        let shared = self.int(shared)?;
        let shared = u32::try_from(shared).map_err(|_| too_large(name, shared))?;
        self.grow(1 + params.len())?;
        let known = self.args.len() + self.plan.memories.len();
        let mut args = Vec::with_capacity(params.len());
        for param in params {
            args.push(match *param {
                HostParam::Memory(reg) => match self.get(reg)? {
                    Number::Memory(memory) if memory < known => Argument::Memory(memory),
                    _ => return refused(format!("a parameter of `{name}` is no memory")),
                },
                HostParam::Scalar(reg, dtype) => match self.get(reg)?.bits(dtype) {
                    Some(bits) => Argument::Scalar(bits, dtype),
                    None => return refused(format!("a parameter of `{name}` is no number")),
                },
                HostParam::Failure => Argument::Failure,
            });
        }
        self.plan.steps.push(Step::Launch { kernel: kernel as usize, grid, block, shared, args });
        Ok(())
    }

    fn grow(&mut self, entries: usize) -> Result<(), LaunchError> {
        self.entries = self.entries.saturating_add(entries);
        if self.entries > MAX_ENTRIES { refused("the call has too many launches") } else { Ok(()) }
    }

    fn set(&mut self, reg: HostReg, value: Number) -> Result<(), LaunchError> {
        match self.registers.get_mut(reg as usize) {
            Some(place) => *place = value,
            None => return refused(format!("register {reg} does not exist")),
        }
        Ok(())
    }

    fn get(&self, reg: HostReg) -> Result<Number, LaunchError> {
        let value = self.registers.get(reg as usize).copied();
        value.ok_or_else(|| LaunchError::Refused(format!("register {reg} does not exist")))
    }

    fn int(&self, reg: HostReg) -> Result<i64, LaunchError> {
        match self.get(reg)? {
            Number::Int(value) => Ok(value),
            Number::Float(_) | Number::Memory(_) => refused("the host cannot evaluate this as an integer"),
        }
    }

    fn float(&self, reg: HostReg) -> Result<f64, LaunchError> {
        match self.get(reg)? {
            Number::Float(value) => Ok(value),
            Number::Int(_) | Number::Memory(_) => refused("the host cannot evaluate this as a float"),
        }
    }

    /// The argument whose number is in `reg`.
    fn arg(&self, reg: HostReg) -> Result<(usize, LaunchArg<'_>), LaunchError> {
        let number = self.int(reg)?;
        let arg = usize::try_from(number).ok().and_then(|at| Some((at, *self.args.get(at)?)));
        arg.ok_or_else(|| LaunchError::Refused(format!("there is no argument {number}")))
    }
}
