//! Diagnostics: what is wrong, where in the user's source, and what to do instead.

use std::fmt;

use super::Span;

/// One problem: message, place, help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in the user's terms: expected and got.
    pub message: String,
    /// The place in the source.
    pub span: Span,
    /// What to do instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A problem at `span`.
    pub fn new(message: impl Into<String>, span: &Span) -> Diagnostic {
        Diagnostic { message: message.into(), span: span.clone(), help: None }
    }

    /// Sets the help text: what to do instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.span.is_none() {
            write!(f, "\n  --> {}", self.span)?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

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
        for diagnostic in &mut self.0 {
            if diagnostic.span.is_none() {
                diagnostic.span = span.clone();
            }
        }
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
        for (i, diagnostic) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for IrError {}
