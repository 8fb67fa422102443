//! Compilation targets: the code generator and the features of the machine.
//!
//! TVM counterpart: `Target`. The text form is `kind [-triple=T] [-cpu=C] [-features=F]` and numbers of the
//! machine (`-vector-bits=N -vector-registers=N -l1=BYTES -l2=BYTES -l3=BYTES -cores=N`); `-mcpu`
//! and `-mtriple`, as TVM writes them, mean the same. `-cpu=x86-64,x86-64-v3` lists several levels of x86-64. A GPU target
//! has `-arch=sm_90`, or a list (`-arch=sm_80,sm_90`); its other options are about the machine that the GPU belongs to.

mod gpu;
mod levels;
mod machine;

use std::fmt;
use std::str::FromStr;

use tvm_runtime::{DataType, Device};

pub use gpu::{GpuArch, GpuLimits, UnknownArch};
pub use machine::Machine;

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
    /// CUDA C; running it needs the feature `cuda`.
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
    /// Levels of x86-64 above `cpu`, in ascending order, for which kernels are compiled as well: loading takes the highest
    /// level that the machine has. Empty unless [`Target::with_cpu_levels`] or the text of the target lists levels.
    pub higher_levels: Vec<String>,
    /// Extra CPU features in LLVM syntax, for example `+avx512f`; `None` for this machine's own.
    pub features: Option<String>,
    /// Vectors, caches and cores: this machine's, unless the target names a triple.
    pub machine: Machine,
    /// The GPU architecture of a GPU target; `None` for [the default](GpuArch::DEFAULT), and for CPUs.
    pub arch: Option<GpuArch>,
    /// GPU architectures above `arch`, in ascending order, for which an artifact has kernels as well: loading takes those for the GPU of
    /// the machine. Empty unless [`Target::with_archs`] or the text of the target lists architectures.
    pub higher_archs: Vec<GpuArch>,
}

impl Default for Target {
    fn default() -> Target {
        Target::host()
    }
}

impl Target {
    /// This machine, with the code generator `kind`.
    pub fn native(kind: TargetKind) -> Target {
        let machine = Machine::host();
        Target {
            kind,
            triple: None,
            cpu: None,
            higher_levels: Vec::new(),
            features: None,
            machine,
            arch: None,
            higher_archs: Vec::new(),
        }
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
        Target { triple: Some(triple.into()), machine: Machine::baseline(), ..Target::native(kind) }
    }

    /// Sets the CPU, or a feature level (`x86-64-v2`, say), which also sets the vector width.
    #[must_use]
    pub fn with_cpu(mut self, cpu: impl Into<String>) -> Target {
        let cpu = cpu.into();
        self.machine = self.machine.with_cpu(&cpu);
        self.cpu = Some(cpu);
        self.higher_levels.clear();
        self
    }

    /// Sets the code generator.
    #[must_use]
    pub fn with_kind(mut self, kind: TargetKind) -> Target {
        self.kind = kind;
        self
    }

    /// Sets the GPU architecture; has no effect on the code for CPUs.
    #[must_use]
    pub fn with_arch(mut self, arch: GpuArch) -> Target {
        self.arch = Some(arch).filter(|it| *it != GpuArch::DEFAULT);
        self.higher_archs.clear();
        self
    }

    /// The GPU architecture that code is generated for; `None` for CPUs.
    pub fn gpu_arch(&self) -> Option<GpuArch> {
        self.is_gpu().then(|| self.arch.unwrap_or(GpuArch::DEFAULT))
    }

    /// True when the code is for this machine's own CPU: neither a triple nor a CPU is set.
    pub const fn is_native(&self) -> bool {
        self.triple.is_none() && self.cpu.is_none()
    }

    /// True for GPU targets.
    pub const fn is_gpu(&self) -> bool {
        matches!(self.kind, TargetKind::Cuda)
    }

    /// The device that kernels for this target run on: the first of its kind.
    pub fn device(&self) -> Device {
        if self.is_gpu() { Device::cuda(0) } else { Device::cpu() }
    }

    /// The target of what runs on the host: for a GPU target, the CPU of the machine that the GPU belongs to.
    #[must_use]
    pub fn of_host(&self) -> Target {
        if !self.is_gpu() {
            return self.clone();
        }
        Target { kind: TargetKind::Host, arch: None, higher_archs: Vec::new(), ..self.clone() }
    }

    /// Lanes of `dtype` in one vector of this target.
    pub const fn lanes(&self, dtype: DataType) -> u16 {
        self.machine.lanes(dtype)
    }
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
        if self.is_gpu() && (self.arch.is_some() || !self.higher_archs.is_empty()) {
            let archs: Vec<&str> = self.gpu_archs().iter().map(GpuArch::name).collect();
            write!(f, " -arch={}", archs.join(","))?;
        }
        for (name, value) in [("triple", &self.triple), ("cpu", &self.cpu), ("features", &self.features)] {
            if let Some(value) = value {
                write!(f, " -{name}={value}")?;
            }
            if name == "cpu" {
                self.higher_levels.iter().try_for_each(|level| write!(f, ",{level}"))?;
            }
        }
        let usual = usual_machine(self.triple.as_deref(), self.cpu.as_deref());
        for (name, value, _) in machine::FIELDS {
            if value(&self.machine) != value(&usual) {
                write!(f, " -{name}={}", value(&self.machine))?;
            }
        }
        Ok(())
    }
}

/// A text that is not a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTargetError {
    /// The text does not follow the syntax.
    #[error(
        "`{0}` is not a target; expected host, c, llvm, cuda or interpreter, followed by any of -arch=SM or -arch=SM,SM,… (of cuda) -triple=T -cpu=C -cpu=LEVEL,LEVEL,… -features=F -vector-bits=N -vector-registers=N -l1=N -l2=N -l3=N -cores=N -bf16-dot=N -masked-vectors=N"
    )]
    Syntax(String),
    /// The GPU architecture is not known.
    #[error(transparent)]
    Arch(#[from] UnknownArch),
    /// A list of GPU architectures has one twice.
    #[error("the list of GPU architectures (-arch) names {arch} twice")]
    ArchTwice {
        /// The architecture.
        arch: String,
    },
    /// A GPU architecture for a CPU.
    #[error("a target of kind {kind} has no GPU architecture (-arch={arch})")]
    ArchOfCpu {
        /// The kind of the target.
        kind: &'static str,
        /// The architecture.
        arch: String,
    },
    /// A list of CPU levels has something else in it, or a level twice.
    #[error(
        "`{level}` in a list of CPUs {problem}; a list names levels of x86-64, each once: x86-64, x86-64-v2, x86-64-v3, x86-64-v4"
    )]
    Level {
        /// The entry of the list.
        level: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A list of CPU levels beside an option that contradicts it.
    #[error("a list of CPU levels does not go with {option}, which each level determines")]
    Mixed {
        /// The option.
        option: String,
    },
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(s: &str) -> Result<Target, ParseTargetError> {
        let err = || ParseTargetError::Syntax(s.to_string());
        let mut words = s.split_whitespace();
        let kind = words.next().and_then(|name| TargetKind::ALL.into_iter().find(|it| it.name() == name));
        let kind = kind.ok_or_else(err)?;
        let mut target = Target::native(kind);
        let mut numbers = Vec::new();
        let mut of_levels = None;
        for word in words {
            match word.split_once('=').ok_or_else(err)? {
                ("-arch", value) if target.is_gpu() => {
                    let archs = value.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?;
                    target = target.with_archs(archs)?;
                }
                ("-arch", value) => {
                    return Err(ParseTargetError::ArchOfCpu { kind: kind.name(), arch: value.to_string() });
                }
                ("-triple" | "-mtriple", value) => target.triple = Some(value.to_string()),
                ("-cpu" | "-mcpu", value) => target.cpu = Some(value.to_string()),
                ("-features", value) => target.features = Some(value.to_string()),
                (name, value) => {
                    let named = |(field, ..): &&machine::Field| name.strip_prefix('-') == Some(field);
                    let (.., set) = machine::FIELDS.iter().find(named).ok_or_else(err)?;
                    if ["-vector-bits", "-vector-registers", "-bf16-dot"].contains(&name) {
                        of_levels.get_or_insert(name);
                    }
                    numbers.push((set, value.parse().map_err(|_| err())?));
                }
            }
        }
        if let Some(list) = target.cpu.take_if(|cpu| cpu.contains(',')) {
            target = target.with_cpu_levels(list.split(','))?;
            if let Some(option) = of_levels {
                return Err(ParseTargetError::Mixed { option: option.to_string() });
            }
        }
        target.machine = usual_machine(target.triple.as_deref(), target.cpu.as_deref());
        numbers.into_iter().for_each(|(set, value)| set(&mut target.machine, value));
        let Machine { vector_bits, cores, .. } = target.machine;
        if vector_bits == 0 || !vector_bits.is_multiple_of(8) || cores == 0 {
            return Err(err());
        }
        Ok(target)
    }
}

/// The machine that a target has unless its text says otherwise.
fn usual_machine(triple: Option<&str>, cpu: Option<&str>) -> Machine {
    let machine = if triple.is_some() { Machine::baseline() } else { Machine::host() };
    cpu.map_or(machine, |cpu| machine.with_cpu(cpu))
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
            "cuda -arch=sm_90",
            "cuda -arch=sm_75 -cores=3",
            "llvm -triple=aarch64-linux-gnu -cpu=cortex-a72",
            "c -vector-bits=64",
            "c -cpu=x86-64-v3",
            "llvm -cpu=x86-64,x86-64-v3,x86-64-v4",
            "c -triple=x86_64-unknown-linux-gnu -cpu=x86-64-v2,x86-64-v4 -l1=65537",
            "c -cpu=x86-64-v3 -vector-bits=64",
            "llvm -vector-bits=1024 -l1=65537 -l3=1234567 -cores=99",
        ];
        for text in texts {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        let portable: Target = "llvm -mcpu=x86-64-v2".parse().unwrap();
        assert_eq!((portable.cpu.as_deref(), portable.machine.vector_bits), (Some("x86-64-v2"), 128));
        for bad in [
            "",
            "metal",
            "c -cpu",
            "c -size=3",
            "c -vector-bits=x",
            "c -vector-bits=0",
            "c -cores=0",
            "c -l4=8",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
