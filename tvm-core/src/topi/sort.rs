//! Sorting along an axis, by counting for every element how many elements come before it.
//!
//! The order is total: NaN is larger than every number, equal elements keep their order. The work is quadratic in the
//! extent of the axis and every result element is independent of the others.

use crate::te::{TensorExpr, compute, reduce_axis, sum};
use crate::tir::PrimExpr;

/// For every element, its position in the order along `axis`, smallest first or largest first.
fn ranks(x: &TensorExpr, axis: usize, descending: bool) -> TensorExpr {
    let other = reduce_axis("other", x.dim(axis));
    compute("rank", x.shape(), &[x], |i| {
        let mut at = i.to_vec();
        at[axis] = other.expr();
        let (mine, theirs) = (x.at(i), x.at(at));
        let (low, high) = if descending { (&mine, &theirs) } else { (&theirs, &mine) };
        let (mut before, mut same) = (low.clone().less(high), low.clone().equal(high));
        if x.dtype().is_float() {
            let nan = |it: &PrimExpr| it.clone().not_equal(it);
            before = before.or(nan(high).and(!nan(low)));
            same = same.or(nan(high).and(nan(low)));
        }
        let first = before.or(same.and(other.expr().less(&i[axis])));
        sum(first.select(PrimExpr::index(1), PrimExpr::index(0)), &[&other])
    })
}

/// The positions of the elements along `axis` in sorted order; as many as `shape` holds.
pub fn sorted_positions(x: &TensorExpr, axis: usize, descending: bool, shape: &[PrimExpr]) -> TensorExpr {
    let ranks = ranks(x, axis, descending);
    let from = reduce_axis("from", x.dim(axis));
    compute("sorted_positions", shape, &[&ranks], |i| {
        let mut at = i.to_vec();
        at[axis] = from.expr();
        sum(ranks.at(at).equal(&i[axis]).select(from.expr(), PrimExpr::index(0)), &[&from])
    })
}
