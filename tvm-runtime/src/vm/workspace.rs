//! Working memory of a virtual machine run. A caller may keep it, so that the next run reuses its memory.
//!
//! In a steady state, a run allocates nothing: it takes storages and handles of values from its workspace, and leaves
//! them there. Its result is the caller's, who may give it back with [`Workspace::recycle`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::pool::Pool;
use crate::device::{Device, OwnStreams};
use crate::error::RuntimeError;
use crate::tensor::{ALIGNMENT, Storage, Tensor};
use crate::value::Value;

/// Call stack, registers, and the storages of past runs. On a GPU, calls in one workspace are done one after the other, and overlap those
/// in others.
#[derive(Default)]
pub struct Workspace {
    pub(super) frames: Vec<Frame>,
    pub(super) regs: Vec<Value>,
    /// Storages in use; those without another handle can be reused.
    storages: Vec<Storage>,
    /// Index at which the last search ended.
    cursor: usize,
    bytes: usize,
    /// Numbers of the next runs.
    runs: Range<u64>,
    pub(super) pool: Pool,
    /// What its calls do on GPUs is in these streams.
    pub(super) streams: OwnStreams,
}

/// A suspended caller that waits for a result.
pub(super) struct Frame {
    /// Index of the caller's function.
    pub(super) func: usize,
    /// Index of the instruction to continue with.
    pub(super) pc: usize,
    /// Index of the caller's first register.
    pub(super) base: usize,
    /// Register of the caller that receives the result.
    pub(super) dst: usize,
}

/// How many run numbers a workspace takes at once.
const RUNS: u64 = 1 << 16;

/// Maximum number of storages inspected before a new one is allocated.
const PROBES: usize = 32;

impl Workspace {
    /// Makes an empty workspace.
    pub fn new() -> Workspace {
        Workspace::default()
    }

    /// An empty workspace whose calls are in the same order on GPUs as those of this one.
    pub(crate) fn beside(&self) -> Workspace {
        Workspace { streams: self.streams.clone(), ..Workspace::default() }
    }

    /// Size of the storages that the workspace keeps, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes back a value, usually the result of an earlier run that is no longer needed, so that the next run can reuse its
    /// memory. Memory that somebody else still has is left alone.
    pub fn recycle(&mut self, value: impl Into<Value>) {
        let Workspace { storages, bytes, pool, .. } = self;
        pool.recycle(value.into(), &mut |mut storage| {
            if storage.is_own() && storage.is_unique() {
                *bytes += storage.len();
                storages.push(storage);
            }
        });
    }

    /// Begins a run with `args` in its first registers.
    pub(super) fn start(&mut self, args: impl Iterator<Item = Value>) {
        self.frames.clear();
        self.regs.clear();
        self.regs.extend(args);
    }

    /// Ends the lifetime of the content of a register.
    #[inline]
    pub(super) fn end(&mut self, value: Value) {
        let unused = match &value {
            Value::Tensor(tensor) => tensor.handles() == 1,
            Value::Shape(shape) => Arc::strong_count(shape) == 1,
            Value::Adt(tuple) => tuple.handles() == 1,
            _ => false,
        };
        if unused {
            self.recycle(value);
        }
    }

    /// Ends the registers from `base` on.
    pub(super) fn truncate(&mut self, base: usize) {
        while self.regs.len() > base
            && let Some(value) = self.regs.pop()
        {
            self.end(value);
        }
    }

    /// Returns a run number that no other run has had.
    pub(super) fn new_run(&mut self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.runs.next().unwrap_or_else(|| {
            let first = NEXT.fetch_add(RUNS, Ordering::Relaxed);
            self.runs = first + 1..first + RUNS;
            first
        })
    }

    /// Returns a storage that the run `writer` may write to.
    pub(super) fn storage(
        &mut self,
        size: usize,
        align: usize,
        device: Device,
        writer: u64,
        max_bytes: usize,
    ) -> Result<Storage, RuntimeError> {
        let at = self.unused(size, align, device, max_bytes)?;
        let storage = &self.storages[at];
        storage.set_writer(writer);
        Ok(storage.clone())
    }

    /// Makes the run `writer` the only one that can reach the elements of `tensor`: the same tensor if it is, else a copy.
    pub(super) fn unique(
        &mut self,
        tensor: Tensor,
        writer: u64,
        max_bytes: usize,
    ) -> Result<Tensor, RuntimeError> {
        let storage = tensor.storage();
        // A storage that this run allocated has a second handle here.
        let kept = self.storages.iter().any(|it| it.is_same(storage));
        let mine = !kept || storage.writer() == writer;
        if mine && storage.is_own() && tensor.handles() == 1 && storage.handles() == 1 + usize::from(kept) {
            // What others did with the memory before they dropped their handles has happened.
            fence(Ordering::Acquire);
            storage.set_writer(writer);
            return Ok(tensor);
        }
        let copy = self.copy(&tensor, tensor.device(), writer, max_bytes)?;
        self.recycle(tensor);
        Ok(copy)
    }

    /// A copy of `tensor` on `device`, in a storage that the run `writer` may write to.
    pub(super) fn copy(
        &mut self,
        tensor: &Tensor,
        device: Device,
        writer: u64,
        max_bytes: usize,
    ) -> Result<Tensor, RuntimeError> {
        let at = self.unused(tensor.byte_len(), ALIGNMENT, device, max_bytes)?;
        let storage = &mut self.storages[at];
        storage.set_writer(writer);
        tensor.copy_to(storage)?;
        self.pool.tensor(storage.clone(), 0, tensor.shape(), tensor.dtype())
    }

    /// Index of a storage without other handles: one of at most about twice the size, or a new one.
    fn unused(
        &mut self,
        size: usize,
        align: usize,
        device: Device,
        max_bytes: usize,
    ) -> Result<usize, RuntimeError> {
        let len = self.storages.len();
        for probe in 0..len.min(PROBES) {
            let at = (self.cursor + probe) % len;
            let storage = &mut self.storages[at];
            let fits = storage.len() >= size && storage.len() / 2 <= size && storage.device() == device;
            if fits && storage.as_ptr().addr().is_multiple_of(align) && storage.is_unique() {
                self.cursor = at + 1;
                return Ok(at);
            }
        }
        if size > max_bytes.saturating_sub(self.bytes) {
            self.release_unused();
        }
        if size > max_bytes.saturating_sub(self.bytes) {
            return Err(RuntimeError::Limit { limit: "memory", value: max_bytes as u64 });
        }
        let storage = match Storage::alloc(size, align, device) {
            Err(RuntimeError::OutOfMemory { .. }) => {
                self.release_unused();
                Storage::alloc(size, align, device)?
            }
            res => res?,
        };
        self.bytes += size;
        self.storages.push(storage);
        Ok(self.storages.len() - 1)
    }

    /// Ends the run `writer`. Clears the stack, and drops the storages that belong to the result and those that this
    /// run did not use, so that the workspace does not grow with changing shapes.
    pub(super) fn finish(&mut self, writer: u64) {
        self.frames.clear();
        self.truncate(0);
        self.storages.retain_mut(|storage| storage.writer() == writer && storage.is_unique());
        self.count();
    }

    fn release_unused(&mut self) {
        self.storages.retain_mut(|storage| !storage.is_unique());
        self.count();
    }

    fn count(&mut self) {
        self.bytes = self.storages.iter().map(Storage::len).sum();
        self.cursor = 0;
    }
}
