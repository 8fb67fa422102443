//! Code generation: tensor programs to kernels, through C, LLVM or CUDA, or interpreted.
//!
//! [`build`] and [`compile`] lower programs, generate code for a [`Target`](tvm_core::target::Target) and load it;
//! [`emit`] gives source, assembly, objects and shared libraries instead.

pub mod c;
mod driver;
mod error;
mod interpreter;
#[cfg(feature = "llvm")]
pub mod llvm;

pub use driver::{EmitKind, build, compile, emit, lowered, resolve, signatures};
pub use error::CodegenError;
