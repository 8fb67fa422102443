//! Nothing racy reaches a code generator: loops that are parallel, vectorised or bound to threads may be.
//!
//! TVM counterpart: none.
//! Requires: programs that are not lowered. Ensures: nothing is changed.

use crate::pass::{Pass, prim_func_pass};
use crate::tir::schedule;

/// Fails where iterations that run side by side depend on each other.
pub fn check_loop_kinds() -> Pass {
    prim_func_pass("CheckLoopKinds", |func, _, _| {
        schedule::check_loop_kinds(func)?;
        Ok(None)
    })
}
