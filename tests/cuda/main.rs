//! Kernels and models on a GPU, from their source to their results. The driver is a fake one, whose device is host memory, and the
//! kernels run on the CPU, compiled from the CUDA C that NVRTC would compile. Each test runs in a process of its own, which finds
//! that driver.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

mod artifacts;
mod captured;
mod child;
mod emulated;
mod failures;
mod kernels;
mod models;
mod places;
mod streams;
