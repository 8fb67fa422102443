//! `build.rs` helper: compiles a model to a static library of its kernels, an artifact with program and weights, and a
//! typed Rust wrapper; a kernel to a static library and a wrapper. The application links `tvm-runtime` and no compiler.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), tvm_build::BuildError> {
//!     tvm_build::Model::onnx("models/digits.onnx").dim("n", 1..=64).compile()?;
//!     Ok(())
//! }
//! ```
//!
//! ```ignore
//! // src/main.rs
//! tvm_runtime::include_model!("digits"); // or tvm::include_model!
//! let out = Digits::new()?.run(&images)?;
//! println!("{:?}", out.probabilities.view());
//! ```
//!
//! Kernels are compiled through C and the `cc` crate, which finds cross compilers, or through LLVM with the feature
//! `llvm`. They use the CPU features that Cargo compiles the application with (`-C target-cpu`, `-C target-feature`),
//! unless [`Model::cpu`] names another CPU. [`Model::gpu`] adds code for GPUs (feature `cuda`).
//!
//! TVM counterpart: ahead-of-time compilation (`tvmc compile --executor=aot`), `export_library`.
#![forbid(unsafe_code)]

mod cargo;
mod error;
mod features;
mod gpu;
mod kernel;
mod kernel_wrapper;
mod model;
mod names;
mod object;
mod settings;
mod wrapper;

pub use error::{BuildError, BuildItem};
pub use kernel::{Kernel, KernelFiles};
pub use model::{Model, ModelFiles};
pub use settings::Codegen;
pub use tvm_core::pass::Precision;
pub use tvm_onnx::DimOption;
pub use tvm_runtime::Device;

#[cfg(test)]
mod gpu_tests;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;
