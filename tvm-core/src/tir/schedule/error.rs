//! Errors of schedule primitives.

use super::StmtSRef;

/// Why a schedule primitive refused. The program is unchanged.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The body of the function is not the realize of a root block.
    #[error("`{0}` cannot be scheduled: its body is not a root block\n  help: schedule before lowering")]
    NotSchedulable(String),
    /// The loop or block of a handle is not (or no longer) in the program.
    #[error(
        "the schedule has no such loop or block (any more): {0:?}\n  help: look loops and blocks up again after a primitive removed them"
    )]
    UnknownSRef(StmtSRef),
    /// A handle comes from another schedule.
    #[error(
        "`{primitive}`: the loop or block belongs to another schedule\n  help: look it up in this one, with `block` and `loops`"
    )]
    ForeignHandle {
        /// Name of the primitive.
        primitive: &'static str,
    },
    /// No block has this name.
    #[error("no block is named `{name}`; the blocks are {blocks}")]
    UnknownBlock {
        /// Name that was looked up.
        name: String,
        /// Names of the existing blocks, comma-separated.
        blocks: String,
    },
    /// A loop variable or block would occur twice.
    #[error("a loop or block would occur twice: {0:?}")]
    DuplicateId(StmtSRef),
    /// An argument is invalid for every program.
    #[error("`{primitive}`: {message}")]
    BadArgument {
        /// Name of the primitive.
        primitive: &'static str,
        /// What is wrong: the expected and the actual argument.
        message: String,
    },
    /// The transformation would change what the program computes.
    #[error("`{primitive}` is not legal here: {message}{}{nest}", help_line(.help))]
    Illegal {
        /// Name of the primitive.
        primitive: &'static str,
        /// Why the transformation is not legal.
        message: String,
        /// Where or how the transformation would be legal.
        help: Option<String>,
        /// Outline of the loop nest, with the loops and blocks in question marked.
        nest: String,
    },
    /// A trace does not fit the program.
    #[error("trace: {0}")]
    Trace(String),
}

fn help_line(help: &Option<String>) -> String {
    help.as_ref().map(|it| format!("\n  help: {it}")).unwrap_or_default()
}

impl ScheduleError {
    pub(super) fn argument(primitive: &'static str, message: impl Into<String>) -> ScheduleError {
        ScheduleError::BadArgument { primitive, message: message.into() }
    }

    pub(super) fn illegal(primitive: &'static str, message: impl Into<String>) -> ScheduleError {
        ScheduleError::Illegal { primitive, message: message.into(), help: None, nest: String::new() }
    }

    #[must_use]
    pub(super) fn help(self, text: impl Into<String>) -> ScheduleError {
        match self {
            ScheduleError::Illegal { primitive, message, nest, .. } => {
                ScheduleError::Illegal { primitive, message, nest, help: Some(text.into()) }
            }
            other => other,
        }
    }

    /// Adds an outline of the loop nest of `state`, with `marked` underlined, to an [`Illegal`](Self::Illegal) without
    /// one.
    #[must_use]
    pub(super) fn show(self, state: &super::ScheduleState, marked: &[StmtSRef]) -> ScheduleError {
        match self {
            ScheduleError::Illegal { primitive, message, help, nest } if nest.is_empty() => {
                let nest = format!("\n{}", super::show::loop_nest(state, marked));
                ScheduleError::Illegal { primitive, message, help, nest }
            }
            other => other,
        }
    }
}
