//! CPU features: those that compiled code needs, and those that this machine has.
//!
//! The metadata of an executable lists the features that its machine code was compiled for. The list is compared with
//! the machine before the code is loaded, because an unknown instruction would end the process.

use crate::error::RuntimeError;
use crate::vm::Executable;

/// Key of the metadata entry that lists the features.
const KEY: &str = "cpu.features";

macro_rules! x86_features {
    ($($name:tt)*) => {
        /// Features of x86 that compilers use, with the names of Rust and LLVM, roughly in the order in which CPUs got them.
        const X86: &[&str] = &[$($name),*];

        #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
        pub(crate) fn has(name: &str) -> bool {
            match name {
                $($name => std::arch::is_x86_feature_detected!($name),)*
                _ => false,
            }
        }
    };
}

x86_features! {
    "sse" "sse2" "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "avx" "f16c" "fma" "bmi1" "bmi2" "lzcnt" "movbe" "avx2" "avx512f"
    "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512ifma" "avx512vbmi" "avx512vbmi2" "avx512vnni" "avx512bitalg"
    "avx512vpopcntdq" "avx512bf16" "avx512fp16" "avxvnni" "gfni" "vaes" "vpclmulqdq" "pclmulqdq" "aes" "sha"
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn has(name: &str) -> bool {
    match name {
        "neon" => std::arch::is_aarch64_feature_detected!("neon"),
        "fp16" => std::arch::is_aarch64_feature_detected!("fp16"),
        "dotprod" => std::arch::is_aarch64_feature_detected!("dotprod"),
        "sve" => std::arch::is_aarch64_feature_detected!("sve"),
        _ => false,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
pub(crate) fn has(_name: &str) -> bool {
    false
}

/// The features that [`Executable::check_cpu`] can detect.
pub fn all_cpu_features() -> &'static [&'static str] {
    if cfg!(target_arch = "aarch64") { &["neon", "fp16", "dotprod", "sve"] } else { X86 }
}

/// The features of this machine, restricted to those that compilers use.
pub fn cpu_features() -> Vec<&'static str> {
    all_cpu_features().iter().copied().filter(|name| has(name)).collect()
}

/// The features of a level of x86-64 (`x86-64`, `x86-64-v2`, `-v3`, `-v4`) in addition to those of the level below.
const LEVELS: [(&str, &[&str]); 4] = [
    ("x86-64", &["sse", "sse2"]),
    ("x86-64-v2", &["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"]),
    ("x86-64-v3", &["avx", "f16c", "fma", "bmi1", "bmi2", "lzcnt", "movbe", "avx2"]),
    ("x86-64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

/// The features of a level of x86-64; `None` for any other name.
pub fn level_features(level: &str) -> Option<Vec<&'static str>> {
    let at = level_index(level)?;
    Some(LEVELS[..=at].iter().flat_map(|(_, features)| features.iter().copied()).collect())
}

/// The place of a level of x86-64 among all of them, in ascending order; `None` for any other name.
pub fn level_index(level: &str) -> Option<usize> {
    LEVELS.iter().position(|(name, _)| *name == level)
}

/// The lowest level of x86-64 that has all of `features`; `None` if no level does.
pub fn least_level<'a>(features: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    let mut least = 0;
    for feature in features {
        least = least.max(LEVELS.iter().position(|(_, features)| features.contains(&feature))?);
    }
    Some(LEVELS[least].0)
}

/// Metadata entry that records the CPU features that code needs.
pub fn cpu_requirements<'a>(features: impl IntoIterator<Item = &'a str>) -> (String, String) {
    (KEY.to_string(), features.into_iter().collect::<Vec<_>>().join(","))
}

impl Executable {
    /// The CPU features that the machine code was compiled for.
    pub fn cpu_features(&self) -> impl Iterator<Item = &str> {
        self.metadata(KEY).unwrap_or_default().split(',').filter(|it| !it.is_empty())
    }

    /// Checks that this machine has the CPU features that the machine code was compiled for.
    ///
    /// # Errors
    /// When features are missing; the error names them.
    pub fn check_cpu(&self) -> Result<(), RuntimeError> {
        let missing: Vec<String> = self.cpu_features().filter(|name| !has(name)).map(String::from).collect();
        if missing.is_empty() { Ok(()) } else { Err(RuntimeError::CpuFeatures { missing }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_contain_each_other() {
        assert_eq!(level_features("haswell"), None);
        for (level, _) in LEVELS {
            let features = level_features(level).unwrap();
            assert_eq!(least_level(features.iter().copied()), Some(level));
            assert!(features.iter().all(|name| X86.contains(name)), "{level}");
        }
        assert_eq!(least_level(["sha"]), None);
        assert_eq!(least_level([]), Some("x86-64"));
    }

    #[test]
    fn a_program_for_another_cpu_is_refused_by_name() {
        let needs = |features: &[&str]| Executable {
            metadata: vec![cpu_requirements(features.iter().copied())],
            ..Executable::default()
        };
        needs(&cpu_features()).check_cpu().unwrap();
        let err = needs(&["warp_drive"]).check_cpu().unwrap_err().to_string();
        assert!(err.contains("`warp_drive`") && err.contains("help:"), "{err}");
    }
}
