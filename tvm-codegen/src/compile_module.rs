//! Compilation of a module of graph functions to a program that is ready to run, or to an executable that can be saved.
//!
//! TVM counterpart: `relax.build`.

use tvm_core::ir::IRModule;
use tvm_core::relax::vm;
use tvm_core::target::Target;
use tvm_runtime::vm::{Executable, KernelObject, ObjectKind, Vm};
use tvm_runtime::{Device, cpu_requirements};

use crate::{CodegenError, EmitKind, build, cpu_features, emit, resolve};

/// Compiles graph functions to bytecode, and the tensor programs that they call to kernels. The result is ready to run.
///
/// # Errors
/// When a pass fails on the module, or the target cannot run a tensor program.
pub fn compile_module(module: &IRModule, target: &Target) -> Result<Vm, CodegenError> {
    let target = &resolve(target);
    let (programs, mut exe) = vm::compile_for(module.clone(), device(target))?;
    exe.target = target.to_string();
    Ok(Vm::new(exe, &build(&programs, target)?)?)
}

/// Compiles like [`compile_module`], but to an executable that contains its kernels as a shared library. The bytes that
/// [`Executable::save`] returns run in an application without a compiler, on machines with the CPU features that the
/// target names ([`Executable::check_cpu`]).
///
/// # Errors
/// As for [`compile_module`], and for the interpreter, which has no machine code.
pub fn export_module(module: &IRModule, target: &Target) -> Result<Executable, CodegenError> {
    let target = &resolve(target);
    let (programs, mut exe) = vm::compile_for(module.clone(), device(target))?;
    exe.target = target.to_string();
    let features = cpu_features(target)?;
    exe.metadata.push(cpu_requirements(features.iter().map(String::as_str)));
    if !programs.is_empty() {
        let bytes = emit(&programs, target, EmitKind::SharedLibrary)?.into();
        exe.objects.push(KernelObject { name: "kernels".into(), kind: ObjectKind::SharedLibrary, bytes });
    }
    Ok(exe)
}

/// Device on which the kernels of `target` run.
fn device(target: &Target) -> Device {
    if target.is_gpu() { Device::cuda(0) } else { Device::cpu() }
}
