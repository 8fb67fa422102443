//! Checks of iteration maps against enumeration of all iterations.

use std::collections::HashSet;

use tvm_testing::Budget;

use super::{Rng, Values, eval};
use crate::arith::{Analyzer, IterMapLevel, detect_iter_map, inverse_affine_iter_map};
use crate::ir::Var;
use crate::ir::tensor_program::{PrimExpr, Range};

/// Every iteration of `iters` for which `predicate` holds.
fn iterations(iters: &[(Var, i64)], predicate: &PrimExpr) -> Vec<Values> {
    let mut res = vec![Values::default()];
    for (var, extent) in iters {
        let with = |values: Values| (0..*extent).map(move |value| (values.clone(), value));
        let grown = res.into_iter().flat_map(with).map(|(mut values, value)| {
            values.ints.insert(var.id(), value);
            values
        });
        res = grown.collect();
    }
    res.retain(|values| eval(predicate, values) == Some(1));
    res
}

fn ranges(iters: &[(Var, i64)]) -> Vec<(Var, Range)> {
    iters.iter().map(|(var, extent)| (var.clone(), Range::from_extent(*extent))).collect()
}

/// Runs `detect_iter_map`, and checks its claims by running all iterations. True when a map is detected.
fn detect(bindings: &[PrimExpr], iters: &[(Var, i64)], predicate: &PrimExpr, level: IterMapLevel) -> bool {
    let analyzer = Analyzer::new();
    let Ok(map) = detect_iter_map(bindings, &ranges(iters), predicate, level, &analyzer) else {
        return false;
    };
    let all = iterations(iters, predicate);
    let mut seen = HashSet::new();
    let mut columns = vec![HashSet::new(); bindings.len()];
    for values in &all {
        let row: Vec<i64> = bindings.iter().map(|binding| eval(binding, values).unwrap()).collect();
        for ((sum, value), column) in map.iter().zip(&row).zip(&mut columns) {
            assert_eq!(eval(&sum.to_expr(), values), Some(*value), "{bindings:?}");
            column.insert(*value);
        }
        if level == IterMapLevel::Bijective {
            let outputs: Vec<PrimExpr> = row.iter().map(|&value| value.into()).collect();
            for (var, value) in inverse_affine_iter_map(&map, &outputs, &analyzer) {
                assert_eq!(analyzer.simplify(&value).as_int(), Some(values.ints[&var]), "{bindings:?}");
            }
        }
        seen.insert(row);
    }
    // The number of combinations is the product of the extents, unless a loop is empty.
    let extents = map.iter().map(|sum| sum.args.first().map_or(Some(1), |split| split.extent.as_int()));
    if let Some(product) = extents.map(|it| Some(it?.max(0))).product::<Option<i64>>()
        && iters.iter().all(|(_, extent)| *extent > 0)
    {
        assert_eq!(seen.len() as i64, product, "{bindings:?} of {iters:?} where {predicate}: {map:?}");
    }
    // Values are independent: every combination occurs. In a bijection, there are as many combinations as iterations.
    let combinations: usize = columns.iter().map(HashSet::len).product();
    let shown: Vec<String> = bindings.iter().map(ToString::to_string).collect();
    assert_eq!(seen.len(), combinations, "{shown:?} of {iters:?} where {predicate}: {map:?}");
    assert!(level != IterMapLevel::Bijective || seen.len() == all.len(), "{bindings:?}");
    true
}

#[test]
fn splits_and_fusions() {
    let [i, j, k] = ["i", "j", "k"].map(Var::index);
    let e = |var: &Var| PrimExpr::from(var);
    let iters = [(i.clone(), 8), (j.clone(), 6), (k.clone(), 4)];
    let fused = &i * 6i64 + &j;
    let (always, both) = (PrimExpr::bool(true), [IterMapLevel::Bijective, IterMapLevel::Surjective]);
    let cases: Vec<(Vec<PrimExpr>, [bool; 2])> = vec![
        (vec![e(&i), e(&j), e(&k)], [true, true]),
        (vec![e(&i), e(&j)], [false, true]),
        (vec![fused.clone(), e(&k)], [true, true]),
        (vec![fused.clone().floordiv(4), fused.clone().floormod(4), e(&k)], [true, true]),
        (
            vec![fused.clone().floordiv(12), fused.clone().floordiv(3).floormod(4), fused.floormod(3), e(&k)],
            [true, true],
        ),
        (vec![e(&i).floordiv(2), e(&i).floormod(2), e(&j), &k + 3i64], [true, true]),
        (vec![e(&i).floordiv(4), e(&i).floormod(2), e(&j), e(&k)], [false, true]),
        (vec![(&i * 4i64 + &k).floordiv(8), e(&j)], [false, true]),
        (vec![e(&i), e(&i)], [false, false]),
        (vec![e(&i).floordiv(2), e(&i)], [false, false]),
        (vec![e(&i).floordiv(2), e(&i).floordiv(4)], [false, false]),
        (vec![&i + &j], [false, false]),
        (vec![e(&i).floordiv(3), e(&i).floormod(3)], [false, false]),
        (vec![e(&i).min(&j)], [false, false]),
        (vec![(&i * -1i64).floordiv(2), (&i * -1i64).floormod(2)], [false, false]),
    ];
    for (bindings, want) in cases {
        for (level, want) in both.into_iter().zip(want) {
            assert_eq!(detect(&bindings, &iters, &always, level), want, "{bindings:?} {level:?}");
        }
    }
}

#[test]
fn predicates_limit_fusions() {
    let [i, j] = ["i", "j"].map(Var::index);
    let iters = [(i.clone(), 4), (j.clone(), 8)];
    let fused = &i * 8i64 + &j;
    let level = IterMapLevel::Surjective;
    let e = |var: &Var| PrimExpr::from(var);
    assert!(detect(std::slice::from_ref(&fused), &iters, &fused.clone().less(30), level));
    assert!(detect(&[e(&i), e(&j)], &iters, &e(&i).less(3), level));
    assert!(!detect(&[e(&i), e(&j)], &iters, &fused.clone().less(30), level));
    assert!(!detect(std::slice::from_ref(&fused), &iters, &fused.clone().floormod(3).less(2), level));
    // The quotient of the limited fusion is 0 and uses no digit of it, but the limit still holds for the loops.
    let zero = fused.clone().floordiv(30);
    assert!(!detect(&[zero, e(&i), e(&j)], &iters, &fused.clone().less(30), level));
    // Nothing shows that there is an iteration.
    assert!(!detect(&[e(&i)], &iters, &e(&j).less(0), level));
    assert!(!detect(&[], &iters, &e(&j).less(3), level));
    assert!(!detect(&[e(&j).floormod(4)], &iters, &e(&j).less(0), level));
    // 29 values have 15 halves, the last of which has one value only. As written, this is not a split; the simplified
    // form does not use the limit.
    let iters = [(i, 4), (j, 30)];
    let fused = &iters[0].0 * 30i64 + &iters[1].0;
    let halves = [fused.clone().floormod(2), fused.clone().floordiv(2)];
    assert!(!detect(&halves, &iters, &fused.less(29), level));
}

#[test]
fn symbolic_extents() {
    let [i, j, n, m] = ["i", "j", "n", "m"].map(Var::index);
    let mut analyzer = Analyzer::new();
    analyzer.bind_dim(&n);
    analyzer.bind_dim(&m);
    let loops = [(i.clone(), Range::from_extent(&n)), (j.clone(), Range::from_extent(&m))];
    let fused = &i * &m + &j;
    let always = PrimExpr::bool(true);
    let level = IterMapLevel::Bijective;
    assert!(detect_iter_map(&[fused], &loops, &always, level, &analyzer).is_ok());
    assert!(detect_iter_map(&[&i * &n + &j], &loops, &always, level, &analyzer).is_err());
    let (outer, inner) = (Var::index("outer"), Var::index("inner"));
    let loops = [
        (outer.clone(), Range::from_extent((&n + 31i64).floordiv(32))),
        (inner.clone(), Range::from_extent(32)),
    ];
    let value = &outer * 32i64 + &inner;
    let tail = value.clone().less(&n);
    assert!(detect_iter_map(&[value], &loops, &tail, IterMapLevel::Surjective, &analyzer).is_ok());
}

/// A random split or fusion of the loops, or an expression that looks like one.
fn binding(rng: &mut Rng, vars: &[Var], depth: u32) -> PrimExpr {
    if depth == 0 {
        return rng.pick(vars).into();
    }
    let by = *rng.pick(&[1i64, 2, 3, 4, 5, 6, 8, 12]);
    let inner = |rng: &mut Rng| binding(rng, vars, depth - 1);
    match rng.below(8) {
        0..=2 => inner(rng) * by + inner(rng),
        3 => inner(rng).floordiv(by),
        4 => inner(rng).floormod(by),
        5 => inner(rng) * by + rng.range(-3, 3),
        6 => inner(rng) - inner(rng) * by,
        _ => inner(rng),
    }
}

/// A detected map equals its expressions, its values are independent, and a bijection has an inverse.
#[test]
fn fuzz_iter_map() {
    let (mut tried, mut found) = (0, 0);
    for seed in Budget::new("iter_map", 2_000) {
        let mut rng = Rng::new(seed);
        let vars = ["i", "j", "k", "l"].map(Var::index);
        let vars = &vars[..rng.range(1, 4) as usize];
        let iters: Vec<(Var, i64)> =
            vars.iter().map(|var| (var.clone(), *rng.pick(&[0, 1, 2, 3, 4, 5, 6, 8]))).collect();
        // Plain fusions are rare among random expressions.
        let fused = (iters.iter().skip(1))
            .fold(PrimExpr::from(&vars[0]), |sum, (var, extent)| sum * *extent + PrimExpr::from(var));
        let bindings: Vec<PrimExpr> = (0..rng.range(1, 3))
            .map(|_| match rng.below(6) {
                0 => fused.clone(),
                1 => fused.clone().floordiv(*rng.pick(&[2i64, 3, 4, 6])),
                2 => fused.clone().floormod(*rng.pick(&[2i64, 3, 4, 6])),
                _ => {
                    let depth = rng.below(4) as u32;
                    binding(&mut rng, vars, depth)
                }
            })
            .collect();
        let predicate = (0..rng.below(3)).fold(PrimExpr::bool(true), |all, _| {
            let sum = if rng.one_in(2) { fused.clone() } else { binding(&mut rng, vars, 2) };
            let limit = rng.range(-1, 30);
            all.and(if rng.one_in(4) { sum.less_equal(limit) } else { sum.less(limit) })
        });
        let level = *rng.pick(&[IterMapLevel::Bijective, IterMapLevel::Surjective]);
        tried += 1;
        found += u32::from(detect(&bindings, &iters, &predicate, level));
    }
    println!("iter_map: {found} of {tried} are maps");
    assert!(found * 20 > tried, "{found} of {tried}");
}
