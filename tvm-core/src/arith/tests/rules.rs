//! Tests of every rule of every table on instances of its left side.

use tvm_runtime::DataType;

use super::{Rng, World, eval};
use crate::arith::pattern::{Domain, Env, Rule};
use crate::arith::rewrite_simplify::{Prover, all_rules};
use crate::ir::tensor_program::{PrimExpr, wrap_int};

/// Random bindings of a pattern's variables: conditions for those that the bits of `bools` select, numbers for the
/// others.
fn env(rng: &mut Rng, world: &World, dtype: DataType, bools: u64) -> Env {
    let mut env = Env::new(dtype);
    for (k, slot) in env.exprs.iter_mut().enumerate() {
        let depth = rng.range(0, 1) as u32;
        let is_bool = bools >> k & 1 == 1;
        *slot = Some(if is_bool { world.bool(rng, depth) } else { world.int(rng, depth) });
    }
    let unit = *rng.pick(&[1, 2, 3, 4, 8]);
    for slot in &mut env.consts {
        let value = match rng.range(0, 3) {
            0 => unit,
            1 => unit * rng.range(-4, 8),
            2 => unit - 1,
            _ => rng.range(-9, 12),
        };
        *slot = Some(wrap_int(value.into(), dtype));
    }
    env
}

/// True when the operands of every operation have one type, which the operation takes.
fn well_typed(expr: &PrimExpr) -> bool {
    !crate::ir::tensor_program::any_expr(expr, &mut |it| match it {
        PrimExpr::Binary(it) => {
            let dtype = it.a.dtype();
            let arithmetic = !it.op.is_comparison() && !it.op.is_logical();
            dtype != it.b.dtype() || arithmetic && dtype.is_bool() || it.op.is_logical() && !dtype.is_bool()
        }
        PrimExpr::Not(it) => !it.value.dtype().is_bool(),
        PrimExpr::Select(it) => {
            !it.condition.dtype().is_bool() || it.true_value.dtype() != it.false_value.dtype()
        }
        _ => false,
    })
}

/// Applies `rule` to random instances of its left side until it is checked often enough; returns how often it was
/// checked.
fn check(rule: &Rule, rng: &mut Rng) -> u32 {
    let types: &[DataType] = match rule.domain {
        Domain::Exact => &[DataType::I64, DataType::I32],
        Domain::Any | Domain::Int => &[DataType::I64, DataType::U8, DataType::I32, DataType::U64],
    };
    let mut hits = 0;
    for attempt in 0..40_000u64 {
        if hits >= 24 {
            break;
        }
        let dtype = types[attempt as usize % types.len()];
        let world = World::new(rng, dtype);
        let env = env(rng, &world, dtype, attempt >> 2);
        let lhs = (rule.lhs)(&env);
        if !well_typed(&lhs) {
            continue;
        }
        let prover = Prover { analyzer: &world.analyzer, expr: &lhs };
        let Some(rhs) = (rule.apply)(&lhs, dtype, &prover) else { continue };
        assert_eq!(lhs.dtype(), rhs.dtype(), "{}: {lhs:?} => {rhs:?}", rule.name);
        for _ in 0..6 {
            let values = world.values(rng);
            let Some(want) = eval(&lhs, &values) else { continue };
            let got = eval(&rhs, &values);
            assert!(got.is_none_or(|got| got == want), "{}: {lhs} => {rhs} at {values:?}", rule.name);
            hits += 1;
        }
    }
    hits
}

#[test]
fn every_rule_keeps_values() {
    let mut rng = Rng::new(11);
    let missed: Vec<_> =
        all_rules().filter(|rule| check(rule, &mut rng) < 12).map(|rule| rule.name).collect();
    assert!(missed.is_empty(), "never applied: {missed:?}");
    assert!(all_rules().count() > 100);
}
