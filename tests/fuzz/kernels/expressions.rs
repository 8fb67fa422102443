//! Programs built from tensor expressions.

use tvm::ir::{IrError, Var};
use tvm::runtime::{DataType, DimBound};
use tvm::tir::{Intrinsic, PrimExpr, PrimFunc};
use tvm_core::te;

const I64: DataType = DataType::I64;

fn symbols<const N: usize>(names: [&str; N]) -> [PrimExpr; N] {
    names.map(|name| PrimExpr::from(Var::index(name)))
}

/// `relu(x @ w + b)` with constant extents.
pub(crate) fn dense() -> Result<PrimFunc, IrError> {
    dense_of([7, 9, 5].map(PrimExpr::index))
}

/// `relu(x @ w + b)` with symbolic extents.
pub(crate) fn dense_symbolic() -> Result<PrimFunc, IrError> {
    dense_of(symbols(["m", "n", "k"]))
}

/// `relu(x @ w + b)` with symbolic extents that are not 0: loops are split by them.
pub(crate) fn dense_not_empty() -> Result<PrimFunc, IrError> {
    let bound = DimBound::between(1, i64::MAX).ok();
    dense_of(["m", "n", "k"].map(|name| PrimExpr::from(&Var::index(name).within(bound))))
}

fn dense_of([m, n, k]: [PrimExpr; 3]) -> Result<PrimFunc, IrError> {
    let x = te::placeholder("x", [m.clone(), k.clone()], I64);
    let w = te::placeholder("w", [k.clone(), n.clone()], I64);
    let b = te::placeholder("b", [n.clone()], I64);
    let r = te::reduce_axis("r", k);
    let y = te::compute("y", [m.clone(), n.clone()], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([i[0].clone(), r.expr()]) * w.at([r.expr(), i[1].clone()]), &[&r])
    });
    let z = te::compute("z", [m.clone(), n.clone()], &[&y, &b], |i: &[PrimExpr]| {
        y.at(i.to_vec()) + b.at([i[1].clone()])
    });
    let o = te::compute("o", [m, n], &[&z], |i: &[PrimExpr]| z.at(i.to_vec()).max(0));
    te::create_prim_func("dense", &[x, w, b], &[o])
}

/// A sum over a padded window, then a scaled transpose.
pub(crate) fn window() -> Result<PrimFunc, IrError> {
    let [h, w] = symbols(["h", "w"]);
    let x = te::placeholder("x", [h.clone(), w.clone()], I64);
    let p = te::compute("p", [&h + 2, w.clone()], &[&x], |i: &[PrimExpr]| {
        let inside = i[0].clone().greater_equal(1).and(i[0].clone().less(&h + 1));
        let at = x.at([i[0].clone() - 1, i[1].clone()]);
        PrimExpr::call(Intrinsic::IfThenElse, [inside, at, PrimExpr::index(0)], I64)
    });
    let r = te::reduce_axis("r", 3);
    let s = te::compute("s", [h.clone(), w.clone()], &[&p], |i: &[PrimExpr]| {
        te::sum(p.at([&i[0] + r.expr(), i[1].clone()]), &[&r])
    });
    let t = te::compute("t", [w, h.clone()], &[&s], |i: &[PrimExpr]| s.at([i[1].clone(), i[0].clone()]) * 3);
    te::create_prim_func("window", &[x], &[t])
}

/// Position and value of the largest element of each row, and their readers.
pub(crate) fn positions() -> Result<PrimFunc, IrError> {
    let [m, n] = symbols(["m", "n"]);
    let x = te::placeholder("x", [m.clone(), n.clone()], DataType::F32);
    let r = te::reduce_axis("r", n.clone());
    let y = te::compute_many("y", vec![m.clone()], &[&x], |i: &[PrimExpr]| {
        let largest = te::Combiner::arg_extreme(DataType::F32, true, false);
        te::reduce(largest, vec![r.expr(), x.at([i[0].clone(), r.expr()])], &[&r])
    });
    let d = te::compute("d", [m.clone(), n], &[&x, &y[1]], |i: &[PrimExpr]| {
        y[1].at([i[0].clone()]) - x.at(i.to_vec())
    });
    let z = te::compute("z", [m], &[&y[0]], |i: &[PrimExpr]| y[0].at(i.to_vec()).min(1000));
    te::create_prim_func("positions", &[x], &[d, z])
}

/// Row maximum, difference, row sum and product.
pub(crate) fn rows() -> Result<PrimFunc, IrError> {
    let [m, n] = symbols(["m", "n"]);
    let x = te::placeholder("x", [m.clone(), n.clone()], I64);
    let (r, q) = (te::reduce_axis("r", n.clone()), te::reduce_axis("q", n.clone()));
    let top = te::compute("top", [m.clone()], &[&x], |i: &[PrimExpr]| {
        te::max(x.at([i[0].clone(), r.expr()]), &[&r])
    });
    let d = te::compute("d", [m.clone(), n.clone()], &[&x, &top], |i: &[PrimExpr]| {
        x.at(i.to_vec()) - top.at([i[0].clone()])
    });
    let total = te::compute("total", [m.clone()], &[&d], |i: &[PrimExpr]| {
        te::sum(d.at([i[0].clone(), q.expr()]), &[&q])
    });
    let o =
        te::compute("o", [m, n], &[&d, &total], |i: &[PrimExpr]| d.at(i.to_vec()) * total.at([i[0].clone()]));
    te::create_prim_func("rows", &[x], &[o])
}
