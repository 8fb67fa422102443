//! CUDA devices in a build without the feature `cuda`: none exists, and using one is an error that names the feature.

use std::sync::Arc;
use std::time::Duration;

use super::{Device, DeviceProperties, Order};
use crate::error::RuntimeError;
use crate::launch::DeviceImage;

fn unsupported<T>(device: Device) -> Result<T, RuntimeError> {
    Err(RuntimeError::Unsupported { what: device.to_string().into(), feature: "cuda" })
}

pub(super) fn probe(device: Device) -> Result<(), RuntimeError> {
    unsupported(device)
}

pub(super) fn properties(device: Device) -> Result<DeviceProperties, RuntimeError> {
    unsupported(device)
}

pub(super) fn capabilities() -> Result<Vec<(i32, i32)>, RuntimeError> {
    unsupported(Device::cuda(0))
}

pub(super) fn synchronize(device: Device) -> Result<(), RuntimeError> {
    unsupported(device)
}

pub(super) fn repeat_launches(
    device: Device,
    _times: u32,
    _run: impl FnOnce() -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    unsupported(device)
}

pub(super) fn timed(
    device: Device,
    _run: impl FnOnce() -> Result<(), RuntimeError>,
) -> Result<Duration, RuntimeError> {
    unsupported(device)
}

/// Code on a device; uninhabited in this build.
pub(crate) enum LoadedCode {}

impl LoadedCode {
    pub(crate) fn load(device: Device, _image: &DeviceImage) -> Result<LoadedCode, RuntimeError> {
        unsupported(device)
    }

    pub(crate) fn scratch(&self, _order: Order, _len: usize) -> Result<Scratch, RuntimeError> {
        match *self {}
    }

    /// # Safety
    /// None: there is no such code.
    pub(crate) unsafe fn launch(
        self: &Arc<Self>,
        _order: Order,
        _kernel: (&str, usize),
        _launch: ([u32; 3], [u32; 3], u32),
        _values: &[u64],
    ) -> Result<(), RuntimeError> {
        match **self {}
    }
}

pub(crate) fn record<R>(
    device: Device,
    _run: impl FnOnce() -> Result<R, RuntimeError>,
) -> Result<(R, Recording), RuntimeError> {
    unsupported(device)
}

pub(crate) fn unrecorded<R>(run: impl FnOnce() -> R) -> R {
    run()
}

pub(crate) fn records(_device: Device) -> Result<bool, RuntimeError> {
    Ok(false)
}

/// Recorded work; uninhabited in this build.
pub(crate) enum Recording {}

/// Recorded work that is done again; uninhabited in this build.
pub(crate) enum Graph {}

impl Graph {
    pub(crate) fn new(recording: Recording) -> Result<Graph, RuntimeError> {
        match recording {}
    }

    pub(crate) fn len(&self) -> usize {
        match *self {}
    }

    /// # Safety
    /// None: there is no such graph.
    pub(crate) unsafe fn launch(&mut self) -> Result<(), RuntimeError> {
        match *self {}
    }
}

/// The streams of a workspace: none in this build.
#[derive(Clone, Default)]
pub(crate) struct OwnStreams;

impl OwnStreams {
    pub(crate) fn enter(&self) -> Entered {
        Entered
    }
}

/// Nothing to restore.
pub(crate) struct Entered;

/// Memory that calls share; uninhabited in this build.
pub(crate) enum Scratch {}

impl Scratch {
    pub(crate) fn address(&self) -> u64 {
        match *self {}
    }
}

/// Page-locked memory of the host; uninhabited in this build.
pub(crate) enum PinnedMemory {}

impl PinnedMemory {
    pub(crate) fn alloc(device: Device, _len: usize) -> Result<Option<PinnedMemory>, RuntimeError> {
        unsupported(device)
    }

    pub(crate) fn as_ptr(&self) -> std::ptr::NonNull<u8> {
        match *self {}
    }
}

/// Memory of one call; uninhabited in this build.
pub(crate) enum RawMemory {}

impl RawMemory {
    pub(crate) fn alloc(device: Device, _len: usize) -> Result<RawMemory, RuntimeError> {
        unsupported(device)
    }

    pub(crate) fn address(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn copy_from_host(&self, _offset: usize, _bytes: &[u8]) -> Result<(), RuntimeError> {
        match *self {}
    }

    pub(crate) fn copy_to_host(&self, _offset: usize, _bytes: &mut [u8]) -> Result<(), RuntimeError> {
        match *self {}
    }

    /// # Safety
    /// None: there is no such memory.
    pub(crate) unsafe fn copy_from_device(&self, _order: Order, _from: u64) -> Result<(), RuntimeError> {
        match *self {}
    }

    /// # Safety
    /// None: there is no such memory.
    pub(crate) unsafe fn copy_to_device(&self, _order: Order, _to: u64) -> Result<(), RuntimeError> {
        match *self {}
    }
}

/// Memory on a device; uninhabited in this build.
pub(crate) enum CudaBuffer {}

impl CudaBuffer {
    pub(crate) fn alloc(device: Device, _bytes: usize) -> Result<CudaBuffer, RuntimeError> {
        unsupported(device)
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        match *self {}
    }

    pub(super) fn mark(&self, _written: bool) -> Result<(), RuntimeError> {
        match *self {}
    }

    pub(super) fn device(&self) -> Device {
        match *self {}
    }

    pub(crate) fn copy_from_host(&self, _offset: usize, _bytes: &[u8]) -> Result<(), RuntimeError> {
        match *self {}
    }

    pub(crate) fn copy_to_host(&self, _offset: usize, _bytes: &mut [u8]) -> Result<(), RuntimeError> {
        match *self {}
    }

    pub(crate) fn copy(
        from: &CudaBuffer,
        _from_offset: usize,
        _to: &CudaBuffer,
        _to_offset: usize,
        _bytes: usize,
    ) -> Result<(), RuntimeError> {
        match *from {}
    }
}
