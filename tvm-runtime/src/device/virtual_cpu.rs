//! Virtual devices: `cpu:1` and on. They compute as the host does, but their memory counts as that of another device, so
//! that programs for several devices run, and can be tested, without an accelerator.
#![allow(unsafe_code, reason = "memory that kernels write by address; each block says why it is sound")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::Device;
use crate::error::RuntimeError;
use crate::tensor::ALIGNMENT;

/// Memory of a virtual device.
pub(crate) struct VirtualBuffer {
    ptr: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain bytes; who may write when is the concern of the storage that holds the buffer.
unsafe impl Send for VirtualBuffer {}
// SAFETY: as above.
unsafe impl Sync for VirtualBuffer {}

impl VirtualBuffer {
    /// Allocates `len` zero bytes.
    pub(super) fn alloc(device: Device, len: usize) -> Result<VirtualBuffer, RuntimeError> {
        let oom = || RuntimeError::OutOfMemory { bytes: len as u64, device };
        if !device.exists() {
            let message = "a device has no negative ordinal".to_string();
            return Err(RuntimeError::DeviceFailure { device, message });
        }
        // One byte at least: an allocation has a size.
        let layout = Layout::from_size_align(len.max(1), ALIGNMENT).map_err(|_| oom())?;
        // SAFETY: the size is not zero.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(oom)?;
        Ok(VirtualBuffer { ptr, layout })
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The address `offset` bytes into the buffer; an error unless `len` bytes follow.
    fn place(&self, offset: usize, len: usize) -> Result<*mut u8, RuntimeError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.layout.size() => Ok(self.ptr.as_ptr().wrapping_add(offset)),
            _ => Err(RuntimeError::BadData("a copy beyond the end of a device buffer")),
        }
    }

    pub(super) fn copy_from_host(&self, offset: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        let to = self.place(offset, bytes.len())?;
        // SAFETY: the place lies in this buffer, which nobody else uses while its owner fills it; `bytes` is the host's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    pub(super) fn copy_to_host(&self, offset: usize, bytes: &mut [u8]) -> Result<(), RuntimeError> {
        let from = self.place(offset, bytes.len())?;
        // SAFETY: the place lies in this buffer and is initialised; `bytes` is the host's.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
}

impl Drop for VirtualBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `alloc` with this layout.
        unsafe { dealloc(self.ptr.as_ptr(), self.layout) }
    }
}
