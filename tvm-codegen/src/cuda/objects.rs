//! Kernels for artifacts: machine code for each GPU architecture of a target, PTX for GPUs that are newer, and how the host launches
//! them.
//!
//! Requires kernels that were lowered for the architecture. Ensures that whoever loads the objects needs neither a compiler nor
//! the programs. TVM counterpart: `CUDAModuleNode::SaveToBytes`.

use tvm_core::support::in_parallel;
use tvm_core::target::GpuArch;
use tvm_core::tir::PrimFunc;
use tvm_runtime::artifact::{GpuProgram, GpuUnit};
use tvm_runtime::vm::CodeObject;
use tvm_runtime::{CodeFormat, KernelFailure};

use super::host::kernel_failure;
use super::image::{self, ImageOptions};
use crate::parts::parts;
use crate::{CodegenError, Unit};

/// The kernels of `unit` as objects, with machine code for the architecture of its target; with `ptx`, there are objects with PTX as
/// well, which newer GPUs run.
///
/// # Errors
/// When the target cannot express a program, or there is no compiler of code for GPUs.
pub(crate) fn objects(unit: Unit<'_>, ptx: bool) -> Result<Vec<CodeObject>, CodegenError> {
    let arch = unit.target.gpu_arch().unwrap_or(GpuArch::DEFAULT);
    let formats = if ptx { &[CodeFormat::Cubin, CodeFormat::Ptx][..] } else { &[CodeFormat::Cubin] };
    let parts: Vec<_> = parts(unit.kernels).into_iter().enumerate().collect();
    let objects = in_parallel(&parts, |(number, part)| {
        let of_format = |format: &CodeFormat| {
            let options = ImageOptions { arch, fast_math: unit.options.fast_math, format: *format };
            object(*number, part, &options)
        };
        formats.iter().map(of_format).collect::<Result<Vec<_>, CodegenError>>()
    })?;
    Ok(objects.into_iter().flatten().collect())
}

fn object(
    number: usize,
    part: &[(String, PrimFunc)],
    options: &ImageOptions,
) -> Result<CodeObject, CodegenError> {
    let source = super::source(part)?;
    let code = image::compile(&source, options)?;
    let failures: Vec<KernelFailure> = source.failures.iter().map(kernel_failure).collect();
    let (mut symbols, mut programs) = (Vec::new(), Vec::new());
    for ((symbol, _), program) in part.iter().zip(source.programs) {
        let first = symbols.len();
        symbols.extend(program.kernels.into_iter().map(|it| it.name));
        let numbers = first..symbols.len();
        let kernels = numbers.map(|it| u32::try_from(it).unwrap_or(u32::MAX)).collect();
        programs.push(GpuProgram { symbol: symbol.clone(), kernels, host: program.code });
    }
    let (arch, format) = (options.arch.name(), options.format);
    let unit = GpuUnit { symbols, failures, programs, code: &code };
    let name = format!("kernels.{arch}.{}.{number}", image::extension(format));
    Ok(unit.to_object(name, arch, format)?)
}
