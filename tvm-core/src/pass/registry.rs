//! Passes by name: the built-in ones (`Pass::BUILT_IN`, in `pipeline.rs`) and those that the user registers.
//!
//! TVM counterpart: the `relax.transform.*` and `tir.transform.*` global functions.

use std::sync::{OnceLock, PoisonError, RwLock};

use indexmap::{IndexMap, IndexSet};

use super::{Pass, PassError};

fn registry() -> &'static RwLock<IndexMap<&'static str, Pass>> {
    static REGISTRY: OnceLock<RwLock<IndexMap<&'static str, Pass>>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        RwLock::new(Pass::BUILT_IN.iter().map(|make| make()).map(|pass| (pass.info.name, pass)).collect())
    })
}

/// Registers `pass` under its name.
///
/// # Errors
/// When a pass of that name is registered already.
pub fn register_pass(pass: Pass) -> Result<(), PassError> {
    let mut registry = registry().write().unwrap_or_else(PoisonError::into_inner);
    if registry.contains_key(pass.info.name) {
        return Err(PassError::Duplicate(pass.info.name.to_string()));
    }
    registry.insert(pass.info.name, pass);
    Ok(())
}

/// The pass named `name`.
///
/// # Errors
/// When there is none; the message names the nearest one.
pub fn get_pass(name: &str) -> Result<Pass, PassError> {
    let registry = registry().read().unwrap_or_else(PoisonError::into_inner);
    registry.get(name).cloned().ok_or_else(|| unknown(name, registry.keys().copied()))
}

fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> PassError {
    let near = crate::support::nearest(name, names).map(str::to_string);
    PassError::Unknown { name: name.to_string(), near }
}

/// Names of the passes constructed so far, registered or not.
static MADE: RwLock<Option<IndexSet<&'static str>>> = RwLock::new(None);

/// Records the name of a pass that is being constructed.
pub(super) fn note_name(name: &'static str) {
    let known = MADE.read().unwrap_or_else(PoisonError::into_inner);
    if known.as_ref().is_some_and(|names| names.contains(name)) {
        return;
    }
    drop(known);
    let mut made = MADE.write().unwrap_or_else(PoisonError::into_inner);
    made.get_or_insert_default().insert(name);
}

/// Checks that there is a pass named `name`, in the registry or elsewhere.
pub(super) fn check_name(name: &str) -> Result<(), PassError> {
    // The first call constructs the built-in passes, which records their names.
    let registry = registry().read().unwrap_or_else(PoisonError::into_inner);
    let made = MADE.read().unwrap_or_else(PoisonError::into_inner);
    let others = made.iter().flatten().copied();
    if registry.contains_key(name) || others.clone().any(|it| it == name) {
        return Ok(());
    }
    Err(unknown(name, registry.keys().copied().chain(others)))
}

/// The names of all registered passes, sorted.
pub fn pass_names() -> Vec<&'static str> {
    let mut names: Vec<_> =
        registry().read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
    names.sort_unstable();
    names
}
