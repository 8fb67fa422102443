//! Memory of a GPU: allocations, copies.
#![allow(unsafe_code, reason = "device memory by address; each block says why it is sound")]

use std::sync::{Arc, MutexGuard, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys::{CUdeviceptr, CUresult};

use super::Device;
use super::gpu::Gpu;
use super::graph;
use super::stream::{FREES, OUTSIDE, Uses};
use crate::device::Order;
use crate::error::RuntimeError;

/// Memory on a GPU with unspecified content, freed when dropped.
pub(crate) struct RawMemory {
    /// `None` if there are no bytes.
    gpu: Option<Arc<Gpu>>,
    ptr: CUdeviceptr,
    len: usize,
    uses: Uses,
}

impl RawMemory {
    /// Allocates `len` bytes on `device`.
    ///
    /// # Errors
    /// When the device does not have them, or cannot be used.
    pub(crate) fn alloc(device: Device, len: usize) -> Result<RawMemory, RuntimeError> {
        let gpu = Gpu::of(device)?;
        let number = gpu.current();
        let uses = Uses::new(number);
        if len == 0 {
            return Ok(RawMemory { gpu: None, ptr: 0, len, uses });
        }
        let alloc = || {
            if gpu.context.has_async_alloc() {
                // SAFETY: a size that is not zero, and a stream that lives as long as the process.
                unsafe { result::malloc_async(gpu.streams.get(number).handle, len) }
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
        Ok(RawMemory { gpu: Some(gpu), ptr, len, uses })
    }

    /// The device address; 0 if there are no bytes.
    pub(crate) fn address(&self) -> u64 {
        self.ptr
    }

    /// Number of bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What this thread gives to its stream from now on may read the memory, and write to it if `written`. Work that is given by address
    /// needs this, unless it is ordered with everything.
    ///
    /// # Errors
    /// When the device cannot be used.
    pub(crate) fn mark(&self, written: bool) -> Result<(), RuntimeError> {
        match &self.gpu {
            Some(gpu) if written => self.uses.write(gpu, gpu.current()),
            Some(gpu) => self.uses.read(gpu, gpu.current()),
            None => Ok(()),
        }
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
            self.mark(true)?;
            constant.mark(false)?;
            drop(graph::keep(gpu.device, constant));
            // SAFETY: both places lie in memory of this size, which is freed after the work in the stream.
            return unsafe { copy_within(&gpu, Order::Marked, to, from, bytes.len()) };
        }
        self.mark(true)?;
        if gpu.streams.alone() {
            // SAFETY: the place lies in this memory; the driver has read the bytes on return.
            gpu.call(|| unsafe { result::memcpy_htod_sync(to, bytes) })?;
        } else {
            let stream = gpu.stream(Order::Marked);
            // SAFETY: the place lies in this memory; the copy is complete on return.
            gpu.waits(stream, || unsafe {
                result::memcpy_htod_async(to, bytes, stream.handle)?;
                result::stream::synchronize(stream.handle)
            })?;
        }
        self.uses.settle(gpu.current());
        Ok(())
    }

    /// Copies the bytes from the place `offset` bytes into the memory on, after what was done with them before.
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
        if gpu.streams.alone() {
            // SAFETY: the place lies in this memory; the copy is complete on return.
            return gpu.waits_for_all(|| unsafe { result::memcpy_dtoh_sync(bytes, from) });
        }
        // Nobody else waits: the copy has ended on return.
        let number = self.uses.writer().unwrap_or_else(|| gpu.current());
        let stream = gpu.streams.get(number);
        // SAFETY: the place lies in this memory; the copy is complete on return.
        gpu.waits(stream, || unsafe {
            result::memcpy_dtoh_async(bytes, from, stream.handle)?;
            result::stream::synchronize(stream.handle)
        })
    }
}

impl RawMemory {
    /// Fills the memory with the bytes at the address `from` of the same device.
    ///
    /// # Errors
    /// When the device cannot be used.
    ///
    /// # Safety
    /// As many bytes are there, and stay there until the work that is launched now has ended. With [`Order::Marked`], their memory is
    /// marked as read.
    pub(crate) unsafe fn copy_from_device(&self, order: Order, from: u64) -> Result<(), RuntimeError> {
        let Some((gpu, to)) = self.place(0, self.len)? else { return Ok(()) };
        self.mark(true)?;
        // SAFETY: the whole memory, and the caller's promise.
        unsafe { copy_within(&gpu, order, to, from, self.len) }
    }

    /// Copies the memory to the address `to` of the same device.
    ///
    /// # Errors
    /// When the device cannot be used.
    ///
    /// # Safety
    /// As many bytes are there that nobody else accesses, and stay there until the work that is launched now has ended. With
    /// [`Order::Marked`], their memory is marked as written.
    pub(crate) unsafe fn copy_to_device(&self, order: Order, to: u64) -> Result<(), RuntimeError> {
        let Some((gpu, from)) = self.place(0, self.len)? else { return Ok(()) };
        self.mark(false)?;
        // SAFETY: the whole memory, and the caller's promise.
        unsafe { copy_within(&gpu, order, to, from, self.len) }
    }
}

impl Drop for RawMemory {
    fn drop(&mut self) {
        let Some(gpu) = self.gpu.take() else { return };
        let uses = std::mem::replace(&mut self.uses, Uses::new(OUTSIDE));
        let (device, memory) = (gpu.device, RawMemory { gpu: Some(gpu), ptr: self.ptr, len: self.len, uses });
        // What a recording uses is freed with it.
        let Some(mut memory) = graph::keep(device, memory) else { return };
        // It is freed here.
        memory.gpu = None;
        // A failure leaves the memory to the driver, which frees it with the process.
        let Ok(gpu) = Gpu::of(device) else { return };
        if !gpu.context.has_async_alloc() {
            // SAFETY: allocated in `alloc` in this way, and freed once; the driver waits for the work on the device.
            let _ = gpu.try_call(|| unsafe { result::free_sync(self.ptr) });
            return;
        }
        let mut users = memory.uses.users();
        let number = match (users.next(), users.next()) {
            (Some(only), None) => only,
            (None, _) => OUTSIDE,
            _ if memory.uses.users().try_for_each(|user| gpu.wait(FREES, user)).is_ok() => FREES,
            _ => return,
        };
        // SAFETY: allocated in `alloc` in this way, and freed once, after the work of all streams that use it.
        let _ = gpu.try_call(|| unsafe { result::free_async(self.ptr, gpu.streams.get(number).handle) });
    }
}

/// Bytes of [`Scratch`] that are kept at most for a stream.
const MOST_KEPT: usize = 256 << 20;

/// Memory for what the kernels of one call give to each other. The next call in the same stream uses the same bytes: its work is in one
/// order. Other calls in the stream wait to launch until this is dropped.
pub(crate) enum Scratch<'a> {
    /// That which is kept for the stream.
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
    pub(super) fn of(gpu: &'a Arc<Gpu>, order: Order, len: usize) -> Result<Scratch<'a>, RuntimeError> {
        if let Some(address) = graph::scratch(gpu.device, len)? {
            return Ok(Scratch::Recorded(address));
        }
        if len > MOST_KEPT {
            return RawMemory::alloc(gpu.device, len).map(Scratch::Own);
        }
        let mut kept = gpu.stream(order).scratch.lock().unwrap_or_else(PoisonError::into_inner);
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
            gpu.call(|| unsafe {
                result::memset_d8_async(memory.ptr, 0, len, gpu.stream(Order::Marked).handle)
            })?;
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

    /// As [`RawMemory::mark`].
    pub(in crate::device) fn mark(&self, written: bool) -> Result<(), RuntimeError> {
        self.memory.mark(written)
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
        from.memory.mark(false)?;
        to.memory.mark(true)?;
        // SAFETY: both places lie in their buffers, which are freed after the work in the streams that use them.
        unsafe { copy_within(&gpu, Order::Marked, dst, src, len) }
    }
}

/// Copies bytes within a GPU.
///
/// # Safety
/// So many bytes are allocated at both places until the work in the stream has ended. With [`Order::Marked`], both memories are marked.
unsafe fn copy_within(
    gpu: &Arc<Gpu>,
    order: Order,
    to: CUdeviceptr,
    from: CUdeviceptr,
    len: usize,
) -> Result<(), RuntimeError> {
    graph::copies(gpu.device, to, from, len)?;
    // SAFETY: promised by the caller.
    gpu.call(|| unsafe { result::memcpy_dtod_async(to, from, len, gpu.stream(order).handle) })
}
