//! What stops the interpreter.

use std::sync::Arc;

use tvm_runtime::{DataType, RuntimeError};

use crate::ir::Span;

/// Why a program could not be compiled for the interpreter, or stopped.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterpError {
    /// An argument does not fit its parameter, or memory could not be had.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A buffer was accessed outside its extents.
    #[error("`{buffer}`: index {index} of axis {axis} is out of bounds, expected 0..{extent}{}", at(.span))]
    OutOfBounds {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// Axis concerned.
        axis: usize,
        /// The index.
        index: i64,
        /// Extent of the axis.
        extent: i64,
        /// The access.
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
        /// The access.
        span: Span,
    },
    /// An element was read that nothing had written (strict mode).
    #[error("`{}` is read before it is written{}", element_text(.buffer, .element), at(.span))]
    Uninitialised {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// Indices of the element.
        element: Vec<i64>,
        /// The access.
        span: Span,
    },
    /// Two iterations of a loop that may run at once access one element, and one of them writes it (strict mode).
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
        /// Its value for the earlier access.
        first: i64,
        /// Its value for this access.
        second: i64,
        /// The loop.
        loop_span: Span,
        /// The access.
        span: Span,
    },
    /// Threads that wait for each other go different ways around the barrier.
    #[error("{what} around a barrier is not the same in all threads{}", at(.span))]
    Divergence {
        /// What differs.
        what: &'static str,
        /// Where it is.
        span: Span,
    },
    /// A buffer that is only read was written to.
    #[error("`{buffer}` is an input and may not be written to{}", at(.span))]
    ReadOnly {
        /// Buffer accessed.
        buffer: Arc<str>,
        /// The access.
        span: Span,
    },
    /// The end of a loop does not fit an `i64`.
    #[error("the range of loop `{loop_var}`, {extent} iterations from {min}, does not fit an i64{}", at(.span))]
    LoopRange {
        /// Variable of the loop.
        loop_var: Arc<str>,
        /// Its first value.
        min: i64,
        /// Number of iterations.
        extent: i64,
        /// The loop.
        span: Span,
    },
    /// An integer was divided by zero.
    #[error("integer division by zero{}", at(.span))]
    DivisionByZero {
        /// The statement.
        span: Span,
    },
    /// A shift by a negative number of bits, or by as many as the type has.
    #[error("shift of {dtype} by {amount} bits{}", at(.span))]
    Shift {
        /// Type of the value.
        dtype: DataType,
        /// Number of bits.
        amount: i64,
        /// The statement.
        span: Span,
    },
    /// A block's axis got a value outside its domain.
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
    #[error("assertion failed: status {status}, argument {arg}, axis {axis}: expected {expected}, got {got}")]
    Assert {
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
    /// The program is not well formed, or uses something that only a target has.
    #[error("cannot interpret {what}: {why}{}", at(.span))]
    Malformed {
        /// The construct.
        what: String,
        /// What is wrong.
        why: &'static str,
        /// Its place.
        span: Span,
    },
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
