//! Tensors whose element type and rank are part of their Rust type.

use std::fmt;
use std::marker::PhantomData;

use crate::device::Device;
use crate::dtype::Element;
use crate::error::RuntimeError;
use crate::tensor::Tensor;

/// A tensor on the host of element type `T` with `RANK` dimensions. Cheap to clone.
#[derive(Clone)]
pub struct TypedTensor<T, const RANK: usize> {
    tensor: Tensor,
    shape: [i64; RANK],
    element: PhantomData<fn() -> T>,
}

impl<T: Element, const RANK: usize> TypedTensor<T, RANK> {
    /// The extents.
    pub fn shape(&self) -> [i64; RANK] {
        self.shape
    }

    /// The elements, in row-major order.
    pub fn as_slice(&self) -> &[T] {
        self.tensor.as_slice().expect("type and values were checked when it was made")
    }

    /// The underlying tensor, without static type.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Converts into the underlying tensor.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }
}

impl<T: Element, const RANK: usize> TryFrom<Tensor> for TypedTensor<T, RANK> {
    type Error = RuntimeError;

    fn try_from(tensor: Tensor) -> Result<TypedTensor<T, RANK>, RuntimeError> {
        let Ok(shape) = tensor.shape().try_into() else {
            return Err(RuntimeError::RankMismatch { expected: RANK, got: tensor.rank() });
        };
        let tensor = tensor.to_device(Device::cpu())?;
        tensor.as_slice::<T>()?;
        Ok(TypedTensor { tensor, shape, element: PhantomData })
    }
}

impl<T, const RANK: usize> fmt::Debug for TypedTensor<T, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tensor.fmt(f)
    }
}
