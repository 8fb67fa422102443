//! Tests that run programs on every executor. The interpreter is the oracle, for the program as written and for its
//! lowered form; C (and LLVM if it is compiled in) must agree with it, and so must CUDA
//! kernels, run as threads by the interpreter and from their source by an emulator.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aarch64;
mod atomics;
mod convolutions;
mod cuda;
mod data;
mod deep;
mod elementary;
mod elementwise;
mod gathers;
mod gpu;
mod gpu_pipelines;
mod gpu_rules;
mod kernels;
mod masked;
mod narrow;
mod positions;
mod programs;
mod reduce;
mod shuffles;
mod streamed;
mod strided;
mod suite;
mod tensorize;
mod transposes;
mod unrolled;
