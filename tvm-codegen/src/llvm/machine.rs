//! Description of the machine that code is generated for: triple, CPU, features.

use inkwell::OptimizationLevel;
use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple,
};
use tvm_core::target::Target;

use super::LlvmError;
use crate::Options;

/// Creates the LLVM machine for `target`; properties that the target leaves open default to those of this machine.
pub(super) fn create(target: &Target, options: Options) -> Result<TargetMachine, LlvmError> {
    let triple =
        target.triple.as_deref().map_or_else(TargetMachine::get_default_triple, TargetTriple::create);
    // The code for other processors stays on disk.
    let config = InitializationConfig::default();
    let name = triple.as_str().to_string_lossy();
    if ["aarch64", "arm64"].iter().any(|it| name.starts_with(it)) {
        LlvmTarget::initialize_aarch64(&config);
    } else {
        LlvmTarget::initialize_x86(&config);
    }
    let err = |message: String| {
        let target = triple.as_str().to_string_lossy().into_owned();
        LlvmError::Target { target, message }
    };
    let native = target.triple.is_none();
    let host_cpu =
        || if native { TargetMachine::get_host_cpu_name().to_string() } else { "generic".to_string() };
    let host_features = || {
        if native && target.cpu.is_none() {
            TargetMachine::get_host_cpu_features().to_string()
        } else {
            String::new()
        }
    };
    let level = match options.opt_level {
        0 => OptimizationLevel::None,
        1 => OptimizationLevel::Less,
        2 => OptimizationLevel::Default,
        _ => OptimizationLevel::Aggressive,
    };
    let cpu = target.cpu.clone().unwrap_or_else(host_cpu);
    let features = target.features.clone().unwrap_or_else(host_features);
    LlvmTarget::from_triple(&triple)
        .map_err(|message| err(message.to_string()))?
        .create_target_machine(&triple, &cpu, &features, level, RelocMode::PIC, CodeModel::Default)
        .ok_or_else(|| err(format!("no machine for cpu `{cpu}` with features `{features}`")))
}

/// True if the machine has the x86 feature `name`, by its list of features or by the level that is its CPU.
fn has_feature(machine: &TargetMachine, name: &str) -> bool {
    let features = machine.get_feature_string().to_string_lossy().into_owned();
    let level = tvm_runtime::level_features(&machine.get_cpu().to_string_lossy());
    let has = level.is_some_and(|it| it.contains(&name));
    features.split(',').fold(has, |has, change| match change.split_at_checked(1) {
        Some(("+", feature)) if feature == name => true,
        Some(("-", feature)) if feature == name => false,
        _ => has,
    })
}

/// Instructions of the CPU that LLVM makes of no other code.
#[derive(Clone, Copy)]
pub(super) struct Instructions {
    /// Lanes of the widest instruction for `dot4`; 0 if there is none.
    pub(super) bytes: u16,
    /// Lanes of the widest instruction for `dot2`; 0 if there is none.
    pub(super) bf16: u16,
    /// True if there is one for `ldexp` of 16 `f32`.
    pub(super) ldexp: bool,
}

/// Those that the machine has.
pub(super) fn instructions(machine: &TargetMachine) -> Instructions {
    let has = |name: &str| has_feature(machine, name);
    let bytes = match (has("avx512vnni"), has("avx512vl")) {
        (true, true) => 16,
        _ if has("avxvnni") => 8,
        _ => 0,
    };
    let bf16 = if has("avx512bf16") && has("avx512vl") { 16 } else { 0 };
    Instructions { bytes, bf16, ldexp: has("avx512f") }
}

/// Records CPU and features on every function, so that code generated in process uses them too.
///
/// `vpdpbusd` is not among them: LLVM 19 makes one of a sum of products of signed and unsigned bytes, and drops all but four
/// of its terms. `dot4` has the instruction as assembly.
pub(super) fn tag_functions(context: &Context, module: &Module<'_>, machine: &TargetMachine) {
    let cpu = machine.get_cpu().to_string();
    let mut features = machine.get_feature_string().to_string_lossy().into_owned();
    if machine.get_triple().as_str().to_string_lossy().starts_with("x86_64") {
        features += if features.is_empty() { "" } else { "," };
        features += "-avx512vnni,-avxvnni";
    }
    let widest = if has_feature(machine, "avx512f") { "512" } else { "256" };
    for function in module.get_functions().filter(|function| function.count_basic_blocks() > 0) {
        for (key, value) in [
            ("target-cpu", cpu.as_str()),
            ("target-features", features.as_str()),
            ("prefer-vector-width", widest),
        ] {
            function.add_attribute(AttributeLoc::Function, context.create_string_attribute(key, value));
        }
    }
}
