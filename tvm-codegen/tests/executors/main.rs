//! Tests that run programs on every executor. The interpreter is the oracle, for the program as written and for its
//! lowered form; C (and LLVM if it is compiled in) must agree with it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aarch64;
mod cuda;
mod data;
mod deep;
mod elementary;
mod elementwise;
mod gathers;
mod kernels;
mod masked;
mod narrow;
mod programs;
mod reduce;
mod streamed;
mod strided;
mod suite;
mod tensorize;
mod transposes;
mod unrolled;
