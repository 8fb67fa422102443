//! Many primitives on one loop, and primitives on many blocks.

use super::*;
use crate::ir::Var;

#[test]
fn a_thousand_splits_of_one_loop() {
    let n = PrimExpr::from(Var::index("n"));
    type Factor = fn(usize) -> i64;
    let cases: [(&str, usize, PrimExpr, Factor); 4] = [
        ("mostly by 1", 1_000, dim(1 << 20), |i| if i % 100 == 0 { 2 } else { 1 }),
        ("by 2", 1_000, dim(1 << 20), |_| 2),
        ("not dividing", 1_000, dim(1_000_003), |i| 2 + (i % 2) as i64),
        ("symbolic", 500, n, |i| if i % 200 == 0 { 3 } else { 1 }),
    ];
    for (name, count, extent, factor) in cases {
        let mut s = Schedule::new(dense(extent, dim(4), dim(4))).unwrap();
        let y = s.block("y").unwrap();
        let [mut outer, ..] = s.loops::<3>(y).unwrap();
        for i in 0..count {
            [outer, _] = s.split(outer, [None, Some(factor(i))]).unwrap();
        }
        assert_eq!(s.get_loops(y).unwrap().len(), 3 + count, "{name}");
        assert!(s.state().verify(), "{name}");
    }
}

/// `count` element-wise stages one after the other.
fn stages(count: usize) -> PrimFunc {
    let x = te::placeholder("x", [dim(8), dim(6)], I64);
    let y = (0..count).fold(x.clone(), |y, i| {
        te::compute(&format!("y{i}"), y.shape().to_vec(), &[&y], |at| y.at(at.to_vec()) + i as i64)
    });
    te::create_prim_func("stages", &[x], &[y]).unwrap()
}

#[test]
fn primitives_on_two_hundred_blocks() {
    let count = 200;
    let program = stages(count);
    let want = run(&program, arguments(&program, &[]));
    type Step = fn(&mut Schedule, BlockRV);
    let steps: [(&str, Step); 8] = [
        ("split", |s, block| {
            let [i, _] = s.loops(block).unwrap();
            s.split(i, [None, Some(3)]).unwrap();
        }),
        ("fuse", |s, block| {
            let loops = s.loops::<2>(block).unwrap();
            s.fuse(loops).unwrap();
        }),
        ("reorder", |s, block| {
            let [i, j] = s.loops(block).unwrap();
            s.reorder([j, i]).unwrap();
        }),
        ("parallel", |s, block| {
            let [i, _] = s.loops(block).unwrap();
            s.parallel(i).unwrap();
        }),
        ("vectorize", |s, block| {
            let [_, j] = s.loops(block).unwrap();
            s.vectorize(j).unwrap();
        }),
        ("unroll", |s, block| {
            let [i, _] = s.loops(block).unwrap();
            s.unroll(i).unwrap();
        }),
        ("annotate", |s, block| s.annotate(block, "key", true).unwrap()),
        ("compute_inline", |s, block| {
            // The last block writes the output: inlining it is refused.
            let _ = s.compute_inline(block);
        }),
    ];
    for (name, step) in steps {
        let mut s = Schedule::new(program.clone()).unwrap();
        for i in 0..count {
            let block = s.block(&format!("y{i}")).unwrap();
            step(&mut s, block);
        }
        assert!(s.state().verify(), "{name}");
        assert_eq!(run(s.func(), arguments(s.func(), &[])), want, "{name}");
    }
}

#[test]
fn loops_of_one_name_are_told_apart() {
    let mut s = Schedule::new(small_dense()).unwrap();
    let y = s.block("y").unwrap();
    let [i, ..] = s.loops::<3>(y).unwrap();
    let [outer, _] = s.split(i, [None, Some(4)]).unwrap();
    let nest = s.outline();
    for line in ["for i0_0 in 0..2", "for i0 in 0..7", "for i0#2 in 0..7", "if i0_0 * 4 + i0_1 < 7"] {
        assert!(nest.contains(line), "{line} is missing in\n{nest}");
    }
    let z = s.block("z").unwrap();
    let [other, _] = s.loops(z).unwrap();
    let err = s.fuse([outer, other]).unwrap_err().to_string();
    assert!(err.contains("loop `i0`"), "{err}");
}
