//! Where a program that is embedded in the application runs: on the GPU, if code for GPUs is embedded and this machine can use it,
//! otherwise on the host.
//!
//! Ensures: what this machine lacks (driver, GPU, code for its architecture) never hides what is wrong with the application
//! (damaged bytes, a missing feature), which is an error. Code for GPUs is not read where there is no GPU.

use super::KernelTable;
use super::gpu::GpuPrograms;
use crate::device::{Device, gpu_capabilities};
use crate::error::RuntimeError;
use crate::vm::Executable;

/// The GPU that embedded programs run on.
pub(super) const GPU: Device = Device::cuda(0);

/// What a build script embeds for GPUs.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedGpu {
    /// The program, as an artifact that holds its kernels for GPUs.
    pub artifact: &'static [u8],
    /// Its kernels that run on the host.
    pub on_host: KernelTable,
}

/// Where a program runs.
pub(super) enum Place {
    /// On the GPU.
    Gpu(Box<OnGpu>),
    /// On the host. The reason, if code for GPUs is embedded and nobody asked for the host.
    Host(Option<RuntimeError>),
}

/// A program for the GPU, and its kernels.
pub(super) struct OnGpu {
    pub(super) exe: Executable,
    pub(super) kernels: GpuPrograms,
    pub(super) on_host: KernelTable,
}

impl Place {
    /// Chooses the place `wanted`; `None` for the GPU if it can be used, otherwise the host.
    ///
    /// # Errors
    /// When no code for `wanted` is embedded, this machine cannot use it, this build lacks the feature `cuda`, or the artifact is damaged.
    pub(super) fn choose(
        embedded: Option<EmbeddedGpu>,
        wanted: Option<Device>,
    ) -> Result<Place, RuntimeError> {
        let embedded = match (wanted, embedded) {
            (None, None) => return Ok(Place::Host(None)),
            (Some(device), _) if device == Device::cpu() => return Ok(Place::Host(None)),
            (None | Some(GPU), Some(embedded)) => embedded,
            (Some(device), embedded) => {
                let has = [Device::cpu()].into_iter().chain(embedded.map(|_| GPU)).collect();
                return Err(RuntimeError::NoCode { device, has });
            }
        };
        match usable(embedded)? {
            Ok(program) => Ok(Place::Gpu(Box::new(program))),
            Err(reason) if wanted.is_none() => Ok(Place::Host(Some(reason))),
            Err(reason) => Err(reason),
        }
    }
}

/// The program that is embedded, or what this machine lacks to run it.
///
/// # Errors
/// What is wrong with the application.
fn usable(embedded: EmbeddedGpu) -> Result<Result<OnGpu, RuntimeError>, RuntimeError> {
    match gpu_capabilities() {
        Err(err @ RuntimeError::Unsupported { .. }) => return Err(err),
        Err(reason) => return Ok(Err(reason)),
        Ok(_) => {}
    }
    let EmbeddedGpu { artifact, on_host } = embedded;
    let exe = Executable::load_static(artifact)?;
    let kernels = exe.gpu_programs().and_then(|it| it.try_on(GPU).map(|()| it));
    Ok(kernels.map(|kernels| OnGpu { exe, kernels, on_host }))
}
