//! Linking of the kernels for GPUs that an executable carries.
#![allow(unsafe_code, reason = "makes kernels of code for a device; the block says why it is sound")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::abi::kernel_symbol;
use crate::artifact::GpuUnit;
use crate::device::{Device, gpu_capabilities};
use crate::error::RuntimeError;
use crate::kernel::{Kernel, KernelSig};
use crate::launch::{
    Choice, CodeFormat, DeviceImage, DeviceProgram, HostProgram, KernelFailure, LaunchArg, choose_code,
};
use crate::vm::{CodeObject, Executable, ObjectKind};

/// The programs of an executable for the GPUs of this machine.
#[derive(Default)]
pub(super) struct GpuPrograms {
    /// For each code that one of them takes, by name.
    codes: Vec<BTreeMap<String, Program>>,
    /// The number of the code that each of them takes.
    choice: Arc<[Choice]>,
}

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

    /// The programs for the GPUs of this machine, in the code that suits each of them best; none if the executable has no kernels for
    /// GPUs.
    ///
    /// # Errors
    /// When there is no GPU, or no code for any of them, or an object is malformed.
    pub(super) fn gpu_programs(&self) -> Result<GpuPrograms, RuntimeError> {
        let all = || self.objects.iter().filter_map(code_of);
        if all().next().is_none() {
            return Ok(GpuPrograms::default());
        }
        let (mut chosen, mut choice) = (Vec::new(), Vec::new());
        for (id, own) in (0..).zip(gpu_capabilities()?) {
            choice.push(match choose_code(own, all()) {
                Some(code) => Ok(chosen.iter().position(|it| *it == code).unwrap_or_else(|| {
                    chosen.push(code);
                    chosen.len() - 1
                })),
                None => Err(RuntimeError::GpuArch {
                    device: Device::cuda(id),
                    own: format!("sm_{}{}", own.0, own.1),
                    has: self.gpu_archs(),
                }),
            });
        }
        if let (true, Some(Err(err))) = (chosen.is_empty(), choice.first()) {
            return Err(err.clone());
        }
        let code = |code: &(&str, CodeFormat)| {
            let mut programs = BTreeMap::new();
            let objects = self.objects.iter().filter(|it| code_of(it) == Some(*code));
            objects.into_iter().try_for_each(|it| add(&mut programs, it, *code)).map(|()| programs)
        };
        let codes = chosen.iter().map(code).collect::<Result<_, _>>()?;
        Ok(GpuPrograms { codes, choice: choice.into() })
    }
}

/// Adds the programs of a unit of code.
fn add(
    programs: &mut BTreeMap<String, Program>,
    object: &CodeObject,
    (arch, format): (&str, CodeFormat),
) -> Result<(), RuntimeError> {
    let Some(unit) = GpuUnit::of_object(object)? else { return Ok(()) };
    let image = Arc::new(DeviceImage::new(format, arch, unit.code.to_vec(), unit.symbols));
    let failures: Arc<[KernelFailure]> = unit.failures.into();
    for program in unit.programs {
        let kernels = program.kernels.iter().map(|it| *it as usize).collect();
        let (image, failures, host) = (image.clone(), failures.clone(), Arc::new(program.host));
        programs.entry(program.symbol).or_insert(Program { image, kernels, failures, host });
    }
    Ok(())
}

impl GpuPrograms {
    /// Loads code on `device`, so that what the driver says about it is known before the first call. Each code of a program is for the
    /// same driver and architecture, so one of them tells.
    ///
    /// # Errors
    /// When the device has no code, or cannot be used, or its driver refuses the code.
    pub(super) fn try_on(&self, device: Device) -> Result<(), RuntimeError> {
        let id = usize::try_from(device.id).ok();
        let code = match id.and_then(|id| self.choice.get(id)) {
            Some(Ok(number)) => self.codes.get(*number),
            Some(Err(err)) => return Err(err.clone()),
            None => None,
        };
        match code.and_then(|it| it.values().next()) {
            Some(program) => program.image.on(device).map(drop),
            None => device.properties().map(drop),
        }
    }

    /// The kernel of the signature `sig`; `None` if it runs on the host.
    ///
    /// # Safety
    /// The program does what the signature says: see [`Kernel::device`].
    pub(super) unsafe fn kernel(&self, sig: &KernelSig) -> Option<Kernel> {
        // Without the feature there are none, and the application needs no code that launches them.
        if !cfg!(feature = "cuda") {
            return None;
        }
        let symbol = kernel_symbol(&sig.name);
        let program = |programs: &BTreeMap<String, Program>| {
            let Program { image, kernels, failures, host } = programs.get(&symbol)?;
            let host = host.clone();
            let plan = move |args: &[LaunchArg<'_>]| host.plan(args);
            Some(DeviceProgram::new(image.clone(), kernels.clone(), failures.clone(), plan))
        };
        let programs = self.codes.iter().map(program).collect::<Option<Vec<_>>>()?;
        let program = DeviceProgram::for_all(programs, self.choice.clone())?;
        // SAFETY: promised by the caller.
        Some(unsafe { Kernel::device(sig.clone(), program) })
    }
}
