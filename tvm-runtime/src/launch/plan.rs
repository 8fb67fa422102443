//! What a call of a program does on the device, and why a call is refused.

use std::sync::Arc;

use crate::abi::CallError;
use crate::dtype::DataType;
use crate::error::RuntimeError;
use crate::kernel::KernelSig;
use crate::status;

/// What a call does.
#[derive(Clone, Debug, Default)]
pub struct LaunchPlan {
    /// Bytes of each memory that the call needs; numbers of memories begin after those of the arguments.
    pub memories: Vec<u64>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Every place in memory is a multiple of so many bytes, as those of the driver are.
const ALIGNMENT: u64 = 256;

impl LaunchPlan {
    /// The places of the memories side by side, in bytes from the first one, and the bytes of all of them.
    pub(crate) fn places(&self) -> (Vec<u64>, u64) {
        let mut end = 0u64;
        let place = |bytes: &u64| {
            let start = end;
            end = end.saturating_add(bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX));
            start
        };
        (self.memories.iter().map(place).collect(), end)
    }
}

/// A step of a call.
#[derive(Clone, Debug)]
pub enum Step {
    /// Launches a kernel.
    Launch {
        /// Number of the kernel in its program.
        kernel: usize,
        /// Blocks, along x, y and z.
        grid: [u32; 3],
        /// Threads of a block, along x, y and z.
        block: [u32; 3],
        /// Bytes of shared memory of a block, beside those that the code says.
        shared: u32,
        /// The arguments.
        args: Vec<Argument>,
    },
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// Memory: the number of the argument of the call, or of an allocation after those.
    Memory(usize),
    /// A number as the bits of its type.
    Scalar(u64, DataType),
    /// Memory of three `i64` for the first failed assertion, zero before the call: the number of the assertion, which begins
    /// at 1, what was expected, and what was found.
    Failure,
}

/// An argument of a call, as far as its plan depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LaunchArg<'a> {
    /// A tensor, which is compact and row-major.
    Tensor {
        /// Its extents.
        shape: &'a [i64],
        /// Its element type.
        dtype: DataType,
    },
    /// A scalar of integer or bool type.
    Int(i64),
    /// A scalar of floating-point type.
    Float(f64),
}

/// What a failed assertion reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFailure {
    /// A [`Status`](crate::abi::Status).
    pub status: i32,
    /// Index of the argument, or -1.
    pub arg: i32,
    /// Axis of that argument, or -1.
    pub axis: i32,
    /// Subject of the failure.
    pub what: Option<Arc<str>>,
    /// Where the subject was written.
    pub place: Option<Arc<str>>,
}

/// Why a call is refused before it launches anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// An assertion of the host does not hold: an argument does not fit, or a launch is too large.
    #[error("{}: expected {expected}, got {got}", .failure.what.as_deref().unwrap_or("an argument does not fit"))]
    Failed {
        /// What the assertion reports.
        failure: KernelFailure,
        /// What was expected.
        expected: i64,
        /// What was found.
        got: i64,
    },
    /// Another reason, as text.
    #[error("{0}")]
    Refused(String),
}

impl KernelFailure {
    /// The error of a call of the kernel `sig`.
    pub(crate) fn error(&self, sig: &KernelSig, expected: i64, got: i64) -> RuntimeError {
        let KernelFailure { status, arg, axis, .. } = *self;
        let (what, place) = (std::ptr::null(), std::ptr::null());
        let error = CallError { status, arg, axis, reserved: 0, expected, got, what, place };
        status::render(sig, status, &error, self.what.clone(), self.place.clone())
    }
}

impl LaunchError {
    /// The error of a call of the kernel `sig`.
    pub(crate) fn error(&self, sig: &KernelSig) -> RuntimeError {
        match self {
            LaunchError::Failed { failure, expected, got } => failure.error(sig, *expected, *got),
            LaunchError::Refused(message) => {
                RuntimeError::Launch { func: sig.name.as_str().into(), message: message.clone() }
            }
        }
    }
}
