//! CUDA devices: probing, memory, copies.
//!
//! TVM counterpart: `runtime/cuda/cuda_device_api.cc`. The driver is loaded when it is first needed. cudarc panics if the
//! driver library or one of its symbols is missing; every call goes through [`guard`], which turns the panic into an error.
#![allow(unsafe_code, reason = "device memory by address; each block says why it is sound")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUdeviceptr};
use cudarc::driver::{CudaContext, DriverError, result};

use super::{Device, DeviceProperties};
use crate::error::RuntimeError;
use crate::thread_pool::panic_message;

/// Calls the driver. An error of the driver, or a panic because it is missing, becomes an error of `device`.
fn guard<T>(device: Device, call: impl FnOnce() -> Result<T, DriverError>) -> Result<T, RuntimeError> {
    let message = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(res)) => return Ok(res),
        Ok(Err(err)) => format!("{:?}", err.0),
        Err(panic) => panic_message(&*panic),
    };
    Err(RuntimeError::DeviceFailure { device, message })
}

/// The primary context of `device`, created once and bound to the current thread.
fn context(device: Device) -> Result<Arc<CudaContext>, RuntimeError> {
    static CONTEXTS: Mutex<BTreeMap<i32, Arc<CudaContext>>> = Mutex::new(BTreeMap::new());
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let context = match contexts.get(&device.id) {
        Some(context) => context.clone(),
        None => {
            let fail = |message: &str| RuntimeError::DeviceFailure { device, message: message.into() };
            // SAFETY: loads the driver's library, or reports that it is missing.
            if !unsafe { cudarc::driver::sys::is_culib_present() } {
                return Err(fail("the CUDA driver (libcuda) is not installed"));
            }
            let ordinal = usize::try_from(device.id).map_err(|_| fail("a negative ordinal"))?;
            let context = guard(device, || CudaContext::new(ordinal))?;
            contexts.insert(device.id, context.clone());
            context
        }
    };
    drop(contexts);
    guard(device, || context.bind_to_thread())?;
    Ok(context)
}

pub(super) fn probe(device: Device) -> Result<(), RuntimeError> {
    context(device).map(drop)
}

pub(super) fn properties(device: Device) -> Result<DeviceProperties, RuntimeError> {
    let context = context(device)?;
    guard(device, || {
        let units = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        Ok(DeviceProperties {
            name: context.name()?,
            total_memory: Some(context.total_mem()?),
            compute_capability: Some(context.compute_capability()?),
            units: usize::try_from(units).unwrap_or_default(),
        })
    })
}

/// Memory on a device, freed when dropped.
pub(crate) struct CudaBuffer {
    device: Device,
    ptr: CUdeviceptr,
    len: usize,
}

impl CudaBuffer {
    /// Allocates `len` zero bytes.
    pub(crate) fn alloc(device: Device, len: usize) -> Result<CudaBuffer, RuntimeError> {
        let _context = context(device)?;
        if len == 0 {
            return Ok(CudaBuffer { device, ptr: 0, len });
        }
        // SAFETY: a size that is not zero; the result is owned by the buffer.
        let ptr = guard(device, || unsafe { result::malloc_sync(len) })
            .map_err(|_| RuntimeError::OutOfMemory { bytes: len as u64, device })?;
        let buffer = CudaBuffer { device, ptr, len };
        // SAFETY: `len` bytes were just allocated there.
        guard(device, || unsafe { result::memset_d8_sync(ptr, 0, len) })?;
        Ok(buffer)
    }

    /// The device address.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        std::ptr::without_provenance_mut(self.ptr as usize)
    }

    /// The address `offset` bytes into the buffer; an error unless `len` bytes follow.
    fn place(&self, offset: usize, len: usize) -> Result<CUdeviceptr, RuntimeError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.ptr + offset as CUdeviceptr),
            _ => Err(RuntimeError::BadData("a copy beyond the end of a device buffer")),
        }
    }

    pub(crate) fn copy_from_host(&self, offset: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        let to = self.place(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        let _context = context(self.device)?;
        // SAFETY: the place lies in this buffer; the copy is complete on return.
        guard(self.device, || unsafe { result::memcpy_htod_sync(to, bytes) })
    }

    pub(crate) fn copy_to_host(&self, offset: usize, bytes: &mut [u8]) -> Result<(), RuntimeError> {
        let from = self.place(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        let _context = context(self.device)?;
        // SAFETY: the place lies in this buffer; the copy is complete on return.
        guard(self.device, || unsafe { result::memcpy_dtoh_sync(bytes, from) })
    }

    /// The device that has the memory.
    pub(super) fn device(&self) -> Device {
        self.device
    }

    /// Copies `len` bytes between two buffers of one device.
    pub(crate) fn copy(
        from: &CudaBuffer,
        from_offset: usize,
        to: &CudaBuffer,
        to_offset: usize,
        len: usize,
    ) -> Result<(), RuntimeError> {
        let (src, dst) = (from.place(from_offset, len)?, to.place(to_offset, len)?);
        if len == 0 {
            return Ok(());
        }
        let context = context(from.device)?;
        guard(from.device, || {
            // SAFETY: both places lie in their buffers; the call below waits until the copy is complete.
            unsafe { result::memcpy_dtod_sync(dst, src, len) }?;
            context.synchronize()
        })
    }
}

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        if self.len > 0 && context(self.device).is_ok() {
            let ptr = self.ptr;
            // A failure leaves the memory to the driver, which frees it with the process.
            // SAFETY: allocated in `alloc`, freed once.
            let _ = guard(self.device, || unsafe { result::free_sync(ptr) });
        }
    }
}
