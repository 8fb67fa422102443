//! Exchange of tensors with other frameworks through DLPack, without copying.
//!
//! TVM counterpart: `Tensor::ToDLPack`, `Tensor::FromDLPack`. The description of an imported tensor is untrusted; its memory
//! is trusted. An unknown type, device or stride or a misaligned address is refused, and the caller still owns the tensor.
#![allow(unsafe_code, reason = "DLPack hands over raw pointers; each block says why it is sound")]

use std::any::Any;
use std::ffi::c_void;
use std::ptr::{NonNull, addr_of};

use super::{Storage, Tensor, checked_size};
use crate::abi::{DLDevice, DLTensor};
use crate::device::Device;
use crate::dtype::DataType;
use crate::error::RuntimeError;

/// DLPack's `DLManagedTensor` (before version 1.0).
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// Private state of the producer.
    pub manager_ctx: *mut c_void,
    /// Destructor; the consumer calls it once when it no longer needs the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// DLPack's `DLPackVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLPackVersion {
    /// Major version; it changes with breaking changes.
    pub major: u32,
    /// Minor version; it changes with additions.
    pub minor: u32,
}

/// DLPack's `DLManagedTensorVersioned`.
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// Version of this struct.
    pub version: DLPackVersion,
    /// Private state of the producer.
    pub manager_ctx: *mut c_void,
    /// Destructor; the consumer calls it once when it no longer needs the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// Bit 0: read-only; bit 1: copied.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// DLPack's number for page-locked memory of the host, `kDLCUDAHost`.
const PINNED: i32 = 3;

/// The DLPack version that this module writes and reads.
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };
const READ_ONLY: u64 = 1;

/// The common interface of both managed structs.
trait Managed: Sized + 'static {
    unsafe fn tensor(this: *const Self) -> *const DLTensor;
    unsafe fn delete(this: *mut Self);
}

macro_rules! managed {
    ($ty:ty) => {
        impl Managed for $ty {
            unsafe fn tensor(this: *const Self) -> *const DLTensor {
                // SAFETY: the caller passes a valid struct; no reference to it is made.
                unsafe { addr_of!((*this).dl_tensor) }
            }

            unsafe fn delete(this: *mut Self) {
                // SAFETY: the caller owns the struct and is done with it.
                unsafe {
                    if let Some(deleter) = (*this).deleter {
                        deleter(this)
                    }
                }
            }
        }
    };
}

managed!(DLManagedTensor);
managed!(DLManagedTensorVersioned);

/// An imported struct; dropping it calls the producer's deleter.
struct Imported<M: Managed>(NonNull<M>);

// SAFETY: DLPack lets the consumer call the deleter from any thread.
unsafe impl<M: Managed> Send for Imported<M> {}
// SAFETY: no method accesses the struct through a shared reference.
unsafe impl<M: Managed> Sync for Imported<M> {}

impl<M: Managed> Drop for Imported<M> {
    fn drop(&mut self) {
        // SAFETY: made in `import` for a struct that the caller handed over.
        unsafe { M::delete(self.0.as_ptr()) }
    }
}

/// An exported struct together with the tensor that it describes.
struct Exported<M> {
    managed: M,
    tensor: Tensor,
}

unsafe extern "C" fn delete(this: *mut DLManagedTensor) {
    if !this.is_null() {
        // SAFETY: `manager_ctx` is the `Exported` leaked by `to_dlpack`, and the consumer calls this once.
        drop(unsafe { Box::from_raw((*this).manager_ctx.cast::<Exported<DLManagedTensor>>()) });
    }
}

unsafe extern "C" fn delete_versioned(this: *mut DLManagedTensorVersioned) {
    if !this.is_null() {
        // SAFETY: as in `delete`.
        drop(unsafe { Box::from_raw((*this).manager_ctx.cast::<Exported<DLManagedTensorVersioned>>()) });
    }
}

impl Tensor {
    /// As [`Tensor::to_dltensor`], for other frameworks: page-locked memory is a device of its own there.
    fn to_exported(&self) -> DLTensor {
        let mut tensor = self.to_dltensor();
        if self.storage().is_pinned() {
            tensor.device = DLDevice { kind: PINNED, id: 0 };
        }
        tensor
    }

    /// Exports this tensor to a DLPack consumer, which must call the deleter once. This format has no read-only flag:
    /// let a consumer write only if no other handle to the tensor exists.
    pub fn to_dlpack(self) -> NonNull<DLManagedTensor> {
        let managed = DLManagedTensor {
            dl_tensor: self.to_exported(),
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete),
        };
        let exported = Box::into_raw(Box::new(Exported { managed, tensor: self }));
        // SAFETY: just allocated; `manager_ctx` must carry the whole `Exported`.
        unsafe {
            (*exported).managed.manager_ctx = exported.cast();
            debug_assert_eq!((*exported).tensor.rank(), (*exported).managed.dl_tensor.ndim as usize);
            NonNull::new_unchecked(&raw mut (*exported).managed)
        }
    }

    /// Exports this tensor to a consumer of DLPack 1.x. It is marked read-only unless this is the only handle to
    /// writable memory.
    pub fn to_dlpack_versioned(mut self) -> NonNull<DLManagedTensorVersioned> {
        let unique = self
            .unique()
            .and_then(|inner| inner.storage.as_mut())
            .is_some_and(|storage| storage.is_unique() && storage.is_writable());
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete_versioned),
            flags: if unique { 0 } else { READ_ONLY },
            dl_tensor: self.to_exported(),
        };
        let exported = Box::into_raw(Box::new(Exported { managed, tensor: self }));
        // SAFETY: as in `to_dlpack`.
        unsafe {
            (*exported).managed.manager_ctx = exported.cast();
            debug_assert_eq!((*exported).tensor.rank(), (*exported).managed.dl_tensor.ndim as usize);
            NonNull::new_unchecked(&raw mut (*exported).managed)
        }
    }

    /// Imports a tensor of another framework; its deleter is called when the last handle is dropped. On an error, the
    /// caller still owns the tensor. Writing to the result makes a copy.
    ///
    /// # Safety
    /// `managed` is a valid DLPack struct whose memory stays valid and unwritten until its deleter is called.
    pub unsafe fn from_dlpack(managed: NonNull<DLManagedTensor>) -> Result<Tensor, RuntimeError> {
        // SAFETY: as promised by the caller.
        unsafe { import(managed) }
    }

    /// As [`Tensor::from_dlpack`], for DLPack 1.x.
    ///
    /// # Safety
    /// See [`Tensor::from_dlpack`].
    pub unsafe fn from_dlpack_versioned(
        managed: NonNull<DLManagedTensorVersioned>,
    ) -> Result<Tensor, RuntimeError> {
        // SAFETY: the version comes first in every version of the struct.
        let version = unsafe { addr_of!((*managed.as_ptr()).version).read() };
        if version.major != VERSION.major {
            return Err(RuntimeError::BadData("another major version of DLPack than 1"));
        }
        // SAFETY: as promised by the caller.
        unsafe { import(managed) }
    }
}

unsafe fn import<M: Managed>(managed: NonNull<M>) -> Result<Tensor, RuntimeError> {
    // SAFETY: the struct is valid; its type and device are read as raw integers because they may hold any value.
    let (shape, strides, dtype, device, data) = unsafe {
        let tensor = M::tensor(managed.as_ptr());
        let ndim = usize::try_from((*tensor).ndim).map_err(|_| RuntimeError::BadData("negative rank"))?;
        let list = |ptr: *const i64| (!ptr.is_null()).then(|| std::slice::from_raw_parts(ptr, ndim));
        let shape = if ndim == 0 { Some(&[][..]) } else { list((*tensor).shape) };
        let [code, bits, lanes @ ..] = addr_of!((*tensor).dtype).cast::<[u8; 4]>().read();
        let dtype = DataType::from_dlpack(code, bits, u16::from_ne_bytes(lanes));
        let offset = usize::try_from((*tensor).byte_offset).map_err(|_| RuntimeError::BadData("offset"))?;
        let data = (*tensor).data.cast::<u8>().wrapping_add(offset);
        (shape, list((*tensor).strides), dtype, (*tensor).device, data)
    };
    let shape = shape.ok_or(RuntimeError::BadData("no shape"))?;
    let dtype = dtype.ok_or(RuntimeError::BadData("a DLPack element type unknown here"))?;
    let device = match device.kind {
        1 => Device::virtual_cpu(device.id),
        PINNED => Device::cpu(),
        _ => return Err(RuntimeError::BadData("a DLPack device that is not the host")),
    };
    let size = checked_size(shape, dtype)?;
    if let Some(strides) = strides
        && !is_compact(shape, strides)
    {
        return Err(RuntimeError::BadData("a DLPack tensor that is not compact row-major"));
    }
    let ptr = match NonNull::new(data) {
        Some(ptr) => ptr,
        None if size == 0 => NonNull::dangling(),
        None => return Err(RuntimeError::BadData("a null data pointer")),
    };
    if size > 0 && !ptr.addr().get().is_multiple_of(dtype.scalar().bytes()) {
        return Err(RuntimeError::BadData("the memory is not aligned for its element type"));
    }
    let shape = shape.to_vec();
    let owner: Box<dyn Any + Send + Sync> = Box::new(Imported(managed));
    // SAFETY: the caller promises that the memory stays valid and unwritten until the deleter runs in `owner`'s drop.
    let storage = unsafe { Storage::from_foreign(ptr, size, device, false, owner) };
    // Size and alignment were checked before `owner` took over.
    Tensor::from_storage(storage, 0, &shape, dtype)
}

/// True if `strides` (in elements) are those of a compact row-major tensor; axes of extent 1 may have any.
pub(crate) fn is_compact(shape: &[i64], strides: &[i64]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1i64;
    shape.iter().zip(strides).rev().all(|(&extent, &stride)| {
        let ok = extent == 1 || stride == expected;
        expected = expected.wrapping_mul(extent);
        ok
    })
}

impl DataType {
    /// The data type with these DLPack fields, if tvm supports it.
    pub fn from_dlpack(code: u8, bits: u8, lanes: u16) -> Option<DataType> {
        let res =
            DataType::all().chain([DataType::HANDLE]).find(|d| d.code() as u8 == code && d.bits() == bits)?;
        (lanes > 0).then(|| res.with_lanes(lanes))
    }
}
