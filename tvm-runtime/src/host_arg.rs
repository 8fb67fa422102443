//! Checked views of kernel arguments: received by host functions, and passed to kernels by safe code.
#![allow(unsafe_code, reason = "between raw ABI arguments and slices; each block says why it is sound")]

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::abi::{DLTensor, KernelArg};
use crate::device::Device;
use crate::dtype::{DataType, Element};
use crate::error::RuntimeError;
use crate::kernel::{DimSig, Kernel, KernelSig, ParamKind, ParamSig};
use crate::tensor::{ALIGNMENT, Storage, Tensor, byte_size, check_values, is_compact};

/// A tensor on the host that may be read.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    data: &'a [u8],
    shape: &'a [i64],
    dtype: DataType,
}

/// A tensor on the host that may be written.
#[derive(Debug)]
pub struct TensorViewMut<'a> {
    data: &'a mut [u8],
    shape: &'a [i64],
    dtype: DataType,
}

macro_rules! shared_methods {
    ($name:ident) => {
        impl $name<'_> {
            /// The extents.
            pub fn shape(&self) -> &[i64] {
                self.shape
            }

            /// Element type.
            pub fn dtype(&self) -> DataType {
                self.dtype
            }

            /// The bytes of the elements, in row-major order.
            pub fn bytes(&self) -> &[u8] {
                self.data
            }

            /// The elements, in row-major order.
            pub fn as_slice<T: Element>(&self) -> Result<&[T], RuntimeError> {
                check_dtype::<T>(self.dtype)?;
                check_values::<T>(self.data)?;
                let len = self.data.len() / size_of::<T>();
                // SAFETY: type, alignment and bit patterns were checked.
                Ok(unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast(), len) })
            }
        }
    };
}

shared_methods!(TensorView);
shared_methods!(TensorViewMut);

impl<'a> TensorView<'a> {
    /// A view of `data` with the given shape.
    pub fn new<T: Element>(data: &'a [T], shape: &'a [i64]) -> Result<TensorView<'a>, RuntimeError> {
        check_size::<T>(data.len(), shape)?;
        // SAFETY: elements are plain data without padding.
        let data = unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) };
        Ok(TensorView { data, shape, dtype: T::DTYPE })
    }

    /// A view of a tensor on the host.
    pub fn of(tensor: &'a Tensor) -> Result<TensorView<'a>, RuntimeError> {
        Ok(TensorView { data: tensor.bytes()?, shape: tensor.shape(), dtype: tensor.dtype() })
    }
}

impl<'a> TensorViewMut<'a> {
    /// A writable view of `data` with the given shape.
    pub fn new<T: Element>(data: &'a mut [T], shape: &'a [i64]) -> Result<TensorViewMut<'a>, RuntimeError> {
        check_size::<T>(data.len(), shape)?;
        if T::DTYPE.is_bool() {
            return Err(RuntimeError::BadData("bools cannot be written through a slice; use a tensor"));
        }
        // SAFETY: elements are plain data without padding, and any bytes are a value of every type but bool.
        let data = unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) };
        Ok(TensorViewMut { data, shape, dtype: T::DTYPE })
    }

    /// A writable view of a tensor. If its data is shared, the data is copied first. `shape` receives the tensor's shape.
    pub fn of(tensor: &'a mut Tensor, shape: &'a mut Vec<i64>) -> Result<TensorViewMut<'a>, RuntimeError> {
        shape.clear();
        shape.extend_from_slice(tensor.shape());
        let dtype = tensor.dtype();
        Ok(TensorViewMut { data: tensor.bytes_mut()?, shape, dtype })
    }

    /// A writable view of a tensor on the host whose storage has other handles.
    ///
    /// # Safety
    /// While the view lives, nobody else reads or writes the elements of the tensor.
    pub(crate) unsafe fn lent(tensor: &'a Tensor) -> Result<TensorViewMut<'a>, RuntimeError> {
        let len = tensor.bytes()?.len();
        // SAFETY: the tensor's elements are initialised memory on the host; exclusive by the caller's promise.
        let data = unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr(), len) };
        Ok(TensorViewMut { data, shape: tensor.shape(), dtype: tensor.dtype() })
    }

    /// Makes each bool 0 or 1: the owner of the memory may read any written byte as a bool.
    pub(crate) fn normalise(&mut self) {
        if self.dtype.is_bool() {
            self.data.iter_mut().for_each(|byte| *byte = (*byte != 0).into());
        }
    }

    /// The bytes of the elements for writing, in row-major order.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.data
    }

    /// The elements for writing, in row-major order.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], RuntimeError> {
        check_dtype::<T>(self.dtype)?;
        check_values::<T>(self.data)?;
        let len = self.data.len() / size_of::<T>();
        // SAFETY: type, alignment and bit patterns were checked.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data.as_mut_ptr().cast(), len) })
    }
}

/// One argument of a kernel.
#[derive(Debug)]
pub enum HostArg<'a> {
    /// Tensor for a parameter that is read.
    In(TensorView<'a>),
    /// Tensor for a parameter that is written.
    Out(TensorViewMut<'a>),
    /// Scalar of integer or bool type.
    Int(i64),
    /// Scalar of floating-point type.
    Float(f64),
}

impl HostArg<'_> {
    fn kind(&self) -> &'static str {
        match self {
            HostArg::In(_) => "an input tensor",
            HostArg::Out(_) => "an output tensor",
            HostArg::Int(_) => "an integer",
            HostArg::Float(_) => "a float",
        }
    }
}

fn check_dtype<T: Element>(dtype: DataType) -> Result<(), RuntimeError> {
    if dtype == T::DTYPE {
        Ok(())
    } else {
        Err(RuntimeError::DTypeMismatch { expected: T::DTYPE, got: dtype })
    }
}

fn check_size<T: Element>(len: usize, shape: &[i64]) -> Result<(), RuntimeError> {
    let (shape_of, dtype) = (shape.to_vec(), T::DTYPE);
    let got = len * size_of::<T>();
    match byte_size(shape, dtype) {
        Some(expected) if expected == got => Ok(()),
        Some(expected) => Err(RuntimeError::SizeMismatch { shape: shape_of, dtype, expected, got }),
        None => Err(RuntimeError::BadShape { shape: shape_of, dtype }),
    }
}

impl Kernel {
    /// Checks the number and the kinds of `args` against the signature.
    pub(crate) fn check_kinds(&self, args: &[HostArg<'_>]) -> Result<(), RuntimeError> {
        let sig = self.signature();
        let func = || Arc::from(sig.name.as_str());
        if args.len() != sig.params.len() {
            return Err(RuntimeError::ArgCount { func: func(), expected: sig.params.len(), got: args.len() });
        }
        for (param, arg) in sig.params.iter().zip(args) {
            let (ok, expected) = match param.kind {
                ParamKind::In => (matches!(arg, HostArg::In(_)), "an input tensor"),
                ParamKind::Out => (matches!(arg, HostArg::Out(_)), "an output tensor"),
                ParamKind::Scalar if param.dtype.is_float() => (matches!(arg, HostArg::Float(_)), "a float"),
                ParamKind::Scalar => (matches!(arg, HostArg::Int(_)), "an integer"),
            };
            if !ok {
                let (arg, got) = (param.name.as_str().into(), arg.kind().into());
                return Err(RuntimeError::ArgKind { func: func(), arg, expected: expected.into(), got });
            }
        }
        Ok(())
    }
}

/// Describes `args` in the form of the ABI, for the duration of `f`.
pub(crate) fn with_raw_args<R>(args: &mut [HostArg<'_>], f: impl FnOnce(&[KernelArg]) -> R) -> R {
    let describe = |data: *mut u8, shape: &[i64], dtype| DLTensor {
        data: data.cast(),
        device: Device::cpu().to_dlpack(),
        ndim: shape.len() as i32,
        dtype,
        shape: shape.as_ptr().cast_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let tensors: SmallVec<[Option<DLTensor>; 8]> = args
        .iter_mut()
        .map(|arg| match arg {
            HostArg::In(view) => Some(describe(view.data.as_ptr().cast_mut(), view.shape, view.dtype)),
            HostArg::Out(view) => Some(describe(view.data.as_mut_ptr(), view.shape, view.dtype)),
            HostArg::Int(_) | HostArg::Float(_) => None,
        })
        .collect();
    let raw: SmallVec<[KernelArg; 8]> = args
        .iter()
        .zip(&tensors)
        .map(|(arg, tensor)| match (arg, tensor) {
            (HostArg::Int(int), _) => KernelArg { int: *int },
            (HostArg::Float(float), _) => KernelArg { float: *float },
            (_, tensor) => KernelArg { tensor: tensor.as_ref().map_or(std::ptr::null(), |it| it) },
        })
        .collect();
    f(&raw)
}

/// Symbolic dimensions and their extents.
type BoundDims<'a> = SmallVec<[(&'a str, i64); 8]>;

/// Checks raw arguments against `sig` and calls `f` with views of them. An input that shares memory with an output is
/// copied first; two outputs that share memory are an error.
///
/// # Safety
/// As for [`Kernel::call_raw`].
pub(crate) unsafe fn with_host_args(
    sig: &KernelSig,
    raw: &[KernelArg],
    f: impl FnOnce(&mut [HostArg<'_>]) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    let func = || Arc::from(sig.name.as_str());
    if raw.len() != sig.params.len() {
        return Err(RuntimeError::ArgCount { func: func(), expected: sig.params.len(), got: raw.len() });
    }
    let mut dims: BoundDims<'_> = SmallVec::new();
    let mut spans: SmallVec<[Range<usize>; 8]> = SmallVec::new();
    for (param, arg) in sig.params.iter().zip(raw) {
        spans.push(match param.kind {
            ParamKind::Scalar => 0..0,
            // SAFETY: the caller promises a tensor here.
            ParamKind::In | ParamKind::Out => unsafe { check_tensor(sig, param, arg.tensor, &mut dims)? },
        });
    }
    // SAFETY: `check_tensor` found the spans to be the tensors' memory.
    let copies = unsafe { copy_overlapped(sig, raw, &spans)? };
    let mut args: SmallVec<[HostArg<'_>; 8]> = SmallVec::new();
    for (i, param) in sig.params.iter().enumerate() {
        // SAFETY: the kinds are the signature's (promised), the spans are the tensors' memory (checked), and writable
        // spans overlap nothing that is viewed (checked).
        args.push(unsafe {
            match param.kind {
                ParamKind::Scalar if param.dtype.is_float() => HostArg::Float(raw[i].float),
                ParamKind::Scalar => HostArg::Int(raw[i].int),
                ParamKind::In | ParamKind::Out => {
                    let tensor = &*raw[i].tensor;
                    let shape: &[i64] = match tensor.ndim {
                        0 => &[],
                        ndim => std::slice::from_raw_parts(tensor.shape, ndim as usize),
                    };
                    let data = if spans[i].is_empty() {
                        std::ptr::NonNull::<u64>::dangling().as_ptr().cast()
                    } else {
                        data_ptr(tensor)
                    };
                    let (len, dtype) = (spans[i].len(), tensor.dtype);
                    match (param.kind, &copies[i]) {
                        (ParamKind::Out, _) => {
                            let data = std::slice::from_raw_parts_mut(data, len);
                            HostArg::Out(TensorViewMut { data, shape, dtype })
                        }
                        (_, Some(copy)) => HostArg::In(TensorView { data: copy.bytes()?, shape, dtype }),
                        (_, None) => {
                            let data = std::slice::from_raw_parts(data, len);
                            HostArg::In(TensorView { data, shape, dtype })
                        }
                    }
                }
            }
        });
    }
    let res = f(&mut args);
    for arg in &mut args {
        if let HostArg::Out(view) = arg {
            view.normalise();
        }
    }
    res
}

/// Copies the inputs that an output overlaps, before any view is created.
///
/// # Safety
/// `spans` are the memory of the tensors among `raw`, empty for scalars.
unsafe fn copy_overlapped(
    sig: &KernelSig,
    raw: &[KernelArg],
    spans: &[Range<usize>],
) -> Result<SmallVec<[Option<Storage>; 8]>, RuntimeError> {
    let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    let is_out = |i: usize| sig.params[i].kind == ParamKind::Out;
    let mut copies: SmallVec<[Option<Storage>; 8]> = SmallVec::new();
    for (i, span) in spans.iter().enumerate() {
        let other = (0..spans.len()).find(|&j| j != i && is_out(j) && overlap(span, &spans[j]));
        copies.push(match other {
            Some(j) if is_out(i) => {
                let name = |i: usize| sig.params[i].name.as_str().into();
                return Err(RuntimeError::ArgOverlap {
                    func: sig.name.as_str().into(),
                    arg: name(i),
                    other: name(j),
                });
            }
            Some(_) => {
                // SAFETY: the span is this tensor's memory, as the caller promises.
                let bytes = unsafe { std::slice::from_raw_parts(data_ptr(&*raw[i].tensor), span.len()) };
                let mut copy = Storage::alloc(bytes.len(), ALIGNMENT, Device::cpu())?;
                copy.bytes_mut().expect("fresh host memory").copy_from_slice(bytes);
                Some(copy)
            }
            None => None,
        });
    }
    Ok(copies)
}

/// Address of the first element.
fn data_ptr(tensor: &DLTensor) -> *mut u8 {
    tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize)
}

/// Checks one tensor as a generated kernel would; returns the address range of its bytes.
unsafe fn check_tensor<'a>(
    sig: &KernelSig,
    param: &'a ParamSig,
    tensor: *const DLTensor,
    dims: &mut BoundDims<'a>,
) -> Result<Range<usize>, RuntimeError> {
    let (func, arg) = (Arc::from(sig.name.as_str()), Arc::from(param.name.as_str()));
    // SAFETY: the caller promises a valid tensor or null.
    let Some(tensor) = (unsafe { tensor.as_ref() }) else {
        return Err(RuntimeError::ArgNull { func, arg });
    };
    let (expected, got) = (param.shape.len() as i64, i64::from(tensor.ndim));
    if expected != got {
        return Err(RuntimeError::ArgRank { func, arg, expected, got });
    }
    if tensor.dtype != param.dtype {
        let got = tensor.dtype.to_string().into();
        return Err(RuntimeError::ArgDType { func, arg, expected: param.dtype, got });
    }
    let list = |ptr: *const i64| {
        if got == 0 || ptr.is_null() {
            return &[][..];
        }
        // SAFETY: a valid tensor has `ndim` extents, and as many strides or none.
        unsafe { std::slice::from_raw_parts(ptr, got as usize) }
    };
    let shape = list(tensor.shape);
    for (axis, (dim, &got)) in param.shape.iter().zip(shape).enumerate() {
        let expected = match dim {
            DimSig::Const(value) => *value,
            DimSig::Expr(_) => continue,
            DimSig::Var(name) => match dims.iter().find(|(bound, _)| bound == name) {
                Some((_, value)) => *value,
                None => {
                    dims.push((name, got));
                    got
                }
            },
        };
        if expected != got {
            return Err(RuntimeError::ArgExtent {
                func,
                arg,
                axis: axis as i64,
                expected,
                got,
                dim: dim.label(),
            });
        }
    }
    let strides = list(tensor.strides);
    if !strides.is_empty() && !is_compact(shape, strides) {
        let (axis, got) = (got - 1, strides[strides.len() - 1]);
        return Err(RuntimeError::ArgStrides { func, arg, axis, expected: 1, got });
    }
    let len = byte_size(shape, tensor.dtype)
        .ok_or_else(|| RuntimeError::BadShape { shape: shape.to_vec(), dtype: tensor.dtype })?;
    if tensor.data.is_null() && len > 0 {
        return Err(RuntimeError::ArgNull { func, arg });
    }
    let start = data_ptr(tensor).addr();
    Ok(if len == 0 { 0..0 } else { start..start.wrapping_add(len) })
}
