//! Compilation of tensor programs to kernels: lowers, selects a code generator, and loads the result.
//!
//! TVM counterpart: `tvm.compile`, `driver/build_module.py`.

use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::pass::PassContext;
use tvm_core::pipeline;
use tvm_core::target::{Target, TargetKind};
use tvm_core::tir::{PrimFunc, kernel_sig};
use tvm_runtime::abi::kernel_symbol;
use tvm_runtime::{Kernel, KernelSig, Module};

use crate::{CodegenError, EmitKind, Options, Unit, code_generator};

/// Compiles one tensor program.
///
/// # Errors
/// When the program is malformed or the target cannot run it.
pub fn compile(func: &PrimFunc, target: &Target) -> Result<Kernel, CodegenError> {
    let module = IRModule::from_prim_func(func.clone());
    let built = build(&module, target)?;
    built.iter().next().cloned().ok_or_else(|| CodegenError::Target {
        target: target.to_string(),
        message: format!("`{}` was not built", func.name),
    })
}

/// Compiles all tensor programs of `module` as one unit; the kernels have the names of the programs.
///
/// # Errors
/// When a program is malformed or the target cannot run it.
pub fn build(module: &IRModule, target: &Target) -> Result<Module, CodegenError> {
    let target = &resolve(target);
    code_generator(target.kind)?.build(module, target, Options::current())
}

/// Emits the tensor programs of `module` as one unit of `kind`.
///
/// # Errors
/// When a program is malformed or the target cannot express it.
pub fn emit(module: &IRModule, target: &Target, kind: EmitKind) -> Result<Vec<u8>, CodegenError> {
    emit_lowered(&lowered(module, target)?, target, kind)
}

/// Emits `kernels`, which must be in the lowered form, under their symbols as one unit of `kind`.
///
/// # Errors
/// When the target cannot express a program.
pub fn emit_lowered(
    kernels: &[(String, PrimFunc)],
    target: &Target,
    kind: EmitKind,
) -> Result<Vec<u8>, CodegenError> {
    let target = &resolve(target);
    // Every target has the same C source and the same LLVM IR.
    let kind_of_code = match kind {
        EmitKind::C => TargetKind::C,
        EmitKind::LlvmIr => TargetKind::Llvm,
        EmitKind::Asm | EmitKind::Object | EmitKind::SharedLibrary => target.kind,
    };
    code_generator(kind_of_code)?.emit(Unit { kernels, target, options: Options::current() }, kind)
}

/// Resolves [`TargetKind::Host`]: to LLVM if it is compiled in, otherwise to C. Other targets are unchanged. Without a C
/// compiler, compilation fails with [`CodegenError::NoCompiler`]: the interpreter is used only for targets that name it.
pub fn resolve(target: &Target) -> Target {
    let kind = match target.kind {
        TargetKind::Host if cfg!(feature = "llvm") => TargetKind::Llvm,
        TargetKind::Host => TargetKind::C,
        other => other,
    };
    target.clone().with_kind(kind)
}

/// Signatures of the tensor programs of `module`, in order.
pub fn signatures(module: &IRModule) -> Vec<KernelSig> {
    prim_funcs(module).map(|(name, func)| kernel_sig(name, func)).collect()
}

/// Lowers the tensor programs of `module` for `target`; returns them with their symbols.
///
/// # Errors
/// When a program is malformed.
pub fn lowered(module: &IRModule, target: &Target) -> Result<Vec<(String, PrimFunc)>, CodegenError> {
    let mut programs = IRModule::new();
    for (gv, func) in module.functions() {
        if let BaseFunc::Prim(_) = func {
            programs.update(gv.clone(), func.clone());
        }
    }
    let context = PassContext::current().target(target.clone());
    let programs = pipeline::lower_tir().apply_in(programs, &context)?;
    Ok(prim_funcs(&programs).map(|(name, func)| (kernel_symbol(name), func.clone())).collect())
}

pub(crate) fn prim_funcs(module: &IRModule) -> impl Iterator<Item = (&str, &PrimFunc)> {
    module.functions().filter_map(|(gv, func)| match func {
        BaseFunc::Prim(func) => Some((gv.name(), &**func)),
        BaseFunc::Relax(_) | BaseFunc::Extern(_) => None,
    })
}
