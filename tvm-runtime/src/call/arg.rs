//! Rust types that can be passed to a kernel as a tensor: `Tensor`s and slices; `arrays.rs` adds ndarray's.

use super::{ArgError, In, Out, TensorSlot, TypedArg};
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

#[inline]
fn tensor_shape<T: Element, const RANK: usize>(
    tensor: &Tensor,
    slot: &mut TensorSlot<RANK>,
) -> Result<(), ArgError> {
    if tensor.dtype() != T::DTYPE {
        return Err(ArgError::Other(RuntimeError::DTypeMismatch { expected: T::DTYPE, got: tensor.dtype() }));
    }
    slot.tensor.device = tensor.device().to_dlpack();
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
        self.make_writable().map_err(ArgError::Other)?;
        slot.point_to(self.data_ptr());
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
