//! Checks what the analyzer claims about random expressions against their values.

use tvm_testing::{Budget, Rng};

use super::reference::as_number;
use super::{Values, World, eval};
use crate::arith::{Analyzer, ConstIntBound, DomMap, IntervalSet, ModularSet, detect_linear_equation, same};
use crate::ir::tensor_program::PrimExpr;

/// Points per expression.
const POINTS: usize = 24;

/// What an analyzer claims about one expression.
struct Claims {
    expr: PrimExpr,
    simple: PrimExpr,
    bound: ConstIntBound,
    set: ModularSet,
    proved: bool,
    refuted: bool,
}

impl Claims {
    fn of(analyzer: &Analyzer, expr: &PrimExpr) -> Claims {
        let simple = analyzer.simplify(expr);
        assert_eq!(simple.dtype(), expr.dtype(), "{expr} => {simple}");
        let truth = expr.dtype().is_bool();
        Claims {
            expr: expr.clone(),
            bound: analyzer.const_int_bound(expr),
            set: analyzer.modular_set(expr),
            proved: truth && analyzer.can_prove(expr),
            refuted: truth && analyzer.can_prove(&!expr.clone()),
            simple,
        }
    }

    /// Checks all claims at one point; returns 1, or 0 if the expression has no value there.
    fn check(&self, values: &Values, given: &str) -> u64 {
        let Claims { expr, simple, bound, set, .. } = self;
        let Some(want) = eval(expr, values) else { return 0 };
        let number = as_number(want.into(), expr.dtype());
        let place = || format!("of {expr}\n{given} at {values:?}");
        // The simplified expression may overflow in index arithmetic where the original does not, and still be right.
        if let Some(got) = eval(simple, values) {
            assert_eq!(got, want, "{simple} {}", place());
        }
        assert!(bound.contains(number), "{number} is not in {bound:?} {}", place());
        assert!(set.contains(want), "{want} is not in {set:?} {}", place());
        assert!(!self.proved || want == 1, "proved {}", place());
        assert!(!self.refuted || want == 0, "refuted {}", place());
        1
    }
}

#[test]
fn fuzz_expressions() {
    let (mut expressions, mut samples, mut decided, mut smaller) = (0u64, 0, 0, 0);
    for seed in Budget::new("expressions", 1_500) {
        let mut rng = Rng::new(seed);
        let world = World::any(&mut rng);
        let points: Vec<Values> = (0..POINTS).map(|_| world.values(&mut rng)).collect();
        let given = world.bool(&mut rng, 2);
        let mut under = world.analyzer.clone();
        under.enter_constraint(&given);
        let holds = |values: &&Values| eval(&given, values) == Some(1);
        for truth in [false, true] {
            let depth = rng.range(1, 4) as u32;
            let expr = if truth { world.bool(&mut rng, depth) } else { world.int(&mut rng, depth) };
            let claims = Claims::of(&world.analyzer, &expr);
            samples += points.iter().map(|values| claims.check(values, "")).sum::<u64>();
            decided += u64::from(claims.proved || claims.refuted);
            smaller += u64::from(!same(&claims.simple, &expr));
            let claims = Claims::of(&under, &expr);
            let text = format!("where {given}");
            samples += points.iter().filter(holds).map(|values| claims.check(values, &text)).sum::<u64>();
            expressions += 2;
        }
    }
    println!("{expressions} expressions, {samples} samples, {decided} decided, {smaller} simplified");
    assert!(samples > 4 * expressions && decided * 20 > expressions && smaller * 5 > expressions);
}

#[test]
fn fuzz_sets() {
    let (mut sets, mut samples, mut bounded) = (0u64, 0u64, 0u64);
    for seed in Budget::new("sets", 800) {
        let mut rng = Rng::new(seed);
        let world = World::any(&mut rng);
        let depth = rng.range(1, 3) as u32;
        let expr = world.int(&mut rng, depth);
        // The first two variables range between two ends, constants or the third variable. The others stay symbolic.
        let mut dom = DomMap::default();
        for var in &world.vars[..2] {
            let ends = [0, 1].map(|_| {
                if rng.one_in(2) { world.constant(&mut rng) } else { PrimExpr::from(&world.vars[2]) }
            });
            let [a, b] = ends;
            dom.insert(var.id(), IntervalSet::new(a.clone().min(&b), a.max(b)));
        }
        let set = world.analyzer.int_set(&expr, &dom);
        let linear = detect_linear_equation(&expr, &world.vars[..2], &world.analyzer);
        sets += 1;
        bounded += u64::from(set.min.is_some() || set.max.is_some());
        for _ in 0..POINTS {
            let values = world.values(&mut rng);
            let number = |expr: &PrimExpr, values: &Values| {
                eval(expr, values).map(|it| as_number(it.into(), expr.dtype()))
            };
            if let (Some(equation), Some(want)) = (&linear, eval(&expr, &values)) {
                let terms = world.vars.iter().zip(&equation.coefficients).map(|(var, c)| c * var);
                let sum = terms.fold(equation.base.clone(), |sum, term| sum + term);
                assert!(eval(&sum, &values).is_none_or(|got| got == want), "{sum} of {expr} at {values:?}");
            }
            let end = |end: &Option<PrimExpr>| end.as_ref().and_then(|end| number(end, &values));
            let inside = world.vars[..2].iter().all(|var| {
                let (range, value) = (&dom[&var.id()], number(&var.into(), &values));
                end(&range.min) <= value && value <= end(&range.max)
            });
            let Some(value) = number(&expr, &values).filter(|_| inside) else { continue };
            assert!(
                end(&set.min).is_none_or(|min| min <= value),
                "{value} below {set:?} of {expr} at {values:?}"
            );
            assert!(
                end(&set.max).is_none_or(|max| value <= max),
                "{value} above {set:?} of {expr} at {values:?}"
            );
            samples += 1;
        }
    }
    println!("{sets} sets, {bounded} bounded, {samples} samples");
    assert!(bounded * 3 > sets && samples * 3 > sets);
}

#[test]
fn simplifying_twice_changes_nothing() {
    let mut rng = Rng::new(2);
    let (mut stable, mut total) = (0, 0);
    for _ in 0..1_500 {
        let world = World::any(&mut rng);
        let simple = world.analyzer.simplify(&world.int(&mut rng, 3));
        let again = world.analyzer.simplify(&simple);
        total += 1;
        stable += u32::from(same(&simple, &again));
    }
    assert!(stable * 100 >= total * 97, "{stable} of {total}");
}
