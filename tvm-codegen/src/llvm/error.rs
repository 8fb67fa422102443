//! Why LLVM could not generate code.

use inkwell::builder::BuilderError;

/// Why LLVM could not generate code.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlvmError {
    /// The program is not in the lowered form, or uses something that no CPU can run.
    #[error("llvm: {0}")]
    Unsupported(String),
    /// The target is unknown to this LLVM.
    #[error("llvm: target `{target}`: {message}")]
    Target {
        /// The triple.
        target: String,
        /// What LLVM says.
        message: String,
    },
    /// LLVM refused what was built: a defect of the code generator.
    #[error("llvm: generated code is invalid: {0}")]
    Invalid(String),
}

impl From<BuilderError> for LlvmError {
    fn from(err: BuilderError) -> LlvmError {
        LlvmError::Invalid(err.to_string())
    }
}

pub(super) fn unsupported<T>(message: impl Into<String>) -> Result<T, LlvmError> {
    Err(LlvmError::Unsupported(message.into()))
}
