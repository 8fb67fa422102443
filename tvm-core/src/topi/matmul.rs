//! Matrix products.

use tvm_runtime::DataType;

use super::reduction::{accumulator, narrowed};
use crate::te::{TensorExpr, compute, reduce_axis, sum};
use crate::tir::{Layout, PrimExpr};

/// NumPy's `matmul`: products over the last two axes; the other axes broadcast. A tensor of rank 1 is a row on the left
/// and a column on the right, and the axis added for that is not in the result.
pub fn matmul(a: &TensorExpr, b: &TensorExpr, shape: &[PrimExpr], dtype: DataType) -> TensorExpr {
    let (row, column) = (a.ndim() == 1, b.ndim() == 1);
    let (a_depth, b_depth) = (a.dim(a.ndim() - 1), b.dim(if column { 0 } else { b.ndim() - 2 }));
    let depth = if a_depth.as_int().is_some() { a_depth } else { b_depth };
    let k = reduce_axis("k", depth);
    let wide = accumulator(dtype);
    let product = compute("matmul", shape, &[a, b], |i| {
        let (batch, mut matrix) = i.split_at(i.len() - usize::from(!row) - usize::from(!column));
        let mut next = || {
            let (first, rest) =
                matrix.split_first().map_or((PrimExpr::index(0), matrix), |(x, y)| (x.clone(), y));
            matrix = rest;
            first
        };
        let a_inner = if row { vec![k.expr()] } else { vec![next(), k.expr()] };
        let b_inner = if column { vec![k.expr()] } else { vec![k.expr(), next()] };
        let element = |x: &TensorExpr, inner: Vec<PrimExpr>| {
            let outer = x.ndim() - inner.len();
            let aligned = batch[batch.len() - outer..].iter().zip(x.shape());
            let mut at: Vec<PrimExpr> = aligned
                .map(|(i, extent)| if extent.is_const(1) { PrimExpr::index(0) } else { i.clone() })
                .collect();
            at.extend(inner);
            x.at(at).cast(wide)
        };
        sum(element(a, a_inner) * element(b, b_inner), &[&k])
    });
    narrowed(product, dtype)
}

/// Products of the last axis of `x` with weights whose undivided axes are columns (`N`) and terms (`K`).
pub fn dense_pack(
    x: &TensorExpr,
    weight: &TensorExpr,
    layout: &Layout,
    shape: &[PrimExpr],
    dtype: DataType,
) -> TensorExpr {
    let k = reduce_axis("k", x.dim(x.ndim() - 1));
    let wide = accumulator(dtype);
    let product = compute("matmul", shape, &[x, weight], |i| {
        let (rows, column) = i.split_at(i.len() - 1);
        let terms: Vec<PrimExpr> = rows.iter().cloned().chain([k.expr()]).collect();
        let weight = weight.at(layout.index("NK", &[column[0].clone(), k.expr()]));
        sum(x.at(terms).cast(wide) * weight.cast(wide), &[&k])
    });
    narrowed(product, dtype)
}
