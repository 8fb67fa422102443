//! Programs that are large. What took time in the square of their size would take hours here, and what needed stack for
//! each level would overflow it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bodies;
mod expressions;
mod stages;
