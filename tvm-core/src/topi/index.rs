//! Selection and update of elements by computed or given indices.
//!
//! Indices from tensors count from the end when negative. Graph functions check them, each once, before such a program
//! runs. Inside the program an index is clamped to its axis, which proves the accesses at no cost of its own.

use tvm_runtime::DataType;

use crate::te::{TensorExpr, compute, scatter};
use crate::tir::PrimExpr;

/// `index`, an element of an index tensor, as an index into an axis of `extent`.
fn inside(index: PrimExpr, extent: &PrimExpr) -> PrimExpr {
    let index = index.cast(DataType::I64);
    let index = index.clone().less(0).select(&index + extent, index);
    index.max(0).min(extent - 1i64)
}

/// The elements of `x` that `indices` selects along `axis`; the axes of `indices` replace `axis`.
pub fn take(x: &TensorExpr, indices: &TensorExpr, axis: usize, shape: &[PrimExpr]) -> TensorExpr {
    compute("take", shape, &[x, indices], |i| {
        let (before, rest) = i.split_at(axis);
        let (picked, after) = rest.split_at(indices.ndim());
        let index = inside(indices.at(picked), &x.shape()[axis]);
        x.at([before, &[index], after].concat())
    })
}

/// For every element of `indices`, the element of `x` at this position along `axis` and the same position on other
/// axes.
pub fn gather_elements(x: &TensorExpr, indices: &TensorExpr, axis: usize) -> TensorExpr {
    compute("gather_elements", indices.shape(), &[x, indices], |i| {
        let mut at = i.to_vec();
        at[axis] = inside(indices.at(i), &x.shape()[axis]);
        x.at(at)
    })
}

/// The slices of `x` that the rows of `indices` (along its last axis, of constant extent `depth`) select in each batch;
/// the first `batch` axes are those of the batch.
pub fn gather_nd(
    x: &TensorExpr,
    indices: &TensorExpr,
    batch: usize,
    depth: usize,
    shape: &[PrimExpr],
) -> TensorExpr {
    compute("gather_nd", shape, &[x, indices], |i| {
        let (outer, inner) = i.split_at(indices.ndim() - 1);
        let index = |k: usize| {
            let at = [outer, &[PrimExpr::index(k as i64)]].concat();
            inside(indices.at(at), &x.shape()[batch + k])
        };
        let named: Vec<PrimExpr> = (0..depth).map(index).collect();
        x.at([&outer[..batch], &named, inner].concat())
    })
}

/// `x[begin + i * stride]`: `slices` has one (begin, stride) per axis of `x`.
pub fn strided_slice(x: &TensorExpr, slices: &[(PrimExpr, i64)], shape: &[PrimExpr]) -> TensorExpr {
    compute("strided_slice", shape, &[x], |i| {
        let at = i.iter().zip(slices).map(|(i, (begin, stride))| i * *stride + begin);
        x.at(at.collect::<Vec<_>>())
    })
}

/// `x`, with the elements that `indices` selects along `axis` combined with `updates` (of the shape of `indices`), in
/// order.
pub fn scatter_elements(
    x: &TensorExpr,
    indices: &TensorExpr,
    updates: &TensorExpr,
    axis: usize,
    combine: fn(PrimExpr, PrimExpr) -> PrimExpr,
) -> TensorExpr {
    let start = |i: &[PrimExpr]| x.at(i);
    scatter("scatter_elements", x.shape(), indices.shape(), &[x, indices, updates], start, |k, out| {
        let mut at = k.to_vec();
        at[axis] = inside(indices.at(k), &x.shape()[axis]);
        let value = combine(out.at(at.clone()), updates.at(k));
        (at, value)
    })
}

/// `x`, with the slices that the rows of `indices` (along its last axis, of extent `depth`) select combined with those
/// of `updates`, in order.
pub fn scatter_nd(
    x: &TensorExpr,
    indices: &TensorExpr,
    updates: &TensorExpr,
    depth: usize,
    combine: fn(PrimExpr, PrimExpr) -> PrimExpr,
) -> TensorExpr {
    let rows = indices.ndim() - 1;
    let start = |i: &[PrimExpr]| x.at(i);
    scatter("scatter_nd", x.shape(), updates.shape(), &[x, indices, updates], start, |k, out| {
        let (row, inner) = k.split_at(rows);
        let index =
            |d: usize| inside(indices.at([row, &[PrimExpr::index(d as i64)]].concat()), &x.shape()[d]);
        let at = (0..depth).map(index).chain(inner.iter().cloned()).collect::<Vec<_>>();
        let value = combine(out.at(at.clone()), updates.at(k));
        (at, value)
    })
}
