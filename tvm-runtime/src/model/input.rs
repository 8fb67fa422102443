//! Rust types that can be passed to a linked model as a tensor: `Tensor`s and slices; `arrays.rs` adds ndarray's.

use super::TypedTensor;
use crate::dtype::Element;
use crate::error::RuntimeError;
use crate::kernel::DimSig;
use crate::tensor::{Shape, Tensor};
use crate::vm::VmParam;

/// A type that can be passed to a model as an input of element type `T` with `RANK` dimensions.
///
/// Tensors and owned arrays are passed without a copy; borrowed arrays and slices are copied. A slice takes the
/// parameter's shape, which may have at most one unknown extent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a model as a tensor of `{T}` with {RANK} dimension(s)",
    label = "expected a `{T}` tensor of rank {RANK}",
    note = "pass an ndarray array or view, a `Tensor`, or a slice with all elements in row-major order"
)]
pub trait ModelInput<T: Element, const RANK: usize> {
    #[doc(hidden)]
    fn into_tensor(self, of: &ShapeOf<'_>) -> Result<Tensor, RuntimeError>;
}

/// What is known about the shape of a parameter.
#[doc(hidden)]
pub struct ShapeOf<'a> {
    pub(super) func: &'a std::sync::Arc<str>,
    pub(super) param: &'a VmParam,
    pub(super) dims: &'a [DimSig],
    /// Symbolic dimensions that earlier arguments have bound.
    pub(super) bound: &'a [(&'a str, i64)],
}

impl ShapeOf<'_> {
    /// The shape of a slice of `len` elements.
    fn of_len(&self, len: usize) -> Result<Shape, RuntimeError> {
        self.find(len).ok_or_else(|| RuntimeError::ArgLen {
            func: self.func.clone(),
            arg: self.param.name.as_str().into(),
            ty: self.param.ty.to_string(),
            got: len,
        })
    }

    fn find(&self, len: usize) -> Option<Shape> {
        let len = i64::try_from(len).ok()?;
        let mut unknown = None;
        let mut shape = Shape::new();
        for dim in self.dims {
            shape.push(match dim {
                DimSig::Const(extent) => *extent,
                DimSig::Var(name) => match self.bound.iter().find(|(bound, _)| bound == name) {
                    Some((_, extent)) => *extent,
                    None if unknown.replace(shape.len()).is_none() => 1,
                    None => return None,
                },
                DimSig::Expr(_) => return None,
            });
        }
        let known = shape.iter().try_fold(1i64, |size, &extent| size.checked_mul(extent))?;
        if let Some(axis) = unknown {
            shape[axis] = len.checked_div(known)?;
        }
        let size = shape.iter().try_fold(1i64, |size, &extent| size.checked_mul(extent))?;
        (size == len).then_some(shape)
    }
}

macro_rules! inputs {
    ($(($($generics:tt)*) $ty:ty: |$self:ident, $of:ident| $tensor:expr;)*) => {$(
        impl<T: Element, const RANK: usize, $($generics)*> ModelInput<T, RANK> for $ty {
            fn into_tensor($self, $of: &ShapeOf<'_>) -> Result<Tensor, RuntimeError> {
                $tensor
            }
        }
    )*};
}

inputs! {
    () Tensor: |self, _of| Ok(self);
    () &Tensor: |self, _of| Ok(self.clone());
    () TypedTensor<T, RANK>: |self, _of| Ok(self.into_tensor());
    () &TypedTensor<T, RANK>: |self, _of| Ok(self.tensor().clone());
    () Vec<T>: |self, of| {
        let shape = of.of_len(self.len())?;
        Tensor::from_vec(self, &shape)
    };
    () &Vec<T>: |self, of| Tensor::from_slice(self, &of.of_len(self.len())?);
    () &[T]: |self, of| Tensor::from_slice(self, &of.of_len(self.len())?);
    (const N: usize) &[T; N]: |self, of| Tensor::from_slice(self, &of.of_len(N)?);
}
