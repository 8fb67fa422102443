//! Linking of the kernels that an executable carries in its objects.
#![allow(unsafe_code, reason = "loads the machine code of a program; see SAFETY")]

use std::sync::Arc;

use super::{Library, Module, resolve};
use crate::error::RuntimeError;
use crate::vm::{Executable, ObjectKind, Vm, VmConfig};

impl Executable {
    /// Loads the shared libraries among the objects and resolves every kernel of the executable in them. Of kernels for GPUs, those
    /// that suit the first GPU of this machine are taken: machine code for its architecture, otherwise PTX, which the driver translates.
    /// They are loaded when they are first called.
    ///
    /// Programs that this process compiled itself need no linking: the compiler returns a [`Vm`] that is ready to run.
    ///
    /// # Safety
    /// This loads and runs machine code, so whoever made the executable must be trusted like the author of a program.
    /// Its kernels must keep the promises of [`Kernel::native`](crate::Kernel::native) for the signatures in the
    /// executable.
    ///
    /// # Errors
    /// When this machine lacks a CPU feature that the code was compiled for, when a kernel is missing, or when there is no GPU for the
    /// kernels ([`RuntimeError::GpuArch`] if it has another architecture).
    pub unsafe fn link(&self) -> Result<Module, RuntimeError> {
        // SAFETY: promised by the caller.
        unsafe { self.link_level(None) }
    }

    /// As [`Executable::link`], with the kernels for the CPU level `level`; `None` for the highest level that this machine
    /// has. Only the libraries of the level that is taken are loaded.
    ///
    /// # Safety
    /// See [`Executable::link`].
    ///
    /// # Errors
    /// As for [`Executable::link`], and when the program has no kernels for `level`, or has not those that it lists.
    pub unsafe fn link_level(&self, level: Option<&str>) -> Result<Module, RuntimeError> {
        self.check_cpu()?;
        let level_of = |kind: &ObjectKind| match kind {
            ObjectKind::LevelLibrary(level) => Some(level.clone()),
            ObjectKind::SharedLibrary | ObjectKind::GpuKernels { .. } | ObjectKind::Import(_) => None,
        };
        let carried: Vec<String> = self.objects.iter().filter_map(|it| level_of(&it.kind)).collect();
        let carried: Vec<&str> = carried.iter().map(String::as_str).collect();
        let level = self.choose_level(&carried, level)?;
        let objects = self.objects.iter().filter(|object| match level_of(&object.kind) {
            Some(it) => Some(it) == level,
            None => object.kind == ObjectKind::SharedLibrary,
        });
        let libraries = objects
            // SAFETY: promised by the caller.
            .map(|object| unsafe { Library::from_bytes(&object.name, &object.bytes) })
            .collect::<Result<Vec<_>, _>>()?;
        let gpu = self.gpu_programs()?;
        let module = resolve(&self.kernels, |sig| {
            let native = libraries.iter().find_map(|library| library.kernel(sig.clone()));
            // SAFETY: promised by the caller.
            native.or_else(|| unsafe { gpu.kernel(sig) })
        })?;
        Ok(module.with_cpu_level(level))
    }
}

impl Vm {
    /// As [`Vm::new`], with the kernels that the executable itself carries.
    ///
    /// # Safety
    /// See [`Executable::link`].
    ///
    /// # Errors
    /// See [`Executable::link`] and [`Vm::new`].
    pub unsafe fn linked(exe: impl Into<Arc<Executable>>) -> Result<Vm, RuntimeError> {
        // SAFETY: promised by the caller.
        unsafe { Vm::linked_with_config(exe, VmConfig::default()) }
    }

    /// As [`Vm::linked`], with other limits, with packed functions, or with loaders of imported modules.
    ///
    /// # Safety
    /// See [`Executable::link`].
    ///
    /// # Errors
    /// See [`Executable::link`] and [`Vm::with_config`].
    pub unsafe fn linked_with_config(
        exe: impl Into<Arc<Executable>>,
        config: VmConfig,
    ) -> Result<Vm, RuntimeError> {
        let exe = exe.into();
        // SAFETY: promised by the caller.
        let module = unsafe { exe.link_level(config.cpu_level.as_deref())? };
        Vm::with_config(exe, &module, config)
    }
}
