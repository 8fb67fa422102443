//! Linking of the kernels for GPUs that an executable carries.
#![allow(unsafe_code, reason = "makes kernels of code for a device; the block says why it is sound")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::abi::kernel_symbol;
use crate::artifact::GpuUnit;
use crate::device::Device;
use crate::error::RuntimeError;
use crate::kernel::{Kernel, KernelSig};
use crate::launch::{
    CodeFormat, DeviceImage, DeviceProgram, HostProgram, KernelFailure, LaunchArg, choose_code,
};
use crate::vm::{CodeObject, Executable, ObjectKind};

/// The programs of an executable for one GPU.
#[derive(Default)]
pub(super) struct GpuPrograms(BTreeMap<String, Program>);

struct Program {
    image: Arc<DeviceImage>,
    kernels: Vec<usize>,
    failures: Arc<[KernelFailure]>,
    host: Arc<HostProgram>,
}

fn code_of(object: &CodeObject) -> Option<(&str, CodeFormat)> {
    match &object.kind {
        ObjectKind::GpuKernels { arch, format } => Some((arch, *format)),
        ObjectKind::SharedLibrary | ObjectKind::LevelLibrary(_) | ObjectKind::Import(_) => None,
    }
}

impl Executable {
    /// The GPU architectures that the executable has kernels for, each once, in the order of its objects: `sm_80`, `PTX for sm_80`.
    pub fn gpu_archs(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (arch, format) in self.objects.iter().filter_map(code_of) {
            let name = match format {
                CodeFormat::Cubin => arch.to_string(),
                CodeFormat::Ptx => format!("PTX for {arch}"),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The programs for the first GPU of this machine; none if the executable has no kernels for GPUs.
    ///
    /// # Errors
    /// When there is no GPU, or no code for it, or an object is malformed.
    pub(super) fn gpu_programs(&self) -> Result<GpuPrograms, RuntimeError> {
        let mut programs = GpuPrograms::default();
        let all = || self.objects.iter().filter_map(code_of);
        if all().next().is_none() {
            return Ok(programs);
        }
        let device = Device::cuda(0);
        let own = device.properties()?.compute_capability.unwrap_or_default();
        let Some(chosen) = choose_code(own, all()) else {
            return Err(RuntimeError::GpuArch {
                device,
                own: format!("sm_{}{}", own.0, own.1),
                has: self.gpu_archs(),
            });
        };
        for object in self.objects.iter().filter(|it| code_of(it) == Some(chosen)) {
            programs.add(object, chosen)?;
        }
        Ok(programs)
    }
}

impl GpuPrograms {
    fn add(&mut self, object: &CodeObject, (arch, format): (&str, CodeFormat)) -> Result<(), RuntimeError> {
        let Some(unit) = GpuUnit::of_object(object)? else { return Ok(()) };
        let image = Arc::new(DeviceImage::new(format, arch, unit.code.to_vec(), unit.symbols));
        let failures: Arc<[KernelFailure]> = unit.failures.into();
        for program in unit.programs {
            let kernels = program.kernels.iter().map(|it| *it as usize).collect();
            let (image, failures, host) = (image.clone(), failures.clone(), Arc::new(program.host));
            self.0.entry(program.symbol).or_insert(Program { image, kernels, failures, host });
        }
        Ok(())
    }

    /// The kernel of the signature `sig`.
    ///
    /// # Safety
    /// The program does what the signature says: see [`Kernel::device`].
    pub(super) unsafe fn kernel(&self, sig: &KernelSig) -> Option<Kernel> {
        let Program { image, kernels, failures, host } = self.0.get(&kernel_symbol(&sig.name))?;
        let host = host.clone();
        let plan = move |args: &[LaunchArg<'_>]| host.plan(args);
        let program = DeviceProgram::new(image.clone(), kernels.clone(), failures.clone(), plan);
        // SAFETY: promised by the caller.
        Some(unsafe { Kernel::device(sig.clone(), program) })
    }
}
