//! Programs run by every executor: the interpreter is the oracle, of the program as written and of its lowered form; C
//! (and LLVM when compiled in) must agree with it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod data;
mod deep;
mod elementwise;
mod kernels;
mod programs;
mod suite;
