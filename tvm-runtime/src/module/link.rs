//! The kernels that an executable carries in its objects.
#![allow(unsafe_code, reason = "loads the machine code of a program; see SAFETY")]

use super::{Library, Module, resolve};
use crate::error::RuntimeError;
use crate::vm::{Executable, ObjectKind};

impl Executable {
    /// Loads the shared libraries among the objects and resolves every kernel in them. This runs machine code of whoever
    /// made the executable: call it only on what you would run as a program.
    pub fn link(&self) -> Result<Module, RuntimeError> {
        let objects = self.objects.iter().filter(|object| object.kind == ObjectKind::SharedLibrary);
        let libraries = objects
            // SAFETY: the executable is trusted as a program is (see above).
            .map(|object| unsafe { Library::from_bytes(&object.name, &object.bytes) })
            .collect::<Result<Vec<_>, _>>()?;
        resolve(&self.kernels, |sig| libraries.iter().find_map(|library| library.kernel(sig.clone())))
    }
}
