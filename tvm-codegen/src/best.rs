//! The target on which programs run best on this machine: its GPU, if everything is there that running on it takes.

use tvm_core::ir::Diagnose;
use tvm_core::target::{GpuArch, Target};
use tvm_runtime::{Device, RuntimeError};

use crate::cuda::image_compiler;
use crate::{CodegenError, resolve};

/// The best target of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestTarget {
    /// The first GPU, or the CPU.
    pub target: Target,
    /// Why it is not a GPU, as one line: `libcuda.so.1 was not found`.
    pub no_gpu: Option<String>,
}

impl BestTarget {
    /// Looks for a GPU that this build can use, and for the compiler of its kernels. Nothing is compiled. Never fails and never
    /// panics: without a GPU, the target is the CPU.
    ///
    /// ```
    /// let best = tvm_codegen::BestTarget::find();
    /// if let Some(reason) = &best.no_gpu {
    ///     println!("no GPU: {reason}; running on the CPU");
    /// }
    /// assert_eq!(best.target.is_gpu(), best.no_gpu.is_none());
    /// ```
    pub fn find() -> BestTarget {
        match usable() {
            Ok(()) => BestTarget { target: for_own_gpu(&Target::cuda()), no_gpu: None },
            Err(err) => BestTarget { target: resolve(&Target::host()), no_gpu: Some(reason(&err)) },
        }
    }
}

/// `target` with the architecture of the first GPU of this machine, if it is for a GPU and names no architecture: kernels that run here
/// may use what this GPU has. Other targets are unchanged, and those for a GPU whose machine code is not known.
pub fn for_own_gpu(target: &Target) -> Target {
    if !target.is_gpu() || target.arch.is_some() || !target.higher_archs.is_empty() {
        return target.clone();
    }
    let capability = Device::cuda(0).properties().ok().and_then(|it| it.compute_capability);
    let arch = capability.and_then(|it| Some((it, GpuArch::for_capability(it)?)));
    match arch {
        Some(((major, _), arch)) if arch.capability().0 == major => target.clone().with_arch(arch),
        _ => target.clone(),
    }
}

/// `target` with the one of its GPU architectures whose machine code the first GPU of this machine runs; the lowest one if there is no
/// such architecture or no GPU.
pub(crate) fn for_one_gpu(target: &Target) -> Target {
    if target.higher_archs.is_empty() {
        return target.clone();
    }
    let archs = target.gpu_archs();
    let own = Device::cuda(0).properties().ok().and_then(|it| it.compute_capability);
    let runs = |arch: &&GpuArch| own.is_some_and(|own| arch.runs_on(own));
    let arch = archs.iter().rfind(runs).or(archs.first());
    arch.map_or_else(|| target.clone(), |arch| target.clone().with_arch(*arch))
}

/// Fails unless kernels can be compiled for the first GPU and run there.
fn usable() -> Result<(), CodegenError> {
    Device::cuda(0).properties()?;
    image_compiler()?.version()?;
    Ok(())
}

/// `err` as one line.
fn reason(err: &CodegenError) -> String {
    match err {
        CodegenError::Runtime(RuntimeError::DeviceFailure { message, .. }) => first_line(message),
        CodegenError::Runtime(RuntimeError::Unsupported { feature, .. }) => {
            format!("this build lacks the feature `{feature}`")
        }
        CodegenError::Target { message, .. } => first_line(message),
        other => other.diagnostics().first().map(|it| first_line(&it.message)).unwrap_or_default(),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_line() {
        let failure =
            |message: &str| RuntimeError::DeviceFailure { device: Device::cuda(0), message: message.into() };
        for (err, expected) in [
            (failure("libcuda.so.1 was not found\n  help: install it").into(), "libcuda.so.1 was not found"),
            (
                RuntimeError::Unsupported { what: "cuda:0".into(), feature: "cuda" }.into(),
                "this build lacks the feature `cuda`",
            ),
            (
                CodegenError::Target {
                    target: "cuda".into(),
                    message: "libnvrtc is not found\n  help: …".into(),
                },
                "libnvrtc is not found",
            ),
            (RuntimeError::other("one\ntwo").into(), "one"),
        ] {
            assert_eq!(reason(&err), expected);
        }
        let best = BestTarget::find();
        if cfg!(not(feature = "cuda")) {
            assert_eq!(best.no_gpu.as_deref(), Some("this build lacks the feature `cuda`"));
        }
        assert_eq!(best.target.is_gpu(), best.no_gpu.is_none());
    }
}
