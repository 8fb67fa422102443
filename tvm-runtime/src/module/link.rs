//! The kernels that an executable carries in its objects.
#![allow(unsafe_code, reason = "loads the machine code of a program; see SAFETY")]

use std::sync::Arc;

use super::{Library, Module, resolve};
use crate::error::RuntimeError;
use crate::vm::{Executable, ObjectKind, Vm};

impl Executable {
    /// Loads the shared libraries among the objects and resolves every kernel in them.
    ///
    /// Programs that this process compiled itself need no link: the compiler gives a [`Vm`] that runs.
    ///
    /// # Safety
    /// This loads and runs machine code of whoever made the executable, who must be trusted as the maker of a program is:
    /// its kernels keep the promises of [`Kernel::native`](crate::Kernel::native) for the signatures in the executable.
    ///
    /// # Errors
    /// When this machine lacks a feature that the code was compiled for, or a kernel is missing.
    pub unsafe fn link(&self) -> Result<Module, RuntimeError> {
        self.check_cpu()?;
        let objects = self.objects.iter().filter(|object| object.kind == ObjectKind::SharedLibrary);
        let libraries = objects
            // SAFETY: promised by the caller.
            .map(|object| unsafe { Library::from_bytes(&object.name, &object.bytes) })
            .collect::<Result<Vec<_>, _>>()?;
        resolve(&self.kernels, |sig| libraries.iter().find_map(|library| library.kernel(sig.clone())))
    }
}

impl Vm {
    /// As [`Vm::new`], with the kernels that the executable carries.
    ///
    /// # Safety
    /// See [`Executable::link`].
    ///
    /// # Errors
    /// See [`Executable::link`] and [`Vm::new`].
    pub unsafe fn linked(exe: impl Into<Arc<Executable>>) -> Result<Vm, RuntimeError> {
        let exe = exe.into();
        // SAFETY: promised by the caller.
        let module = unsafe { exe.link()? };
        Vm::new(exe, &module)
    }
}
