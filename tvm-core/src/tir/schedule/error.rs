//! Why a schedule primitive refused.

use super::StmtSRef;

/// Why a schedule primitive refused. The program is as it was.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The body of the function is not the realize of a root block.
    #[error("`{0}` cannot be scheduled: its body is not a root block\n  help: schedule before lowering")]
    NotSchedulable(String),
    /// A handle names nothing in the program (any more).
    #[error(
        "the schedule has no such loop or block (any more): {0:?}\n  help: look loops and blocks up again after a primitive removed them"
    )]
    UnknownSRef(StmtSRef),
    /// A handle that another schedule gave.
    #[error(
        "`{primitive}`: the loop or block belongs to another schedule\n  help: look it up in this one, with `block` and `loops`"
    )]
    ForeignHandle {
        /// The primitive.
        primitive: &'static str,
    },
    /// No block has this name.
    #[error("no block is named `{name}`; the blocks are {blocks}")]
    UnknownBlock {
        /// The name.
        name: String,
        /// The names there are.
        blocks: String,
    },
    /// A loop variable or block would occur twice.
    #[error("a loop or block would occur twice: {0:?}")]
    DuplicateId(StmtSRef),
    /// An argument is unusable whatever the program.
    #[error("`{primitive}`: {message}")]
    BadArgument {
        /// The primitive.
        primitive: &'static str,
        /// What is wrong: expected and got.
        message: String,
    },
    /// The transformation would change what the program computes.
    #[error("`{primitive}` is not legal here: {message}{}{nest}", help_line(.help))]
    Illegal {
        /// The primitive.
        primitive: &'static str,
        /// Why.
        message: String,
        /// Where or how it would be legal.
        help: Option<String>,
        /// The loop nest with the place marked.
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

    /// With the loop nest of `func` printed, `marked` underlined.
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
