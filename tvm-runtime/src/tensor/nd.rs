//! Conversion between tensors and `ndarray` arrays, without copying where possible.

use ndarray::{Array, ArrayD, ArrayView, ArrayViewMut, Dimension};

use super::Tensor;
use crate::dtype::Element;
use crate::error::RuntimeError;

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
        Ok(self.view::<T, ndarray::IxDyn>()?.to_owned())
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
