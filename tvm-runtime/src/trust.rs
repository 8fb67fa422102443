//! Promises that only the caller can make, and that let a compiled program skip checks or call C functions.
//!
//! A program cannot switch off a check by itself, whoever wrote it: no attribute does so. Whoever compiles the program
//! can, by a promise that requires `unsafe`.

use std::sync::Arc;

/// Promises about the programs that are compiled under them; by default none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    args: bool,
    bounds: bool,
    functions: Vec<Arc<str>>,
    passes: bool,
}

impl Trust {
    /// No promises: everything is checked.
    pub const fn none() -> Trust {
        Trust { args: false, bounds: false, functions: Vec::new(), passes: false }
    }

    /// Kernels do not check the shapes and types of their arguments.
    ///
    /// # Safety
    /// Every call of a kernel compiled with this promise has arguments of the ranks, types and extents of its signature.
    #[must_use]
    pub unsafe fn unchecked_args(self) -> Trust {
        Trust { args: true, ..self }
    }

    /// Kernels do not check accesses that are not proven to lie inside their buffers.
    ///
    /// # Safety
    /// No call of a kernel compiled with this promise accesses memory outside a buffer, or binds an axis of a block
    /// outside its domain.
    #[must_use]
    pub unsafe fn unchecked_bounds(self) -> Trust {
        Trust { bounds: true, ..self }
    }

    /// Programs may call the C function `symbol`.
    ///
    /// # Safety
    /// The function exists where kernels run and has the types of the calls; it is sound for all arguments that the
    /// programs pass, from any thread.
    #[must_use]
    pub unsafe fn extern_function(mut self, symbol: &str) -> Trust {
        self.functions.push(symbol.into());
        self
    }

    /// Passes of the caller may run among those that make kernels safe, from `VerifySource` on.
    ///
    /// # Safety
    /// A program that such a pass returns has the parameters that it had, no access that the passes before it proved or
    /// checked leaves its buffer, and no iteration of a parallel loop touches what another one writes.
    #[must_use]
    pub unsafe fn unchecked_passes(self) -> Trust {
        Trust { passes: true, ..self }
    }

    /// Whether kernels check their arguments.
    pub const fn checks_args(&self) -> bool {
        !self.args
    }

    /// Whether kernels check their accesses at run time.
    pub const fn checks_bounds(&self) -> bool {
        !self.bounds
    }

    /// Whether passes of the caller stay outside of those that make kernels safe.
    pub const fn checks_passes(&self) -> bool {
        !self.passes
    }

    /// Whether programs may call the C function `symbol`.
    pub fn allows(&self, symbol: &str) -> bool {
        self.functions.iter().any(|it| **it == *symbol)
    }
}
