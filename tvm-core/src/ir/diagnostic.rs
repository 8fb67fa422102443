//! Diagnostics: what is wrong, where in the user's source, and what to do instead. All errors of the compiler consist of
//! them ([`Diagnose`]).
//!
//! TVM counterpart: `Diagnostic`, `DiagnosticContext`.

use std::fmt;

use super::Span;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in the user's terms: expected and got.
    pub message: String,
    /// The place in the source.
    pub span: Span,
    /// What else belongs to the problem, each with a place of its own.
    pub notes: Vec<Note>,
    /// What to do instead.
    pub help: Option<String>,
    /// Part of the program as text, with the statements in question underlined.
    pub outline: Option<String>,
}

/// A fact that explains a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The fact.
    pub message: String,
    /// Its place in the source; may be none.
    pub span: Span,
}

impl Diagnostic {
    /// A problem at `span`.
    pub fn new(message: impl Into<String>, span: &Span) -> Diagnostic {
        Diagnostic {
            message: message.into(),
            span: span.clone(),
            notes: Vec::new(),
            help: None,
            outline: None,
        }
    }

    /// A problem without a place in the source.
    pub fn plain(message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message, &Span::none())
    }

    /// Sets the help text: what to do instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, message: impl Into<String>, span: &Span) -> Diagnostic {
        self.notes.push(Note { message: message.into(), span: span.clone() });
        self
    }

    /// Sets the place, unless there is one.
    #[must_use]
    pub fn at(mut self, span: &Span) -> Diagnostic {
        if self.span.is_none() {
            self.span = span.clone();
        }
        self
    }

    /// Puts `context` in front of the message: `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Diagnostic {
        self.message = format!("{context}: {}", self.message);
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |f: &mut fmt::Formatter<'_>, span: &Span| {
            if span.is_none() { Ok(()) } else { write!(f, "\n  --> {span}") }
        };
        f.write_str(&self.message)?;
        place(f, &self.span)?;
        for note in &self.notes {
            write!(f, "\n  note: {}", note.message)?;
            place(f, &note.span)?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        if let Some(outline) = &self.outline {
            write!(f, "\n{outline}")?;
        }
        Ok(())
    }
}

/// An error that consists of diagnostics. An error type of an application implements it with an empty `impl`: it is then
/// one diagnostic without a place.
pub trait Diagnose: std::error::Error {
    /// The problems, at least one.
    fn diagnostics(&self) -> Vec<Diagnostic> {
        vec![Diagnostic::plain(self.to_string())]
    }
}

impl Diagnose for tvm_runtime::RuntimeError {}
impl Diagnose for std::io::Error {}

/// Writes diagnostics one below the other: what the `Display` of an error does that is nothing but diagnostics.
pub fn fmt_diagnostics(diagnostics: &[Diagnostic], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (i, diagnostic) in diagnostics.iter().enumerate() {
        if i > 0 {
            f.write_str("\n")?;
        }
        write!(f, "{diagnostic}")?;
    }
    Ok(())
}
