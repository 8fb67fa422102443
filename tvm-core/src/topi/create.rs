//! Creation of tensors: constants, ranges, diagonals.

use tvm_runtime::DataType;

use super::Operand;
use crate::te::{TensorExpr, compute};
use crate::tir::PrimExpr;

/// A tensor that is `value` everywhere, cast to `dtype`.
pub fn full(shape: &[PrimExpr], value: &Operand, dtype: DataType) -> TensorExpr {
    super::broadcast("full", shape, std::slice::from_ref(value), |values| {
        super::cast(values[0].clone(), dtype)
    })
}

/// The vector of `start + i * step`, for `i` from 0 below `extent`.
pub fn arange(extent: &PrimExpr, start: &PrimExpr, step: &PrimExpr, dtype: DataType) -> TensorExpr {
    compute("arange", [extent.clone()], &[], |i| {
        let like = start.dtype();
        (start + step * i[0].clone().cast(like)).cast(dtype)
    })
}

/// The matrix that is 1 where the column is the row plus `k`, else 0.
pub fn eye(shape: &[PrimExpr], k: &PrimExpr, dtype: DataType) -> TensorExpr {
    let value = |it: f64| super::cast(PrimExpr::constant(it, DataType::I32), dtype);
    compute("eye", shape, &[], |i| (&i[0] + k).equal(&i[1]).select(value(1.0), value(0.0)))
}

/// `x` above (`upper`) or below its `k`-th diagonal, which is included; 0 on the other side.
pub fn triangle(x: &TensorExpr, k: &PrimExpr, upper: bool) -> TensorExpr {
    compute(if upper { "triu" } else { "tril" }, x.shape(), &[x], |i| {
        let (row, column) = (&i[i.len() - 2], &i[i.len() - 1]);
        let diagonal = row + k;
        let keep =
            if upper { column.clone().greater_equal(diagonal) } else { column.clone().less_equal(diagonal) };
        keep.select(x.at(i), super::cast(PrimExpr::constant(0.0, DataType::I32), x.dtype()))
    })
}

/// Along a new axis `axis`: `on` at the position that the index gives (counted from the end when negative), `off`
/// elsewhere.
pub fn one_hot(
    indices: &TensorExpr,
    shape: &[PrimExpr],
    axis: usize,
    on: &PrimExpr,
    off: &PrimExpr,
    dtype: DataType,
) -> TensorExpr {
    compute("one_hot", shape, &[indices], |i| {
        let mut at = i.to_vec();
        let position = at.remove(axis);
        let index = indices.at(at).cast(DataType::I64);
        let index = index.clone().less(0).select(&index + &shape[axis], index);
        index.equal(position).select(super::cast(on.clone(), dtype), super::cast(off.clone(), dtype))
    })
}
