//! Page-locked memory of the host: a GPU copies to and from it at the full speed of its bus.
#![allow(unsafe_code, reason = "memory by address; each block says why it is sound")]

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{CU_MEMHOSTALLOC_PORTABLE, CUresult};

use super::Device;
use super::gpu::Gpu;
use crate::error::RuntimeError;

/// Page-locked bytes, freed when dropped.
pub(crate) struct PinnedMemory {
    gpu: Arc<Gpu>,
    ptr: NonNull<u8>,
}

// SAFETY: plain bytes; who may write when is the concern of the storage that has them.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// Allocates `len` zero bytes for copies to and from `device`; `None` for no bytes.
    ///
    /// # Errors
    /// When the system does not lock so many pages, or the device cannot be used.
    pub(crate) fn alloc(device: Device, len: usize) -> Result<Option<PinnedMemory>, RuntimeError> {
        let gpu = Gpu::of(device)?;
        if len == 0 {
            return Ok(None);
        }
        // SAFETY: a size that is not zero.
        let alloc = || unsafe { result::malloc_host(len, CU_MEMHOSTALLOC_PORTABLE) };
        let oom = || RuntimeError::OutOfMemory { bytes: len as u64, device: Device::cpu() };
        let ptr = gpu.try_call(alloc).map_err(|err| match err.code() {
            Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => oom(),
            _ => gpu.failed(err),
        })?;
        let ptr = NonNull::new(ptr.cast::<u8>()).ok_or_else(oom)?;
        // SAFETY: so many bytes were just allocated there.
        unsafe { ptr.write_bytes(0, len) };
        Ok(Some(PinnedMemory { gpu, ptr }))
    }

    /// The address.
    pub(crate) fn as_ptr(&self) -> NonNull<u8> {
        self.ptr
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // A failure leaves the memory to the driver, which frees it with the process.
        let Ok(gpu) = Gpu::of(self.gpu.device) else { return };
        // SAFETY: allocated in `alloc`, freed once; the host waits for each copy to and from it.
        let _ = gpu.try_call(|| unsafe { result::free_host(self.ptr.as_ptr().cast()) });
    }
}
