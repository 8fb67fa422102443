//! Code for GPUs beside that for the CPU: a program of its own, as an artifact that the wrapper embeds.
//!
//! Requires NVIDIA's libnvrtc while the application is built (feature `cuda`), but neither a driver nor a GPU. What such a program
//! computes on the host is linked like the kernels for the CPU, whose lowest level it is compiled for.

use std::path::{Path, PathBuf};

use tvm_codegen::cuda::image_compiler;
use tvm_codegen::{CodegenError, Compiled, KernelUnit, gpu_objects, lowered};
use tvm_core::ir::{Diagnose, Diagnostic, IRModule};
use tvm_core::pass::PassContext;
use tvm_core::target::{GpuArch, ParseTargetError, Target, TargetKind, UnknownArch};
use tvm_core::tir::{PrimFunc, kernel_sig};
use tvm_runtime::KernelSig;
use tvm_runtime::abi::kernel_symbol;
use tvm_runtime::vm::Executable;

use crate::settings::write;
use crate::{BuildError, BuildItem, cargo};

/// What the words for GPUs say.
#[derive(Clone, Debug)]
pub(crate) struct GpuSettings {
    pub(crate) archs: Vec<String>,
    /// Whether a missing compiler is an error.
    pub(crate) required: bool,
}

/// A program for GPUs.
pub(crate) struct GpuProgram {
    /// Bytecode, constants and kernels for GPUs.
    pub(crate) exe: Executable,
    /// Name, symbol and program of each kernel that runs on the host.
    pub(crate) on_host: Vec<(String, String, PrimFunc)>,
}

/// What a wrapper says of a program for GPUs.
#[derive(Clone, Debug)]
pub(crate) struct EmbeddedGpu {
    /// Name of the artifact.
    pub(crate) file: String,
    /// What it has kernels for.
    pub(crate) archs: Vec<String>,
    /// Name and symbol of each kernel that runs on the host.
    pub(crate) on_host: Vec<(String, String)>,
}

impl GpuSettings {
    /// The target for GPUs beside `cpu`; `None` if there is no compiler for it and that is no error.
    ///
    /// # Errors
    /// When an architecture is not known, or there is no compiler.
    pub(crate) fn target(&self, item: &BuildItem, cpu: &Target) -> Result<Option<Target>, BuildError> {
        let failed = |source| BuildError::Target { item: item.clone(), source };
        let archs = self.archs.iter().map(|it| it.parse()).collect::<Result<Vec<GpuArch>, UnknownArch>>();
        let lowest = cpu.cpu_levels().first().map_or_else(|| cpu.clone(), |level| cpu.for_level(level));
        let target = lowest.with_kind(TargetKind::Cuda);
        let target = archs.map_err(ParseTargetError::from).and_then(|it| target.with_archs(it));
        let target = target.map_err(failed)?;
        cargo::rerun_if_library_path_changed();
        match image_compiler().and_then(|it| it.version()) {
            Ok(_) => Ok(Some(target)),
            Err(source) if self.required => {
                Err(BuildError::GpuCompiler { item: item.clone(), source: source.into() })
            }
            Err(source) => {
                cargo::warning(&for_cpu_alone(item, &source));
                Ok(None)
            }
        }
    }
}

/// The warning that `item` is compiled without code for GPUs, on one line.
fn for_cpu_alone(item: &BuildItem, err: &CodegenError) -> String {
    let context = format!("{item} is compiled for the CPU alone");
    let text: Vec<String> = no_compiler(&context, err).iter().map(ToString::to_string).collect();
    text.join("\n").lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// What is missing, after `context`.
pub(crate) fn no_compiler(context: &str, err: &CodegenError) -> Vec<Diagnostic> {
    if let CodegenError::Unsupported { feature, .. } = err {
        let message = format!("{context}: tvm-build lacks the feature `{feature}`");
        return vec![Diagnostic::plain(message).help("turn it on in [build-dependencies]")];
    }
    err.diagnostics().into_iter().map(|it| it.context(context)).collect()
}

/// `context` without its pipelines, which are those of the CPU.
fn without_pipelines(context: &PassContext) -> PassContext {
    PassContext { pipelines: None, ..context.clone() }
}

/// Compiles the graph functions of `module` for `target`; what runs on the host goes through the code generator `host`, and its symbols
/// begin with `prefix`.
///
/// # Errors
/// When a pass fails, or no code can be generated.
pub(crate) fn compile_model(
    module: IRModule,
    target: &Target,
    host: TargetKind,
    prefix: &str,
    context: &PassContext,
) -> Result<GpuProgram, CodegenError> {
    without_pipelines(context).scope(|| {
        let mut compiled = Compiled::new(module, target)?;
        compiled.require_cpu()?;
        let on_host = compiled.host_unit(host)?.map(|unit| unit.kernels).unwrap_or_default();
        let mut exe = std::mem::take(&mut compiled.executable);
        exe.objects = gpu_objects(&compiled.units()?)?;
        let name =
            |symbol: &str| exe.kernels.iter().map(|sig| &sig.name).find(|it| kernel_symbol(it) == symbol);
        let named = on_host
            .into_iter()
            .filter_map(|(symbol, func)| Some((name(&symbol)?.clone(), format!("{prefix}_{symbol}"), func)));
        let on_host = named.collect();
        Ok(GpuProgram { exe, on_host })
    })
}

/// `program` under the name of the kernel for the CPU, whose signature is `expected`.
///
/// # Errors
/// When it has other parameters.
pub(crate) fn named_as(
    item: &BuildItem,
    mut program: PrimFunc,
    expected: &KernelSig,
) -> Result<PrimFunc, BuildError> {
    program.name = expected.name.as_str().into();
    let got = kernel_sig(&expected.name, &program);
    if got == *expected {
        return Ok(program);
    }
    let (expected, got) = (expected.to_string(), got.to_string());
    Err(BuildError::GpuParameters { item: item.clone(), expected, got })
}

/// Compiles `program` for `target`, as an executable with one kernel and no functions.
///
/// # Errors
/// When no code can be generated.
pub(crate) fn compile_kernel(
    program: PrimFunc,
    target: &Target,
    context: &PassContext,
) -> Result<Executable, CodegenError> {
    let module = &IRModule::from_prim_func(program);
    without_pipelines(context).scope(|| {
        let unit = |arch| {
            let target = target.clone().with_arch(arch);
            Ok(KernelUnit { level: None, kernels: lowered(module, &target)?, target })
        };
        let units = target.gpu_archs().into_iter().map(unit).collect::<Result<Vec<_>, CodegenError>>()?;
        let (kernels, objects) = (tvm_codegen::signatures(module), gpu_objects(&units)?);
        Ok(Executable { kernels, objects, target: target.to_string(), ..Executable::default() })
    })
}

impl GpuProgram {
    /// Writes the artifact of `item` into `dir`; returns what the wrapper says of it, and its path.
    ///
    /// # Errors
    /// When the artifact cannot be made or written.
    pub(crate) fn save(&self, item: &BuildItem, dir: &Path) -> Result<(EmbeddedGpu, PathBuf), BuildError> {
        let file = format!("{}.gpu.tvm", item.name());
        let path = dir.join(&file);
        let bytes = self.exe.save();
        let bytes = bytes.map_err(|err| BuildError::Artifact { item: item.clone(), source: err.into() })?;
        write(&path, &bytes)?;
        let on_host = self.on_host.iter().map(|(name, symbol, _)| (name.clone(), symbol.clone())).collect();
        Ok((EmbeddedGpu { file, archs: self.exe.gpu_archs(), on_host }, path))
    }
}

impl EmbeddedGpu {
    /// The architectures of the program in a wrapper, as the elements of an array.
    pub(crate) fn archs_of(gpu: Option<&EmbeddedGpu>) -> String {
        let archs = gpu.map(|it| it.archs.as_slice()).unwrap_or_default();
        archs.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", ")
    }
}
