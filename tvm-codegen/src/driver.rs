//! Compilation of tensor programs to kernels: lowers, selects a code generator, and loads the result.
//!
//! TVM counterpart: `tvm.compile`, `driver/build_module.py`.

use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::pass::PassContext;
use tvm_core::pipeline;
use tvm_core::relax::vm::interpreted_kernel;
use tvm_core::target::{Target, TargetKind};
use tvm_core::tir::{PrimFunc, kernel_sig};
use tvm_runtime::abi::kernel_symbol;
use tvm_runtime::{Kernel, KernelSig, Module};

use crate::{CodegenError, c};

/// Output format of [`emit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitKind {
    /// C source.
    C,
    /// LLVM IR as text.
    LlvmIr,
    /// Assembly.
    Asm,
    /// An object file.
    Object,
    /// A shared library.
    SharedLibrary,
}

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
    let sigs = signatures(module);
    match target.kind {
        TargetKind::Interpreter => {
            let kernels = prim_funcs(module).map(|(name, func)| interpreted_kernel(name, func));
            Ok(Module::new(kernels.collect::<Result<Vec<_>, _>>()?)?)
        }
        TargetKind::C | TargetKind::Host => {
            let source = c::source(&lowered(module)?)?;
            let compiler = c::load::Compiler::for_target(target)?;
            // SAFETY: the source was generated from programs that were lowered here.
            let library = unsafe { compiler.load(&source, target, c_options()) }?;
            Ok(library.module(&sigs)?)
        }
        TargetKind::Llvm => llvm_build(module, target, &sigs),
        TargetKind::Cuda => Err(no_cuda()),
    }
}

/// Emits the tensor programs of `module` as one unit of `kind`.
///
/// # Errors
/// When a program is malformed or the target cannot express it.
pub fn emit(module: &IRModule, target: &Target, kind: EmitKind) -> Result<Vec<u8>, CodegenError> {
    emit_lowered(&lowered(module)?, target, kind)
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
    let output = match kind {
        EmitKind::C => return Ok(c::source(kernels)?.into_bytes()),
        EmitKind::LlvmIr => return llvm_emit(kernels, target, kind),
        EmitKind::Asm => c::load::Output::Assembly,
        EmitKind::Object => c::load::Output::Object,
        EmitKind::SharedLibrary => c::load::Output::SharedLibrary,
    };
    match target.kind {
        TargetKind::C | TargetKind::Host => {
            let source = c::source(kernels)?;
            c::load::Compiler::for_target(target)?.compile_to_bytes(&source, target, c_options(), output)
        }
        TargetKind::Llvm => llvm_emit(kernels, target, kind),
        TargetKind::Cuda => Err(no_cuda()),
        TargetKind::Interpreter => Err(CodegenError::Target {
            target: target.to_string(),
            message: "the interpreter has no code to emit".into(),
        }),
    }
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

/// Lowers the tensor programs of `module`; returns them with their symbols.
///
/// # Errors
/// When a program is malformed.
pub fn lowered(module: &IRModule) -> Result<Vec<(String, PrimFunc)>, CodegenError> {
    let mut programs = IRModule::new();
    for (gv, func) in module.functions() {
        if let BaseFunc::Prim(_) = func {
            programs.update(gv.clone(), func.clone());
        }
    }
    let programs = pipeline::lower_tir().apply(programs)?;
    Ok(prim_funcs(&programs).map(|(name, func)| (kernel_symbol(name), func.clone())).collect())
}

fn prim_funcs(module: &IRModule) -> impl Iterator<Item = (&str, &PrimFunc)> {
    module.functions().filter_map(|(gv, func)| match func {
        BaseFunc::Prim(func) => Some((gv.name(), &**func)),
        BaseFunc::Relax(_) | BaseFunc::Extern(_) => None,
    })
}

fn fast_math() -> bool {
    PassContext::current().config.fast_math
}

/// Levels 0 and 1 are for quick compilation; 2 (the default) and higher are for speed.
fn c_options() -> c::load::Options {
    let opt_level = match PassContext::current().opt_level {
        level @ 0..=1 => level,
        _ => 3,
    };
    c::load::Options { opt_level, fast_math: fast_math() }
}

fn no_cuda() -> CodegenError {
    if cfg!(feature = "cuda") {
        let what = "kernels yet: the feature `cuda` gives devices and memory".to_string();
        return CodegenError::NotSupported { target: "CUDA", what };
    }
    CodegenError::Unsupported { target: "cuda", feature: "cuda", help: "" }
}

#[cfg(feature = "llvm")]
fn llvm_build(module: &IRModule, target: &Target, sigs: &[KernelSig]) -> Result<Module, CodegenError> {
    let options = crate::llvm::Options { fast_math: fast_math() };
    // SAFETY: the programs were lowered here, and the signatures are theirs.
    Ok(unsafe { crate::llvm::jit(&lowered(module)?, target, options) }?.module(sigs)?)
}

#[cfg(feature = "llvm")]
fn llvm_emit(
    kernels: &[(String, PrimFunc)],
    target: &Target,
    kind: EmitKind,
) -> Result<Vec<u8>, CodegenError> {
    use crate::llvm::{Options, Output, emit};
    let emit = |output| {
        emit(kernels, target, Options { fast_math: fast_math() }, output).map_err(CodegenError::from)
    };
    match kind {
        EmitKind::LlvmIr => emit(Output::Ir),
        EmitKind::Asm => emit(Output::Assembly),
        EmitKind::Object => emit(Output::Object),
        EmitKind::SharedLibrary => c::load::Compiler::for_target(target)?.link(&emit(Output::Object)?),
        EmitKind::C => Ok(c::source(kernels)?.into_bytes()),
    }
}

#[cfg(not(feature = "llvm"))]
fn llvm_build(_: &IRModule, _: &Target, _: &[KernelSig]) -> Result<Module, CodegenError> {
    Err(no_llvm())
}

#[cfg(not(feature = "llvm"))]
fn llvm_emit(_: &[(String, PrimFunc)], _: &Target, _: EmitKind) -> Result<Vec<u8>, CodegenError> {
    Err(no_llvm())
}

#[cfg(not(feature = "llvm"))]
fn no_llvm() -> CodegenError {
    CodegenError::Unsupported { target: "llvm", feature: "llvm", help: " (LLVM 19: `cargo xtask setup`)" }
}
