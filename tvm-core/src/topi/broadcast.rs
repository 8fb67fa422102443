//! Element-wise computations with NumPy broadcasting.

use tvm_runtime::DataType;

use crate::te::{Tensor, compute};
use crate::tir::PrimExpr;

/// An operand of an element-wise computation.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor whose shape broadcasts to the result's.
    Tensor(Tensor),
    /// A scalar.
    Scalar(PrimExpr),
}

impl Operand {
    /// The element that goes into the result at `indices`.
    pub fn at(&self, indices: &[PrimExpr]) -> PrimExpr {
        match self {
            Operand::Scalar(value) => value.clone(),
            Operand::Tensor(tensor) => {
                let last = &indices[indices.len() - tensor.ndim()..];
                // A broadcast axis has one element; an axis whose result has one element too may be indexed.
                let index = |(extent, index): (&PrimExpr, &PrimExpr)| {
                    if extent.is_const(1) { PrimExpr::index(0) } else { index.clone() }
                };
                tensor.at(tensor.shape().iter().zip(last).map(index).collect::<Vec<_>>())
            }
        }
    }
}

impl From<&Tensor> for Operand {
    fn from(tensor: &Tensor) -> Operand {
        Operand::Tensor(tensor.clone())
    }
}

/// `f` of the operands' elements, at every element of the result of extents `shape`.
pub fn broadcast(
    name: &str,
    shape: &[PrimExpr],
    operands: &[Operand],
    f: impl FnOnce(&[PrimExpr]) -> PrimExpr,
) -> Tensor {
    let inputs: Vec<&Tensor> = (operands.iter())
        .filter_map(|it| if let Operand::Tensor(tensor) = it { Some(tensor) } else { None })
        .collect();
    compute(name, shape, &inputs, |indices| f(&operands.iter().map(|it| it.at(indices)).collect::<Vec<_>>()))
}

/// `f` of every element of `x`.
pub fn map(name: &str, x: &Tensor, f: impl FnOnce(PrimExpr) -> PrimExpr) -> Tensor {
    compute(name, x.shape(), &[x], |i| f(x.at(i)))
}

/// `value` as `dtype`; to bool it is "not zero".
pub fn cast(value: PrimExpr, dtype: DataType) -> PrimExpr {
    if dtype.is_bool() && !value.dtype().is_bool() { value.not_equal(0) } else { value.cast(dtype) }
}
