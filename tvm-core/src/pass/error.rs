//! Why a pass failed.

use crate::ir::{Diagnostic, IrError};

/// Why a pass failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The program is malformed or uses an unsupported feature.
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
        /// The most similar known name, if one is similar enough.
        near: Option<String>,
    },
    /// A pass of this name is registered already.
    #[error("pass `{0}` is registered already")]
    Duplicate(String),
    /// The context disables a mandatory pass, on which later passes rely.
    #[error("pass `{0}` cannot be disabled: what runs after it relies on it")]
    Mandatory(String),
    /// A pass violated an invariant that held before it.
    #[error("pass `{pass}` broke the module: {source}")]
    Verify {
        /// The pass.
        pass: String,
        /// The violations.
        source: IrError,
    },
}

impl PassError {
    /// An error of the pass `pass`: the program is malformed or unsupported.
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
