//! CUDA devices: probing, memory, copies.
//!
//! Without the feature `cuda` the same functions exist and return [`RuntimeError::Unsupported`].

use super::Device;
use crate::error::RuntimeError;

/// Memory on a CUDA device.
pub(crate) enum DeviceBuffer {}

impl DeviceBuffer {
    pub(crate) fn alloc(device: Device, _bytes: usize) -> Result<DeviceBuffer, RuntimeError> {
        Err(RuntimeError::Unsupported { what: device.to_string().into(), feature: "cuda" })
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        match *self {}
    }

    pub(crate) fn copy_from_host(&self, _offset: usize, _bytes: &[u8]) -> Result<(), RuntimeError> {
        match *self {}
    }

    pub(crate) fn copy_to_host(&self, _offset: usize, _bytes: &mut [u8]) -> Result<(), RuntimeError> {
        match *self {}
    }

    pub(crate) fn copy(
        from: &DeviceBuffer,
        _from_offset: usize,
        _to: &DeviceBuffer,
        _to_offset: usize,
        _bytes: usize,
    ) -> Result<(), RuntimeError> {
        match *from {}
    }
}
