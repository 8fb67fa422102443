//! Memory of devices other than the host, behind one type.

use super::cuda::CudaBuffer;
use super::virtual_cpu::VirtualBuffer;
use super::{Device, DeviceKind};
use crate::error::RuntimeError;

/// Memory on a device, freed when dropped. The host reaches it through copies.
pub(crate) enum DeviceBuffer {
    Cuda(CudaBuffer),
    Virtual(VirtualBuffer),
}

impl DeviceBuffer {
    /// Allocates `len` zero bytes on a device that is not the host.
    pub(crate) fn alloc(device: Device, len: usize) -> Result<DeviceBuffer, RuntimeError> {
        match device.kind {
            DeviceKind::Cuda => CudaBuffer::alloc(device, len).map(DeviceBuffer::Cuda),
            DeviceKind::Cpu => VirtualBuffer::alloc(device, len).map(DeviceBuffer::Virtual),
        }
    }

    /// The device address.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        match self {
            DeviceBuffer::Cuda(it) => it.as_ptr(),
            DeviceBuffer::Virtual(it) => it.as_ptr(),
        }
    }

    /// What this thread gives to the device from now on in its workspace may read the memory, and write to it if `written`: it waits for
    /// what others do with it. Nobody else may read memory that is written to.
    #[inline]
    pub(crate) fn mark(&self, written: bool) -> Result<(), RuntimeError> {
        match self {
            DeviceBuffer::Cuda(it) => it.mark(written),
            DeviceBuffer::Virtual(_) => Ok(()),
        }
    }

    pub(crate) fn copy_from_host(&self, offset: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        match self {
            DeviceBuffer::Cuda(it) => it.copy_from_host(offset, bytes),
            DeviceBuffer::Virtual(it) => it.copy_from_host(offset, bytes),
        }
    }

    pub(crate) fn copy_to_host(&self, offset: usize, bytes: &mut [u8]) -> Result<(), RuntimeError> {
        match self {
            DeviceBuffer::Cuda(it) => it.copy_to_host(offset, bytes),
            DeviceBuffer::Virtual(it) => it.copy_to_host(offset, bytes),
        }
    }

    /// Copies `len` bytes; copies between two devices go through the host.
    pub(crate) fn copy(
        from: &DeviceBuffer,
        from_offset: usize,
        to: &DeviceBuffer,
        to_offset: usize,
        len: usize,
    ) -> Result<(), RuntimeError> {
        if let (DeviceBuffer::Cuda(from), DeviceBuffer::Cuda(to)) = (from, to)
            && from.device() == to.device()
        {
            return CudaBuffer::copy(from, from_offset, to, to_offset, len);
        }
        let mut bytes = vec![0; len];
        from.copy_to_host(from_offset, &mut bytes)?;
        to.copy_from_host(to_offset, &bytes)
    }
}
