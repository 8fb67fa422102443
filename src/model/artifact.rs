//! Compiled models as files and bytes.
//!
//! An artifact contains machine code, so loading one is `unsafe`: whoever made it must be trusted like the author of a
//! program.
#![allow(
    unsafe_code,
    reason = "machine code of an artifact is loaded; the caller promises that it is trusted"
)]

use std::path::Path;

use tvm_codegen::Compiled;
use tvm_core::pass::PassContext;
use tvm_runtime::RuntimeError;
use tvm_runtime::vm::{Executable, Vm, VmConfig};

use super::{CompiledModel, ModelError};

/// What a model was compiled from, and in which context.
pub(super) struct Origin {
    pub(super) compiled: Compiled,
    pub(super) context: PassContext,
}

impl CompiledModel {
    /// The model as an artifact: bytecode, constants, and the kernels as a shared library, which is compiled now. It runs on
    /// machines with the CPU features of the target, and needs `tvm-runtime` only. Of a target for GPUs, it has the code of each
    /// architecture, PTX for newer ones, and the launches.
    ///
    /// # Errors
    /// When the target has no machine code (the interpreter), or there is no compiler of code for GPUs.
    pub fn bytes(&self) -> Result<Vec<u8>, ModelError> {
        let Some(Origin { compiled, context }) = &self.origin else {
            return Ok(self.vm().executable().save()?);
        };
        let exe = context.clone().scope(|| compiled.clone().into_executable())?;
        Ok(exe.save()?)
    }

    /// Writes [`CompiledModel::bytes`] to a file.
    ///
    /// # Errors
    /// As for [`CompiledModel::bytes`], and when the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        let (path, bytes) = (path.as_ref(), self.bytes()?);
        let io = |err: std::io::Error| RuntimeError::Io {
            path: path.display().to_string(),
            message: err.to_string(),
        };
        Ok(std::fs::write(path, bytes).map_err(io)?)
    }

    /// Loads the artifact in a file, also one that `tvmc compile` wrote.
    ///
    /// # Safety
    /// This loads and runs machine code of the artifact: see [`Executable::link`].
    ///
    /// # Errors
    /// When the file is no artifact, is damaged, or needs CPU features or a GPU that this machine lacks.
    pub unsafe fn load(path: impl AsRef<Path>) -> Result<CompiledModel, ModelError> {
        // SAFETY: promised by the caller.
        unsafe { CompiledModel::load_with(Executable::load_file(path)?, VmConfig::default()) }
    }

    /// Loads an artifact from memory.
    ///
    /// # Safety
    /// See [`CompiledModel::load`].
    ///
    /// # Errors
    /// As for [`CompiledModel::load`].
    pub unsafe fn from_bytes(bytes: &[u8]) -> Result<CompiledModel, ModelError> {
        // SAFETY: promised by the caller.
        unsafe { CompiledModel::load_with(Executable::load(bytes)?, VmConfig::default()) }
    }

    /// Loads an executable, with other limits, another thread pool, or functions and loaders of the application.
    ///
    /// # Safety
    /// See [`CompiledModel::load`].
    ///
    /// # Errors
    /// As for [`CompiledModel::load`], and when the executable has no entry point.
    pub unsafe fn load_with(exe: Executable, config: VmConfig) -> Result<CompiledModel, ModelError> {
        // SAFETY: promised by the caller.
        let vm = unsafe { Vm::linked_with_config(exe, config)? };
        CompiledModel::new(vm, None, None)
    }
}
