//! The error of everything that builds, checks or reads programs.

use std::fmt;

use super::diagnostic::fmt_diagnostics;
use super::{Diagnose, Diagnostic, Span};

/// Malformed IR or an ill-typed program: one or more diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IrError(pub Vec<Diagnostic>);

impl IrError {
    /// An error with one diagnostic.
    pub fn new(message: impl Into<String>, span: &Span) -> IrError {
        IrError(vec![Diagnostic::new(message, span)])
    }

    /// Sets the help text of the last diagnostic.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> IrError {
        if let Some(last) = self.0.last_mut() {
            last.help = Some(help.into());
        }
        self
    }

    /// Sets `span` on every diagnostic without a place.
    #[must_use]
    pub fn at(mut self, span: &Span) -> IrError {
        self.0 = self.0.into_iter().map(|diagnostic| diagnostic.at(span)).collect();
        self
    }
}

/// Stores the first error of a traversal whose methods cannot return one.
#[derive(Default)]
pub(crate) struct FirstError(Option<IrError>);

impl FirstError {
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The value of `res`; an error is stored, unless there is an earlier one.
    pub(crate) fn keep<T>(&mut self, res: Result<T, IrError>) -> Option<T> {
        res.map_err(|err| self.0.get_or_insert(err)).ok()
    }

    /// The result of the traversal: `value`, unless there was an error.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, IrError> {
        self.0.map_or(Ok(value), Err)
    }
}

impl From<Diagnostic> for IrError {
    fn from(diagnostic: Diagnostic) -> IrError {
        IrError(vec![diagnostic])
    }
}

impl fmt::Display for IrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.0, f)
    }
}

impl std::error::Error for IrError {}

impl Diagnose for IrError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        self.0.clone()
    }
}
