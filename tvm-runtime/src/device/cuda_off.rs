//! CUDA devices in a build without the feature `cuda`: none exists, and using one is an error that names the feature.

use super::{Device, DeviceProperties};
use crate::error::RuntimeError;

fn unsupported<T>(device: Device) -> Result<T, RuntimeError> {
    Err(RuntimeError::Unsupported { what: device.to_string().into(), feature: "cuda" })
}

pub(super) fn probe(device: Device) -> Result<(), RuntimeError> {
    unsupported(device)
}

pub(super) fn properties(device: Device) -> Result<DeviceProperties, RuntimeError> {
    unsupported(device)
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
