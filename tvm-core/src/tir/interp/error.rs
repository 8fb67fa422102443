//! Errors of the interpreter.

use std::sync::Arc;

use tvm_runtime::abi::Status;
use tvm_runtime::{DataType, RuntimeError};

use crate::ir::Span;

/// Why a program could not be compiled for the interpreter, or stopped.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterpError {
    /// An argument does not fit its parameter, or memory could not be allocated.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A buffer was accessed outside its extents.
    #[error("`{buffer}`: index {index} of axis {axis} is out of bounds, expected 0..{extent}{}", at(.span))]
    OutOfBounds {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// Axis of the index.
        axis: usize,
        /// Value of the index.
        index: i64,
        /// Extent of the axis.
        extent: i64,
        /// Place of the access.
        span: Span,
    },
    /// A buffer declared over other memory was accessed outside of that memory.
    #[error("`{buffer}`: byte {byte} is outside of the memory behind it, which has {len} bytes{}", at(.span))]
    OutOfMemory {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// First byte of the access.
        byte: i64,
        /// Size of the memory.
        len: usize,
        /// Place of the access.
        span: Span,
    },
    /// An element was read before it was written (strict mode).
    #[error("`{}` is read before it is written{}", element_text(.buffer, .element), at(.span))]
    Uninitialised {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// Indices of the element.
        element: Vec<i64>,
        /// Place of the access.
        span: Span,
    },
    /// Two iterations of a concurrent loop access the same element, and one of them writes it (strict mode).
    #[error(
        "`{}` is accessed by iterations {first} and {second} of the {kind} loop `{loop_var}`{}, and written by one{}{}",
        element_text(.buffer, .element), at(.loop_span), barrier_text(.kind), at(.span)
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
        /// Place of the access.
        span: Span,
    },
    /// Threads that wait for each other take different paths around a barrier.
    #[error("{what} around a barrier is not the same in all threads{}", at(.span))]
    Divergence {
        /// The value that differs between threads, for example `a condition`.
        what: &'static str,
        /// Place of the statement around the barrier.
        span: Span,
    },
    /// The program writes to an input.
    #[error("`{buffer}` is an input and may not be written to{}", at(.span))]
    ReadOnly {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// Place of the access.
        span: Span,
    },
    /// The end of a loop does not fit an `i64`.
    #[error("the range of loop `{loop_var}`, {extent} iterations from {min}, does not fit an i64{}", at(.span))]
    LoopRange {
        /// Name of the loop variable.
        loop_var: Arc<str>,
        /// Its first value.
        min: i64,
        /// Number of iterations.
        extent: i64,
        /// Place of the loop.
        span: Span,
    },
    /// An integer was divided by zero.
    #[error("integer division by zero{}", at(.span))]
    DivisionByZero {
        /// Place of the statement.
        span: Span,
    },
    /// A shift by a negative number of bits, or by as many as the type has.
    #[error("shift of {dtype} by {amount} bits{}", at(.span))]
    Shift {
        /// Type of the value.
        dtype: DataType,
        /// Number of bits.
        amount: i64,
        /// Place of the statement.
        span: Span,
    },
    /// The value of a block axis is outside its domain.
    #[error("block `{block}`: axis `{axis}` is {value}, expected {min}..{end}{}", at(.span))]
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
        /// The block's place.
        span: Span,
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
    #[error("assertion failed: {}{}", failure_text(.what, [*status, *arg, *axis], *expected, *got), at(.span))]
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
        /// Place of the subject.
        span: Span,
    },
    /// The step limit was reached.
    #[error("the program did not finish within its step limit")]
    StepLimit,
    /// The program is not well-formed, or uses a feature that exists only on a target.
    #[error("cannot interpret {what}: {why}{}", at(.span))]
    Malformed {
        /// The construct.
        what: String,
        /// What is wrong.
        why: &'static str,
        /// Place of the construct.
        span: Span,
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

fn at(span: &Span) -> String {
    if span.is_none() { String::new() } else { format!(" (at {span})") }
}

impl InterpError {
    pub(super) fn malformed(what: impl Into<String>, why: &'static str, span: &Span) -> InterpError {
        InterpError::Malformed { what: what.into(), why, span: span.clone() }
    }
}
