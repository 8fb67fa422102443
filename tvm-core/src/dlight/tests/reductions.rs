//! Products without an epilogue, positions of extremes, and reductions over several axes.

use super::*;

/// Rows of batches that are multiplied with one matrix, without anything after the product.
#[test]
fn rows_of_batches_without_an_epilogue_are_tiled() {
    let symbols = ["b", "s"].map(|name| PrimExpr::from(Var::index(name)));
    for [batch, rows] in [[2, 64].map(PrimExpr::index), [8, 63].map(PrimExpr::index), symbols] {
        let x = input("x", &[batch.clone(), rows.clone(), 100.into()]);
        let w = input("w", &[100, 77].map(PrimExpr::index));
        let y = topi::matmul(&x, &w, &[batch, rows, 77.into()], DataType::F32);
        let (scheduled, applied) =
            schedule(&create_prim_func("f", &[x, w], &[y]).unwrap(), &MACHINE).unwrap();
        let rules: Vec<(&str, &str)> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
        assert_eq!(rules, [("matmul", "contraction")], "{scheduled}");
    }
}

/// The position of an extreme is found in two sweeps if nothing else uses its value.
#[test]
fn positions_of_extremes_take_two_sweeps() {
    let x = || input("x", &[16, 40, 50].map(PrimExpr::index));
    for (axis, want) in [
        (1, [("y_value", "contraction"), ("y", "contraction")].as_slice()),
        (2, [("y_value", "rows")].as_slice()),
    ] {
        let x = x();
        let y = topi::arg_extreme("y", &x, &[axis], false, true, false);
        let (scheduled, applied) = schedule(&create_prim_func("f", &[x], &[y]).unwrap(), &MACHINE).unwrap();
        let rules: Vec<(&str, &str)> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
        assert_eq!(rules, want, "{scheduled}");
    }
    // The value is a result as well.
    let x = x();
    let k = te::reduce_axis("k", 50);
    let pair = te::compute_many("y", [16, 40].map(PrimExpr::index), &[&x], |i: &[PrimExpr]| {
        let element = x.at([i[0].clone(), i[1].clone(), k.expr()]);
        te::reduce(te::Combiner::arg_extreme(DataType::F32, true, false), vec![k.expr(), element], &[&k])
    });
    let (scheduled, applied) = schedule(&create_prim_func("f", &[x], &pair).unwrap(), &MACHINE).unwrap();
    assert_eq!(applied.iter().map(|it| &*it.block).collect::<Vec<_>>(), ["y"], "{scheduled}");
}

/// Axes that are reduced together and lie next to each other are one row, whose terms fill lanes.
#[test]
fn neighbouring_axes_are_reduced_as_one() {
    for (axes, is_row) in [(&[2usize, 3][..], true), (&[1, 2, 3], true), (&[3], false), (&[1, 3], false)] {
        let x = input("x", &[8, 16, 14, 14].map(PrimExpr::index));
        let y = topi::reduce_axes("y", &x, axes, true, |it| it, te::max);
        let (scheduled, _) = schedule(&create_prim_func("f", &[x], &[y]).unwrap(), &MACHINE).unwrap();
        let extent: i64 = axes.iter().map(|&axis| [8, 16, 14, 14][axis]).product();
        let text = scheduled.to_string();
        assert_eq!(text.contains("k0_k1") && text.contains(&format!("in 0..{extent}")), is_row, "{text}");
    }
}
