//! Events: points in the order of what a GPU does, at which it notes the time.
#![allow(unsafe_code, reason = "calls of the driver; each block says why it is sound")]

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys::{CUevent, CUevent_flags};

use super::gpu::Gpu;
use crate::error::RuntimeError;

/// A point in the order of everything that a GPU does, in whatever stream.
pub(super) struct Event {
    gpu: Arc<Gpu>,
    event: CUevent,
}

impl Event {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Event, RuntimeError> {
        let event = gpu.call(|| result::event::create(CUevent_flags::CU_EVENT_DEFAULT))?;
        Ok(Event { gpu: gpu.clone(), event })
    }

    /// Puts the event after everything that was launched so far.
    pub(super) fn record(&self) -> Result<(), RuntimeError> {
        // SAFETY: the event was made in `new`; the default stream always exists.
        self.gpu.call(|| unsafe { result::event::record(self.event, self.gpu.streams.default.handle) })
    }

    /// Waits for the event, and returns the time since `start`. Both are recorded.
    pub(super) fn since(&self, start: &Event) -> Result<Duration, RuntimeError> {
        // SAFETY: made in `new`.
        self.gpu.call(|| unsafe { result::event::synchronize(self.event) })?;
        // SAFETY: both were made in `new`, for the same stream.
        let milliseconds = self.gpu.call(|| unsafe { result::event::elapsed(start.event, self.event) })?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once. A failure leaves it to the driver.
        let _ = self.gpu.try_call(|| unsafe { result::event::destroy(self.event) });
    }
}
