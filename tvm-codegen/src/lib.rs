//! tvm-codegen
#[cfg(feature = "llvm")]
pub mod llvm;
