//! Tensors: a shape and an element type over a shared block of memory, always compact and row-major.
//!
//! TVM counterpart: `runtime::Tensor` (formerly `NDArray`). A `Tensor` is one pointer wide and cheap to clone. Writing
//! requires that the handle is the only one; otherwise the data is copied first. Invariants: extents are not negative;
//! their product times the element size fits in `isize` (it is `byte_len`); `byte_offset + byte_len <= storage.len()`;
//! the first element is aligned for its type.
#![allow(unsafe_code, reason = "views raw memory as typed slices; each block says why it is sound")]

mod dlpack;
mod huge_pages;
mod numbers;
mod scalar;
mod storage;

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use smallvec::SmallVec;

use crate::abi::{DLDevice, DLTensor};
use crate::device::{Device, DeviceBuffer};
use crate::dtype::{DataType, Element};
use crate::error::RuntimeError;

pub(crate) use dlpack::is_compact;
pub use dlpack::{DLManagedTensor, DLManagedTensorVersioned, DLPackVersion};
pub(crate) use huge_pages::{LARGE_PAGE, advise as advise_huge_pages};
pub use storage::{ALIGNMENT, Storage};

/// The extents of a tensor.
pub type Shape = SmallVec<[i64; 8]>;

#[derive(Clone)]
struct Inner {
    /// `None` while the handle waits for reuse (see [`Tensor::take_storage`]).
    storage: Option<Storage>,
    byte_offset: usize,
    byte_len: usize,
    shape: Shape,
    dtype: DataType,
}

/// A shared, dense, row-major tensor.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

/// Size in bytes of a tensor of this shape and type; `None` if an extent is negative or the size does not fit.
pub fn byte_size(shape: &[i64], dtype: DataType) -> Option<usize> {
    let mut size = Some(dtype.bytes() as isize);
    let mut empty = false;
    for &extent in shape {
        if extent < 0 {
            return None;
        }
        empty |= extent == 0;
        size = size.and_then(|size| size.checked_mul(isize::try_from(extent).ok()?));
    }
    if empty { Some(0) } else { size.map(|size| size as usize) }
}

fn checked_size(shape: &[i64], dtype: DataType) -> Result<usize, RuntimeError> {
    byte_size(shape, dtype).ok_or_else(|| RuntimeError::BadShape { shape: shape.to_vec(), dtype })
}

/// Size in bytes of a tensor that starts at `byte_offset` of `storage`; an error if it does not fit there.
fn check_place(
    storage: &Storage,
    byte_offset: usize,
    shape: &[i64],
    dtype: DataType,
) -> Result<usize, RuntimeError> {
    let size = checked_size(shape, dtype)?;
    let got = storage.len().saturating_sub(byte_offset);
    if byte_offset > storage.len() || size > got {
        return Err(RuntimeError::SizeMismatch { shape: shape.to_vec(), dtype, expected: size, got });
    }
    let address = storage.as_ptr().addr().wrapping_add(byte_offset);
    if size > 0 && !address.is_multiple_of(dtype.scalar().bytes()) {
        return Err(RuntimeError::BadData("the memory is not aligned for its element type"));
    }
    Ok(size)
}

impl Tensor {
    /// Makes a tensor of zeros on the host.
    pub fn zeros(shape: &[i64], dtype: DataType) -> Result<Tensor, RuntimeError> {
        Tensor::empty(shape, dtype, Device::cpu())
    }

    /// Makes a tensor on `device` with unspecified content. The memory is initialised, so reading it is harmless.
    pub fn empty(shape: &[i64], dtype: DataType, device: Device) -> Result<Tensor, RuntimeError> {
        let storage = Storage::alloc(checked_size(shape, dtype)?, ALIGNMENT, device)?;
        Tensor::from_storage(storage, 0, shape, dtype)
    }

    /// Makes a tensor of zeros on the host whose memory is page-locked: the GPU `device` copies to and from it at the full speed of its
    /// bus. Apart from that it is a tensor on the host as any other, and views of it keep the memory. If `device` is no GPU, this is
    /// [`Tensor::zeros`]: a program for [`Device::best`] needs no cases. Page-locked memory is slow to allocate, so keep such a tensor.
    ///
    /// # Errors
    /// When the system does not lock so many pages, the GPU cannot be used, or the build lacks the feature `cuda`.
    pub fn empty_pinned(shape: &[i64], dtype: DataType, device: Device) -> Result<Tensor, RuntimeError> {
        let storage = Storage::alloc_pinned(checked_size(shape, dtype)?, device)?;
        Tensor::from_storage(storage, 0, shape, dtype)
    }

    /// Makes a tensor of `shape` that owns `data`, without copying.
    pub fn from_vec<T: Element>(data: Vec<T>, shape: &[i64]) -> Result<Tensor, RuntimeError> {
        let (expected, got) = (checked_size(shape, T::DTYPE)?, data.len() * size_of::<T>());
        if expected != got {
            return Err(RuntimeError::SizeMismatch { shape: shape.to_vec(), dtype: T::DTYPE, expected, got });
        }
        Tensor::from_storage(Storage::from_vec(data), 0, shape, T::DTYPE)
    }

    /// Makes a tensor of `shape` from a copy of `data`.
    pub fn from_slice<T: Element>(data: &[T], shape: &[i64]) -> Result<Tensor, RuntimeError> {
        Tensor::from_vec(data.to_vec(), shape)
    }

    /// Makes a tensor of rank 0.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::from_vec(vec![value], &[]).expect("one element has rank 0")
    }

    /// Makes a tensor from a copy of little-endian `bytes`.
    pub fn from_bytes(bytes: &[u8], shape: &[i64], dtype: DataType) -> Result<Tensor, RuntimeError> {
        let (expected, got) = (checked_size(shape, dtype)?, bytes.len());
        if expected != got {
            return Err(RuntimeError::SizeMismatch { shape: shape.to_vec(), dtype, expected, got });
        }
        if dtype.is_bool() && bytes.iter().any(|&byte| byte > 1) {
            return Err(RuntimeError::BadData("a bool is neither 0 nor 1"));
        }
        let mut res = Tensor::zeros(shape, dtype)?;
        res.bytes_mut()?.copy_from_slice(bytes);
        Ok(res)
    }

    /// Makes a tensor over the part of `storage` that starts at `byte_offset`.
    pub fn from_storage(
        storage: Storage,
        byte_offset: usize,
        shape: &[i64],
        dtype: DataType,
    ) -> Result<Tensor, RuntimeError> {
        let byte_len = check_place(&storage, byte_offset, shape, dtype)?;
        let shape = Shape::from_slice(shape);
        Ok(Tensor(Arc::new(Inner { storage: Some(storage), byte_offset, byte_len, shape, dtype })))
    }

    /// As [`Tensor::from_storage`], but in the place of this handle if it is the only one.
    pub(crate) fn renew(
        mut self,
        storage: Storage,
        byte_offset: usize,
        shape: &[i64],
        dtype: DataType,
    ) -> Result<Tensor, RuntimeError> {
        let Some(inner) = self.unique() else {
            return Tensor::from_storage(storage, byte_offset, shape, dtype);
        };
        inner.byte_len = check_place(&storage, byte_offset, shape, dtype)?;
        (inner.storage, inner.byte_offset, inner.dtype) = (Some(storage), byte_offset, dtype);
        inner.shape.clear();
        inner.shape.extend_from_slice(shape);
        Ok(self)
    }

    /// If this is the only handle, takes its storage. Only [`Tensor::renew`] may be called after that.
    pub(crate) fn take_storage(&mut self) -> Option<Storage> {
        self.unique()?.storage.take()
    }

    /// The content, if this is the only handle.
    #[inline]
    fn unique(&mut self) -> Option<&mut Inner> {
        // There are no weak handles, which `Arc::get_mut` would look for. Without another handle nobody can make one.
        if Arc::strong_count(&self.0) != 1 {
            return None;
        }
        // What others did with the content before they dropped their handles has happened.
        fence(Ordering::Acquire);
        // SAFETY: this is the only handle, and it stays borrowed.
        Some(unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() })
    }

    /// The extents.
    pub fn shape(&self) -> &[i64] {
        &self.0.shape
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.shape.len()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.byte_len() / self.0.dtype.bytes().max(1)
    }

    /// True if the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.byte_len() == 0
    }

    /// Size of the elements in bytes.
    pub fn byte_len(&self) -> usize {
        self.0.byte_len
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        self.0.dtype
    }

    /// Device that holds the data.
    pub fn device(&self) -> Device {
        self.storage().device()
    }

    /// The underlying memory.
    pub fn storage(&self) -> &Storage {
        self.0.storage.as_ref().expect("only a handle that waits for reuse has none")
    }

    /// Offset of the first element in [`Tensor::storage`], in bytes.
    pub fn byte_offset(&self) -> usize {
        self.0.byte_offset
    }

    /// Address of the first element; for a tensor that is not on the host, a device address.
    pub fn data_ptr(&self) -> *mut u8 {
        self.storage().as_ptr().wrapping_add(self.0.byte_offset)
    }

    /// True if both are handles to the same tensor.
    pub(crate) fn is_same(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Number of handles to this tensor (not to its storage).
    pub(crate) fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// The same data with another shape of the same number of elements; shares the memory.
    pub fn reshape(&self, shape: &[i64]) -> Result<Tensor, RuntimeError> {
        let (expected, got) = (checked_size(shape, self.0.dtype)?, self.byte_len());
        if expected != got {
            return Err(RuntimeError::SizeMismatch {
                shape: shape.to_vec(),
                dtype: self.0.dtype,
                expected,
                got,
            });
        }
        Ok(Tensor(Arc::new(Inner { shape: shape.into(), ..Inner::clone(&self.0) })))
    }

    /// The bytes of the elements, in row-major order.
    pub fn bytes(&self) -> Result<&[u8], RuntimeError> {
        let start = self.0.byte_offset;
        self.storage().bytes_at(start..start + self.byte_len())
    }

    /// The elements, in row-major order.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], RuntimeError> {
        self.check_dtype::<T>()?;
        let bytes = self.bytes()?;
        check_values::<T>(bytes)?;
        let len = bytes.len() / size_of::<T>();
        // SAFETY: type, alignment and bit patterns were checked; the bytes are initialised and live as `self`.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), len) })
    }

    /// A copy of the elements.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, RuntimeError> {
        self.as_slice().map(<[T]>::to_vec)
    }

    /// The bytes for writing. Copies the data first if it is shared, read-only or on another device.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], RuntimeError> {
        self.make_unique()?;
        let size = self.byte_len();
        let inner = self.unique().expect("made unique");
        let start = inner.byte_offset;
        let bytes = inner.storage.as_mut().and_then(Storage::bytes_mut).expect("made unique");
        Ok(&mut bytes[start..start + size])
    }

    /// The elements for writing. Copies the data first if it is shared, read-only or on another device.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], RuntimeError> {
        self.check_dtype::<T>()?;
        let bytes = self.bytes_mut()?;
        check_values::<T>(bytes)?;
        let len = bytes.len() / size_of::<T>();
        // SAFETY: as in `as_slice`, and the bytes are borrowed for writing.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
    }

    /// Makes this the only handle to writable host memory, copying the data if need be.
    fn make_unique(&mut self) -> Result<(), RuntimeError> {
        if let Some(inner) = self.unique()
            && inner.storage.as_mut().is_some_and(|it| it.bytes_mut().is_some())
        {
            return Ok(());
        }
        *self = self.deep_copy(Device::cpu())?;
        Ok(())
    }

    /// Makes this the only handle to writable memory on its device, copying the data if need be.
    pub(crate) fn make_writable(&mut self) -> Result<(), RuntimeError> {
        let device = self.device();
        if device == Device::cpu() {
            return self.make_unique();
        }
        let unique =
            |inner: &mut Inner| inner.storage.as_mut().is_some_and(|it| it.is_own() && it.is_unique());
        if !self.unique().is_some_and(unique) {
            *self = self.deep_copy(device)?;
        }
        Ok(())
    }

    /// The tensor on `device`: another handle if the data is already there, otherwise a copy.
    pub fn to_device(&self, device: Device) -> Result<Tensor, RuntimeError> {
        if self.device() == device { Ok(self.clone()) } else { self.deep_copy(device) }
    }

    /// A copy on `device` with memory of its own.
    pub fn deep_copy(&self, device: Device) -> Result<Tensor, RuntimeError> {
        let mut storage = Storage::alloc(self.byte_len(), ALIGNMENT, device)?;
        self.copy_to(&mut storage)?;
        Tensor::from_storage(storage, 0, &self.0.shape, self.0.dtype)
    }

    /// Copies the elements to the start of `storage`, which has no other handle.
    pub(crate) fn copy_to(&self, storage: &mut Storage) -> Result<(), RuntimeError> {
        let (offset, size) = (self.0.byte_offset, self.byte_len());
        let shared = RuntimeError::BadData("memory in use cannot be copied to");
        if size > storage.len() || !storage.is_unique() {
            return Err(shared);
        }
        match (self.storage().device_buffer(), storage.device_buffer()) {
            (None, None) => storage.bytes_mut().ok_or(shared)?[..size].copy_from_slice(self.bytes()?),
            (None, Some(to)) => to.copy_from_host(0, self.bytes()?)?,
            (Some(from), None) => {
                from.copy_to_host(offset, &mut storage.bytes_mut().ok_or(shared)?[..size])?
            }
            (Some(from), Some(to)) => DeviceBuffer::copy(from, offset, to, 0, size)?,
        }
        Ok(())
    }

    /// Copies the elements to those of `to`, which is on a device other than the host and as large. Whoever has `to` sees them.
    pub(crate) fn copy_into(&self, to: &Tensor) -> Result<(), RuntimeError> {
        let (from_offset, offset, size) = (self.0.byte_offset, to.0.byte_offset, self.byte_len());
        match (self.storage().device_buffer(), to.storage().device_buffer()) {
            (_, None) => Err(RuntimeError::BadData("memory of the host cannot be copied to")),
            _ if size > to.byte_len() => Err(RuntimeError::BadData("a copy beyond the end of a tensor")),
            (None, Some(buffer)) => buffer.copy_from_host(offset, self.bytes()?),
            (Some(from), Some(buffer)) => DeviceBuffer::copy(from, from_offset, buffer, offset, size),
        }
    }

    /// A DLPack description of this tensor; its pointers are valid while `self` lives.
    pub fn to_dltensor(&self) -> DLTensor {
        DLTensor {
            data: self.data_ptr().cast::<c_void>(),
            device: self.device().to_dlpack(),
            ndim: self.0.shape.len() as i32,
            dtype: self.0.dtype,
            shape: self.0.shape.as_ptr().cast_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        }
    }

    fn check_dtype<T: Element>(&self) -> Result<(), RuntimeError> {
        if self.0.dtype == T::DTYPE {
            Ok(())
        } else {
            Err(RuntimeError::DTypeMismatch { expected: T::DTYPE, got: self.0.dtype })
        }
    }
}

/// Checks that `bytes` may be viewed as `[T]`.
pub(crate) fn check_values<T: Element>(bytes: &[u8]) -> Result<(), RuntimeError> {
    if !bytes.as_ptr().cast::<T>().is_aligned() {
        return Err(RuntimeError::BadData("the memory is not aligned for its element type"));
    }
    if T::DTYPE.is_bool() && bytes.iter().any(|&byte| byte > 1) {
        return Err(RuntimeError::BadData("a bool is neither 0 nor 1"));
    }
    Ok(())
}

impl Device {
    /// Converts to DLPack's description of a device.
    pub fn to_dlpack(self) -> DLDevice {
        DLDevice { kind: self.kind as i32, id: self.id }
    }
}

impl fmt::Debug for Tensor {
    /// Shows type, shape and the first elements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "Tensor<{}>{:?}", self.dtype(), self.shape())?;
        if self.device() != Device::cpu() {
            return write!(f, " on {}", self.device());
        }
        macro_rules! show {
            ($($ty:ty),*) => {$(
                if let Ok(data) = self.as_slice::<$ty>() {
                    write!(f, " ")?;
                    return match data.get(..SHOWN) {
                        Some(head) if data.len() > SHOWN => write!(f, "{head:?}…"),
                        _ => write!(f, "{data:?}"),
                    };
                }
            )*};
        }
        show!(f32, f64, half::f16, half::bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool);
        Ok(())
    }
}

/// Equality of type, shape and bits, so a NaN equals itself. Data that is not on the host is never equal.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype() == other.dtype()
            && self.shape() == other.shape()
            && matches!((self.bytes(), other.bytes()), (Ok(lhs), Ok(rhs)) if lhs == rhs)
    }
}

#[cfg(test)]
mod tests;
