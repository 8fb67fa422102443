//! Arrays of the crate `ndarray` as tensors: conversions, without copying where possible, and arguments of calls.

use ndarray::{
    Array, ArrayBase, ArrayD, ArrayView, ArrayViewMut, Data, DataMut, Dim, Dimension, Ix0, Ix1, Ix2, Ix3,
    Ix4, Ix5, Ix6, IxDyn, OwnedRepr, ViewRepr,
};

use crate::call::{ArgError, AsInput, AsOutput, TensorSlot};
use crate::dtype::Element;
use crate::error::RuntimeError;
use crate::model::{ModelInput, ShapeOf, TypedTensor};
use crate::tensor::Tensor;

impl Tensor {
    /// The tensor as an `ndarray` view: `t.view::<f32, Ix2>()?`, or `IxDyn` for any rank.
    pub fn view<T: Element, D: Dimension>(&self) -> Result<ArrayView<'_, T, D>, RuntimeError> {
        let dim = dim::<D>(self)?;
        ArrayView::from_shape(dim, self.as_slice()?).map_err(|_| bad_shape(self))
    }

    /// The tensor as a mutable `ndarray` view; copies the data first if it is shared.
    pub fn view_mut<T: Element, D: Dimension>(&mut self) -> Result<ArrayViewMut<'_, T, D>, RuntimeError> {
        let (dim, err) = (dim::<D>(self)?, bad_shape(self));
        ArrayViewMut::from_shape(dim, self.as_mut_slice()?).map_err(|_| err)
    }

    /// The elements as an owned array (a copy).
    pub fn to_array<T: Element>(&self) -> Result<ArrayD<T>, RuntimeError> {
        Ok(self.view::<T, IxDyn>()?.to_owned())
    }

    /// Makes a tensor that owns the array's data; copies only if the array is not compact row-major.
    pub fn from_array<T: Element, D: Dimension>(array: Array<T, D>) -> Result<Tensor, RuntimeError> {
        let shape: Vec<i64> = array.shape().iter().map(|&extent| extent as i64).collect();
        if !array.is_standard_layout() {
            return Tensor::from_vec(array.iter().copied().collect(), &shape);
        }
        match array.into_raw_vec_and_offset() {
            (data, None | Some(0)) if data.len() as i64 == shape.iter().product::<i64>() => {
                Tensor::from_vec(data, &shape)
            }
            (data, offset) => {
                let len = shape.iter().product::<i64>() as usize;
                let start = offset.unwrap_or(0).min(data.len());
                Tensor::from_slice(&data[start..start + len], &shape)
            }
        }
    }
}

fn dim<D: Dimension>(tensor: &Tensor) -> Result<D, RuntimeError> {
    if let Some(expected) = D::NDIM
        && expected != tensor.rank()
    {
        return Err(RuntimeError::RankMismatch { expected, got: tensor.rank() });
    }
    let mut dim = D::zeros(tensor.rank());
    for (to, &extent) in dim.slice_mut().iter_mut().zip(tensor.shape()) {
        *to = extent as usize;
    }
    Ok(dim)
}

fn bad_shape(tensor: &Tensor) -> RuntimeError {
    RuntimeError::BadShape { shape: tensor.shape().to_vec(), dtype: tensor.dtype() }
}

impl<T: Element, const RANK: usize> TypedTensor<T, RANK> {
    /// The tensor as an `ndarray` view.
    pub fn view(&self) -> ArrayView<'_, T, Dim<[usize; RANK]>>
    where
        Dim<[usize; RANK]>: Dimension,
    {
        self.tensor().view().expect("type and rank were checked when it was made")
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

macro_rules! array_inputs {
    ($(($($generics:tt)*) $ty:ty;)*) => {$(
        impl<T: Element, D: Rank<RANK>, const RANK: usize, $($generics)*> AsInput<T, RANK> for $ty {
            #[inline]
            fn describe(&self, slot: &mut TensorSlot<RANK>) -> Result<(), ArgError> {
                slot.describe(self.shape(), self.strides(), self.as_ptr().cast_mut().cast())
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
                let data = self.as_mut_ptr().cast();
                slot.describe(self.shape(), self.strides(), data)
            }
        }
    )*};
}

array_outputs! {
    (S: DataMut<Elem = T>) &mut ArrayBase<S, D>;
    () ArrayViewMut<'_, T, D>;
}

macro_rules! model_inputs {
    ($(($($generics:tt)*) $ty:ty: |$self:ident| $tensor:expr;)*) => {$(
        impl<T: Element, D: Rank<RANK>, const RANK: usize, $($generics)*> ModelInput<T, RANK> for $ty {
            fn into_tensor($self, _of: &ShapeOf<'_>) -> Result<Tensor, RuntimeError> {
                $tensor
            }
        }
    )*};
}

model_inputs! {
    () ArrayBase<OwnedRepr<T>, D>: |self| Tensor::from_array(self);
    () ArrayBase<ViewRepr<&T>, D>: |self| Tensor::from_array(self.to_owned());
    (S: Data<Elem = T>) &ArrayBase<S, D>: |self| Tensor::from_array(self.to_owned());
}
