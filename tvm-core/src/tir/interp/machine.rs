//! State of a running program: variable slots, buffer views, memory.

use smallvec::SmallVec;
use tvm_runtime::RuntimeError;
use tvm_runtime::vm::CancelToken;

use super::strict::Watch;
use super::{InterpError, InterpErrorKind};
use crate::ir::Span;

/// Steps between two looks at the token that cancels a program: some milliseconds.
const STEPS_AT_ONCE: u64 = 1 << 16;

/// Marks a computation that stopped; the reason is in the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trap;

pub(super) type IntFn = Box<dyn Fn(&mut Machine<'_>) -> Result<i64, Trap> + Send + Sync>;
pub(super) type FloatFn = Box<dyn Fn(&mut Machine<'_>) -> Result<f64, Trap> + Send + Sync>;
pub(super) type HandleFn = Box<dyn Fn(&mut Machine<'_>) -> Result<Handle, Trap> + Send + Sync>;
pub(super) type Run = Box<dyn Fn(&mut Machine<'_>) -> Result<(), Trap> + Send + Sync>;

/// An address: a memory and a byte offset in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handle {
    pub(super) mem: usize,
    pub(super) byte: i64,
}

/// Memory of a buffer.
pub(super) enum Mem<'a> {
    Owned(Vec<u8>),
    Read(&'a [u8]),
    Write(&'a mut [u8]),
}

/// One axis of a view: its extent, and its stride in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dim {
    pub(super) extent: i64,
    pub(super) stride: i64,
}

/// Current address and layout of a buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) at: Handle,
    pub(super) dims: SmallVec<[Dim; 4]>,
}

/// One argument of a packed call.
#[derive(Clone, Debug)]
pub(super) enum Packed {
    Tensor { mem: usize, dtype: tvm_runtime::DataType, shape: Vec<i64> },
    Int(i64),
    Float(f64),
}

/// Numbers of slots, handles, views and memories that a program needs.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    pub(super) slots: usize,
    pub(super) handles: usize,
    pub(super) views: usize,
    /// Memories of allocated buffers; those of arguments come after them.
    pub(super) mems: usize,
}

/// A running program.
pub(super) struct Machine<'a> {
    /// Scalar variables: integers, and floats as bits of `f64`. A vector has one slot per lane.
    pub(super) slots: Vec<i64>,
    pub(super) handles: Vec<Handle>,
    pub(super) views: Vec<View>,
    pub(super) mems: Vec<Mem<'a>>,
    pub(super) packed: Vec<Packed>,
    /// The lane being computed: vectors are evaluated one lane at a time.
    pub(super) lane: usize,
    /// State of the strict mode, if enabled.
    pub(super) watch: Option<Box<Watch>>,
    /// Steps until the limit and the token are looked at, and steps after those.
    steps: u64,
    more_steps: u64,
    /// Ends the program.
    pub(super) cancel: Option<CancelToken>,
    error: Option<Box<InterpError>>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(sizes: &Sizes, steps: u64) -> Machine<'a> {
        Machine {
            slots: vec![0; sizes.slots],
            handles: vec![Handle::default(); sizes.handles],
            views: vec![View::default(); sizes.views],
            mems: (0..sizes.mems).map(|_| Mem::Owned(Vec::new())).collect(),
            packed: Vec::new(),
            lane: 0,
            watch: None,
            steps: 0,
            more_steps: steps,
            cancel: None,
            error: None,
        }
    }

    /// Records why the program stops, and where.
    #[cold]
    pub(super) fn fail(&mut self, kind: InterpErrorKind, span: &Span) -> Trap {
        self.error = Some(Box::new(kind.at(span)));
        Trap
    }

    /// Why the program stopped.
    pub(super) fn error(self, _: Trap) -> InterpError {
        self.error.map_or_else(|| InterpErrorKind::StepLimit.into(), |error| *error)
    }

    /// Counts one step; at the limit the program stops (with no error recorded, which means `StepLimit`).
    #[inline]
    pub(super) fn step(&mut self) -> Result<(), Trap> {
        if self.steps == 0 {
            self.go_on()?;
        }
        self.steps -= 1;
        Ok(())
    }

    #[cold]
    fn go_on(&mut self) -> Result<(), Trap> {
        if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(self.fail(InterpErrorKind::Runtime(RuntimeError::Cancelled), &Span::none()));
        }
        self.steps = self.more_steps.min(STEPS_AT_ONCE);
        self.more_steps -= self.steps;
        if self.steps == 0 { Err(Trap) } else { Ok(()) }
    }

    #[inline]
    pub(super) fn bytes(&self, mem: usize) -> &[u8] {
        match &self.mems[mem] {
            Mem::Owned(bytes) => bytes,
            Mem::Read(bytes) => bytes,
            Mem::Write(bytes) => bytes,
        }
    }

    /// The bytes for writing; `None` if the memory is an input.
    #[inline]
    pub(super) fn bytes_mut(&mut self, mem: usize) -> Option<&mut [u8]> {
        match &mut self.mems[mem] {
            Mem::Owned(bytes) => Some(bytes),
            Mem::Read(_) => None,
            Mem::Write(bytes) => Some(bytes),
        }
    }
}
