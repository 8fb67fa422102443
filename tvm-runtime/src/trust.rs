//! What only the caller can vouch for: things that a compiled program may do although nobody checks them.
//!
//! A program by itself, whatever wrote it, can switch off no check: no attribute does. Whoever compiles it can, by a promise
//! that it takes `unsafe` to make.

use std::sync::Arc;

/// Promises about the programs that are compiled under them; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    args: bool,
    bounds: bool,
    functions: Vec<Arc<str>>,
}

impl Trust {
    /// No promise: everything is checked.
    pub const fn none() -> Trust {
        Trust { args: false, bounds: false, functions: Vec::new() }
    }

    /// Kernels do not check the shapes and types of their arguments.
    ///
    /// # Safety
    /// Every call of every kernel that is compiled so has arguments of the ranks, types and extents of its signature.
    #[must_use]
    pub unsafe fn unchecked_args(self) -> Trust {
        Trust { args: true, ..self }
    }

    /// Kernels do not check the accesses that are not proven to be inside their buffers.
    ///
    /// # Safety
    /// No call of a kernel that is compiled so leaves a buffer, or a block its axes' domains.
    #[must_use]
    pub unsafe fn unchecked_bounds(self) -> Trust {
        Trust { bounds: true, ..self }
    }

    /// Programs may call the C function `symbol`.
    ///
    /// # Safety
    /// The function exists where kernels run and has the types of the calls; it is sound with whatever arguments the programs
    /// give it, from any thread.
    #[must_use]
    pub unsafe fn extern_function(mut self, symbol: &str) -> Trust {
        self.functions.push(symbol.into());
        self
    }

    /// Whether kernels check their arguments.
    pub const fn checks_args(&self) -> bool {
        !self.args
    }

    /// Whether kernels check their accesses.
    pub const fn checks_bounds(&self) -> bool {
        !self.bounds
    }

    /// Whether programs may call the C function `symbol`.
    pub fn allows(&self, symbol: &str) -> bool {
        self.functions.iter().any(|it| **it == *symbol)
    }
}
