//! Makes kernels of tensor programs that the runtime launches.
#![allow(unsafe_code, reason = "makes kernels of generated code; the block says why it is sound")]

use std::sync::Arc;

use tvm_core::ir::IRModule;
use tvm_core::target::{GpuArch, Target};
use tvm_runtime::{CodeFormat, DeviceImage, DeviceProgram, Kernel, KernelFailure, LaunchArg, Module};

use super::host::kernel_failure;
use super::image::{self, ImageOptions};
use crate::{CodegenError, Options, for_own_gpu, lowered, parts};

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
            let plan = move |args: &[LaunchArg<'_>]| host.code.plan(args);
            let program = DeviceProgram::new(image.clone(), own, failures.clone(), plan);
            // SAFETY: the source was generated here from programs in the lowered form, whose kernels check what their hosts do
            // not, and the plan passes the parameters that were generated.
            kernels.push(unsafe { Kernel::device(sig.clone(), program) });
        }
        Ok(Module::new(kernels)?)
    })
}

/// The architecture that `target` names, as machine code; PTX for the oldest one where [`for_own_gpu`] knows none.
fn code_for(target: &Target) -> (GpuArch, CodeFormat) {
    let known = for_own_gpu(target).arch;
    known.map_or((GpuArch::DEFAULT, CodeFormat::Ptx), |arch| (arch, CodeFormat::Cubin))
}
