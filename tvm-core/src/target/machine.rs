//! Numbers about a processor that schedules depend on: vectors, caches, cores.

use std::sync::OnceLock;

use tvm_runtime::DataType;

/// Vectors, caches and cores of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Width of the widest vectors, in bits.
    pub vector_bits: u32,
    /// Number of vector registers.
    pub vector_registers: u32,
    /// Size of the first-level data cache of one core, in bytes.
    pub l1_bytes: u64,
    /// Size of the second-level cache of one core, in bytes.
    pub l2_bytes: u64,
    /// Size of the last-level cache, in bytes; 0 if there are two levels.
    pub l3_bytes: u64,
    /// Number of logical cores that the program may use.
    pub cores: u32,
    /// True if the CPU sums products of pairs of `bf16` in `f32` (`vdpbf16ps`). Such sums flush denormal numbers and round
    /// each product, so only programs that are compiled with `fast_math` have them.
    pub bf16_dot: bool,
    /// True if loads and stores of some lanes of a vector are single instructions (AVX-512).
    pub masked_vectors: bool,
}

/// A field of [`Machine`]: its name in the text of a target, how to read it and how to set it.
pub(super) type Field = (&'static str, fn(&Machine) -> u64, fn(&mut Machine, u64));

/// The fields, in the order of the text.
pub(super) const FIELDS: [Field; 8] = [
    ("vector-bits", |it| it.vector_bits.into(), |it, value| it.vector_bits = narrow(value)),
    ("vector-registers", |it| it.vector_registers.into(), |it, value| it.vector_registers = narrow(value)),
    ("l1", |it| it.l1_bytes, |it, value| it.l1_bytes = value),
    ("l2", |it| it.l2_bytes, |it, value| it.l2_bytes = value),
    ("l3", |it| it.l3_bytes, |it, value| it.l3_bytes = value),
    ("cores", |it| it.cores.into(), |it, value| it.cores = narrow(value)),
    ("bf16-dot", |it| it.bf16_dot.into(), |it, value| it.bf16_dot = value != 0),
    ("masked-vectors", |it| it.masked_vectors.into(), |it, value| it.masked_vectors = value != 0),
];

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The largest number of lanes of a vector in a program.
const MAX_LANES: u32 = 128;

impl Machine {
    /// Lanes of `dtype` in one vector: a power of two from 1, as in a machine without vectors, to 128.
    pub const fn lanes(&self, dtype: DataType) -> u16 {
        match self.vector_bits / dtype.bits() as u32 {
            0 => 1,
            lanes @ 1..=MAX_LANES => 1 << lanes.ilog2(),
            _ => MAX_LANES as u16,
        }
    }

    /// A machine of which nothing is known: vectors of 128 bits, and small caches.
    pub const fn baseline() -> Machine {
        Machine {
            vector_bits: 128,
            vector_registers: 16,
            l1_bytes: 32 << 10,
            l2_bytes: 256 << 10,
            l3_bytes: 0,
            cores: 4,
            bf16_dot: false,
            masked_vectors: false,
        }
    }

    /// This machine; what cannot be detected is that of the baseline.
    pub fn host() -> Machine {
        static HOST: OnceLock<Machine> = OnceLock::new();
        *HOST.get_or_init(|| {
            let vector_bits = host_vector_bits();
            let cores = std::thread::available_parallelism().map_or(1, |it| narrow(it.get() as u64));
            let vector_registers = registers(vector_bits);
            let bf16_dot = host_bf16_dot();
            let masked_vectors = host_masked_vectors();
            with_host_caches(Machine {
                vector_bits,
                vector_registers,
                cores,
                bf16_dot,
                masked_vectors,
                ..Machine::baseline()
            })
        })
    }

    /// The machine with the vectors of the CPU or feature level `cpu`, if they are known.
    pub(super) fn with_cpu(self, cpu: &str) -> Machine {
        let Some(features) = known_features(cpu) else {
            return Machine { bf16_dot: false, masked_vectors: false, ..self };
        };
        let has = |name: &str| features.contains(&name);
        let vector_bits = match (has("avx512f"), has("avx2")) {
            (true, _) => 512,
            (false, true) => 256,
            (false, false) => 128,
        };
        Machine {
            vector_bits,
            vector_registers: registers(vector_bits),
            bf16_dot: false,
            masked_vectors: has("avx512vl") && has("avx512bw"),
            ..self
        }
    }
}

/// Number of vector registers of a CPU whose vectors have `vector_bits`.
const fn registers(vector_bits: u32) -> u32 {
    if vector_bits >= 512 || cfg!(target_arch = "aarch64") { 32 } else { 16 }
}

/// The names that compilers have for CPUs, by the highest level of x86-64 whose features all of these CPUs have.
const CPUS: [(&str, &[&str]); 4] = [
    ("x86-64", &["k8", "core2", "penryn", "bonnell", "btver1"]),
    (
        "x86-64-v2",
        &[
            "nehalem",
            "corei7",
            "westmere",
            "sandybridge",
            "corei7-avx",
            "ivybridge",
            "core-avx-i",
            "silvermont",
            "slm",
            "goldmont",
            "goldmont-plus",
            "tremont",
            "bdver1",
            "bdver2",
            "bdver3",
            "btver2",
        ],
    ),
    (
        "x86-64-v3",
        &[
            "haswell",
            "core-avx2",
            "broadwell",
            "skylake",
            "alderlake",
            "raptorlake",
            "meteorlake",
            "arrowlake",
            "lunarlake",
            "gracemont",
            "sierraforest",
            "bdver4",
            "znver1",
            "znver2",
            "znver3",
        ],
    ),
    (
        "x86-64-v4",
        &[
            "skylake-avx512",
            "skx",
            "cannonlake",
            "cascadelake",
            "cooperlake",
            "icelake-client",
            "icelake-server",
            "tigerlake",
            "rocketlake",
            "sapphirerapids",
            "emeraldrapids",
            "graniterapids",
            "znver4",
            "znver5",
        ],
    ),
];

/// The features of a level of x86-64, or of the level of a CPU; `None` when the name is unknown.
fn known_features(cpu: &str) -> Option<Vec<&'static str>> {
    let level = CPUS.iter().find(|(_, cpus)| cpus.contains(&cpu)).map_or(cpu, |(level, _)| level);
    tvm_runtime::level_features(level)
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

/// True if this machine has `vdpbf16ps` for all sizes of vectors.
#[cfg(target_arch = "x86_64")]
fn host_bf16_dot() -> bool {
    std::arch::is_x86_feature_detected!("avx512bf16") && std::arch::is_x86_feature_detected!("avx512vl")
}

#[cfg(not(target_arch = "x86_64"))]
fn host_bf16_dot() -> bool {
    false
}

/// True if this machine has masked accesses for all sizes of vectors and elements.
#[cfg(target_arch = "x86_64")]
fn host_masked_vectors() -> bool {
    std::arch::is_x86_feature_detected!("avx512vl") && std::arch::is_x86_feature_detected!("avx512bw")
}

#[cfg(not(target_arch = "x86_64"))]
fn host_masked_vectors() -> bool {
    false
}

/// `machine` with the sizes of this machine's caches, as `cpuid` reports them.
#[cfg(target_arch = "x86_64")]
fn with_host_caches(mut machine: Machine) -> Machine {
    use raw_cpuid::{CacheType, CpuId};
    for cache in CpuId::new().get_cache_parameters().into_iter().flatten() {
        let ways = cache.associativity() * cache.physical_line_partitions() * cache.coherency_line_size();
        let bytes = (ways * cache.sets()) as u64;
        match (cache.level(), cache.cache_type()) {
            (1, CacheType::Data) => machine.l1_bytes = bytes,
            (2, CacheType::Data | CacheType::Unified) => machine.l2_bytes = bytes,
            (3, CacheType::Data | CacheType::Unified) => machine.l3_bytes = bytes,
            _ => {}
        }
    }
    machine
}

#[cfg(not(target_arch = "x86_64"))]
fn with_host_caches(machine: Machine) -> Machine {
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_any_width_have_lanes() {
        let lanes = |vector_bits, dtype| Machine { vector_bits, ..Machine::baseline() }.lanes(dtype);
        let rows = [(8, 1, 1), (63, 4, 1), (64, 8, 1), (384, 32, 4), (512, 64, 8), (u32::MAX, 128, 128)];
        for (vector_bits, bytes, doubles) in rows {
            let got = (lanes(vector_bits, DataType::I8), lanes(vector_bits, DataType::F64));
            assert_eq!(got, (bytes, doubles), "{vector_bits}");
        }
    }

    #[test]
    fn cpus_have_the_vectors_of_their_levels() {
        let host = Machine { vector_bits: 64, bf16_dot: true, masked_vectors: true, ..Machine::baseline() };
        for (cpu, vector_bits, vector_registers, masked_vectors) in [
            ("x86-64", 128, 16, false),
            ("nehalem", 128, 16, false),
            ("x86-64-v3", 256, 16, false),
            ("haswell", 256, 16, false),
            ("znver3", 256, 16, false),
            ("x86-64-v4", 512, 32, true),
            ("cascadelake", 512, 32, true),
            ("znver4", 512, 32, true),
            ("of-tomorrow", 64, 16, false),
        ] {
            let want = Machine { vector_bits, vector_registers, masked_vectors, bf16_dot: false, ..host };
            assert_eq!(host.with_cpu(cpu), want, "{cpu}");
        }
        let levels = CPUS.map(|(level, _)| tvm_runtime::level_features(level));
        assert!(levels.iter().all(Option::is_some));
        let mut names: Vec<&str> = CPUS.iter().flat_map(|(_, cpus)| *cpus).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn this_machine_is_plausible() {
        let host = Machine::host();
        assert!([128, 256, 512].contains(&host.vector_bits) && host.cores >= 1);
        assert!(
            (16 << 10..=512 << 10).contains(&host.l1_bytes) && host.l2_bytes >= host.l1_bytes,
            "{host:?}"
        );
    }
}
