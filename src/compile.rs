//! Compilation of a kernel's definition to a typed function.

use tvm_codegen::CodegenError;
use tvm_core::ir::{Diagnose, Diagnostic, IrError};
use tvm_core::script::PrimFuncDef;
use tvm_core::target::Target;
use tvm_runtime::CompiledFn;

/// Why a kernel could not be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The program is malformed.
    #[error(transparent)]
    Build(#[from] IrError),
    /// No code could be generated.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
}

impl Diagnose for CompileError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        match self {
            CompileError::Build(source) => source.diagnostics(),
            CompileError::Codegen(source) => source.diagnostics(),
        }
    }
}

/// Builds and compiles `P` for `target`.
pub fn compile<P: PrimFuncDef>(target: &Target) -> Result<CompiledFn<P::Args>, CompileError> {
    let kernel = tvm_codegen::compile(&P::prim_func()?, target)?;
    Ok(CompiledFn::new(kernel).map_err(CodegenError::from)?)
}
