//! Generation and loading of machine code in this process.

use std::sync::Arc;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::execution_engine::ExecutionEngine;
use inkwell::module::Module;
use tvm_runtime::abi::{KernelFn, kernel_symbol};
use tvm_runtime::{Kernel, KernelSig, Module as KernelModule, RuntimeError};

use super::LlvmError;
use crate::CodegenError;

/// Kernels generated in this process; they stay valid as long as the library.
pub struct JitLibrary {
    // Dropped before the context it borrows from.
    engine: ExecutionEngine<'static>,
    _context: Box<Context>,
}

// SAFETY: after construction the engine is only read (address look-ups of finished code) and dropped once; the
// generated code itself keeps no state.
unsafe impl Send for JitLibrary {}
// SAFETY: as for `Send`; `get` takes `&self` and LLVM's look-up of compiled functions locks the engine.
unsafe impl Sync for JitLibrary {}

impl std::fmt::Debug for JitLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JitLibrary").finish_non_exhaustive()
    }
}

impl JitLibrary {
    pub(super) fn new(
        build: impl FnOnce(&'static Context) -> Result<Module<'static>, CodegenError>,
    ) -> Result<JitLibrary, CodegenError> {
        let context = Box::new(Context::create());
        // SAFETY: the box keeps the context at one address; the engine and the module in it are dropped first (field
        // order), and the reference does not leave this module.
        let borrowed: &'static Context = unsafe { &*std::ptr::from_ref::<Context>(&context) };
        let module = build(borrowed)?;
        let engine = module
            .create_jit_execution_engine(OptimizationLevel::Aggressive)
            .map_err(|err| LlvmError::Invalid(err.to_string()))?;
        Ok(JitLibrary { engine, _context: context })
    }

    /// Makes a module with one kernel per signature.
    ///
    /// # Errors
    /// When the library lacks a kernel.
    pub fn module(self, sigs: &[KernelSig]) -> Result<KernelModule, RuntimeError> {
        let library = Arc::new(self);
        let kernels = sigs.iter().map(|sig| {
            let missing = || RuntimeError::NotFound { what: "kernel", names: vec![sig.name.clone()] };
            let func = library.get(&kernel_symbol(&sig.name)).ok_or_else(missing)?;
            // SAFETY: generated for the program with this signature; the kernel keeps the library alive.
            Ok(unsafe { Kernel::native(sig.clone(), func, library.clone()) })
        });
        KernelModule::new(kernels.collect::<Result<Vec<_>, RuntimeError>>()?)
    }

    /// The kernel with this symbol; it may be called as long as the library lives.
    pub fn get(&self, symbol: &str) -> Option<KernelFn> {
        let address = self.engine.get_function_address(symbol).ok().filter(|&address| address != 0)?;
        // SAFETY: every function of the library that is looked up by name was generated with this signature.
        Some(unsafe { std::mem::transmute::<usize, KernelFn>(address) })
    }
}
