//! Makes kernels of tensor programs that the runtime launches.
#![allow(unsafe_code, reason = "makes kernels of generated code; the block says why it is sound")]

use std::sync::Arc;

use tvm_core::ir::IRModule;
use tvm_core::target::{GpuArch, Target};
use tvm_runtime::{CodeFormat, Device, DeviceImage, DeviceProgram, Kernel, KernelFailure, LaunchArg, Module};

use super::host::kernel_failure;
use super::image::{self, ImageOptions};
use crate::{CodegenError, Options, lowered, parts};

/// Compiles the programs of `module`. No device is needed: the code is loaded when a kernel is first called.
pub(super) fn build(module: &IRModule, target: &Target, options: Options) -> Result<Module, CodegenError> {
    if !cfg!(feature = "cuda") {
        let help = ", or write the source: `EmitKind::Cuda`, `tvmc compile --emit cuda`";
        return Err(CodegenError::Unsupported { target: "CUDA", feature: "cuda", help });
    }
    let (arch, format) = code_for(target);
    let options = ImageOptions { arch, fast_math: options.fast_math, format };
    parts::load(module, &lowered(module, target)?, |part, sigs| {
        let source = super::source(part)?;
        let code = image::compile(&source, &options)?;
        let failures: Arc<[KernelFailure]> = source.failures.iter().map(kernel_failure).collect();
        let symbols = source.programs.iter().flat_map(|it| &it.kernels).map(|it| it.name.clone());
        let image = Arc::new(DeviceImage::new(format, arch.name(), code, symbols.collect()));
        let (mut kernels, mut first) = (Vec::new(), 0);
        for (host, sig) in source.programs.into_iter().zip(sigs) {
            let own = (first..first + host.kernels.len()).collect();
            first += host.kernels.len();
            let plan = move |args: &[LaunchArg<'_>]| Ok(host.plan_launch(args)?);
            let program = DeviceProgram::new(image.clone(), own, failures.clone(), plan);
            // SAFETY: the source was generated here from programs in the lowered form, whose kernels check what their hosts do
            // not, and the plan passes the parameters that were generated.
            kernels.push(unsafe { Kernel::device(sig.clone(), program) });
        }
        Ok(Module::new(kernels)?)
    })
}

/// The architecture that `target` names, as machine code. If it names none: machine code for the first GPU of this machine, or
/// PTX where that is not known.
fn code_for(target: &Target) -> (GpuArch, CodeFormat) {
    if let Some(arch) = target.arch {
        return (arch, CodeFormat::Cubin);
    }
    let capability = Device::cuda(0).properties().ok().and_then(|it| it.compute_capability);
    match capability.and_then(|it| Some((it, GpuArch::for_capability(it)?))) {
        Some(((major, _), arch)) if arch.capability().0 == major => (arch, CodeFormat::Cubin),
        Some((_, arch)) => (arch, CodeFormat::Ptx),
        None => (GpuArch::DEFAULT, CodeFormat::Ptx),
    }
}
