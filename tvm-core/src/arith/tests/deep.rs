//! Large expressions: deep, wide, or with many shared nodes.

use tvm_runtime::DataType;

use crate::arith::{Analyzer, same};
use crate::ir::tensor_program::{BinaryOp, PrimExpr, Range, binary};
use crate::ir::{Var, structural_equal, structural_hash};
use crate::support::steps_of;

/// Adds one level around an expression, from a variable and the number of the level.
type Nest = fn(PrimExpr, &PrimExpr, i64) -> PrimExpr;

/// Ways to nest, by name.
const NESTS: [(&str, Nest); 9] = [
    ("sum", |e, x, _| e + x),
    ("sum on the right", |e, x, _| x + e),
    ("quotient", |e, x, k| (e + x).floordiv(2 + k % 3)),
    ("remainder", |e, x, k| (e * 3 + x).floormod(1000 + k)),
    ("min", |e, x, k| e.min(x + k)),
    ("min and max", |e, x, k| if k % 2 == 0 { (e - 1).max(x) } else { (e + x).min(k) }),
    ("select", |e, x, k| x.clone().less(k).select(e, x + k)),
    ("and", |e, x, k| e.and(x.clone().not_equal(k))),
    ("cast", |e, _, k| e.cast(if k % 2 == 0 { DataType::I32 } else { DataType::I64 })),
];

fn nested(depth: i64, x: &PrimExpr, nest: Nest, start: PrimExpr) -> PrimExpr {
    (0..depth).fold(start, |e, k| nest(e, x, k))
}

fn start(name: &str, x: &PrimExpr) -> PrimExpr {
    if name == "and" { x.clone().less(7) } else { x.clone() }
}

fn setting() -> (Analyzer, PrimExpr) {
    let i = Var::index("i");
    let mut analyzer = Analyzer::new();
    analyzer.bind_range(&i, &Range::from_extent(1 << 20));
    (analyzer, i.into())
}

#[test]
fn work_is_linear_in_the_depth() {
    let (analyzer, x) = setting();
    for (name, nest) in NESTS {
        let work = |depth| {
            let expr = nested(depth, &x, nest, start(name, &x));
            steps_of(|| {
                analyzer.simplify(&expr);
                analyzer.clone().const_int_bound(&expr);
                analyzer.clone().modular_set(&expr);
            })
        };
        let (short, long) = (work(200), work(800));
        // The depth is 4 times as large: quadratic work would be 16 times as much.
        assert!(long < 5 * short, "{name}: {short} steps, {long} steps");
    }
}

#[test]
fn very_deep_expressions_do_not_overflow_the_stack() {
    let (analyzer, x) = setting();
    for (name, nest) in NESTS {
        let depth = if name == "sum" { 100_000 } else { 2_000 };
        let build = || nested(depth, &x, nest, start(name, &x));
        let (a, b) = (build(), build());
        assert_eq!(structural_hash(&a), structural_hash(&b), "{name}");
        assert!(structural_equal(&a, &b).is_ok() && same(&a, &b), "{name}");
        analyzer.const_int_bound(&a);
        let simple = analyzer.simplify(&nested(500, &x, nest, start(name, &x)));
        assert_eq!(simple.dtype(), a.dtype());
        drop((a, b, simple));
    }
}

#[test]
fn shared_nodes_are_looked_at_once() {
    let (analyzer, x) = setting();
    // As a tree, this graph of 60 levels of shared nodes would have more than 2^60 nodes.
    let build = || (0..60).fold(x.clone(), |e, k| binary(BinaryOp::Max, &e + &e, &e - k));
    let (a, b) = (build(), build());
    assert!(same(&a, &b));
    analyzer.simplify(&a);
    analyzer.const_int_bound(&a);
    analyzer.modular_set(&a);
    analyzer.can_prove_equal(&a, &b);
}
