//! Why a pass failed.

use std::fmt;

use crate::ir::{Diagnose, Diagnostic, IrError, fmt_diagnostics};

/// Why a pass failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The program is malformed or uses an unsupported feature.
    Ir {
        /// The pass.
        pass: String,
        /// What is wrong.
        source: IrError,
    },
    /// A pass of this name is not registered.
    Unknown {
        /// The name.
        name: String,
        /// The most similar known name, if one is similar enough.
        near: Option<String>,
    },
    /// A pass of this name is registered already.
    Duplicate(String),
    /// The context disables a mandatory pass, on which later passes rely.
    Mandatory(String),
    /// A pass violated an invariant that held before it.
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
}

impl Diagnose for PassError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        let of = |source: &IrError, context: String| {
            source.0.iter().map(|it| it.clone().context(&context)).collect::<Vec<_>>()
        };
        match self {
            PassError::Ir { pass, source } => of(source, format!("pass `{pass}`")),
            PassError::Verify { pass, source } => of(source, format!("pass `{pass}` broke the module")),
            PassError::Unknown { name, near } => {
                let near = near.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                vec![Diagnostic::plain(format!("unknown pass `{name}`{near}"))]
            }
            PassError::Duplicate(name) => {
                vec![Diagnostic::plain(format!("pass `{name}` is registered already"))]
            }
            PassError::Mandatory(name) => vec![Diagnostic::plain(format!(
                "pass `{name}` cannot be disabled: what runs after it relies on it"
            ))],
        }
    }
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}
