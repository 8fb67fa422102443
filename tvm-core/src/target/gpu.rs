//! GPU architectures, and what a kernel may use on each of them.
//!
//! Ensures: the limits are those of the CUDA programming guide for the compute capability. Programs whose blocks or grids
//! exceed them are rejected when they are compiled. TVM counterpart: attributes of `Target` (`max_num_threads`, `arch`, …).

use std::fmt;
use std::str::FromStr;

use super::{ParseTargetError, Target};

/// A GPU architecture that code is generated for. TVM counterpart: the attribute `arch` of a CUDA target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuArch {
    name: &'static str,
    limits: GpuLimits,
}

/// What one kernel may use on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuLimits {
    /// Threads that run the same instruction together.
    pub warp_size: i64,
    /// Threads in one block.
    pub threads_per_block: i64,
    /// Extents of a block along `threadIdx.x`, `threadIdx.y` and `threadIdx.z`.
    pub block: [i64; 3],
    /// Extents of a grid along `blockIdx.x`, `blockIdx.y` and `blockIdx.z`.
    pub grid: [i64; 3],
    /// Bytes of shared memory whose size is known when the kernel is compiled.
    pub static_shared_bytes: i64,
    /// Bytes of shared memory of one block in all, if a part of them is asked for at the launch.
    pub shared_bytes: i64,
    /// 32-bit registers of one block.
    pub registers_per_block: i64,
    /// 32-bit registers of one thread.
    pub registers_per_thread: i64,
    /// Bytes of memory of its own that a thread may have beside its registers.
    pub local_bytes: i64,
    /// True if threads need not wait for what they copy from memory of the GPU to shared memory (`cp.async`).
    pub async_copies: bool,
    /// True if floats may be updated atomically, in any order. Every architecture has such updates, but results may then differ
    /// from run to run, so only programs that are compiled with `fast_math` have them.
    pub float_atomics: bool,
}

/// A name that is no known architecture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no GPU architecture; expected one of {known}", known = GpuArch::ALL.map(|it| it.name).join(", "))]
pub struct UnknownArch(pub String);

const fn arch(name: &'static str, shared_kib: i64) -> GpuArch {
    let limits = GpuLimits {
        warp_size: 32,
        threads_per_block: 1024,
        block: [1024, 1024, 64],
        grid: [(1 << 31) - 1, 65535, 65535],
        static_shared_bytes: 48 << 10,
        shared_bytes: shared_kib << 10,
        registers_per_block: 64 << 10,
        registers_per_thread: 255,
        local_bytes: 512 << 10,
        async_copies: true,
        float_atomics: false,
    };
    GpuArch { name, limits }
}

/// `arch` without asynchronous copies.
const fn waiting(arch: GpuArch) -> GpuArch {
    GpuArch { name: arch.name, limits: GpuLimits { async_copies: false, ..arch.limits } }
}

impl GpuArch {
    /// All architectures, in ascending order. A letter at the end means that the code runs on this one alone, and may use
    /// what only it has.
    pub const ALL: [GpuArch; 13] = [
        waiting(arch("sm_70", 96)),
        waiting(arch("sm_72", 96)),
        waiting(arch("sm_75", 64)),
        arch("sm_80", 163),
        arch("sm_86", 99),
        arch("sm_87", 163),
        arch("sm_89", 99),
        arch("sm_90", 227),
        arch("sm_90a", 227),
        arch("sm_100", 227),
        arch("sm_100a", 227),
        arch("sm_120", 99),
        arch("sm_120a", 99),
    ];

    /// The architecture of a target that names none: newer GPUs run its code as well.
    pub const DEFAULT: GpuArch = arch("sm_80", 163);

    /// The newest architecture whose code a GPU of the compute capability (major, minor) runs: if the major number is the same,
    /// as machine code, otherwise as PTX. `None` if the GPU is older than all of them. Those with a letter are for one GPU, and
    /// left out.
    pub fn for_capability(capability: (i32, i32)) -> Option<GpuArch> {
        GpuArch::ALL.into_iter().rfind(|it| it.is_portable() && it.capability() <= capability)
    }

    /// The compute capability (major, minor) that its code needs.
    pub fn capability(&self) -> (i32, i32) {
        let digits = self.name.bytes().filter(u8::is_ascii_digit);
        let number = digits.fold(0, |number, digit| 10 * number + i32::from(digit - b'0'));
        (number / 10, number % 10)
    }

    /// True if a GPU of the compute capability (major, minor) runs machine code for this architecture.
    pub fn runs_on(&self, capability: (i32, i32)) -> bool {
        let own = self.capability();
        own == capability || (self.is_portable() && own.0 == capability.0 && own.1 <= capability.1)
    }

    /// False if the code runs on one GPU alone.
    pub fn is_portable(&self) -> bool {
        self.name.ends_with(|it: char| it.is_ascii_digit())
    }

    /// NVIDIA's name, for example `sm_80`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What one kernel may use.
    pub const fn limits(&self) -> &GpuLimits {
        &self.limits
    }
}

impl GpuLimits {
    /// These limits, for programs whose floats may be updated atomically or not.
    #[must_use]
    pub const fn with_float_atomics(self, float_atomics: bool) -> GpuLimits {
        GpuLimits { float_atomics, ..self }
    }
}

impl Target {
    /// Sets several GPU architectures, in any order: an artifact has machine code for each of them, and PTX for GPUs that are newer.
    /// One architecture is as [`Target::with_arch`].
    ///
    /// # Errors
    /// When the list is empty, or names an architecture twice.
    pub fn with_archs(self, archs: impl IntoIterator<Item = GpuArch>) -> Result<Target, ParseTargetError> {
        let place = |arch: &GpuArch| GpuArch::ALL.iter().position(|it| it == arch);
        let mut archs: Vec<GpuArch> = archs.into_iter().collect();
        archs.sort_by_key(place);
        if let Some(twice) = archs.windows(2).find(|it| it[0] == it[1]) {
            return Err(ParseTargetError::ArchTwice { arch: twice[0].name.to_string() });
        }
        let Some((first, others)) = archs.split_first() else {
            return Err(UnknownArch(String::new()).into());
        };
        let mut target = self.with_arch(*first);
        target.higher_archs = others.to_vec();
        Ok(target)
    }

    /// The GPU architectures that code is generated for, in ascending order; none for CPUs.
    pub fn gpu_archs(&self) -> Vec<GpuArch> {
        self.gpu_arch()
            .into_iter()
            .chain(self.higher_archs.iter().copied().filter(|_| self.is_gpu()))
            .collect()
    }
}

impl fmt::Display for GpuArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for GpuArch {
    type Err = UnknownArch;

    fn from_str(s: &str) -> Result<GpuArch, UnknownArch> {
        GpuArch::ALL.into_iter().find(|it| it.name == s).ok_or_else(|| UnknownArch(s.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetKind;

    #[test]
    fn architectures_of_targets() {
        let target: Target = "cuda -arch=sm_90a".parse().unwrap();
        assert_eq!(target.gpu_arch().map(|it| it.name()), Some("sm_90a"));
        assert_eq!(target.to_string(), "cuda -arch=sm_90a");
        assert_eq!(target.machine, Target::host().machine, "the host of the GPU is this machine");
        assert_eq!(Target::cuda().gpu_arch(), Some(GpuArch::DEFAULT));
        assert_eq!("cuda -arch=sm_80".parse::<Target>().unwrap(), Target::cuda());
        assert_eq!(Target::c().gpu_arch(), None);
        assert_eq!(Target::c().with_kind(TargetKind::Cuda).gpu_arch(), Some(GpuArch::DEFAULT));
        for arch in GpuArch::ALL {
            let text = format!("cuda -arch={arch}");
            let target: Target = text.parse().unwrap();
            assert_eq!((target.gpu_arch(), target.clone()), (Some(arch), Target::cuda().with_arch(arch)));
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
    }

    #[test]
    fn several_architectures() {
        let target: Target = "cuda -arch=sm_90,sm_75,sm_80".parse().unwrap();
        assert_eq!(target.to_string(), "cuda -arch=sm_75,sm_80,sm_90");
        assert_eq!(
            target.gpu_arch().map(|it| it.name()),
            Some("sm_75"),
            "what knows of one takes the lowest"
        );
        let names = |target: &Target| target.gpu_archs().iter().map(|it| it.name()).collect::<Vec<_>>();
        assert_eq!(names(&target), ["sm_75", "sm_80", "sm_90"]);
        let text = "cuda -arch=sm_80,sm_90a -cores=3";
        let target: Target = text.parse().unwrap();
        assert_eq!((names(&target), target.to_string()), (vec!["sm_80", "sm_90a"], text.to_string()));
        assert_eq!(names(&target.with_arch(GpuArch::DEFAULT)), ["sm_80"]);
        assert_eq!(names(&Target::cuda()), ["sm_80"]);
        assert!(Target::c().gpu_archs().is_empty() && Target::cuda().with_archs([]).is_err());
        let err = "cuda -arch=sm_80,sm_90,sm_80".parse::<Target>().unwrap_err().to_string();
        assert_eq!(err, "the list of GPU architectures (-arch) names sm_80 twice");
        assert!("cuda -arch=sm_80,".parse::<Target>().is_err());
    }

    #[test]
    fn unknown_architectures_are_refused() {
        for name in ["sm_65", "90", "", "SM_80", "compute_80"] {
            let err = format!("cuda -arch={name}").parse::<Target>().unwrap_err();
            assert_eq!(err, ParseTargetError::Arch(UnknownArch(name.into())));
            assert!(err.to_string().contains("expected one of sm_70, "), "{err}");
        }
        let err = "c -arch=sm_80".parse::<Target>().unwrap_err();
        assert_eq!(err.to_string(), "a target of kind c has no GPU architecture (-arch=sm_80)");
    }
}
