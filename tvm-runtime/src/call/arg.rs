//! Rust types that can be passed as a tensor: ndarray arrays and views, `Tensor`s, slices.

use ndarray::{
    ArrayBase, ArrayView, ArrayViewMut, Data, DataMut, Dimension, Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, IxDyn,
};

use super::{ArgError, In, Out, TensorSlot, TypedArg};
use crate::device::Device;
use crate::dtype::Element;
use crate::error::RuntimeError;
use crate::tensor::Tensor;

/// A type that can be passed as an input of element type `T` with `RANK` dimensions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed as an input tensor of `{T}` with {RANK} dimension(s)",
    label = "expected a `{T}` tensor of rank {RANK}",
    note = "pass an ndarray array or view by reference, a `&Tensor`, or a slice for one dimension"
)]
pub trait AsInput<T, const RANK: usize> {
    #[doc(hidden)]
    fn describe(&self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError>;
}

/// A type that can be passed as an output of element type `T` with `RANK` dimensions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed as an output tensor of `{T}` with {RANK} dimension(s)",
    label = "expected a mutable `{T}` tensor of rank {RANK}",
    note = "pass an ndarray array or view, a `Tensor`, or a slice for one dimension by `&mut`"
)]
pub trait AsOutput<T, const RANK: usize> {
    #[doc(hidden)]
    fn describe(&mut self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError>;
}

#[diagnostic::do_not_recommend]
impl<A: AsInput<T, RANK>, T: Element, const RANK: usize> TypedArg<In<T, RANK>> for A {
    #[inline]
    fn describe(&mut self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError> {
        AsInput::describe(self, slot)
    }
}

#[diagnostic::do_not_recommend]
impl<A: AsOutput<T, RANK>, T: Element, const RANK: usize> TypedArg<Out<T, RANK>> for A {
    #[inline]
    fn describe(&mut self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError> {
        AsOutput::describe(self, slot)
    }
}

/// The ndarray dimension types that can have `RANK` dimensions.
#[diagnostic::on_unimplemented(
    message = "an ndarray of dimension `{Self}` does not have {RANK} dimension(s)"
)]
pub trait Rank<const RANK: usize>: Dimension {}

macro_rules! ranks {
    ($($dim:ty = $rank:literal),*) => {
        $(impl Rank<$rank> for $dim {})*
    };
}

ranks!(Ix0 = 0, Ix1 = 1, Ix2 = 2, Ix3 = 3, Ix4 = 4, Ix5 = 5, Ix6 = 6);

impl<const RANK: usize> Rank<RANK> for IxDyn {}

/// Writes the shape of an array into `slot`, and checks that the array is compact row-major.
#[inline]
fn shape_of<const RANK: usize>(
    shape: &[usize],
    strides: &[isize],
    slot: &mut TensorSlot<RANK>,
) -> Result<(), ArgError> {
    if shape.len() != RANK {
        return Err(ArgError::Rank { got: shape.len() });
    }
    let mut expected = 1i64;
    let mut broken = None;
    for axis in (0..RANK).rev() {
        let (extent, stride) = (shape[axis] as i64, strides[axis] as i64);
        slot.shape[axis] = extent;
        if extent != 1 && stride != expected && broken.is_none() {
            broken = Some(ArgError::Strides { axis, expected, got: stride });
        }
        expected = expected.wrapping_mul(extent);
    }
    match broken {
        Some(error) if !slot.shape.contains(&0) => Err(error),
        _ => Ok(()),
    }
}

macro_rules! array_inputs {
    ($(($($generics:tt)*) $ty:ty;)*) => {$(
        impl<T: Element, D: Rank<RANK>, const RANK: usize, $($generics)*> AsInput<T, RANK> for $ty {
            #[inline]
            fn describe(&self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError> {
                shape_of(self.shape(), self.strides(), slot)?;
                slot.point_to(self.as_ptr().cast_mut().cast());
                Ok(())
            }
        }
    )*};
}

array_inputs! {
    (S: Data<Elem = T>) &ArrayBase<S, D>;
    () ArrayView<'_, T, D>;
}

macro_rules! array_outputs {
    ($(($($generics:tt)*) $ty:ty;)*) => {$(
        impl<T: Element, D: Rank<RANK>, const RANK: usize, $($generics)*> AsOutput<T, RANK> for $ty {
            #[inline]
            fn describe(&mut self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError> {
                shape_of(self.shape(), self.strides(), slot)?;
                slot.point_to(self.as_mut_ptr().cast());
                Ok(())
            }
        }
    )*};
}

array_outputs! {
    (S: DataMut<Elem = T>) &mut ArrayBase<S, D>;
    () ArrayViewMut<'_, T, D>;
}

#[inline]
fn tensor_shape<T: Element, const RANK: usize>(
    tensor: &Tensor,
    slot: &mut TensorSlot<RANK>,
) -> Result<(), ArgError> {
    if tensor.dtype() != T::DTYPE {
        return Err(ArgError::Other(RuntimeError::DTypeMismatch { expected: T::DTYPE, got: tensor.dtype() }));
    }
    if tensor.device() != Device::cpu() {
        return Err(ArgError::Other(RuntimeError::NotOnHost { device: tensor.device() }));
    }
    match tensor.shape().try_into() {
        Ok(shape) => slot.shape = shape,
        Err(_) => return Err(ArgError::Rank { got: tensor.rank() }),
    }
    Ok(())
}

impl<T: Element, const RANK: usize> AsInput<T, RANK> for &Tensor {
    #[inline]
    fn describe(&self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError> {
        tensor_shape::<T, RANK>(self, slot)?;
        slot.point_to(self.data_ptr());
        Ok(())
    }
}

impl<T: Element, const RANK: usize> AsOutput<T, RANK> for &mut Tensor {
    #[inline]
    fn describe(&mut self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError> {
        tensor_shape::<T, RANK>(self, slot)?;
        slot.point_to(self.bytes_mut().map_err(ArgError::Other)?.as_mut_ptr());
        Ok(())
    }
}

macro_rules! slice_args {
    ($(($($generics:tt)*) $ty:ty;)*) => {$(
        impl<T: Element $($generics)*> AsInput<T, 1> for &$ty {
            #[inline]
            fn describe(&self, slot: &mut TensorSlot<1>) -> Result<(), ArgError> {
                slot.shape = [self.len() as i64];
                slot.point_to(self.as_ptr().cast_mut().cast());
                Ok(())
            }
        }

        impl<T: Element $($generics)*> AsOutput<T, 1> for &mut $ty {
            #[inline]
            fn describe(&mut self, slot: &mut TensorSlot<1>) -> Result<(), ArgError> {
                slot.shape = [self.len() as i64];
                slot.point_to(self.as_mut_ptr().cast());
                Ok(())
            }
        }
    )*};
}

slice_args! {
    () [T];
    () Vec<T>;
    (, const N: usize) [T; N];
}
