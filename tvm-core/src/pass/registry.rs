//! Passes by name: the built-in ones and those that the user registers.
//!
//! TVM counterpart: the `relax.transform.*` and `tir.transform.*` global functions.

use std::sync::{OnceLock, PoisonError, RwLock};

use indexmap::{IndexMap, IndexSet};

use super::{Pass, PassError};
use crate::{relax, tir};

/// Constructors of the built-in passes.
pub(super) static BUILT_IN: &[fn() -> Pass] = &[
    relax::transform::annotate_tir_op_pattern,
    relax::transform::call_tir_rewrite,
    relax::transform::canonicalize_bindings,
    relax::transform::dead_code_elimination,
    relax::transform::eliminate_common_subexpr,
    relax::transform::fold_constant,
    relax::transform::fuse_ops,
    relax::transform::fuse_tir,
    relax::transform::kill_after_last_use,
    relax::transform::lambda_lift,
    relax::transform::legalize_ops,
    relax::transform::rewrite_dataflow_reshape,
    relax::transform::static_plan_block_memory,
    relax::transform::zero_outputs,
    tir::transform::check_bounds,
    tir::transform::check_loop_kinds,
    tir::transform::compact_buffer_allocation,
    tir::transform::contract_reductions,
    tir::transform::convert_blocks_to_opaque,
    tir::transform::convert_ssa,
    tir::transform::flatten_buffer,
    tir::transform::float_compute_legalize,
    tir::transform::lower_init_block,
    tir::transform::lower_intrin,
    tir::transform::lower_match_buffer,
    tir::transform::lower_opaque_block,
    tir::transform::lower_tvm_builtin,
    tir::transform::make_packed_api,
    tir::transform::plan_and_update_buffer_allocation_location,
    tir::transform::remove_no_op,
    tir::transform::simplify,
    tir::transform::unroll_loop,
    tir::transform::vectorize_loop,
    tir::transform::verify_lowered,
    tir::transform::verify_source,
    tir::transform::zero_unwritten,
];

fn registry() -> &'static RwLock<IndexMap<&'static str, Pass>> {
    static REGISTRY: OnceLock<RwLock<IndexMap<&'static str, Pass>>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        RwLock::new(BUILT_IN.iter().map(|make| make()).map(|pass| (pass.info.name, pass)).collect())
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
