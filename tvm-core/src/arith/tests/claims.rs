//! What is claimed of random expressions, against their values.

use tvm_runtime::DataType;

use super::{Rng, World, eval};
use crate::arith::{DomMap, IntervalSet};
use crate::tir::PrimExpr;

const TYPES: [DataType; 6] =
    [DataType::I64, DataType::I64, DataType::I64, DataType::I32, DataType::U8, DataType::U64];

#[test]
fn simplified_expressions_have_the_same_value() {
    let mut rng = Rng::new(1);
    let (mut checked, mut smaller) = (0, 0);
    for round in 0..6_000 {
        let world = World::new(&mut rng, TYPES[round % TYPES.len()]);
        let depth = rng.range(2, 4) as u32;
        let expr =
            if rng.range(0, 2) == 0 { world.bool(&mut rng, depth) } else { world.int(&mut rng, depth) };
        let simple = world.analyzer.simplify(&expr);
        assert_eq!(simple.dtype(), expr.dtype());
        smaller += u32::from(!simple.ptr_eq(&expr));
        for _ in 0..8 {
            let values = world.values(&mut rng);
            let Some(want) = eval(&expr, &values) else { continue };
            assert_eq!(eval(&simple, &values), Some(want), "{expr:?}\n=> {simple:?}\nat {values:?}");
            checked += 1;
        }
    }
    assert!(checked > 20_000 && smaller > 3_000, "{checked} {smaller}");
}

#[test]
fn simplifying_twice_changes_nothing() {
    let mut rng = Rng::new(2);
    let (mut stable, mut total) = (0, 0);
    for _ in 0..1_500 {
        let world = World::new(&mut rng, DataType::I64);
        let simple = world.analyzer.simplify(&world.int(&mut rng, 3));
        let again = world.analyzer.simplify(&simple);
        total += 1;
        stable += u32::from(crate::arith::same(&simple, &again));
    }
    assert!(stable * 100 >= total * 97, "{stable} of {total}");
}

#[test]
fn bounds_and_remainders_hold() {
    let mut rng = Rng::new(3);
    for round in 0..6_000 {
        let world = World::new(&mut rng, TYPES[round % TYPES.len()]);
        let depth = rng.range(1, 4) as u32;
        let expr = world.int(&mut rng, depth);
        let (bound, set) = (world.analyzer.const_int_bound(&expr), world.analyzer.modular_set(&expr));
        for _ in 0..8 {
            let values = world.values(&mut rng);
            let Some(value) = eval(&expr, &values) else { continue };
            let inside = bound.contains(crate::tir::wide_int(value, expr.dtype()));
            assert!(inside, "{expr:?}: {value} is not in {bound:?}");
            assert!(set.contains(value), "{expr:?}: {value} is not in {set:?}");
        }
    }
}

#[test]
fn proofs_never_lie() {
    let mut rng = Rng::new(4);
    let (mut proved, mut refuted) = (0, 0);
    for round in 0..6_000 {
        let world = World::new(&mut rng, TYPES[round % TYPES.len()]);
        let depth = rng.range(1, 3) as u32;
        let (claim, given) = (world.bool(&mut rng, depth), world.bool(&mut rng, 2));
        let plain = world.analyzer.can_prove(&claim);
        let (under, simple) =
            world.analyzer.with_constraint(&given, |it| (it.can_prove(&claim), it.simplify(&claim)));
        let bound =
            world.analyzer.with_constraint(&given, |it| it.const_int_bound(&PrimExpr::from(&world.vars[0])));
        proved += u32::from(under);
        for _ in 0..10 {
            let values = world.values(&mut rng);
            let (Some(truth), Some(holds)) = (eval(&claim, &values), eval(&given, &values)) else { continue };
            refuted += u32::from(truth == 0);
            assert!(!plain || truth == 1, "{claim:?} at {values:?}");
            if holds == 1 {
                assert!(!under || truth == 1, "{claim:?} where {given:?} at {values:?}");
                assert_eq!(
                    eval(&simple, &values),
                    Some(truth),
                    "{claim:?} => {simple:?} where {given:?} at {values:?}"
                );
                let value = values[&world.vars[0].id()];
                let unsigned = world.vars[0].dtype() == DataType::U64;
                assert!(unsigned || bound.contains(value), "{bound:?} where {given:?} at {values:?}");
            }
        }
    }
    assert!(proved > 500 && refuted > 5_000, "{proved} {refuted}");
}

#[test]
fn interval_sets_hold() {
    let mut rng = Rng::new(5);
    let mut finite = 0;
    for _ in 0..4_000 {
        let world = World::new(&mut rng, DataType::I64);
        let depth = rng.range(1, 3) as u32;
        let expr = world.int(&mut rng, depth);
        // The first two variables range over an interval around the others, which stay symbolic.
        let mut dom = DomMap::default();
        for var in &world.vars[..2] {
            let min = PrimExpr::from(&world.vars[2]) + rng.range(-3, 3);
            let max = &min + PrimExpr::from(&world.vars[3]).max(0);
            dom.insert(var.id(), IntervalSet::new(min, max));
        }
        // What the analyzer knows of a variable in the domain does not count.
        let mut fresh = crate::arith::Analyzer::new();
        for var in &world.vars[2..] {
            fresh.bind_bound(var, world.analyzer.const_int_bound(&PrimExpr::from(var)));
        }
        let set = fresh.int_set(&expr, &dom);
        finite += u32::from(set.min.is_some() && set.max.is_some());
        for _ in 0..8 {
            let mut values = world.values(&mut rng);
            for var in &world.vars[..2] {
                let range = &dom[&var.id()];
                let end = |end: &Option<PrimExpr>| eval(end.as_ref().unwrap(), &values).unwrap();
                let (low, high) = (end(&range.min), end(&range.max));
                values.insert(var.id(), rng.range(low, high));
            }
            let Some(value) = eval(&expr, &values) else { continue };
            let end = |end: &Option<PrimExpr>| end.as_ref().and_then(|end| eval(end, &values));
            assert!(
                end(&set.min).is_none_or(|min| min <= value),
                "{expr:?}: {value} below {set:?} at {values:?}"
            );
            assert!(
                end(&set.max).is_none_or(|max| value <= max),
                "{expr:?}: {value} above {set:?} at {values:?}"
            );
        }
    }
    assert!(finite > 2_000, "{finite}");
}
