//! Simplifications that schedules and lowering rely on.

use tvm_runtime::DataType;

use crate::arith::{Analyzer, ModularSet, same};
use crate::ir::Var;
use crate::ir::tensor_program::{PrimExpr, Range};

/// `i < 16`, `j < 8`, `k < 4`, `x < n`, `y < m`, with dimensions `n` and `m`.
fn setting() -> (Analyzer, [Var; 7]) {
    let vars = ["i", "j", "k", "x", "y", "n", "m"].map(Var::index);
    let mut analyzer = Analyzer::new();
    let [i, j, k, x, y, n, m] = &vars;
    analyzer.bind_dim(n);
    analyzer.bind_dim(m);
    for (var, extent) in
        [(i, 16.into()), (j, 8.into()), (k, 4.into()), (x, PrimExpr::from(n)), (y, PrimExpr::from(m))]
    {
        analyzer.bind_range(var, &Range::from_extent(extent));
    }
    (analyzer, vars)
}

#[test]
fn index_arithmetic() {
    let (analyzer, [i, j, k, x, y, n, m]) = setting();
    let e = |var: &Var| PrimExpr::from(var);
    let fused = &i * 8i64 + &j;
    let flat = &x * &m + &y;
    let deep = (&i * 8i64 + &j) * 4 + &k;
    let cases: Vec<(PrimExpr, PrimExpr)> = vec![
        (&i * 4i64 + &i * -4i64 + &j, e(&j)),
        (fused.clone().floordiv(8), e(&i)),
        (fused.clone().floormod(8), e(&j)),
        (fused.clone().floordiv(8) * 8 + fused.clone().floormod(8), fused.clone()),
        (e(&i).floordiv(4) * 4 + e(&i).floormod(4), e(&i)),
        (e(&x).floordiv(&n) * &n + e(&x).floormod(&n), e(&x)),
        (e(&i).floordiv(8) * 8 + e(&i).floordiv(2).floormod(4) * 2 + e(&i).floormod(2), e(&i)),
        (flat.clone().floordiv(&m), e(&x)),
        (flat.clone().floormod(&m), e(&y)),
        (deep.clone().floordiv(32), e(&i)),
        (deep.clone().floordiv(4).floormod(8), e(&j)),
        (deep.clone().floormod(32), &j * 4i64 + &k),
        ((&i * 8i64 + &j + 16).floordiv(8), &i + 2i64),
        ((&i * 12i64 + 8).floordiv(8), (&i * 3i64 + 2).floordiv(2)),
        ((&x * &n * 4i64).floordiv(&n * 2i64), &x * 2i64),
        (e(&i).min(&i + 1i64), e(&i)),
        (e(&j).max(8), PrimExpr::index(8)),
        (e(&i).min(16), e(&i)),
        ((&i * 8i64).min(&j * 8i64), e(&i).min(&j) * 8),
        (e(&i).floordiv(4).floordiv(2), e(&i).floordiv(8)),
        (e(&i).floormod(8).floormod(4), e(&i).floormod(4)),
        (e(&i).floormod(16), e(&i)),
        ((&n * 4i64).max(e(&n) * 4), &n * 4i64),
        (e(&i) / 4, e(&i).floordiv(4)),
        (e(&i) % 4, e(&i).floormod(4)),
        (&x - e(&x).min(&y), (&x - e(&y)).max(0)),
        (e(&i).less(3).select(e(&i).min(3), e(&j)), e(&i).less(3).select(e(&i), e(&j))),
    ];
    for (expr, want) in cases {
        let got = analyzer.simplify(&expr);
        assert!(same(&got, &analyzer.simplify(&want)), "{expr:?}\n=> {got:?}\nnot {want:?}");
        assert!(analyzer.can_prove_equal(&expr, &want), "{expr:?} == {want:?}");
    }
}

#[test]
fn conditions() {
    let (analyzer, [i, j, _, x, y, n, m]) = setting();
    let e = |var: &Var| PrimExpr::from(var);
    let flat = &x * &m + &y;
    let ceil = (&n + 31i64).floordiv(32);
    let truths = vec![
        e(&i).less(16),
        (&i * 8i64 + &j).less(128),
        flat.clone().less(&n * &m),
        flat.greater_equal(0),
        e(&x).less(&n),
        (&x + 1i64).less_equal(&n),
        e(&n).greater_equal(0),
        (&i * 4i64 + 1).not_equal(&j * 2i64),
        e(&x).min(&y).less(&n),
        (ceil.clone() * 32).greater_equal(&n),
        (ceil * 32).less(&n + 32i64),
        e(&i).floormod(3).less(3),
        e(&x).min(&n).less(&n + 1i64),
    ];
    for truth in truths {
        assert!(analyzer.can_prove(&truth), "{truth:?} => {:?}", analyzer.simplify(&truth));
        assert!(!analyzer.can_prove(&!truth.clone()), "!{truth:?}");
    }
    for unknown in [e(&i).less(15), (&i * 8i64 + &j).less(127), e(&x).less(&m), e(&n).greater(0)] {
        assert!(!analyzer.can_prove(&unknown) && !analyzer.can_prove(&!unknown.clone()), "{unknown:?}");
    }
}

/// Axes of which one extent is symbolic are fused, and the loop is split.
#[test]
fn rows_of_flat_indices() {
    let (mut analyzer, [rows, strip, lane]) = (Analyzer::new(), ["rows", "strip", "lane"].map(Var::index));
    analyzer.bind_range(&rows, &Range::from_extent(1i64 << 20));
    analyzer.bind_range(&strip, &Range::from_extent(1i64 << 20));
    analyzer.bind_range(&lane, &Range::from_extent(4096i64));
    let at = &strip * 4096i64 + &lane;
    let row = &strip * 32i64 + PrimExpr::from(&lane).floordiv(128);
    analyzer.with_constraint(&at.clone().less(&rows * 128i64), |known| {
        assert!(known.can_prove(&row.clone().less(&rows)));
        assert!(known.can_prove(&(&rows - 1i64 - &row).greater_equal(0)));
        assert!(!known.can_prove(&row.clone().less(&rows - 1i64)));
    });
    analyzer.with_constraint(&at.greater_equal(&rows * 128i64), |known| {
        assert!(known.can_prove(&row.clone().greater_equal(&rows)));
        assert!(!known.can_prove(&row.greater(&rows)));
    });
}

/// Fused loops of symbolic extents, split into parts: where there is a part, no extent is 0.
#[test]
fn rows_of_parts() {
    let [batch, rows, strip, other, lane] = ["batch", "rows", "strip", "other", "lane"].map(Var::index);
    let mut analyzer = Analyzer::new();
    for dim in [&batch, &rows] {
        analyzer.bind_range(dim, &Range::from_extent(1i64 << 20));
    }
    let all = &batch * &rows;
    analyzer.bind_range(&lane, &Range::from_extent(8i64));
    analyzer.bind_range(&strip, &Range::from_extent((all.clone() + 7i64).floordiv(8)));
    // There may be such a part without rows.
    analyzer.bind_range(&other, &Range::from_extent((all + 8i64).floordiv(8)));
    let joined = |strip: &Var| {
        let at = strip * 8i64 + &lane;
        (at.clone().floordiv(&rows) * &rows * 5i64 + at.clone().floormod(&rows) * 5i64, at * 5i64)
    };
    let (sum, at) = joined(&strip);
    assert!(analyzer.can_prove_equal(&sum, &at), "{}", analyzer.simplify(&sum));
    let (sum, at) = joined(&other);
    assert!(!analyzer.can_prove_equal(&sum, &at), "{}", analyzer.simplify(&sum));
}

#[test]
fn what_wraps_or_rounds_is_left_alone() {
    let analyzer = Analyzer::new();
    let [a, b] = ["a", "b"].map(|name| Var::prim(name, DataType::U8));
    let wraps = (&a + 1i64).less(&b + 1i64);
    assert!(matches!(analyzer.simplify(&wraps), PrimExpr::Binary(it) if matches!(it.a, PrimExpr::Binary(_))));
    let x = Var::prim("x", DataType::F32);
    let zero = PrimExpr::float(0.0, DataType::F32);
    for expr in [&x - &x, &x * zero.clone(), &x + zero] {
        assert!(same(&analyzer.simplify(&expr), &expr), "{expr:?}");
    }
    let nan = PrimExpr::from(&x).less(&x).or(PrimExpr::from(&x).greater_equal(&x));
    assert!(!analyzer.can_prove(&nan));
    let one = PrimExpr::float(1.0, DataType::F32);
    assert!(same(&analyzer.simplify(&(&x * one)), &PrimExpr::from(&x)));
}

#[test]
fn dims_with_a_remainder() {
    let mut analyzer = Analyzer::new();
    let n = Var::index("n");
    analyzer.bind_dim(&n);
    analyzer.bind_modular(&n, ModularSet::new(8, 0));
    assert!(analyzer.can_prove_equal(&(PrimExpr::from(&n).floordiv(8) * 8), &PrimExpr::from(&n)));
    assert!(analyzer.can_prove_equal(&((&n + 7i64).floordiv(8) * 8), &PrimExpr::from(&n)));
    assert!(analyzer.can_prove_equal(&PrimExpr::from(&n).floormod(8), &PrimExpr::index(0)));
    let given = (&n + 0i64).floormod(16).equal(0);
    assert!(analyzer.with_constraint(&given, |it| {
        it.can_prove_equal(&PrimExpr::from(&n).floormod(16), &PrimExpr::index(0))
    }));
}

#[test]
fn large_sums_are_quick_and_shallow() {
    let analyzer = Analyzer::new();
    let vars: Vec<Var> = (0..100).map(|i| Var::index(format!("v{i}"))).collect();
    let mut sum = PrimExpr::index(0);
    for k in 0..10_000usize {
        let term = PrimExpr::from(&vars[k % 100]).floordiv(3) * (k as i64 % 7 - 3);
        sum = if k % 2 == 0 { sum + term } else { term + sum };
    }
    let simple = analyzer.simplify(&sum);
    assert!(analyzer.can_prove_equal(&sum, &simple));
    analyzer.const_int_bound(&sum);
    // As a tree, this graph of 60 shared additions would have 2^60 nodes.
    let mut shared = PrimExpr::from(&vars[0]).floordiv(5);
    for var in &vars[..60] {
        shared = (&shared + &shared + var).max(&shared - 1i64);
    }
    analyzer.simplify(&shared);
    analyzer.const_int_bound(&shared);
    analyzer.modular_set(&shared);
}

/// The flat index of an element of a tensor of 130 columns, whose rows and columns come from a split loop.
/// The pieces of `n * 32 * (h + 2)` iterations, also where the products are multiplied out.
#[test]
fn sums_are_divided_by_sums() {
    let mut analyzer = Analyzer::new();
    let (n, h) = (Var::index("n"), Var::index("h"));
    [&n, &h].into_iter().for_each(|dim| analyzer.bind_dim(dim));
    let rows = PrimExpr::from(&h) + 2i64;
    let out = PrimExpr::from(&h) * &n * 32i64 + PrimExpr::from(&n) * 64i64;
    let cases = [
        (out.clone().floordiv(&rows), PrimExpr::from(&n) * 32i64),
        (out.clone().floordiv(rows.clone() * 32i64), PrimExpr::from(&n)),
        (out.clone().floormod(rows.clone() * 16i64), PrimExpr::index(0)),
        ((&rows * 32i64).floordiv(&rows), PrimExpr::index(32)),
        ((&rows * 32i64 + 1i64).floormod(&rows), PrimExpr::index(1)),
    ];
    for (expr, want) in cases {
        assert!(analyzer.can_prove_equal(&expr, &want), "{expr} == {want}");
    }
    assert!(!analyzer.can_prove_equal(&(out + 1i64).floormod(rows * 16i64), &PrimExpr::index(0)));
}

#[test]
fn quotients_and_remainders_of_sums_recombine() {
    let (outer, inner) = (Var::index("outer"), Var::index("inner"));
    for factor in [4096, 64, 130, 13, 7] {
        let mut analyzer = Analyzer::new();
        analyzer.bind_range(&outer, &Range::from_extent(PrimExpr::index(3)));
        analyzer.bind_range(&inner, &Range::from_extent(PrimExpr::index(factor)));
        let flat = PrimExpr::from(&outer) * factor + &inner;
        let both = flat.clone().floordiv(130) * 130 + flat.clone().floormod(130);
        let (got, want) = (analyzer.simplify(&both), analyzer.simplify(&flat));
        assert!(same(&got, &want), "{factor}: {got}");
    }
}

#[test]
fn multiples_of_conditions_are_subtracted() {
    let vars = ["part", "column", "n"].map(Var::index);
    let mut analyzer = Analyzer::new();
    vars.iter().for_each(|var| analyzer.bind_range(var, &Range { min: 0.into(), extent: 1_000.into() }));
    let [part, column, n] = vars.each_ref().map(PrimExpr::from);
    let given = (&part * 8i64 + &column).less(&n);
    let scaled = |by: i64| (&part * (8 * by) + &column * by).less(&n * by - (by - 1));
    for by in [1, 2, 4, 7] {
        assert!(analyzer.with_constraint(&given, |it| it.can_prove(&scaled(by))), "{by}");
    }
    // A negative multiple of a condition does not hold.
    let reversed = (&n * 2i64).less(&part * 16i64 + &column * 2i64);
    assert!(!analyzer.with_constraint(&given, |it| it.can_prove(&reversed)));
}
