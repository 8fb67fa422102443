//! Matrix products.

use tvm_runtime::DataType;

use super::reduction::{accumulator, narrowed};
use crate::arith::Analyzer;
use crate::arith::dims::simplify_dim;
use crate::te::{TensorExpr, compute, reduce_axis, sum};
use crate::tir::{BinaryOp, Layout, PrimExpr, binary, words};

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

/// Products of the last axis of `x` with weights whose undivided axes are columns (`N`) and terms (`K`). Weights of type `i32`
/// are words of neighbouring terms, whose products are summed at once: two of `bf16` ([`Intrinsic::Dot2`](crate::tir::Intrinsic::Dot2)),
/// or four of `i8` for data of `u8` ([`Intrinsic::Dot4`](crate::tir::Intrinsic::Dot4)).
pub fn dense_pack(
    x: &TensorExpr,
    weight: &TensorExpr,
    layout: &Layout,
    shape: &[PrimExpr],
    dtype: DataType,
) -> TensorExpr {
    let wide = accumulator(dtype);
    let dot = words::dot(x.dtype(), weight.dtype());
    let left = if dot.is_some() { &words_of("matmul", x, x.ndim() - 1) } else { x };
    let k = reduce_axis("k", left.dim(left.ndim() - 1));
    let product = compute("matmul", shape, &[left, weight], |i| {
        let (rows, column) = i.split_at(i.len() - 1);
        let terms: Vec<PrimExpr> = rows.iter().cloned().chain([k.expr()]).collect();
        let (a, b) = (left.at(terms), weight.at(layout.index("NK", &[column[0].clone(), k.expr()])));
        let term = match dot {
            Some((dot, summed)) => PrimExpr::call(dot, [a, b, PrimExpr::constant(0.0, summed)], summed),
            None => a.cast(wide) * b.cast(wide),
        };
        sum(term, &[&k])
    });
    narrowed(product, dtype)
}

/// Products of the last axis of `x` with weights of 4 bits in panels of columns: a byte of `weight` (panel, pair of terms, column)
/// holds two neighbouring terms, the first one in its low half, as numbers from -8 to 7. Those of a group of terms are multiplied by
/// an element of `scale` (panel, group, column). The sums are `f32`.
pub fn dense_int4(x: &TensorExpr, weight: &TensorExpr, scale: &TensorExpr, shape: &[PrimExpr]) -> TensorExpr {
    let analyzer = Analyzer::new();
    let of_group = analyzer.simplify(&weight.dim(1).floordiv(scale.dim(1)));
    let axes = [("group", scale.dim(1)), ("pair", of_group.clone()), ("half", PrimExpr::index(2))]
        .map(|(name, extent)| reduce_axis(name, extent));
    let [group, pair, half] = [0, 1, 2].map(|i| axes[i].expr());
    compute("matmul", shape, &[x, weight, scale], |i| {
        let (rows, column) = i.split_at(i.len() - 1);
        let block = weight.dim(2);
        let (panel, column) = (column[0].clone().floordiv(block.clone()), column[0].clone().floormod(block));
        let byte = group.clone() * of_group.clone() + &pair;
        let term = byte.clone() * 2i64 + &half;
        let number = weight.at([panel.clone(), byte, column.clone()]).cast(DataType::I32);
        // The sign is the highest bit of each half.
        let shift = (PrimExpr::index(28) - half.clone() * 4i64).cast(DataType::I32);
        let high = binary(BinaryOp::Shl, number, shift);
        let number = binary(BinaryOp::Shr, high, PrimExpr::int(28, DataType::I32)).cast(DataType::F32);
        let terms: Vec<PrimExpr> = rows.iter().cloned().chain([term]).collect();
        let scale = scale.at([panel, group.clone(), column]);
        sum(x.at(terms) * (number * scale), &axes.iter().collect::<Vec<_>>())
    })
}

/// Words of neighbouring elements along an axis, for the operator `name`.
pub(super) fn words_of(name: &str, x: &TensorExpr, axis: usize) -> TensorExpr {
    let dtype = x.dtype();
    let (extent, parts) = (x.dim(axis), words::parts(dtype));
    let mut shape = x.shape().to_vec();
    shape[axis] = simplify_dim(&(extent.clone() + (parts - 1)).floordiv(parts));
    compute(&format!("{name}_left"), shape, &[x], |i| {
        words::word(dtype, &extent, i.to_vec(), axis, |at| x.at(at))
    })
}
