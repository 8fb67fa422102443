//! Element-wise computations with NumPy broadcasting.

use tvm_runtime::DataType;

use crate::te::{TensorExpr, compute};
use crate::tir::PrimExpr;

/// An operand of an element-wise computation.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor whose shape broadcasts to the result's.
    Tensor(TensorExpr),
    /// A scalar.
    Scalar(PrimExpr),
}

impl Operand {
    /// The element of the operand that the result at `indices` uses.
    pub fn at(&self, indices: &[PrimExpr]) -> PrimExpr {
        match self {
            Operand::Scalar(value) => value.clone(),
            Operand::Tensor(tensor) => {
                let last = &indices[indices.len() - tensor.ndim()..];
                // An axis of one element has index 0: it is broadcast, or the result has one element there too.
                let index = |(extent, index): (&PrimExpr, &PrimExpr)| {
                    if extent.is_const(1) { PrimExpr::index(0) } else { index.clone() }
                };
                tensor.at(tensor.shape().iter().zip(last).map(index).collect::<Vec<_>>())
            }
        }
    }
}

impl From<&TensorExpr> for Operand {
    fn from(tensor: &TensorExpr) -> Operand {
        Operand::Tensor(tensor.clone())
    }
}

/// The tensor of extents `shape` whose elements are `f` of the operands' elements.
pub fn broadcast(
    name: &str,
    shape: &[PrimExpr],
    operands: &[Operand],
    f: impl FnOnce(&[PrimExpr]) -> PrimExpr,
) -> TensorExpr {
    let inputs: Vec<&TensorExpr> = (operands.iter())
        .filter_map(|it| if let Operand::Tensor(tensor) = it { Some(tensor) } else { None })
        .collect();
    compute(name, shape, &inputs, |indices| f(&operands.iter().map(|it| it.at(indices)).collect::<Vec<_>>()))
}

/// `f` applied to every element of `x`.
pub fn map(name: &str, x: &TensorExpr, f: impl FnOnce(PrimExpr) -> PrimExpr) -> TensorExpr {
    compute(name, x.shape(), &[x], |i| f(x.at(i)))
}

/// `value` cast to `dtype`; a cast to bool is true for values other than 0.
pub fn cast(value: PrimExpr, dtype: DataType) -> PrimExpr {
    if dtype.is_bool() && !value.dtype().is_bool() { value.not_equal(0) } else { value.cast(dtype) }
}
