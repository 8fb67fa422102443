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
    /// A mandatory pass, on which later passes rely, is disabled or left out.
    Mandatory(String),
    /// A pipeline has no pass of this name.
    NotInPipeline {
        /// The pipeline.
        pipeline: String,
        /// The name.
        name: String,
        /// The most similar name in the pipeline, if one is similar enough.
        near: Option<String>,
    },
    /// A pipeline has its passes in another order than the default one.
    Order {
        /// The pipeline.
        pipeline: String,
        /// A pass.
        pass: String,
        /// The pass before it, which the default pipeline has after it.
        after: String,
    },
    /// A pass of the caller stands among those that make kernels safe.
    Unvouched {
        /// The pipeline.
        pipeline: String,
        /// The pass.
        pass: String,
        /// The pass before it.
        after: String,
        /// The first of the passes that make kernels safe.
        first: String,
    },
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

/// The end of a message about an unknown name.
fn hint(near: &Option<String>) -> String {
    near.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?"))
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
                vec![Diagnostic::plain(format!("unknown pass `{name}`{}", hint(near)))]
            }
            PassError::Duplicate(name) => {
                vec![Diagnostic::plain(format!("pass `{name}` is registered already"))]
            }
            PassError::Mandatory(name) => vec![Diagnostic::plain(format!(
                "pass `{name}` cannot be disabled or left out: what runs after it relies on it"
            ))],
            PassError::NotInPipeline { pipeline, name, near } => {
                vec![Diagnostic::plain(format!("`{pipeline}` has no pass `{name}`{}", hint(near)))]
            }
            PassError::Order { pipeline, pass, after } => vec![Diagnostic::plain(format!(
                "`{pipeline}` has the pass `{pass}` after `{after}`, which relies on it"
            ))],
            PassError::Unvouched { pipeline, pass, after, first } => {
                let message = format!(
                    "`{pipeline}` has the pass `{pass}` after `{after}`, which vouches for the programs from there on"
                );
                let help = format!(
                    "put it before `{first}`, or vouch for it in `PassConfig::trust` (`Trust::unchecked_passes`), which is \
                     unsafe"
                );
                vec![Diagnostic::plain(message).help(help)]
            }
        }
    }
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}
