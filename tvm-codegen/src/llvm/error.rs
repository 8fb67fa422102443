//! Errors of LLVM code generation.

use inkwell::builder::BuilderError;
use inkwell::support::LLVMString;

/// Errors of LLVM code generation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlvmError {
    /// The program is not in the lowered form, or uses a construct that this code generator does not support.
    #[error("llvm: {0}")]
    Unsupported(String),
    /// The target is unknown to this LLVM.
    #[error("llvm: target `{target}`: {message}")]
    Target {
        /// Target triple.
        target: String,
        /// Message of LLVM.
        message: String,
    },
    /// LLVM rejected the generated code; this is a defect of the code generator.
    #[error("llvm: generated code is invalid: {0}")]
    Invalid(String),
}

impl From<BuilderError> for LlvmError {
    fn from(err: BuilderError) -> LlvmError {
        LlvmError::Invalid(err.to_string())
    }
}

impl From<LLVMString> for LlvmError {
    fn from(err: LLVMString) -> LlvmError {
        LlvmError::Invalid(err.to_string())
    }
}

pub(super) fn unsupported<T>(message: impl Into<String>) -> Result<T, LlvmError> {
    Err(LlvmError::Unsupported(message.into()))
}
