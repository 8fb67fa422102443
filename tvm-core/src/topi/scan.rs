//! Running sums and products.

use crate::te::{TensorExpr, scan};
use crate::tir::PrimExpr;

/// Every element combined with all elements before it along `axis`; `exclusive` leaves out the element itself and
/// starts from `identity`.
pub fn cumulative(
    name: &str,
    x: &TensorExpr,
    axis: usize,
    exclusive: bool,
    identity: PrimExpr,
    combine: fn(PrimExpr, PrimExpr) -> PrimExpr,
) -> TensorExpr {
    let dtype = identity.dtype();
    scan(name, x.shape(), dtype, axis, &[x], |i, so_far| {
        let mut before = i.to_vec();
        before[axis] = &before[axis] - 1i64;
        let element = if exclusive { x.at(before.clone()) } else { x.at(i) };
        let element = element.cast(dtype);
        let next = combine(so_far.at(before), element.clone());
        let first = if exclusive { identity } else { element };
        super::transform::lazy(i[axis].clone().equal(0), first, next)
    })
}
