//! Why a pass failed.

use crate::ir::{Diagnostic, IrError};

/// Why a pass failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The program is malformed or uses something that is not supported.
    #[error("pass `{pass}`: {source}")]
    Ir {
        /// The pass.
        pass: String,
        /// What is wrong.
        source: IrError,
    },
    /// A pass of this name is not registered.
    #[error("unknown pass `{name}`{}", near.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?")))]
    Unknown {
        /// The name.
        name: String,
        /// A registered name like it.
        near: Option<String>,
    },
    /// A pass of this name is registered already.
    #[error("pass `{0}` is registered already")]
    Duplicate(String),
    /// What comes after the pass relies on it.
    #[error("pass `{0}` cannot be disabled: what runs after it relies on it")]
    Mandatory(String),
    /// A pass broke an invariant that holds before it.
    #[error("pass `{pass}` broke the module: {source}")]
    Verify {
        /// The pass.
        pass: String,
        /// What is broken.
        source: IrError,
    },
}

impl PassError {
    /// The pass `pass` met a malformed or unsupported program.
    pub fn ir(pass: &str, source: impl Into<IrError>) -> PassError {
        PassError::Ir { pass: pass.to_string(), source: source.into() }
    }

    /// The diagnostics inside.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            PassError::Ir { source, .. } | PassError::Verify { source, .. } => &source.0,
            PassError::Unknown { .. } | PassError::Duplicate(_) | PassError::Mandatory(_) => &[],
        }
    }
}
