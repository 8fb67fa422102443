//! Code generation: tensor programs to kernels, through C, LLVM or CUDA, or interpreted.
//!
//! [`build`] and [`compile`] lower programs, generate code for a [`Target`](tvm_core::target::Target) and load it;
//! [`emit`] gives source, assembly, objects and shared libraries instead.

pub mod c;
mod compile_module;
mod driver;
mod error;
#[cfg(feature = "llvm")]
pub mod llvm;

pub use compile_module::{compile_module, export_module};
pub use driver::{EmitKind, build, compile, emit, emit_lowered, lowered, resolve, signatures, warnings};
pub use error::CodegenError;
