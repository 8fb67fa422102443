//! Sorting along an axis. The order is total: NaN is larger than every number, equal elements keep their order.
//!
//! Three methods, for different lengths of the axis and of the result; each computes the positions of the elements, and their
//! result is the same. Counting (here) is quadratic, but its elements are independent of each other. `radix` and `selection`
//! are programs over a row.

mod key;
mod radix;
mod selection;

use tvm_runtime::DataType;

use crate::ir::Var;
use crate::te::{TensorExpr, compute, reduce_axis, sum};
use crate::tir::{Bind, Buffer, For, PrimExpr, Scope, Stmt};

/// Axes up to this length are sorted by counting: its n² comparisons of whole vectors then take less time than the counters
/// of a radix sort, of which there are 256 for every byte of an element, however short the row is.
const COUNTED: i64 = 32;

/// The positions of the elements along `axis` in sorted order; as many as `shape` holds.
pub fn sorted_positions(x: &TensorExpr, axis: usize, descending: bool, shape: &[PrimExpr]) -> TensorExpr {
    let extent = x.shape()[axis].as_int();
    if extent.is_some_and(|extent| extent <= COUNTED) {
        return counted_positions(x, axis, descending, shape);
    }
    let row = Row { x, axis, descending, shape };
    match shape[axis].as_int() {
        Some(few) if selection::is_fast(few, extent) => selection::positions(&row, few),
        _ => radix::positions(&row),
    }
}

/// What the programs over a row sort, and how many positions they write.
struct Row<'a> {
    x: &'a TensorExpr,
    axis: usize,
    descending: bool,
    /// Extents of the result.
    shape: &'a [PrimExpr],
}

impl Row<'_> {
    /// The extents of the other axes.
    fn others(&self) -> Vec<PrimExpr> {
        let mut others = self.x.shape().to_vec();
        others.remove(self.axis);
        others
    }

    /// Position `at` in the row that `point` of the other axes names.
    fn indices(&self, point: &[PrimExpr], at: PrimExpr) -> Vec<PrimExpr> {
        let mut indices = point.to_vec();
        indices.insert(self.axis, at);
        indices
    }

    /// The key of element `at` of the row.
    fn key(&self, point: &[PrimExpr], at: PrimExpr) -> PrimExpr {
        key::of(self.x.at(self.indices(point, at)), self.descending)
    }
}

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

/// The sorted positions, by counting for every element how many elements come before it.
fn counted_positions(x: &TensorExpr, axis: usize, descending: bool, shape: &[PrimExpr]) -> TensorExpr {
    let ranks = ranks(x, axis, descending);
    let from = reduce_axis("from", x.dim(axis));
    compute("sorted_positions", shape, &[&ranks], |i| {
        let mut at = i.to_vec();
        at[axis] = from.expr();
        sum(ranks.at(at).equal(&i[axis]).select(from.expr(), PrimExpr::index(0)), &[&from])
    })
}

/// `for name in 0..extent { body }`
fn each(name: &str, extent: &PrimExpr, body: impl FnOnce(PrimExpr) -> Vec<Stmt>) -> Stmt {
    let var = Var::index(name);
    let body = Stmt::seq(body(PrimExpr::from(&var)));
    For::serial(var, extent.clone(), body).into()
}

/// `let name = value`
fn bind(stmts: &mut Vec<Stmt>, name: &str, value: PrimExpr) -> PrimExpr {
    let var = Var::prim(name, value.dtype());
    stmts.push(Bind { var: var.clone(), value }.into());
    PrimExpr::from(&var)
}

/// A small buffer of one run.
fn local(name: &str, shape: &[i64], dtype: DataType) -> Buffer {
    let shape: Vec<PrimExpr> = shape.iter().map(|&it| it.into()).collect();
    Buffer::with_scope(name, shape, dtype, Scope::Local)
}
