//! Kernels for GPUs in artifacts: the bytes of an object of the kind [`ObjectKind::GpuKernels`].
//!
//! An object has the code of one unit for one architecture, the names of its kernels, what their assertions report, and the host's
//! part of each program. Requires nothing of the bytes that are read: the numbers in them are checked here, before anything is planned.
//! The code itself is for the driver, and needs the same trust as a program.
//!
//! TVM counterpart: the binary of a `CUDAModuleNode`, and the functions that launch it.

use super::ArtifactError;
use super::codec::{Codec, Reader, Writer, enums, structs};
use crate::error::RuntimeError;
use crate::launch::{
    CodeFormat, HostInstr, HostOp, HostParam, HostProgram, HostQuery, KernelFailure, gpu_arch,
};
use crate::vm::{CodeObject, ObjectKind};

/// The kernels of some programs, compiled for one architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuUnit<'a> {
    /// Names of the kernels in the code.
    pub symbols: Vec<String>,
    /// What the assertions in kernels report, by their number, which begins at 1.
    pub failures: Vec<KernelFailure>,
    /// The programs.
    pub programs: Vec<GpuProgram>,
    /// The code.
    pub code: &'a [u8],
}

/// A program of a [`GpuUnit`].
#[derive(Clone, Debug, PartialEq)]
pub struct GpuProgram {
    /// Symbol of the program (`kernel_symbol` of the name in its signature).
    pub symbol: String,
    /// The numbers of its kernels among the symbols of the unit.
    pub kernels: Vec<u32>,
    /// What the host does.
    pub host: HostProgram,
}

structs! {
    GpuProgram { symbol, kernels, host }
    HostProgram { registers, code }
    KernelFailure { status, arg, axis, what, place }
}

enums! {
    CodeFormat { 0 = Ptx, 1 = Cubin, }
    HostQuery { 0 = Data, 1 = Ndim, 2 = DType, 3 = IsCompact, }
    HostParam { 0 = Memory(reg), 1 = Scalar(reg, dtype), 2 = Failure, }
    HostOp {
        0 = Add,
        1 = Sub,
        2 = Mul,
        3 = Div,
        4 = Mod,
        5 = FloorDiv,
        6 = FloorMod,
        7 = Min,
        8 = Max,
        9 = Eq,
        10 = Ne,
        11 = Lt,
        12 = Le,
        13 = Gt,
        14 = Ge,
        15 = BitAnd,
        16 = BitOr,
        17 = BitXor,
        18 = Shl,
        19 = Shr,
    }
    HostInstr {
        0 = Int { dst, value },
        1 = Float { dst, value },
        2 = Copy { dst, src },
        3 = Cast { dst, src, from, to },
        4 = Not { dst, src },
        5 = Binary { op, dst, a, b, dtype },
        6 = IsNan { dst, src },
        7 = IsInf { dst, src },
        8 = Count { dst },
        9 = Query { what, dst, arg },
        10 = Shape { dst, arg, axis },
        11 = Scalar { dst, arg, dtype },
        12 = Jump { to },
        13 = JumpIfZero { test, to },
        14 = JumpUnlessLess { a, b, to },
        15 = Alloc { dst, name, bytes, extents },
        16 = Launch { kernel, name, extents, shared, params },
        17 = Fail { failure, expected, got },
        18 = Refuse { message },
    }
}

/// Name of the bytes in errors.
const SECTION: &str = "kernels for GPUs";

impl GpuUnit<'_> {
    /// The unit as an object, whose code is for `arch` (`sm_80`).
    ///
    /// # Errors
    /// When the unit is malformed.
    pub fn to_object(
        &self,
        name: impl Into<String>,
        arch: &str,
        format: CodeFormat,
    ) -> Result<CodeObject, RuntimeError> {
        self.verify().map_err(ArtifactError::Unsavable)?;
        let mut w = Writer::default();
        self.symbols.put(&mut w);
        self.failures.put(&mut w);
        self.programs.put(&mut w);
        (self.code.len() as u64).put(&mut w);
        w.bytes.extend_from_slice(self.code);
        if let Some(message) = w.error {
            return Err(ArtifactError::Unsavable(message).into());
        }
        let kind = ObjectKind::GpuKernels { arch: arch.to_string(), format };
        Ok(CodeObject { name: name.into(), kind, bytes: w.bytes.into() })
    }

    /// The unit that `object` holds; `None` if it is of another kind.
    ///
    /// # Errors
    /// When its bytes are malformed.
    pub fn of_object(object: &CodeObject) -> Result<Option<GpuUnit<'_>>, RuntimeError> {
        let ObjectKind::GpuKernels { arch, .. } = &object.kind else { return Ok(None) };
        let mut r = Reader::new(SECTION, &object.bytes);
        if gpu_arch(arch).is_none() {
            return Err(r
                .error(format!("`{}` is for `{arch}`, which is no architecture", object.name))
                .into());
        }
        let (symbols, failures, programs) = (Codec::get(&mut r)?, Codec::get(&mut r)?, Codec::get(&mut r)?);
        let len = usize::try_from(u64::get(&mut r)?).unwrap_or(usize::MAX);
        let code = r.take(len)?;
        let unit = GpuUnit { symbols, failures, programs, code };
        unit.verify().map_err(|message| r.error(message))?;
        r.finish()?;
        Ok(Some(unit))
    }

    /// Checks the numbers of kernels, and the host's parts.
    fn verify(&self) -> Result<(), String> {
        for program in &self.programs {
            let fail = |message: String| Err(format!("`{}`: {message}", program.symbol));
            if let Some(kernel) = program.kernels.iter().find(|it| **it as usize >= self.symbols.len()) {
                return fail(format!("kernel {kernel} of {}", self.symbols.len()));
            }
            program.host.verify(program.kernels.len()).or_else(fail)?;
        }
        Ok(())
    }
}
