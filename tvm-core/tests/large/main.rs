//! Large programs. Work of quadratic time would take hours here, and recursion that needs stack for each level would
//! overflow it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bodies;
mod expressions;
mod stages;
