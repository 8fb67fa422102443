//! Predicates of blocks are sets of conjuncts: a primitive drops only conjuncts that are known to hold.

use super::*;
use crate::ir::Var;
use crate::tir::BlockRealize;
use crate::tir::analysis::conjuncts;

/// Runs `func` and returns its output.
fn output(func: &PrimFunc) -> Vec<i64> {
    run(func, arguments(func, &[]))
}

#[test]
fn the_init_keeps_conditions_of_outer_loops() {
    let program = dense(dim(16), dim(16), dim(16));
    let want = output(&program);
    let mut s = Schedule::new(program).unwrap();
    let y = s.block("y").unwrap();
    let [i, _, k] = s.loops(y).unwrap();
    let [outer, _] = s.split(k, [None, Some(5)]).unwrap();
    s.split(i, [Some(3), None]).unwrap();
    let conditions = conjuncts(&s.state().get_block(y.id()).unwrap().predicate);
    assert_eq!(conditions.len(), 2, "{conditions:?}");
    let init = s.decompose_reduction(y, outer).unwrap();
    let kept = conjuncts(&s.state().get_block(init.id()).unwrap().predicate);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(output(s.func()), want, "{}", s.func());
}

#[test]
fn the_init_leaves_out_a_condition_on_rows_and_reduction_together() {
    let mut s = Schedule::new(dense(dim(16), dim(16), dim(16))).unwrap();
    let y = s.block("y").unwrap();
    let [i, _, k] = s.loops(y).unwrap();
    let var = |it: LoopRV| PrimExpr::from(&s.state().get_for(it.id()).unwrap().loop_var);
    let predicate = var(i).max(var(k)).less(7);
    let realize = BlockRealize { predicate, ..(**s.state().get_block(y.id()).unwrap()).clone() };
    s.state.replace(y.sref(), realize.into()).unwrap();
    let want = output(s.func());
    s.decompose_reduction(y, k).unwrap();
    assert_eq!(output(s.func()), want, "{}", s.func());
}

#[test]
fn factors_that_cover_far_too_much_are_refused() {
    let m = PrimExpr::from(Var::index("m"));
    let program = || Schedule::new(dense(m.clone(), dim(8), dim(3))).unwrap();
    // The symbolic extent of the inner loop multiplies the index of the outer one.
    let mut s = program();
    let y = s.block("y").unwrap();
    let [i, _, _] = s.loops(y).unwrap();
    let [outer, _] = s.split(i, [Some(8), None]).unwrap();
    let err = s.split(outer, [Some(1 << 40), Some(3), Some(1 << 20)]).unwrap_err().to_string();
    assert!(err.contains("with these factors an index of block `y` may not fit an i64"), "{err}");
    // So do the factors of earlier splits: each multiplies the index by 2^12, to 2^49 after four and to 2^61 after
    // five.
    let mut s = program();
    let y = s.block("y").unwrap();
    let [_, mut j, _] = s.loops(y).unwrap();
    let steps =
        (0..8).take_while(|_| s.split(j, [Some(2), Some(1 << 12)]).map(|[j0, _]| j = j0).is_ok()).count();
    assert_eq!(steps, 4, "{}", s.func());
    // A loop of one iteration moves no index, but the predicate names its new loops.
    let mut s = Schedule::new(dense(m.clone(), dim(1), dim(3))).unwrap();
    let y = s.block("y").unwrap();
    let [_, j, _] = s.loops(y).unwrap();
    let err = s.split(j, [Some(1 << 40), Some(1 << 20), Some(7)]).unwrap_err().to_string();
    assert!(err.contains("may not fit an i64"), "{err}");
}

/// Multiples and quotients of a scalar have large bounds; a call checks the extents that they are.
#[test]
fn loops_over_extents_of_scalars_may_be_split() {
    for halvings in 0..5 {
        let h = PrimExpr::from(Var::index("h"));
        let rows = (0..halvings).fold(h * 2i64, |extent, _| (extent - 1i64).floordiv(2) + 1i64);
        let mut s = Schedule::new(dense(rows, dim(8), dim(3))).unwrap();
        let y = s.block("y").unwrap();
        let [i, _, _] = s.loops(y).unwrap();
        let split = s.split(i, [None, Some(4096)]).map(|_: [LoopRV; 2]| ());
        assert!(split.is_ok(), "{halvings} halvings: {split:?}");
    }
}

#[test]
fn indices_that_may_not_fit_are_refused() {
    let mut s = Schedule::new(dense(dim(1 << 40), dim(1 << 40), dim(3))).unwrap();
    let y = s.block("y").unwrap();
    let [i, j, _] = s.loops(y).unwrap();
    let err = s.fuse([i, j]).unwrap_err().to_string();
    assert!(err.contains("may not fit") && err.contains("help:"), "{err}");
    for (factors, fits) in [
        ([Some(1 << 40), Some(1 << 40)], false),
        ([Some(i64::MAX), Some(2)], false),
        ([None, Some(i64::MAX / 2 + 2)], false),
        ([None, Some((1 << 40) + 1)], true),
    ] {
        let res = s.clone().split(i, factors);
        assert_eq!(res.is_ok(), fits, "{factors:?}: {res:?}");
    }
    let n = PrimExpr::from(Var::index("n"));
    let mut s = Schedule::new(dense(n.clone(), n.clone(), n)).unwrap();
    let y = s.block("y").unwrap();
    let [i, j, _] = s.loops(y).unwrap();
    assert!(s.clone().split(i, [None, Some(1 << 40)]).is_err());
    // The product of dimensions is checked when the kernel is called.
    assert!(s.fuse([i, j]).is_ok());
}
