//! Conversion of Cargo's description of the target to the options of the code generators.

use tvm_core::target::{Machine, ParseTargetError, Target, TargetKind};

/// x86 features that gcc and LLVM name differently from rustc. An empty name marks a feature that they cannot switch on
/// or off.
const RENAMED: &[(&str, &str)] = &[
    ("bmi1", "bmi"),
    ("cmpxchg16b", "cx16"),
    ("ermsb", ""),
    ("lahfsahf", "sahf"),
    ("pclmulqdq", "pclmul"),
    ("rdrand", "rdrnd"),
    ("x87", ""),
];

/// Arm features (rustc's names) with the names that gcc accepts after `-march=armv8-a+`.
const ARM: &[(&str, &str)] = &[
    ("bf16", "bf16"),
    ("dotprod", "dotprod"),
    ("fp16", "fp16"),
    ("i8mm", "i8mm"),
    ("lse", "lse"),
    ("sve", "sve"),
    ("sve2", "sve2"),
];

/// The target for `triple`, with the CPU features that Cargo lists (`CARGO_CFG_TARGET_FEATURE`), or for `cpu`, which may
/// list several levels of x86-64.
///
/// # Errors
/// When `cpu` is a list that is not one of levels of x86-64.
pub(crate) fn target(
    kind: TargetKind,
    triple: &str,
    features: &str,
    cpu: Option<&str>,
) -> Result<Target, ParseTargetError> {
    let mut target = Target::cross(kind, triple);
    let features: Vec<&str> = features.split(',').filter(|it| !it.is_empty()).collect();
    if let Some(levels) = cpu.filter(|it| it.contains(',')) {
        target = target.with_cpu_levels(levels.split(','))?;
    } else if let Some(cpu) = cpu {
        target = target.with_cpu(cpu);
        if cpu == "native" {
            target.machine = Machine::host();
        }
    } else if triple.starts_with("x86_64") || triple.starts_with("i686") {
        let name = |it| RENAMED.iter().find(|(own, _)| *own == it).map_or(it, |(_, other)| *other);
        let names = features.iter().map(|it| name(*it)).filter(|name| !name.is_empty());
        let list: Vec<String> = names.map(|name| format!("+{name}")).collect();
        target.features = (!list.is_empty()).then(|| list.join(","));
        let has = |name: &str| features.contains(&name);
        let vector_bits = if has("avx512f") {
            512
        } else if has("avx") {
            256
        } else {
            128
        };
        target.machine = Machine { vector_bits, ..target.machine };
    } else if triple.starts_with("aarch64") {
        let names: Vec<&str> = ARM.iter().filter(|(own, _)| features.contains(own)).map(|it| it.1).collect();
        if kind == TargetKind::Llvm {
            let list: Vec<String> = names.iter().map(|name| format!("+{name}")).collect();
            target.features = (!list.is_empty()).then(|| list.join(",").replace("+fp16", "+fullfp16"));
        } else if !names.is_empty() {
            target.cpu = Some(format!("armv8-a+{}", names.join("+")));
        }
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_cargo() {
        let cases = [
            ("x86_64-unknown-linux-gnu", "fxsr,sse,sse2,x87", None, "c -features=+fxsr,+sse,+sse2", 128),
            ("x86_64-unknown-linux-gnu", "avx,bmi1", None, "c -features=+avx,+bmi", 256),
            ("x86_64-unknown-linux-gnu", "avx,avx512f", None, "c -features=+avx,+avx512f", 512),
            ("x86_64-unknown-linux-gnu", "sse", Some("x86-64-v3"), "c -cpu=x86-64-v3", 256),
            ("x86_64-unknown-linux-gnu", "sse", Some("x86-64-v3,x86-64"), "c -cpu=x86-64,x86-64-v3", 128),
            ("aarch64-unknown-linux-gnu", "neon", None, "c", 128),
            ("aarch64-unknown-linux-gnu", "neon,dotprod,fp16", None, "c -cpu=armv8-a+dotprod+fp16", 128),
            ("riscv64gc-unknown-linux-gnu", "a,c,d", None, "c", 128),
        ];
        for (triple, features, cpu, expected, bits) in cases {
            let mut got = target(TargetKind::C, triple, features, cpu).unwrap();
            assert_eq!(got.machine.vector_bits, bits, "{triple} {features}");
            assert_eq!(got.triple.take().as_deref(), Some(triple));
            got.machine = expected.parse::<Target>().unwrap().machine;
            assert_eq!(got.to_string(), expected, "{triple} {features}");
        }
    }
}
