//! Models that a build script compiled and the linker made part of the application.
//!
//! TVM counterpart: a system library (`runtime.SystemLib`), without its registry of symbols. The wrapper that
//! `tvm-build` generates names one macro, [`__linked_model!`](crate::__linked_model), which declares the kernels and
//! embeds the artifact.
#![allow(unsafe_code, reason = "kernels are declared by a macro; the block says why it is sound")]

use super::{KernelTable, Module};
use crate::error::RuntimeError;
use crate::vm::{Executable, Vm, VmConfig};

/// Bytes at an address that tensors may have.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Aligned<B: ?Sized>(pub B);

/// Bounds of a symbolic dimension, both included: name, lowest, highest.
pub type DimBound = (&'static str, i64, i64);

/// A program whose kernels are part of the application. `Send + Sync`, called through `&self`.
#[derive(Debug)]
pub struct LinkedModel {
    pub(crate) vm: Vm,
    pub(crate) bounds: &'static [DimBound],
}

impl LinkedModel {
    /// Verifies the artifact and resolves its kernels in `table`. Its constants stay where they are.
    ///
    /// # Safety
    /// The kernels of `table` were compiled from the program in `artifact`: see [`Module::from_table`].
    pub unsafe fn load(
        artifact: &'static [u8],
        table: &KernelTable,
        bounds: &'static [DimBound],
        config: VmConfig,
    ) -> Result<LinkedModel, RuntimeError> {
        let exe = Executable::load_static(artifact)?;
        exe.check_cpu()?;
        // SAFETY: promised by the caller.
        let module = unsafe { Module::from_table(&exe.kernels, table)? };
        Ok(LinkedModel { vm: Vm::with_config(exe, &module, config)?, bounds })
    }

    /// The virtual machine that runs it.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }
}

/// The typed wrapper of a model that the build script compiled with `tvm_build::Model`: the struct that is named after
/// the model, with one method per entry point.
///
/// ```ignore
/// tvm_runtime::include_model!("digits");
/// let scores = Digits::new()?.run(&images)?.probabilities;
/// ```
#[macro_export]
macro_rules! include_model {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}

/// Declares the kernels of a model, embeds its artifact and loads it. Only for what `tvm-build` generates: the library
/// must hold the kernels of the artifact.
#[doc(hidden)]
#[macro_export]
macro_rules! __linked_model {
    (
        artifact: $artifact:literal,
        library: $library:literal,
        abi: $abi:literal,
        bounds: $bounds:expr,
        config: $config:expr,
        kernels: [$(($name:literal, $symbol:ident)),* $(,)?] $(,)?
    ) => {{
        #[link(name = $library, kind = "static")]
        unsafe extern "C" {
            $(fn $symbol(
                args: *const $crate::abi::KernelArg,
                n_args: i32,
                ctx: *mut $crate::abi::CallContext,
            ) -> i32;)*
        }
        static TABLE: $crate::KernelTable =
            $crate::KernelTable { abi_version: $abi, entries: &[$(($name, $symbol)),*] };
        static ARTIFACT: &$crate::Aligned<[u8]> = &$crate::Aligned(*include_bytes!($artifact));
        // SAFETY: the build script wrote the library and the artifact from one compilation.
        unsafe { $crate::LinkedModel::load(&ARTIFACT.0, &TABLE, $bounds, $config) }
    }};
}

#[cfg(test)]
mod tests;
