//! Code generation: compiles tensor programs to kernels through C, LLVM or CUDA C, or prepares them for the interpreter.
//!
//! [`build`] and [`compile`] lower programs, generate code for a [`Target`](tvm_core::target::Target) and load it;
//! [`emit`] returns source, assembly, objects or shared libraries instead.

mod best;
pub mod c;
mod cache;
mod compiled;
mod cpu;
pub mod cuda;
mod driver;
mod error;
mod generator;
#[cfg(feature = "llvm")]
pub mod llvm;
mod parts;
mod position;
mod report;

pub use best::{BestTarget, for_own_gpu};
pub use compiled::{Compiled, FunctionIo, Io, KernelUnit, compile_module, export_module, gpu_objects};
pub use cpu::cpu_features;
pub use driver::{build, compile, emit, emit_lowered, emit_parts, lowered, resolve, signatures};
pub use error::CodegenError;
pub use generator::{CodeGenerator, EmitKind, Options, Unit, code_generator};
pub use report::Report;
