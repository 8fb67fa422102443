//! Memory of tensors: allocated by the runtime (64-byte aligned), or owned by a foreign object.
//!
//! TVM counterpart: `memory::Storage`. Invariants: `ptr` is valid for `len` initialised bytes until `owner` is dropped.
//! Memory of a `Host` owner may be written through `ptr` by the holder of the right to write: a unique handle, or the
//! virtual machine run that is the `writer` of the storage. For other owners, `writable` tells whether writing is allowed.
#![allow(unsafe_code, reason = "owns raw memory; each block says why it is sound")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::device::{Device, DeviceBuffer, DeviceKind, PinnedMemory};
use crate::dtype::Element;
use crate::error::RuntimeError;
use crate::tensor::{LARGE_PAGE, advise_huge_pages};

/// Alignment in bytes of all memory that the runtime allocates.
pub const ALIGNMENT: usize = 64;

enum Owner {
    /// Allocated by the global allocator at `base` with this layout.
    Host { base: NonNull<u8>, layout: Layout },
    /// Pages of its own.
    Mapped(#[allow(dead_code, reason = "held for its drop")] memmap2::MmapMut),
    /// Kept alive by a foreign object.
    Foreign(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>),
    /// Page-locked memory of the host.
    Pinned(#[allow(dead_code, reason = "held for its drop")] PinnedMemory),
    /// Memory of another device.
    Device(DeviceBuffer),
}

struct Inner {
    ptr: NonNull<u8>,
    len: usize,
    device: Device,
    writable: bool,
    /// Number of the virtual machine run that may write; 0 for none.
    writer: AtomicU64,
    owner: Owner,
}

// SAFETY: the memory is plain bytes; shared access is read-only, and writes follow the rule in the file header.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Owner::Host { base, layout } = self.owner
            && layout.size() > 0
        {
            // SAFETY: `base` came from the global allocator with this layout and nothing else frees it.
            unsafe { dealloc(base.as_ptr(), layout) }
        }
    }
}

/// A shared block of memory on one device.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

impl Storage {
    /// Allocates `len` zero bytes on `device`, aligned to at least `align` (a power of two) and [`ALIGNMENT`].
    pub fn alloc(len: usize, align: usize, device: Device) -> Result<Storage, RuntimeError> {
        let oom = || RuntimeError::OutOfMemory { bytes: len as u64, device };
        if device != Device::cpu() {
            let buffer = DeviceBuffer::alloc(device, len)?;
            let ptr = NonNull::new(buffer.as_ptr()).unwrap_or(dangling());
            return Ok(Storage::new(ptr, len, device, true, Owner::Device(buffer)));
        }
        let align = align.max(ALIGNMENT);
        if len >= LARGE_PAGE && align.is_power_of_two() && align <= LARGE_PAGE && !cfg!(miri) {
            return Storage::map_zeros(len).ok_or_else(oom);
        }
        // Allocators are slow to align to more than a word. So a larger block is allocated, and the memory starts inside.
        let size = len.checked_add(align).filter(|_| align.is_power_of_two()).ok_or_else(oom)?;
        let layout = Layout::from_size_align(size, align_of::<u64>()).map_err(|_| oom())?;
        // SAFETY: the layout has a non-zero size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(oom)?;
        let padding = base.addr().get().wrapping_neg() & (align - 1);
        // SAFETY: `padding` is less than `align`, so it and `len` bytes behind it are inside of the block.
        let ptr = unsafe { base.add(padding) };
        Ok(Storage::new(ptr, len, device, true, Owner::Host { base, layout }))
    }

    /// Allocates `len` zero bytes of the host in page-locked memory, which the GPU `device` copies to and from at the full speed of its
    /// bus. If `device` is no GPU, it is the memory of [`Storage::alloc`].
    ///
    /// # Errors
    /// When the system does not lock so many pages, or the GPU cannot be used.
    pub fn alloc_pinned(len: usize, device: Device) -> Result<Storage, RuntimeError> {
        let pinned = match device.kind {
            DeviceKind::Cuda => PinnedMemory::alloc(device, len)?,
            DeviceKind::Cpu => None,
        };
        let Some(pinned) = pinned else { return Storage::alloc(len, ALIGNMENT, Device::cpu()) };
        Ok(Storage::new(pinned.as_ptr(), len, Device::cpu(), true, Owner::Pinned(pinned)))
    }

    /// `len` zero bytes on pages of their own, from the start of a large page on. The system gets them back when they are freed.
    /// The last page is a large one as well where that takes an eighth more memory at most.
    fn map_zeros(len: usize) -> Option<Storage> {
        let whole = len.checked_next_multiple_of(LARGE_PAGE)?;
        let pages = if whole - len <= len / 8 { whole } else { len };
        let mut map = memmap2::MmapMut::map_anon(pages.checked_add(LARGE_PAGE)?).ok()?;
        let start = map.as_ptr().addr().wrapping_neg() & (LARGE_PAGE - 1);
        let bytes = map.get_mut(start..start + pages)?;
        // SAFETY: these are bytes of the new mapping.
        unsafe { advise_huge_pages(bytes.as_mut_ptr(), pages) };
        let ptr = NonNull::from(bytes).cast();
        Some(Storage::new(ptr, len, Device::cpu(), true, Owner::Mapped(map)))
    }

    /// Makes a storage that owns the memory of `data`, without copying.
    pub fn from_vec<T: Element>(data: Vec<T>) -> Storage {
        let mut data = std::mem::ManuallyDrop::new(data);
        let len = data.len() * size_of::<T>();
        let layout = Layout::array::<T>(data.capacity()).expect("the vector has this layout");
        // The vector's own pointer is not null; it is dangling if the capacity is 0.
        let base = NonNull::new(data.as_mut_ptr().cast()).unwrap_or(dangling());
        Storage::new(base, len, Device::cpu(), true, Owner::Host { base, layout })
    }

    /// Makes a storage of `len` bytes at `ptr` that live as long as `owner`.
    ///
    /// # Safety
    /// The bytes are initialised, stay valid and unmoved until `owner` is dropped, and nobody else writes to them;
    /// if `writable`, nobody else reads them either while they are written to through this storage.
    pub unsafe fn from_foreign(
        ptr: NonNull<u8>,
        len: usize,
        device: Device,
        writable: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Storage {
        Storage::new(ptr, len, device, writable, Owner::Foreign(owner))
    }

    /// Makes a read-only storage of bytes that are part of the application.
    pub fn from_static(bytes: &'static [u8]) -> Storage {
        // SAFETY: static bytes stay valid and unwritten forever; the storage is read-only.
        unsafe {
            Storage::from_foreign(
                NonNull::from(bytes).cast(),
                bytes.len(),
                Device::cpu(),
                false,
                Box::new(()),
            )
        }
    }

    /// Maps a file into memory. The file must not change while the storage is alive.
    pub fn map_file(path: &Path) -> Result<Storage, RuntimeError> {
        let io = |err: std::io::Error| RuntimeError::Io {
            path: path.display().to_string(),
            message: err.to_string(),
        };
        // Check before opening the file, because opening a pipe blocks.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(io(std::io::Error::other("not a regular file")));
        }
        let file = File::open(path).map_err(io)?;
        // SAFETY: the mapping is private; the caller must ensure that nobody changes the file, as for any program that
        // maps its own files.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        let (ptr, len) = (NonNull::from(&map[..]).cast(), map.len());
        // SAFETY: the mapping stays in place until it is dropped, and is never written through this storage.
        Ok(unsafe { Storage::from_foreign(ptr, len, Device::cpu(), false, Box::new(map)) })
    }

    fn new(ptr: NonNull<u8>, len: usize, device: Device, writable: bool, owner: Owner) -> Storage {
        Storage(Arc::new(Inner { ptr, len, device, writable, writer: AtomicU64::new(0), owner }))
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// True if the storage has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Device that holds the memory.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// Start of the memory; a device address if it is not on the host.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.ptr.as_ptr()
    }

    /// False for memory that must not be written to, for example a mapped file.
    pub fn is_writable(&self) -> bool {
        self.0.writable
    }

    /// True for page-locked memory of the host.
    pub fn is_pinned(&self) -> bool {
        matches!(self.0.owner, Owner::Pinned(_))
    }

    /// True for memory that the runtime allocated and may write to.
    pub(crate) fn is_own(&self) -> bool {
        self.0.writable && !matches!(self.0.owner, Owner::Foreign(_))
    }

    /// True when no other handle to this memory exists.
    pub fn is_unique(&mut self) -> bool {
        // There are no weak handles, which `Arc::get_mut` would look for. Without another handle nobody can make one.
        let unique = Arc::strong_count(&self.0) == 1;
        if unique {
            // What others did with the memory before they dropped their handles has happened.
            fence(Ordering::Acquire);
        }
        unique
    }

    /// True if both are handles to the same memory.
    pub(crate) fn is_same(&self, other: &Storage) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Number of handles to this memory.
    pub(crate) fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// The bytes, if the host can read them.
    pub fn bytes(&self) -> Result<&[u8], RuntimeError> {
        self.bytes_at(0..self.0.len)
    }

    /// The bytes of `range`, which must lie inside of the storage. What lies beside them may be written meanwhile: tensors
    /// share storages.
    pub(super) fn bytes_at(&self, range: Range<usize>) -> Result<&[u8], RuntimeError> {
        self.check_host()?;
        assert!(range.start <= range.end && range.end <= self.0.len, "a range of the storage");
        // SAFETY: `ptr` is valid for `len` initialised bytes while `self` lives (file header), and the range is inside.
        Ok(unsafe { std::slice::from_raw_parts(self.0.ptr.as_ptr().add(range.start), range.len()) })
    }

    /// The bytes for writing; `None` if they are shared, read-only or not on the host.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if self.check_host().is_err() || !self.0.writable || !self.is_unique() {
            return None;
        }
        // SAFETY: valid as in `bytes`, and this is the only handle.
        Some(unsafe { std::slice::from_raw_parts_mut(self.0.ptr.as_ptr(), self.0.len) })
    }

    /// The device buffer, for memory that is not on the host.
    pub(crate) fn device_buffer(&self) -> Option<&DeviceBuffer> {
        match &self.0.owner {
            Owner::Device(buffer) => Some(buffer),
            Owner::Host { .. } | Owner::Mapped(_) | Owner::Pinned(_) | Owner::Foreign(_) => None,
        }
    }

    /// Number of the virtual machine run that may write to this memory; 0 for none.
    pub(crate) fn writer(&self) -> u64 {
        self.0.writer.load(Ordering::Relaxed)
    }

    /// Gives the right to write to the run `writer`; 0 revokes it from all runs.
    pub(crate) fn set_writer(&self, writer: u64) {
        self.0.writer.store(writer, Ordering::Relaxed);
    }

    fn check_host(&self) -> Result<(), RuntimeError> {
        if self.0.device == Device::cpu() {
            Ok(())
        } else {
            Err(RuntimeError::NotOnHost { device: self.0.device })
        }
    }
}

fn dangling() -> NonNull<u8> {
    #[repr(align(64))]
    struct Aligned;
    NonNull::<Aligned>::dangling().cast()
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({} bytes on {})", self.0.len, self.0.device)
    }
}
