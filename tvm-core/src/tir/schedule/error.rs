//! Errors of schedule primitives.

use std::fmt;

use super::StmtSRef;
use crate::ir::{Diagnose, Diagnostic, fmt_diagnostics};
use crate::tir::IndexMapError;

/// Why a schedule primitive refused. The program is unchanged.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The body of the function is not the realize of a root block.
    NotSchedulable(String),
    /// The loop or block of a handle is not (or no longer) in the program.
    UnknownSRef(StmtSRef),
    /// A handle comes from another schedule.
    ForeignHandle {
        /// Name of the primitive.
        primitive: &'static str,
    },
    /// No block has this name.
    UnknownBlock {
        /// Name that was looked up.
        name: String,
        /// Names of the existing blocks, comma-separated.
        blocks: String,
    },
    /// The module has no tensor program of this name.
    UnknownFunction {
        /// Name that was looked up.
        name: String,
        /// The most similar name, if one is similar enough.
        near: Option<String>,
        /// Names of the tensor programs, comma-separated.
        functions: String,
    },
    /// A loop variable or block would occur twice.
    DuplicateId(StmtSRef),
    /// An argument is invalid for every program.
    BadArgument {
        /// Name of the primitive.
        primitive: &'static str,
        /// What is wrong: the expected and the actual argument.
        message: String,
    },
    /// The transformation would change what the program computes.
    Illegal {
        /// Name of the primitive.
        primitive: &'static str,
        /// Why the transformation is not legal, and where or how it would be; the outline is the loop nest, with the loops
        /// and blocks in question underlined.
        reason: Box<Diagnostic>,
    },
    /// A trace does not fit the program.
    Trace(String),
}

impl ScheduleError {
    pub(super) fn argument(primitive: &'static str, message: impl Into<String>) -> ScheduleError {
        ScheduleError::BadArgument { primitive, message: message.into() }
    }

    pub(super) fn illegal(primitive: &'static str, message: impl Into<String>) -> ScheduleError {
        ScheduleError::Illegal { primitive, reason: Box::new(Diagnostic::plain(message)) }
    }

    #[must_use]
    pub(super) fn help(self, text: impl Into<String>) -> ScheduleError {
        self.change(|reason| reason.help(text))
    }

    /// Adds an outline of the loop nest of `state`, with `marked` underlined, to an [`Illegal`](Self::Illegal) without
    /// one. The place of the error is that of the first of `marked` that has one.
    #[must_use]
    pub(super) fn show(self, state: &super::ScheduleState, marked: &[StmtSRef]) -> ScheduleError {
        self.change(|reason| match reason.outline {
            Some(_) => reason,
            None => {
                let spans = marked.iter().filter_map(|sref| Some(state.get(*sref).ok()?.span()));
                let reason = spans.fold(reason, |reason, span| reason.at(&span));
                Diagnostic { outline: Some(super::show::loop_nest(state, marked)), ..reason }
            }
        })
    }

    fn change(self, change: impl FnOnce(Diagnostic) -> Diagnostic) -> ScheduleError {
        match self {
            ScheduleError::Illegal { primitive, reason } => {
                ScheduleError::Illegal { primitive, reason: Box::new(change(*reason)) }
            }
            other => other,
        }
    }

    fn diagnostic(&self) -> Diagnostic {
        let plain = |message: String| Diagnostic::plain(message);
        match self {
            ScheduleError::NotSchedulable(name) => {
                plain(format!("`{name}` cannot be scheduled: its body is not a root block"))
                    .help("schedule before lowering")
            }
            ScheduleError::UnknownSRef(sref) => {
                plain(format!("the schedule has no such loop or block (any more): {sref:?}"))
                    .help("look loops and blocks up again after a primitive removed them")
            }
            ScheduleError::ForeignHandle { primitive } => {
                plain(format!("`{primitive}`: the loop or block belongs to another schedule"))
                    .help("look it up in this one, with `block` and `loops`")
            }
            ScheduleError::UnknownBlock { name, blocks } => {
                plain(format!("no block is named `{name}`; the blocks are {blocks}"))
            }
            ScheduleError::UnknownFunction { name, near, functions } => {
                let res = plain(format!(
                    "the module has no tensor program `{name}`; the tensor programs are {functions}"
                ));
                near.iter().fold(res, |res, near| res.help(format!("did you mean `{near}`?")))
            }
            ScheduleError::DuplicateId(sref) => plain(format!("a loop or block would occur twice: {sref:?}")),
            ScheduleError::BadArgument { primitive, message } => plain(format!("`{primitive}`: {message}")),
            ScheduleError::Illegal { primitive, reason } => {
                (**reason).clone().context(format_args!("`{primitive}` is not legal here"))
            }
            ScheduleError::Trace(message) => plain(format!("trace: {message}")),
        }
    }
}

impl From<IndexMapError> for ScheduleError {
    fn from(err: IndexMapError) -> ScheduleError {
        ScheduleError::argument("IndexMap", err.to_string())
    }
}

impl Diagnose for ScheduleError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        vec![self.diagnostic()]
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}
