//! Checks that a program is in [the lowered form](super), as the last pass of lowering where debug assertions are.
//!
//! TVM counterpart: none.

use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::lowered_form;

/// Refuses programs that are not in the lowered form.
pub fn verify_lowered() -> Pass {
    prim_func_pass("VerifyLowered", |func, _, _| lowered_form(func).map(|()| None))
}
