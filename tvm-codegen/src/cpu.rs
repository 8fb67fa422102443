//! The CPU features that code for a target may use.

use tvm_core::target::{Target, TargetKind};
use tvm_runtime::level_features;

use crate::c::load::Compiler;
use crate::{CodegenError, resolve};

/// The CPU features that code for `target` may use, with the names of [`tvm_runtime::cpu_features`]. They are those of
/// this machine, or of the CPU level that the target names; for other CPUs, the C compiler is queried.
///
/// # Errors
/// When only a C compiler can know the CPU, and there is none or it does not know the CPU either.
pub fn cpu_features(target: &Target) -> Result<Vec<String>, CodegenError> {
    let target = &resolve(target);
    let base = match (&target.cpu, &target.triple) {
        _ if matches!(target.kind, TargetKind::Interpreter | TargetKind::Cuda) => return Ok(Vec::new()),
        (None, None) => Some(tvm_runtime::cpu_features()),
        (Some(cpu), _) => level_features(cpu),
        (None, Some(triple)) if triple.starts_with("x86_64") => level_features("x86-64"),
        // The baseline of the triple: every machine that can run the application has it.
        (None, Some(_)) => Some(Vec::new()),
    };
    let mut features: Vec<String> = match base {
        Some(features) => features.into_iter().map(String::from).collect(),
        None => of_macros(&Compiler::for_target(target)?.macros(target)?),
    };
    for change in target.features.iter().flat_map(|it| it.split(',')) {
        match change.split_at_checked(1) {
            Some(("+", name)) if !features.iter().any(|it| it == own_name(name)) => {
                features.push(own_name(name).to_string());
            }
            Some(("-", name)) => features.retain(|it| it != own_name(name)),
            _ => {}
        }
    }
    // Keep only features that loading can check. Compilers choose no instructions of the others.
    features.retain(|it| tvm_runtime::all_cpu_features().contains(&it.as_str()));
    Ok(features)
}

/// Converts a compiler's name of a feature to the name that loading uses.
fn own_name(name: &str) -> &str {
    match name {
        "bmi" => "bmi1",
        "pclmul" => "pclmulqdq",
        other => other,
    }
}

/// Derives the features from the macros that a C compiler defines for a CPU.
fn of_macros(macros: &str) -> Vec<String> {
    let defined: Vec<&str> = macros.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    let defines = |name: &str| {
        let name = match name {
            "bmi1" => "BMI".to_string(),
            "pclmulqdq" => "PCLMUL".to_string(),
            other => other.replace('.', "_").to_uppercase(),
        };
        defined.contains(&format!("__{name}__").as_str())
    };
    let all = tvm_runtime::all_cpu_features();
    all.iter().filter(|name| defines(name)).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_targets() {
        let has = |target: &Target, name: &str| cpu_features(target).unwrap().iter().any(|it| it == name);
        let c = |text: &str| text.parse::<Target>().unwrap();
        assert_eq!(cpu_features(&Target::c()).unwrap(), tvm_runtime::cpu_features());
        assert!(has(&c("c -cpu=x86-64-v3"), "avx2") && !has(&c("c -cpu=x86-64-v3"), "avx512f"));
        assert!(has(&c("c -cpu=x86-64-v2 -features=+avx,+bmi"), "bmi1"));
        assert!(!has(&c("c -cpu=x86-64-v3 -features=-fma"), "fma"));
        assert!(cpu_features(&Target::interpreter()).unwrap().is_empty());
        if cfg!(target_arch = "x86_64") && Compiler::host().is_ok() {
            assert!(has(&c("c -cpu=haswell"), "fma") && !has(&c("c -cpu=haswell"), "avx512f"));
            assert!(has(&c("c -cpu=skylake-avx512"), "avx512vl"));
        }
    }
}
