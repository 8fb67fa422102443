//! Errors of the interpreter.

use std::fmt;
use std::sync::Arc;

use tvm_runtime::abi::Status;
use tvm_runtime::{DataType, RuntimeError};

use crate::ir::{Diagnose, Diagnostic, Span};

/// Why a program could not be compiled for the interpreter, or stopped.
#[derive(Clone, Debug, thiserror::Error)]
pub struct InterpError {
    /// What is wrong.
    pub kind: InterpErrorKind,
    /// The place of the statement or expression; none for errors that belong to no place.
    pub span: Span,
}

/// What is wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterpErrorKind {
    /// An argument does not fit its parameter, or memory could not be allocated.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A buffer was accessed outside its extents.
    #[error("`{buffer}`: index {index} of axis {axis} is out of bounds, expected 0..{extent}")]
    OutOfBounds {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// Axis of the index.
        axis: usize,
        /// Value of the index.
        index: i64,
        /// Extent of the axis.
        extent: i64,
    },
    /// A buffer declared over other memory was accessed outside of that memory.
    #[error("`{buffer}`: byte {byte} is outside of the memory behind it, which has {len} bytes")]
    OutOfMemory {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// First byte of the access.
        byte: i64,
        /// Size of the memory.
        len: usize,
    },
    /// An element was read before it was written (strict mode).
    #[error("`{}` is read before it is written", element_text(.buffer, .element))]
    Uninitialised {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// Indices of the element.
        element: Vec<i64>,
    },
    /// Two iterations of a concurrent loop access the same element, and one of them writes it (strict mode).
    #[error(
        "`{}` is accessed by iterations {first} and {second} of the {kind} loop `{loop_var}`, and written by one{}",
        element_text(.buffer, .element), barrier_text(.kind)
    )]
    Race {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// Indices of the element.
        element: Vec<i64>,
        /// Kind of the loop.
        kind: &'static str,
        /// The loop's variable.
        loop_var: Arc<str>,
        /// Value of the loop variable for the earlier access.
        first: i64,
        /// Value of the loop variable for this access.
        second: i64,
        /// Place of the loop.
        loop_span: Span,
    },
    /// Threads that wait for each other take different paths around a barrier.
    #[error("{what} around a barrier is not the same in all threads")]
    Divergence {
        /// The value that differs between threads, for example `a condition`.
        what: &'static str,
    },
    /// The program writes to an input.
    #[error("`{buffer}` is an input and may not be written to")]
    ReadOnly {
        /// Buffer accessed.
        buffer: Arc<str>,
    },
    /// The end of a loop does not fit an `i64`.
    #[error("the range of loop `{loop_var}`, {extent} iterations from {min}, does not fit an i64")]
    LoopRange {
        /// Name of the loop variable.
        loop_var: Arc<str>,
        /// Its first value.
        min: i64,
        /// Number of iterations.
        extent: i64,
    },
    /// An integer was divided by zero.
    #[error("integer division by zero")]
    DivisionByZero,
    /// A shift by a negative number of bits, or by as many as the type has.
    #[error("shift of {dtype} by {amount} bits")]
    Shift {
        /// Type of the value.
        dtype: DataType,
        /// Number of bits.
        amount: i64,
    },
    /// The value of a block axis is outside its domain.
    #[error("block `{block}`: axis `{axis}` is {value}, expected {min}..{end}")]
    AxisDomain {
        /// The block.
        block: Arc<str>,
        /// The axis.
        axis: Arc<str>,
        /// Value bound.
        value: i64,
        /// First value of the domain.
        min: i64,
        /// First value after the domain.
        end: i64,
    },
    /// A buffer has an extent that is negative or too large.
    #[error("`{buffer}`: cannot allocate {dtype} of shape {shape:?}")]
    Allocation {
        /// The buffer.
        buffer: Arc<str>,
        /// Element type.
        dtype: DataType,
        /// The extents.
        shape: Vec<i64>,
    },
    /// An assertion of the program failed.
    #[error("assertion failed: {}", failure_text(.what, [*status, *arg, *axis], *expected, *got))]
    Assert {
        /// Subject of the failure, or the message of the assertion; may be empty.
        what: Arc<str>,
        /// A `tvm_runtime::abi::Status` value.
        status: i32,
        /// Argument, or -1.
        arg: i32,
        /// Axis, or -1.
        axis: i32,
        /// What was expected.
        expected: i64,
        /// What was found.
        got: i64,
    },
    /// The step limit was reached.
    #[error("the program did not finish within its step limit")]
    StepLimit,
    /// The program is not well-formed, or uses a feature that exists only on a target.
    #[error("cannot interpret {what}: {why}")]
    Malformed {
        /// The construct.
        what: String,
        /// What is wrong.
        why: &'static str,
    },
}

fn failure_text(what: &str, [status, arg, axis]: [i32; 3], expected: i64, got: i64) -> String {
    if status == Status::Assert as i32 {
        return what.to_string();
    }
    let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
    format!("{what}status {status}, argument {arg}, axis {axis}: expected {expected}, got {got}")
}

fn element_text(buffer: &str, element: &[i64]) -> String {
    let indices: Vec<String> = element.iter().map(ToString::to_string).collect();
    format!("{buffer}[[{}]]", indices.join(", "))
}

fn barrier_text(kind: &str) -> &'static str {
    if kind.starts_with("threadIdx") { ", without a barrier between" } else { "" }
}

impl InterpErrorKind {
    /// The error of this kind at `span`.
    pub(super) fn at(self, span: &Span) -> InterpError {
        InterpError { kind: self, span: span.clone() }
    }

    pub(super) fn malformed(what: impl Into<String>, why: &'static str) -> InterpErrorKind {
        InterpErrorKind::Malformed { what: what.into(), why }
    }
}

impl InterpError {
    fn diagnostic(&self) -> Diagnostic {
        let diagnostic = Diagnostic::new(self.kind.to_string(), &self.span);
        match &self.kind {
            InterpErrorKind::Race { loop_span, .. } if !loop_span.is_none() => {
                diagnostic.note("the iterations are those of this loop", loop_span)
            }
            _ => diagnostic,
        }
    }
}

impl Diagnose for InterpError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        vec![self.diagnostic()]
    }
}

impl fmt::Display for InterpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic().fmt(f)
    }
}

impl From<InterpErrorKind> for InterpError {
    fn from(kind: InterpErrorKind) -> InterpError {
        kind.at(&Span::none())
    }
}

impl From<RuntimeError> for InterpError {
    fn from(source: RuntimeError) -> InterpError {
        InterpErrorKind::Runtime(source).into()
    }
}
