//! Compilation of tensor programs to kernels: lowers, selects a code generator, and loads the result.
//!
//! TVM counterpart: `tvm.compile`, `driver/build_module.py`.

use tvm_core::ir::{BaseFunc, IRModule, IrError, Span};
use tvm_core::pass::{Pass, PassContext, PassError, Pipelines, Sequential};
use tvm_core::support::in_parallel;
use tvm_core::target::{Target, TargetKind};
use tvm_core::tir::{PrimFunc, kernel_sig};
use tvm_runtime::abi::kernel_symbol;
use tvm_runtime::{Kernel, KernelSig, Module};

use crate::best::{for_one_gpu, for_own_gpu};
use crate::parts::parts;
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
    build_level(module, target, None)
}

/// As [`build`]; of a target with several CPU levels, kernels are built for `level` alone, or else for the highest level that
/// this machine has.
///
/// # Errors
/// As for [`build`], and when the target does not have `level`, or this machine lacks features of it.
pub(crate) fn build_level(
    module: &IRModule,
    target: &Target,
    level: Option<&str>,
) -> Result<Module, CodegenError> {
    if let Some((device, host)) = by_place(module, target) {
        let mut built = build_level(&device, target, level)?;
        let on_host = build_level(&host, &target.of_host(), None)?;
        on_host.iter().try_for_each(|kernel| built.add(kernel.clone()))?;
        return Ok(built);
    }
    let target = for_own_gpu(&for_one_gpu(&resolve(target)));
    let level = tvm_runtime::choose_cpu_level(&target.cpu_levels(), level)?.map(String::from);
    let target = level.as_ref().map_or_else(|| target.clone(), |level| target.for_level(level));
    let built = code_generator(target.kind)?.build(module, &target, Options::current())?;
    Ok(built.with_cpu_level(level))
}

/// The programs of a module for a GPU, and those of it that run on the host; `None` if there are none or the target is no GPU.
pub(crate) fn by_place(module: &IRModule, target: &Target) -> Option<(IRModule, IRModule)> {
    if !target.is_gpu() || !prim_funcs(module).any(|(_, func)| func.is_on_host()) {
        return None;
    }
    let [mut device, mut host] = [module.clone(), module.clone()];
    let on_host = |func: &BaseFunc| matches!(func, BaseFunc::Prim(it) if it.is_on_host());
    device.retain(|_, func| !on_host(func));
    host.retain(|_, func| on_host(func));
    Some((device, host))
}

/// Emits the tensor programs of `module` as one unit of `kind`; for a GPU, without those that run on the host.
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
    emit_unit(Unit { kernels, target: &resolve(target), options: Options::current() }, kind)
}

/// Emits `kernels`, as [`emit_lowered`] does, as units of `kind` that are linked into one program. Large models have several, which
/// are made at the same time.
///
/// # Errors
/// When the target cannot express a program.
pub fn emit_parts(
    kernels: &[(String, PrimFunc)],
    target: &Target,
    kind: EmitKind,
) -> Result<Vec<Vec<u8>>, CodegenError> {
    let unit = Unit { kernels, target: &resolve(target), options: Options::current() };
    in_parallel(&parts(kernels), |part| emit_unit(Unit { kernels: part, ..unit }, kind))
}

fn emit_unit(unit: Unit<'_>, kind: EmitKind) -> Result<Vec<u8>, CodegenError> {
    let target = unit.target;
    if !target.cpu_levels().is_empty() {
        let message = "a unit is for one CPU level\n  help: name one, or write an artifact, which holds a unit for each";
        return Err(CodegenError::Target { target: target.to_string(), message: message.into() });
    }
    if target.gpu_archs().len() > 1 {
        let message = "a unit is for one GPU architecture\n  help: name one (`cuda -arch=sm_90`), or write an artifact, which holds code for each";
        return Err(CodegenError::Target { target: target.to_string(), message: message.into() });
    }
    // Every target has the same C source and the same LLVM IR.
    let kind_of_code = match kind {
        EmitKind::C => TargetKind::C,
        EmitKind::LlvmIr => TargetKind::Llvm,
        EmitKind::Asm
        | EmitKind::Object
        | EmitKind::SharedLibrary
        | EmitKind::Cuda
        | EmitKind::Ptx
        | EmitKind::Cubin => target.kind,
    };
    code_generator(kind_of_code)?.emit(unit, kind)
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

/// Lowers the tensor programs of `module` for `target`; returns them with their symbols. For a GPU, programs that run on the host
/// are left out.
///
/// # Errors
/// When a program is malformed.
pub fn lowered(module: &IRModule, target: &Target) -> Result<Vec<(String, PrimFunc)>, CodegenError> {
    let parts = by_place(module, target);
    let module = parts.as_ref().map_or(module, |(device, _)| device);
    let context = context_for(module, target);
    let (source, lowering) = Pipelines::of(&context)?.source_and_lowering();
    let programs = lowering.apply_in(source_programs(module, &source, &context)?, &context)?;
    Ok(prim_funcs(&programs).map(|(name, func)| (kernel_symbol(name), func.clone())).collect())
}

/// The current context for `target`. If the programs of `module` run on the host of a GPU, for which the user's pipelines are, these
/// programs get the user's passes over programs as they are written, and the default lowering.
pub(crate) fn context_for(module: &IRModule, target: &Target) -> PassContext {
    let mut context = PassContext::current().target(target.clone());
    let of_gpu = !target.is_gpu() && prim_funcs(module).any(|(_, func)| func.is_on_host());
    if let Some(own) = context.pipelines.take_if(|_| of_gpu) {
        let default = Pipelines::for_target(target).tir;
        let (source, _) = own.source_and_lowering();
        let passes = source.parts().iter().chain(default.parts()).cloned().collect();
        let tir = Sequential::new(default.info.name, passes);
        context.pipelines = Some(Pipelines { graph: own.graph, tir });
    }
    context
}

/// The tensor programs of `module` after the user's passes over programs as they are written.
///
/// # Errors
/// The error of a pass; a program whose signature is no longer that with which its kernel is called.
pub(crate) fn source_programs(
    module: &IRModule,
    source: &Pass,
    context: &PassContext,
) -> Result<IRModule, CodegenError> {
    let mut programs = IRModule::new();
    for (gv, func) in module.functions() {
        if let BaseFunc::Prim(_) = func {
            programs.update(gv.clone(), func.clone());
        }
    }
    if source.parts().is_empty() {
        return Ok(programs);
    }
    let programs = source.apply_in(programs, context)?;
    for sig in signatures(module) {
        let new = programs.lookup(&sig.name);
        let new = if let Some(BaseFunc::Prim(func)) = new { Some(kernel_sig(&sig.name, func)) } else { None };
        if new.as_ref() != Some(&sig) {
            let got = new.map_or("nothing".to_string(), |new| format!("`{new}`"));
            let message =
                format!("`{sig}` has become {got}, but it is called with the signature that it had");
            let source = IrError::new(message, &Span::none()).help("keep the parameters of programs");
            return Err(PassError::Verify { pass: "SourcePasses".into(), source }.into());
        }
    }
    Ok(programs)
}

pub(crate) fn prim_funcs(module: &IRModule) -> impl Iterator<Item = (&str, &PrimFunc)> {
    module.functions().filter_map(|(gv, func)| match func {
        BaseFunc::Prim(func) => Some((gv.name(), &**func)),
        BaseFunc::Relax(_) | BaseFunc::Extern(_) => None,
    })
}
