//! Rejects parallel, vectorised and thread-bound loops whose iterations depend on each other.
//!
//! TVM counterpart: none.
//! Requires: programs before lowering. Ensures: no loop that races reaches a code generator; programs are unchanged.

use crate::pass::{Pass, prim_func_pass};
use crate::tir::schedule;

/// Fails if iterations that run concurrently depend on each other.
pub fn check_loop_kinds() -> Pass {
    prim_func_pass("CheckLoopKinds", |func, _, ctx| {
        schedule::check_loop_kinds(func, ctx.target.is_gpu())?;
        Ok(None)
    })
}
