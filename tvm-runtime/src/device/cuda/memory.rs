//! Memory of a GPU: allocations, copies.
#![allow(unsafe_code, reason = "device memory by address; each block says why it is sound")]

use std::sync::{Arc, MutexGuard, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys::{CUdeviceptr, CUresult};

use super::Device;
use super::gpu::Gpu;
use super::graph;
use crate::error::RuntimeError;

/// Memory on a GPU with unspecified content, freed when dropped.
pub(crate) struct RawMemory {
    /// `None` if there are no bytes.
    gpu: Option<Arc<Gpu>>,
    ptr: CUdeviceptr,
    len: usize,
}

impl RawMemory {
    /// Allocates `len` bytes on `device`.
    ///
    /// # Errors
    /// When the device does not have them, or cannot be used.
    pub(crate) fn alloc(device: Device, len: usize) -> Result<RawMemory, RuntimeError> {
        let gpu = Gpu::of(device)?;
        if len == 0 {
            return Ok(RawMemory { gpu: None, ptr: 0, len });
        }
        let alloc = || {
            if gpu.context.has_async_alloc() {
                // SAFETY: a size that is not zero, and a stream that lives as long as the process.
                unsafe { result::malloc_async(gpu.stream, len) }
            } else {
                // SAFETY: a size that is not zero.
                unsafe { result::malloc_sync(len) }
            }
        };
        let ptr = gpu.try_call(alloc).map_err(|err| match err.code() {
            Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                RuntimeError::OutOfMemory { bytes: len as u64, device }
            }
            _ => gpu.failed(err),
        })?;
        Ok(RawMemory { gpu: Some(gpu), ptr, len })
    }

    /// The device address; 0 if there are no bytes.
    pub(crate) fn address(&self) -> u64 {
        self.ptr
    }

    /// Number of bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The GPU and the address `offset` bytes into the memory; an error unless `len` bytes follow. `None` for no bytes.
    fn place(&self, offset: usize, len: usize) -> Result<Option<(Arc<Gpu>, CUdeviceptr)>, RuntimeError> {
        match (offset.checked_add(len), &self.gpu) {
            (Some(end), Some(gpu)) if end <= self.len && len > 0 => {
                // The context is made current for this thread.
                Ok(Some((Gpu::of(gpu.device)?, self.ptr + offset as CUdeviceptr)))
            }
            (Some(end), _) if end <= self.len => Ok(None),
            _ => Err(RuntimeError::BadData("a copy beyond the end of a device buffer")),
        }
    }

    /// Copies `bytes` to the place `offset` bytes into the memory.
    ///
    /// # Errors
    /// When they do not fit there, or the device cannot be used.
    pub(crate) fn copy_from_host(&self, offset: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        let Some((gpu, to)) = self.place(offset, bytes.len())? else { return Ok(()) };
        if graph::records(gpu.device)? {
            // The host decides nothing by what the device computes: these bytes are the same in each run.
            let constant = graph::unrecorded(|| {
                let memory = RawMemory::alloc(gpu.device, bytes.len())?;
                memory.copy_from_host(0, bytes).map(|()| memory)
            })?;
            let from = constant.ptr;
            drop(graph::keep(gpu.device, constant));
            // SAFETY: both places lie in memory of this size, which is freed after the work in the stream.
            return unsafe { copy_within(&gpu, to, from, bytes.len()) };
        }
        // SAFETY: the place lies in this memory; the driver has read the bytes on return.
        gpu.call(|| unsafe { result::memcpy_htod_sync(to, bytes) })
    }

    /// Copies the bytes from the place `offset` bytes into the memory on, after everything that was launched before.
    ///
    /// # Errors
    /// When they are not in the memory, the device cannot be used, a kernel that was launched before failed, or the thread records
    /// what it gives to the device.
    pub(crate) fn copy_to_host(&self, offset: usize, bytes: &mut [u8]) -> Result<(), RuntimeError> {
        let Some((gpu, from)) = self.place(offset, bytes.len())? else { return Ok(()) };
        if graph::records(gpu.device)? {
            return Err(graph::uncapturable(format!(
                "the host reads {} bytes of {} in the middle of it\n  help: call it without capturing it",
                bytes.len(),
                gpu.device
            )));
        }
        // SAFETY: the place lies in this memory; the copy is complete on return.
        gpu.waits(|| unsafe { result::memcpy_dtoh_sync(bytes, from) })
    }
}

impl RawMemory {
    /// Fills the memory with the bytes at the address `from` of the same device, after everything that was launched before.
    ///
    /// # Errors
    /// When the device cannot be used.
    ///
    /// # Safety
    /// As many bytes are there, and stay there until the work that is launched now has ended.
    pub(crate) unsafe fn copy_from_device(&self, from: u64) -> Result<(), RuntimeError> {
        let Some((gpu, to)) = self.place(0, self.len)? else { return Ok(()) };
        // SAFETY: the whole memory, and the caller's promise.
        unsafe { copy_within(&gpu, to, from, self.len) }
    }

    /// Copies the memory to the address `to` of the same device, after everything that was launched before.
    ///
    /// # Errors
    /// When the device cannot be used.
    ///
    /// # Safety
    /// As many bytes are there that nobody else accesses, and stay there until the work that is launched now has ended.
    pub(crate) unsafe fn copy_to_device(&self, to: u64) -> Result<(), RuntimeError> {
        let Some((gpu, from)) = self.place(0, self.len)? else { return Ok(()) };
        // SAFETY: the whole memory, and the caller's promise.
        unsafe { copy_within(&gpu, to, from, self.len) }
    }
}

impl Drop for RawMemory {
    fn drop(&mut self) {
        let Some(gpu) = self.gpu.take() else { return };
        let (device, memory) = (gpu.device, RawMemory { gpu: Some(gpu), ptr: self.ptr, len: self.len });
        // What a recording uses is freed with it.
        let Some(gpu) = graph::keep(device, memory).and_then(|mut it| it.gpu.take()) else { return };
        // A failure leaves the memory to the driver, which frees it with the process.
        let Ok(gpu) = Gpu::of(gpu.device) else { return };
        let _ = gpu.try_call(|| {
            if gpu.context.has_async_alloc() {
                // SAFETY: allocated in `alloc` in this way, and freed once, after the work in the stream.
                unsafe { result::free_async(self.ptr, gpu.stream) }
            } else {
                // SAFETY: allocated in `alloc` in this way, and freed once; the driver waits for the work on the device.
                unsafe { result::free_sync(self.ptr) }
            }
        });
    }
}

/// Bytes of [`Scratch`] that a GPU keeps at most.
const MOST_KEPT: usize = 256 << 20;

/// Memory for what the kernels of one call give to each other. The next call uses the same bytes: the work of a GPU is in one order.
/// Other calls wait to launch until this is dropped.
pub(crate) enum Scratch<'a> {
    /// That which the GPU keeps.
    Kept(MutexGuard<'a, Option<RawMemory>>),
    /// That of this call alone.
    Own(RawMemory),
    /// The address of what belongs to a recording.
    Recorded(u64),
}

impl<'a> Scratch<'a> {
    /// `len` bytes on `gpu`.
    ///
    /// # Errors
    /// When the device does not have them, or cannot be used.
    pub(super) fn of(gpu: &'a Gpu, len: usize) -> Result<Scratch<'a>, RuntimeError> {
        if let Some(address) = graph::scratch(gpu.device, len)? {
            return Ok(Scratch::Recorded(address));
        }
        if len > MOST_KEPT {
            return RawMemory::alloc(gpu.device, len).map(Scratch::Own);
        }
        let mut kept = gpu.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|it| it.len < len) {
            // The memory before may be the last that the device has.
            *kept = None;
            let more = RawMemory::alloc(gpu.device, len.next_power_of_two());
            *kept = Some(more.or_else(|_| RawMemory::alloc(gpu.device, len))?);
        }
        Ok(Scratch::Kept(kept))
    }

    /// The device address.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Scratch::Kept(kept) => kept.as_ref().map_or(0, RawMemory::address),
            Scratch::Own(memory) => memory.address(),
            Scratch::Recorded(address) => *address,
        }
    }
}

/// The memory of a tensor on a GPU.
pub(crate) struct CudaBuffer {
    memory: RawMemory,
    device: Device,
}

impl CudaBuffer {
    /// Allocates `len` zero bytes.
    pub(crate) fn alloc(device: Device, len: usize) -> Result<CudaBuffer, RuntimeError> {
        let memory = RawMemory::alloc(device, len)?;
        if let Some(gpu) = &memory.gpu {
            // SAFETY: `len` bytes were just allocated there.
            gpu.call(|| unsafe { result::memset_d8_async(memory.ptr, 0, len, gpu.stream) })?;
        }
        Ok(CudaBuffer { memory, device })
    }

    /// The device address.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        std::ptr::without_provenance_mut(self.memory.ptr as usize)
    }

    pub(crate) fn copy_from_host(&self, offset: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        self.memory.copy_from_host(offset, bytes)
    }

    pub(crate) fn copy_to_host(&self, offset: usize, bytes: &mut [u8]) -> Result<(), RuntimeError> {
        self.memory.copy_to_host(offset, bytes)
    }

    /// The device that has the memory.
    pub(in crate::device) fn device(&self) -> Device {
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
        let places = (from.memory.place(from_offset, len)?, to.memory.place(to_offset, len)?);
        let (Some((gpu, src)), Some((_, dst))) = places else { return Ok(()) };
        // SAFETY: both places lie in their buffers, which are freed after the work in the stream.
        unsafe { copy_within(&gpu, dst, src, len) }
    }
}

/// Copies bytes within a GPU, after everything that was launched before.
///
/// # Safety
/// So many bytes are allocated at both places until the work in the stream has ended.
unsafe fn copy_within(gpu: &Gpu, to: CUdeviceptr, from: CUdeviceptr, len: usize) -> Result<(), RuntimeError> {
    graph::copies(gpu.device, to, from, len)?;
    // SAFETY: promised by the caller.
    gpu.call(|| unsafe { result::memcpy_dtod_async(to, from, len, gpu.stream) })
}
