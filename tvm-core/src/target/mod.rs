//! Compilation targets: the code generator and the features of the machine.
//!
//! TVM counterpart: `Target`. The text form is `kind [-triple=T] [-cpu=C] [-features=F] [-vector-bits=N]`; `-mcpu`
//! and `-mtriple`, as TVM writes them, mean the same.

use std::fmt;
use std::str::FromStr;

/// A code generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// The best available code generator for the CPU: LLVM if compiled in, else C. Never the interpreter, which is
    /// hundreds of times slower: if there is no C compiler either, compiling is an error.
    Host,
    /// C source, compiled by the system's C compiler.
    C,
    /// LLVM (feature `llvm`).
    Llvm,
    /// CUDA C (feature `cuda`).
    Cuda,
    /// The reference interpreter, which generates no code.
    Interpreter,
}

/// A compilation target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Code generator.
    pub kind: TargetKind,
    /// LLVM triple; `None` for this machine.
    pub triple: Option<String>,
    /// CPU name (`-march` of C, `mcpu` of LLVM), or a feature level that many CPUs share (`x86-64-v3`); `None` for this
    /// machine's own CPU: the code may then need features that other machines lack.
    pub cpu: Option<String>,
    /// Extra CPU features in LLVM syntax, for example `+avx512f`; `None` for this machine's own.
    pub features: Option<String>,
    /// Width of the vectors that default schedules use, in bits.
    pub vector_bits: u32,
}

impl Default for Target {
    fn default() -> Target {
        Target::host()
    }
}

impl Target {
    /// This machine, with the code generator `kind`.
    pub fn native(kind: TargetKind) -> Target {
        let vector_bits = if matches!(kind, TargetKind::Cuda) { 128 } else { host_vector_bits() };
        Target { kind, triple: None, cpu: None, features: None, vector_bits }
    }

    /// This machine's CPU, with the best available code generator.
    pub fn host() -> Target {
        Target::native(TargetKind::Host)
    }

    /// This machine, with the C code generator.
    pub fn c() -> Target {
        Target::native(TargetKind::C)
    }

    /// This machine, with the LLVM code generator.
    pub fn llvm() -> Target {
        Target::native(TargetKind::Llvm)
    }

    /// The reference interpreter.
    pub fn interpreter() -> Target {
        Target::native(TargetKind::Interpreter)
    }

    /// The first GPU, with the CUDA code generator.
    pub fn cuda() -> Target {
        Target::native(TargetKind::Cuda)
    }

    /// The machine that `triple` names, with the code generator `kind`; the CPU is the triple's baseline.
    pub fn cross(kind: TargetKind, triple: impl Into<String>) -> Target {
        Target { kind, triple: Some(triple.into()), cpu: None, features: None, vector_bits: 128 }
    }

    /// Sets the CPU, or a feature level (`x86-64-v2`, say), which also sets the vector width.
    #[must_use]
    pub fn with_cpu(mut self, cpu: impl Into<String>) -> Target {
        let cpu = cpu.into();
        self.vector_bits = level_vector_bits(&cpu).unwrap_or(self.vector_bits);
        self.cpu = Some(cpu);
        self
    }

    /// Sets the code generator.
    #[must_use]
    pub fn with_kind(mut self, kind: TargetKind) -> Target {
        self.kind = kind;
        self
    }

    /// True when the code is for this machine's own CPU: neither a triple nor a CPU is set.
    pub const fn is_native(&self) -> bool {
        self.triple.is_none() && self.cpu.is_none()
    }

    /// True for GPU targets.
    pub const fn is_gpu(&self) -> bool {
        matches!(self.kind, TargetKind::Cuda)
    }

    /// Lanes of `dtype` in one vector of this target.
    pub const fn lanes(&self, dtype: tvm_runtime::DataType) -> u16 {
        (self.vector_bits / dtype.bits() as u32) as u16
    }
}

/// Width in bits of the widest vectors of an x86-64 feature level; `None` when `cpu` is not a level.
fn level_vector_bits(cpu: &str) -> Option<u32> {
    let features = tvm_runtime::level_features(cpu)?;
    Some(if features.contains(&"avx512f") {
        512
    } else if features.contains(&"avx2") {
        256
    } else {
        128
    })
}

/// Width in bits of this machine's widest vectors; 128 where it is not detected.
fn host_vector_bits() -> u32 {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return 512;
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return 256;
        }
    }
    128
}

impl TargetKind {
    /// All kinds.
    pub const ALL: [TargetKind; 5] =
        [TargetKind::Host, TargetKind::C, TargetKind::Llvm, TargetKind::Cuda, TargetKind::Interpreter];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            TargetKind::Host => "host",
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
        let usual = self.cpu.as_deref().and_then(level_vector_bits);
        if self.vector_bits != usual.unwrap_or_else(|| Target::native(self.kind).vector_bits) {
            write!(f, " -vector-bits={}", self.vector_bits)?;
        }
        Ok(())
    }
}

/// A text that is not a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a target; expected host, c, llvm, cuda or interpreter, followed by any of -triple=T -cpu=C -features=F -vector-bits=N"
)]
pub struct ParseTargetError(pub String);

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(s: &str) -> Result<Target, ParseTargetError> {
        let err = || ParseTargetError(s.to_string());
        let mut words = s.split_whitespace();
        let kind = words.next().and_then(|name| TargetKind::ALL.into_iter().find(|it| it.name() == name));
        let kind = kind.ok_or_else(err)?;
        let mut target = Target::native(kind);
        let mut vector_bits = None;
        for word in words {
            match word.split_once('=').ok_or_else(err)? {
                ("-triple" | "-mtriple", value) => target.triple = Some(value.to_string()),
                ("-cpu" | "-mcpu", value) => target = target.with_cpu(value),
                ("-features", value) => target.features = Some(value.to_string()),
                ("-vector-bits", value) => vector_bits = Some(value.parse().map_err(|_| err())?),
                _ => return Err(err()),
            }
        }
        target.vector_bits = vector_bits.unwrap_or(target.vector_bits);
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_round_trip_through_text() {
        let texts = [
            "host",
            "c",
            "cuda",
            "llvm -triple=aarch64-linux-gnu -cpu=cortex-a72",
            "c -vector-bits=64",
            "c -cpu=x86-64-v3",
            "c -cpu=x86-64-v3 -vector-bits=64",
        ];
        for text in texts {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        let portable: Target = "llvm -mcpu=x86-64-v2".parse().unwrap();
        assert_eq!((portable.cpu.as_deref(), portable.vector_bits), (Some("x86-64-v2"), 128));
        for bad in ["", "metal", "c -cpu", "c -size=3", "c -vector-bits=x"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
