//! Modules: the kernels that a program can call, by name.
//!
//! TVM counterpart: `runtime::Module`. Kernels come from a shared library, from objects linked into the application
//! (a table of entry points), or from a compiler in the same process.
#![allow(unsafe_code, reason = "makes kernels from entry points; each block says why it is sound")]

mod library;
mod link;
mod linked;

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::abi::{ABI_VERSION, KernelFn};
use crate::error::RuntimeError;
use crate::kernel::{Kernel, KernelSig};

pub use library::{ABI_SYMBOL, Library};
pub use linked::{Aligned, DimBound, LinkedModel};

/// Kernels by name. Cheap to clone per kernel; iteration is in the order of the names.
#[derive(Clone, Debug, Default)]
pub struct Module {
    kernels: BTreeMap<String, Kernel>,
}

/// Kernels that are linked into the application, as a build script lists them.
#[derive(Clone, Copy, Debug)]
pub struct KernelTable {
    /// [`ABI_VERSION`] of the compiler that made them.
    pub abi_version: u32,
    /// Names and entry points.
    pub entries: &'static [(&'static str, KernelFn)],
}

impl Module {
    /// A module of `kernels`, whose names must differ.
    pub fn new(kernels: impl IntoIterator<Item = Kernel>) -> Result<Module, RuntimeError> {
        let mut res = Module::default();
        kernels.into_iter().try_for_each(|kernel| res.add(kernel))?;
        Ok(res)
    }

    /// The kernels with the signatures `sigs` among the entry points of `table`.
    ///
    /// # Safety
    /// Each entry point is a kernel of the ABI version that the table says, and does what the signature of the same
    /// name says.
    pub unsafe fn from_table(sigs: &[KernelSig], table: &KernelTable) -> Result<Module, RuntimeError> {
        let (expected, got) = (ABI_VERSION, table.abi_version);
        if expected != got {
            return Err(RuntimeError::AbiVersion { name: "linked-in kernels".into(), expected, got });
        }
        let keep: Arc<dyn Any + Send + Sync> = Arc::new(());
        resolve(sigs, |sig| {
            let (_, func) = table.entries.iter().find(|(name, _)| *name == sig.name)?;
            // SAFETY: promised by the caller; the code is part of the application.
            Some(unsafe { Kernel::native(sig.clone(), *func, keep.clone()) })
        })
    }

    /// Adds a kernel.
    pub fn add(&mut self, kernel: Kernel) -> Result<(), RuntimeError> {
        match self.kernels.entry(kernel.name().to_string()) {
            Entry::Vacant(entry) => {
                entry.insert(kernel);
                Ok(())
            }
            Entry::Occupied(entry) => Err(RuntimeError::DuplicateFunc { name: entry.key().clone() }),
        }
    }

    /// Adds all kernels of `other`.
    pub fn import(&mut self, other: Module) -> Result<(), RuntimeError> {
        other.kernels.into_values().try_for_each(|kernel| self.add(kernel))
    }

    /// The kernel of that name.
    pub fn get(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// All kernels.
    pub fn iter(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.values()
    }

    /// Number of kernels.
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }
}

/// A module of one kernel per signature; names all that `find` does not have.
fn resolve(sigs: &[KernelSig], find: impl Fn(&KernelSig) -> Option<Kernel>) -> Result<Module, RuntimeError> {
    let mut missing = Vec::new();
    let mut kernels = Vec::new();
    for sig in sigs {
        match find(sig) {
            Some(kernel) => kernels.push(kernel),
            None => missing.push(sig.name.clone()),
        }
    }
    if missing.is_empty() {
        Module::new(kernels)
    } else {
        Err(RuntimeError::NotFound { what: "kernel", names: missing })
    }
}

#[cfg(test)]
mod tests;
