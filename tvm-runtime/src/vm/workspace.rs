//! Working memory of a virtual machine run. A caller may keep it, so that the next run reuses its memory.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Device;
use crate::error::RuntimeError;
use crate::tensor::Storage;
use crate::value::Value;

/// Call stack, registers, and the storages of past runs.
#[derive(Default)]
pub struct Workspace {
    pub(super) frames: Vec<Frame>,
    pub(super) regs: Vec<Value>,
    /// Storages in use; those without another handle can be reused.
    storages: Vec<Storage>,
    /// Index at which the last search ended.
    cursor: usize,
    bytes: usize,
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

/// Maximum number of storages inspected before a new one is allocated.
const PROBES: usize = 32;

impl Workspace {
    /// Makes an empty workspace.
    pub fn new() -> Workspace {
        Workspace::default()
    }

    /// Size of the storages that the workspace keeps, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a run number that no other run has had.
    pub(super) fn new_run() -> u64 {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        RUNS.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns a storage that the run `writer` may write to: an unused one of at most about twice the size, or a new one.
    pub(super) fn storage(
        &mut self,
        size: usize,
        align: usize,
        device: Device,
        writer: u64,
        max_bytes: usize,
    ) -> Result<Storage, RuntimeError> {
        let len = self.storages.len();
        for probe in 0..len.min(PROBES) {
            let at = (self.cursor + probe) % len;
            let storage = &mut self.storages[at];
            let fits = storage.len() >= size && storage.len() / 2 <= size && storage.device() == device;
            if fits && storage.as_ptr().addr().is_multiple_of(align) && storage.is_unique() {
                self.cursor = at + 1;
                storage.set_writer(writer);
                return Ok(storage.clone());
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
        storage.set_writer(writer);
        self.bytes += size;
        self.storages.push(storage.clone());
        Ok(storage)
    }

    /// Ends the run `writer`. Clears the stack, and drops the storages that belong to the result and those that this
    /// run did not use, so that the workspace does not grow with changing shapes.
    pub(super) fn finish(&mut self, writer: u64) {
        self.frames.clear();
        self.regs.clear();
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
