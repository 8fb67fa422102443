//! Typed calls: `CompiledFn<(In<f32, 2>, In<f32, 2>, Out<f32, 2>)>`, whose arguments rustc checks.
//!
//! TVM counterpart: `TypedPackedFunc`. Arguments are ndarray arrays and views, [`Tensor`](crate::Tensor)s, and slices
//! for one dimension. They are described on the stack and never copied. Element type and rank of Rust types are checked
//! at compile time; extents, and the element type and rank of a `Tensor`, are checked at each call.
#![allow(unsafe_code, reason = "builds raw kernel arguments; each block says why it is sound")]

mod arg;
mod dps;
mod replay;
mod values;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::abi::{DLDevice, DLTensor, KernelArg};
use crate::device::{Device, DeviceKind};
use crate::dtype::{DataType, Element};
use crate::error::RuntimeError;
use crate::kernel::{Backend, Kernel, KernelSig, ParamKind, ParamSig};
use crate::thread_pool::ThreadPool;

pub use arg::{AsInput, AsOutput};
pub(crate) use replay::Replay;

/// Where kernels other than those of a GPU have their tensors.
const HOST: DLDevice = DLTensor::NULL.device;

/// Marks a parameter that reads a tensor of `T` with `RANK` dimensions.
pub struct In<T, const RANK: usize>(PhantomData<fn() -> T>);

/// Marks a parameter that writes a tensor of `T` with `RANK` dimensions.
pub struct Out<T, const RANK: usize>(PhantomData<fn() -> T>);

/// A parameter of a typed call: [`In`], [`Out`], or a scalar type.
pub trait TypedParam: sealed::Sealed {
    /// Storage for the description of an argument.
    #[doc(hidden)]
    type Slot;
    /// Whether the parameter is an input, an output or a scalar.
    const KIND: ParamKind;
    /// Element type of the tensor, or type of the scalar.
    const DTYPE: DataType;
    /// Number of dimensions; 0 for a scalar.
    const RANK: usize;
    #[doc(hidden)]
    const EMPTY: Self::Slot;
    #[doc(hidden)]
    fn raw(slot: &Self::Slot) -> KernelArg;
    /// Where the tensor is, unless it is on the host.
    #[doc(hidden)]
    fn elsewhere(slot: &Self::Slot) -> Option<DLDevice>;
}

/// Implemented by types that can be passed for the parameter `P`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for the parameter `{P}`",
    note = "tensors take ndarray arrays and views, `&Tensor`, and slices for one dimension; outputs take them by `&mut`; scalars take exactly their type"
)]
pub trait TypedArg<P: TypedParam> {
    #[doc(hidden)]
    fn describe(&mut self, slot: &mut P::Slot) -> Result<(), ArgError>;
}

mod sealed {
    pub trait Sealed {}
}

/// Why an argument cannot be described; the caller adds the names of function and parameter.
#[doc(hidden)]
#[derive(Debug)]
pub enum ArgError {
    Rank { got: usize },
    Strides { axis: usize, expected: i64, got: i64 },
    Other(RuntimeError),
}

/// Storage for the description of a tensor.
#[doc(hidden)]
pub struct TensorSlot<const RANK: usize> {
    tensor: DLTensor,
    shape: [i64; RANK],
}

impl<const RANK: usize> TensorSlot<RANK> {
    /// Fills in the data pointer; the shape is already written.
    #[inline]
    fn point_to(&mut self, data: *mut u8) {
        self.tensor.data = data.cast();
        self.tensor.shape = self.shape.as_mut_ptr();
    }

    /// Describes an array, which has to be compact row-major; strides are in elements.
    #[cfg(feature = "ndarray")]
    #[inline]
    pub(crate) fn describe(
        &mut self,
        shape: &[usize],
        strides: &[isize],
        data: *mut u8,
    ) -> Result<(), ArgError> {
        if shape.len() != RANK {
            return Err(ArgError::Rank { got: shape.len() });
        }
        let mut expected = 1i64;
        let mut broken = None;
        for axis in (0..RANK).rev() {
            let (extent, stride) = (shape[axis] as i64, strides[axis] as i64);
            self.shape[axis] = extent;
            if extent != 1 && stride != expected && broken.is_none() {
                broken = Some(ArgError::Strides { axis, expected, got: stride });
            }
            expected = expected.wrapping_mul(extent);
        }
        match broken {
            Some(error) if !self.shape.contains(&0) => return Err(error),
            _ => self.point_to(data),
        }
        Ok(())
    }
}

macro_rules! tensor_params {
    ($($name:ident),*) => {$(
        impl<T, const RANK: usize> sealed::Sealed for $name<T, RANK> {}

        impl<T: Element, const RANK: usize> TypedParam for $name<T, RANK> {
            type Slot = TensorSlot<RANK>;
            const KIND: ParamKind = ParamKind::$name;
            const DTYPE: DataType = T::DTYPE;
            const RANK: usize = RANK;
            const EMPTY: TensorSlot<RANK> = TensorSlot {
                tensor: DLTensor { ndim: RANK as i32, dtype: T::DTYPE, ..DLTensor::NULL },
                shape: [0; RANK],
            };

            #[inline]
            fn raw(slot: &TensorSlot<RANK>) -> KernelArg {
                KernelArg { tensor: &raw const slot.tensor }
            }

            #[inline]
            fn elsewhere(slot: &TensorSlot<RANK>) -> Option<DLDevice> {
                Some(slot.tensor.device).filter(|it| *it != HOST)
            }
        }
    )*};
}

tensor_params!(In, Out);

macro_rules! scalar_params {
    ($($ty:ty: $field:ident = |$it:ident| $expr:expr),* $(,)?) => {$(
        impl sealed::Sealed for $ty {}

        impl TypedParam for $ty {
            type Slot = KernelArg;
            const KIND: ParamKind = ParamKind::Scalar;
            const DTYPE: DataType = <$ty as Element>::DTYPE;
            const RANK: usize = 0;
            const EMPTY: KernelArg = KernelArg { int: 0 };

            #[inline]
            fn raw(slot: &KernelArg) -> KernelArg {
                *slot
            }

            #[inline]
            fn elsewhere(_: &KernelArg) -> Option<DLDevice> {
                None
            }
        }

        #[diagnostic::do_not_recommend]
        impl TypedArg<$ty> for $ty {
            #[inline]
            fn describe(&mut self, slot: &mut KernelArg) -> Result<(), ArgError> {
                let $it = *self;
                *slot = KernelArg { $field: $expr };
                Ok(())
            }
        }
    )*};
}

scalar_params! {
    f32: float = |it| it.into(), f64: float = |it| it,
    half::f16: float = |it| it.into(), half::bf16: float = |it| it.into(),
    i8: int = |it| it.into(), i16: int = |it| it.into(), i32: int = |it| it.into(), i64: int = |it| it,
    u8: int = |it| it.into(), u16: int = |it| it.into(), u32: int = |it| it.into(), u64: int = |it| it as i64,
    bool: int = |it| it.into(),
}

/// The parameters of a typed call: a tuple of up to 12 [`TypedParam`]s.
pub trait Params {
    /// Number of parameters.
    const LEN: usize;

    /// Kind, element type and rank of each parameter.
    fn list() -> Vec<(ParamKind, DataType, usize)>;
}

/// A kernel with typed parameters. Cheap to clone, callable from any thread.
///
/// ```
/// use tvm_runtime::{CompiledFn, In, Out, RuntimeError};
///
/// fn run(scale: &CompiledFn<(In<f32, 1>, f32, Out<f32, 1>)>) -> Result<[f32; 2], RuntimeError> {
///     let mut y = [0.0; 2];
///     scale.call(&[1.0, 2.0], 3.0, &mut y)?;
///     Ok(y)
/// }
/// ```
///
/// A wrong element type, rank or kind of argument does not compile:
/// ```compile_fail,E0277
/// # use tvm_runtime::{CompiledFn, In, Out};
/// fn run(scale: &CompiledFn<(In<f32, 1>, f32, Out<f32, 1>)>, x: &[f64], y: &mut [f32]) {
///     let _ = scale.call(x, 3.0, y);
/// }
/// ```
/// ```compile_fail,E0277
/// # use tvm_runtime::{CompiledFn, In, Out};
/// fn run(scale: &CompiledFn<(In<f32, 1>, f32, Out<f32, 1>)>, x: &ndarray::Array2<f32>, y: &mut [f32]) {
///     let _ = scale.call(x, 3.0, y);
/// }
/// ```
/// ```compile_fail,E0277
/// # use tvm_runtime::{CompiledFn, In, Out};
/// fn run(scale: &CompiledFn<(In<f32, 1>, f32, Out<f32, 1>)>, x: &[f32], y: &[f32]) {
///     let _ = scale.call(x, 3.0, y);
/// }
/// ```
/// ```compile_fail,E0277
/// # use tvm_runtime::{CompiledFn, In, Out};
/// fn run(scale: &CompiledFn<(In<f32, 1>, f32, Out<f32, 1>)>, x: &[f32], y: &mut [f32]) {
///     let _ = scale.call(x, 3_i64, y);
/// }
/// ```
pub struct CompiledFn<Args> {
    kernel: Kernel,
    pool: Option<Arc<dyn ThreadPool>>,
    args: PhantomData<fn(Args)>,
}

impl<Args> Clone for CompiledFn<Args> {
    fn clone(&self) -> Self {
        CompiledFn { kernel: self.kernel.clone(), pool: self.pool.clone(), args: PhantomData }
    }
}

impl<Args> fmt::Debug for CompiledFn<Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(f)
    }
}

impl<Args: Params> CompiledFn<Args> {
    /// Wraps `kernel` as a function of the types `Args`; an error unless they agree with the kernel's signature.
    pub fn new(kernel: Kernel) -> Result<CompiledFn<Args>, RuntimeError> {
        check_signature(kernel.signature(), &Args::list())?;
        Ok(CompiledFn { kernel, pool: None, args: PhantomData })
    }
}

impl<Args> CompiledFn<Args> {
    /// The underlying kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Whether a call runs machine code or a host function.
    pub fn backend(&self) -> Backend {
        self.kernel().backend()
    }

    /// Signature of the kernel.
    pub fn signature(&self) -> &KernelSig {
        self.kernel.signature()
    }

    /// The same function, with its parallel loops on `pool` instead of the global thread pool.
    pub fn with_pool(self, pool: Arc<dyn ThreadPool>) -> CompiledFn<Args> {
        CompiledFn { pool: Some(pool), ..self }
    }

    /// Fails unless the kernel can have a tensor on `device`, which is not the host. Kernels of a GPU check themselves which one.
    #[cold]
    fn check_place(&self, device: DLDevice) -> Result<(), RuntimeError> {
        if self.backend() == Backend::Device {
            return Ok(());
        }
        let kind = if device.kind == DeviceKind::Cuda as i32 { DeviceKind::Cuda } else { DeviceKind::Cpu };
        Err(RuntimeError::NotOnHost { device: Device { kind, id: device.id } })
    }

    #[cold]
    fn error(&self, index: usize, rank: usize, error: ArgError) -> RuntimeError {
        let sig = self.kernel.signature();
        let func: Arc<str> = sig.name.as_str().into();
        let arg: Arc<str> = sig.params.get(index).map_or("", |param| &param.name).into();
        match error {
            ArgError::Rank { got } => {
                RuntimeError::ArgRank { func, arg, expected: rank as i64, got: got as i64 }
            }
            ArgError::Strides { axis, expected, got } => {
                RuntimeError::ArgStrides { func, arg, axis: axis as i64, expected, got }
            }
            ArgError::Other(RuntimeError::DTypeMismatch { expected, got }) => {
                RuntimeError::ArgDType { func, arg, expected, got: got.to_string().into() }
            }
            ArgError::Other(other) => other,
        }
    }
}

fn check_signature(sig: &KernelSig, params: &[(ParamKind, DataType, usize)]) -> Result<(), RuntimeError> {
    let mismatch = |detail| RuntimeError::Signature { func: sig.name.as_str().into(), detail };
    if sig.params.len() != params.len() {
        let (expected, got) = (sig.params.len(), params.len());
        return Err(mismatch(format!("it has {expected} parameter(s), the Rust type has {got}: {sig}")));
    }
    for (param, &(kind, dtype, rank)) in sig.params.iter().zip(params) {
        let ParamSig { name, kind: own_kind, dtype: own_dtype, shape } = param;
        if (*own_kind, *own_dtype, shape.len()) != (kind, dtype, rank) {
            let expected = describe_param(*own_kind, *own_dtype, shape.len());
            let got = describe_param(kind, dtype, rank);
            return Err(mismatch(format!("parameter `{name}` is {expected}, the Rust type has {got}")));
        }
    }
    Ok(())
}

fn describe_param(kind: ParamKind, dtype: DataType, rank: usize) -> String {
    match kind {
        ParamKind::Scalar => dtype.to_string(),
        ParamKind::In => format!("In<{dtype}, {rank}>"),
        ParamKind::Out => format!("Out<{dtype}, {rank}>"),
    }
}

macro_rules! arities {
    ($(($($param:ident $arg:ident $value:ident $slot:ident $index:literal),*);)*) => {$(
        impl<$($param: TypedParam),*> Params for ($($param,)*) {
            const LEN: usize = [$($index),*].len();

            fn list() -> Vec<(ParamKind, DataType, usize)> {
                vec![$(($param::KIND, $param::DTYPE, $param::RANK)),*]
            }
        }

        impl<$($param: TypedParam),*> CompiledFn<($($param,)*)> {
            /// Runs the kernel.
            #[allow(clippy::too_many_arguments, reason = "one per parameter of the kernel")]
            pub fn call<$($arg: TypedArg<$param>),*>(&self, $(mut $value: $arg),*) -> Result<(), RuntimeError> {
                $(
                    let mut $slot = $param::EMPTY;
                    $value.describe(&mut $slot).map_err(|error| self.error($index, $param::RANK, error))?;
                )*
                $(
                    if let Some(device) = $param::elsewhere(&$slot) {
                        self.check_place(device)?;
                    }
                )*
                let args = [$($param::raw(&$slot)),*];
                // SAFETY: `new` checked that the kernel's signature has these kinds; the slots point into the
                // arguments, which live until the call returns, and every written argument is borrowed mutably.
                unsafe { self.kernel.call_raw(&args, self.pool.as_deref()) }
            }
        }
    )*};
}

arities! {
    (P0 A0 a0 s0 0);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3, P4 A4 a4 s4 4);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3, P4 A4 a4 s4 4, P5 A5 a5 s5 5);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3, P4 A4 a4 s4 4, P5 A5 a5 s5 5, P6 A6 a6 s6 6);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3, P4 A4 a4 s4 4, P5 A5 a5 s5 5, P6 A6 a6 s6 6,
     P7 A7 a7 s7 7);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3, P4 A4 a4 s4 4, P5 A5 a5 s5 5, P6 A6 a6 s6 6,
     P7 A7 a7 s7 7, P8 A8 a8 s8 8);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3, P4 A4 a4 s4 4, P5 A5 a5 s5 5, P6 A6 a6 s6 6,
     P7 A7 a7 s7 7, P8 A8 a8 s8 8, P9 A9 a9 s9 9);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3, P4 A4 a4 s4 4, P5 A5 a5 s5 5, P6 A6 a6 s6 6,
     P7 A7 a7 s7 7, P8 A8 a8 s8 8, P9 A9 a9 s9 9, P10 A10 a10 s10 10);
    (P0 A0 a0 s0 0, P1 A1 a1 s1 1, P2 A2 a2 s2 2, P3 A3 a3 s3 3, P4 A4 a4 s4 4, P5 A5 a5 s5 5, P6 A6 a6 s6 6,
     P7 A7 a7 s7 7, P8 A8 a8 s8 8, P9 A9 a9 s9 9, P10 A10 a10 s10 10, P11 A11 a11 s11 11);
}

#[cfg(test)]
mod tests;
