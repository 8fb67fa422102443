//! The simplifier: an expression and what it becomes have the same values, which its bounds contain.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tvm_core::arith::Analyzer;
use tvm_core::ir::Var;
use tvm_core::tir::{PrimExpr, Range, substitute_expr};

/// The expression that `bytes` spell, in postfix order; operands that are missing are 1.
fn expression(bytes: &[u8], vars: &[Var]) -> PrimExpr {
    let mut stack: Vec<PrimExpr> = Vec::new();
    for &byte in bytes.iter().take(64) {
        let argument = i64::from(byte >> 4) - 4;
        let divisor = if argument == 0 { 7 } else { argument };
        let mut pop = || stack.pop().unwrap_or_else(|| PrimExpr::index(1));
        let new = match byte & 15 {
            0..=2 => PrimExpr::from(&vars[usize::from(byte & 3) % vars.len()]),
            3 | 4 => PrimExpr::index(argument),
            5 => pop() + pop(),
            6 => pop() - pop(),
            7 => pop() * argument,
            8 => pop().floordiv(divisor),
            9 => pop().floormod(divisor),
            10 => pop().min(pop()),
            11 => pop().max(pop()),
            12 => pop().less(pop()).select(pop(), pop()),
            13 => pop().equal(pop()).select(pop(), pop()),
            14 => pop() + argument,
            _ => pop() * pop().floormod(divisor),
        };
        stack.push(new);
    }
    stack.pop().unwrap_or_else(|| PrimExpr::index(0))
}

fuzz_target!(|bytes: &[u8]| {
    let vars = ["i", "j", "k"].map(Var::index);
    let mut analyzer = Analyzer::new();
    vars.iter().for_each(|var| analyzer.bind_range(var, &Range::from_extent(9)));
    let expr = expression(bytes, &vars);
    let (simple, bound) = (analyzer.simplify(&expr), analyzer.const_int_bound(&expr));
    for point in 0..12i64 {
        let values = vars.iter().enumerate();
        let values =
            values.map(|(n, var)| (var.id(), PrimExpr::index((point * (2 * n as i64 + 5) + n as i64) % 9)));
        let values = values.collect();
        let value = |expr: &PrimExpr| substitute_expr(expr, &values).as_int();
        let want = value(&expr);
        assert_eq!(value(&simple), want, "{expr} => {simple}");
        assert!(want.is_none_or(|it| bound.contains(it)), "{want:?} is not in {bound:?}: {expr}");
    }
});
