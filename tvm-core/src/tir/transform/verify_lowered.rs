//! Checks that a program is in [the lowered form](super): the last pass of lowering.
//!
//! TVM counterpart: none.

use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::lowered_form;

/// Rejects programs that are not in the lowered form.
pub fn verify_lowered() -> Pass {
    prim_func_pass("VerifyLowered", |func, _, _| lowered_form(func).map(|()| None))
}
