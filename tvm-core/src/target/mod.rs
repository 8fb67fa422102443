//! What code is generated for: kind of code generator and features of the machine.
//!
//! TVM counterpart: `Target`.

use std::fmt;

/// Which code generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// C source, compiled by the system's C compiler.
    C,
    /// LLVM (feature `llvm`).
    Llvm,
    /// CUDA C (feature `cuda`).
    Cuda,
    /// The reference interpreter: no code at all.
    Interpreter,
}

/// What code is generated for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Code generator.
    pub kind: TargetKind,
    /// LLVM triple; `None` for this machine.
    pub triple: Option<String>,
    /// CPU name (`-march` of C, `mcpu` of LLVM); `None` for this machine's own.
    pub cpu: Option<String>,
    /// Extra CPU features in LLVM syntax, for example `+avx512f`; `None` for this machine's own.
    pub features: Option<String>,
    /// Width of the vectors that default schedules use, in bits.
    pub vector_bits: u32,
}

impl Target {
    /// This machine, through the code generator `kind`.
    pub const fn native(kind: TargetKind) -> Target {
        Target { kind, triple: None, cpu: None, features: None, vector_bits: 256 }
    }

    /// This machine, through C.
    pub const fn c() -> Target {
        Target::native(TargetKind::C)
    }

    /// This machine, through LLVM.
    pub const fn llvm() -> Target {
        Target::native(TargetKind::Llvm)
    }

    /// The reference interpreter.
    pub const fn interpreter() -> Target {
        Target::native(TargetKind::Interpreter)
    }

    /// Lanes of `dtype` in one vector of this target.
    pub const fn lanes(&self, dtype: tvm_runtime::DataType) -> u16 {
        (self.vector_bits / dtype.bits() as u32) as u16
    }
}

impl TargetKind {
    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            TargetKind::C => "c",
            TargetKind::Llvm => "llvm",
            TargetKind::Cuda => "cuda",
            TargetKind::Interpreter => "interpreter",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        for (name, value) in [("triple", &self.triple), ("cpu", &self.cpu), ("features", &self.features)] {
            if let Some(value) = value {
                write!(f, " -{name}={value}")?;
            }
        }
        Ok(())
    }
}
