//! `loop_partition`: what it gives, and loops and points that it refuses.

use super::*;
use crate::ir::Var;
use crate::tir::{BlockRealize, ThreadTag};

type Change = fn(&mut Schedule) -> Result<()>;

fn symbolic() -> PrimFunc {
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    dense(m, n, k)
}

#[test]
fn the_parts_cover_the_range() {
    let mut sch = Schedule::new(symbolic()).unwrap();
    let z = sch.block("z").unwrap();
    let [i, _] = sch.loops(z).unwrap();
    let [first, _, last] = sch.loop_partition(i, &[2, 5]).unwrap();
    assert_eq!(sch.loops::<2>(z).unwrap()[0].id(), first.id());
    sch.parallel(last).unwrap();
    expect_test::expect![[r##"
        #[prim_func]
        fn dense(x: &Tensor<i64, m, k>, w: &Tensor<i64, k, n>, b: &Tensor<i64, n>, o: &mut Tensor<i64, m, n>) {
            let mut y = alloc::<i64>([m, n]);
            let mut z = alloc::<i64>([m, n]);
            for [i0, i1, r] in grid([m, n, k]) {
                block("y", [S(i0), S(i1), R(r)], |[v_i0, v_i1, v_r]| {
                    init(|| y[[v_i0, v_i1]] = 0);
                    y[[v_i0, v_i1]] += x[[v_i0, v_r]] * w[[v_r, v_i1]];
                });
            }
            for [i0_0, i1] in grid([min(m, 2), n]) {
                block("z", [S(i0_0).within(0..m), S(i1)], |[v_i0, v_i1]| {
                    z[[v_i0, v_i1]] = y[[v_i0, v_i1]] + b[[v_i1]];
                });
            }
            for [i0_1, i1] in grid([min(m, 5) - 2, n]) {
                block("z_1", [S(i0_1 + 2).within(0..m), S(i1)], |[v_i0, v_i1]| {
                    z[[v_i0, v_i1]] = y[[v_i0, v_i1]] + b[[v_i1]];
                });
            }
            #[parallel]
            for i0_2 in 0..m - 5 {
                for i1 in 0..n {
                    block("z_2", [S(i0_2 + 5).within(0..m), S(i1)], |[v_i0, v_i1]| {
                        z[[v_i0, v_i1]] = y[[v_i0, v_i1]] + b[[v_i1]];
                    });
                }
            }
            for [i0, i1] in grid([m, n]) {
                block("o", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    o[[v_i0, v_i1]] = max(z[[v_i0, v_i1]], 0);
                });
            }
        }"##]].assert_eq(&sch.func().to_string());
    let trace = sch.trace().to_string();
    assert!(trace.contains("let [v3, v4, v5] = s.loop_partition(v1, &[2, 5])?;\n"), "{trace}");
    let fixed = stencil(dim(8), dim(6));
    let mut sch = Schedule::new(fixed).unwrap();
    let t = sch.block("t").unwrap();
    let [_, j] = sch.loops(t).unwrap();
    let parts = sch.loop_partition_n(j, &[1, 7]).unwrap();
    let extents = parts.iter().map(|it| sch.state().get_for(it.id()).unwrap().extent.as_int());
    assert_eq!(extents.collect::<Vec<_>>(), [Some(1), Some(6), Some(1)]);
}

#[test]
fn results_stay() {
    let changes: [Change; 7] = [
        |s| {
            let y = s.block("y")?;
            let [i, _, _] = s.loops(y)?;
            s.loop_partition_n(i, &[1, 2]).map(drop)
        },
        |s| {
            let y = s.block("y")?;
            let [_, j, k] = s.loops(y)?;
            s.reorder([k, j])?;
            s.loop_partition_n(j, &[2]).map(drop)
        },
        |s| {
            let y = s.block("y")?;
            let [i, _, k] = s.loops(y)?;
            s.decompose_reduction(y, i)?;
            s.loop_partition_n(k, &[1, 3]).map(drop)
        },
        |s| {
            let z = s.block("z")?;
            let [i, j] = s.loops(z)?;
            let fused = s.fuse([i, j])?;
            let [_, rest] = s.loop_partition(fused, &[4])?;
            s.parallel(rest)
        },
        |s| {
            let y = s.block("y")?;
            let [i, _, _] = s.loops(y)?;
            let [outer, _] = s.split(i, [None, Some(4)])?;
            s.loop_partition_n(outer, &[1]).map(drop)
        },
        |s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            let [i, _] = s.loops(z)?;
            s.compute_at(y, i)?;
            let [_, rest] = s.loop_partition(i, &[2])?;
            s.loop_partition_n(rest, &[1]).map(drop)
        },
        |s| {
            let o = s.block("o")?;
            let [i, j] = s.loops(o)?;
            s.parallel(i)?;
            s.loop_partition_n(j, &[3])?;
            s.loop_partition_n(i, &[3]).map(drop)
        },
    ];
    for program in [symbolic(), small_dense()] {
        for change in changes {
            let mut sch = Schedule::new(program.clone()).unwrap();
            change(&mut sch).unwrap_or_else(|err| panic!("{err}"));
            well_formed(sch.func()).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
            assert!(sch.state().verify());
            let names: Vec<_> = sch.state().blocks().iter().map(|it| it.block.name.clone()).collect();
            assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)), "{names:?}");
            for dims in [[7, 5, 9], [1, 1, 1], [2, 0, 3], [0, 3, 2], [3, 4, 0]] {
                let values = |func: &PrimFunc| run(func, arguments(func, &dims));
                assert_eq!(values(sch.func()), values(&program), "{dims:?}\n{}", sch.func());
            }
            let mut again = Schedule::new(program.clone()).unwrap();
            Trace::from_json(&sch.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
            structural_equal(sch.func(), again.func()).unwrap();
        }
    }
}

#[test]
fn conditions_that_hold_in_a_part_are_gone() {
    let mut sch = Schedule::new(dense(dim(17), dim(5), dim(3))).unwrap();
    let z = sch.block("z").unwrap();
    let [i, _] = sch.loops(z).unwrap();
    let [outer, _] = sch.split(i, [None, Some(4)]).unwrap();
    sch.loop_partition_n(outer, &[4]).unwrap();
    let rest = sch.block("z_1").unwrap();
    let predicate = |block: BlockRV| sch.state().get_block(block.id()).unwrap().predicate.clone();
    assert!(predicate(z).is_const(1), "{}", sch.func());
    assert!(!predicate(rest).is_const(1), "{}", sch.func());
}

#[test]
fn refusals_name_the_reason() {
    let cases: [(Change, &str); 8] = [
        (|s| with_points(s, &[]), "expected at least one point"),
        (|s| with_points(s, &[0]), "must be positive and ascending"),
        (|s| with_points(s, &[i64::MIN, 2]), "must be positive and ascending"),
        (|s| with_points(s, &[2, 2]), "must be positive and ascending"),
        (|s| with_points(s, &[2, 7]), "point 7 is not inside the loop"),
        (|s| with_points(s, &[i64::MAX]), "is not inside the loop"),
        (
            |s| {
                let y = s.block("y")?;
                let [_, _, k] = s.loops(y)?;
                s.loop_partition_n(k, &[1]).map(drop)
            },
            "the init of block `y` runs before the loop",
        ),
        (
            |s| {
                let y = s.block("y")?;
                let [i, _, _] = s.loops(y)?;
                s.bind(i, ThreadTag::BlockIdxX)?;
                s.loop_partition_n(i, &[1]).map(drop)
            },
            "is bound to a thread",
        ),
    ];
    for (change, why) in cases {
        let mut sch = Schedule::new(small_dense()).unwrap();
        let err = change(&mut sch).unwrap_err().to_string();
        assert!(err.contains(why), "{why} is missing in\n{err}");
        assert!(sch.state().verify() && sch.get_block("y_1").is_err());
    }
    let mut sch = Schedule::new(symbolic()).unwrap();
    let err = with_points(&mut sch, &[1, i64::MAX]).unwrap_err().to_string();
    assert!(err.contains("may not fit an i64"), "{err}");
    let y = sch.block("y").unwrap();
    let [i, _, _] = sch.loops(y).unwrap();
    assert!(sch.loop_partition::<3>(i, &[1]).is_err());
}

fn with_points(s: &mut Schedule, points: &[i64]) -> Result<()> {
    let y = s.block("y")?;
    let [i, _, _] = s.loops(y)?;
    s.loop_partition_n(i, points).map(drop)
}

#[test]
fn conditions_on_the_loop_and_the_reduction_are_refused() {
    let mut sch = Schedule::new(small_dense()).unwrap();
    let y = sch.block("y").unwrap();
    let [_, j, k] = sch.loops(y).unwrap();
    let var = |it: LoopRV| PrimExpr::from(&sch.state().get_for(it.id()).unwrap().loop_var);
    let predicate = (var(j) * 8 + var(k)).less(8);
    let realize = BlockRealize { predicate, ..(**sch.state().get_block(y.id()).unwrap()).clone() };
    sch.state.replace(y.sref(), realize.into()).unwrap();
    let before = sch.func().clone();
    let err = sch.loop_partition_n(j, &[1]).unwrap_err().to_string();
    assert!(err.contains("under a condition on the loop and on the reduction together"), "{err}");
    structural_equal(&before, sch.func()).unwrap();
    sch.decompose_reduction(y, k).unwrap();
    let want = run(sch.func(), arguments(sch.func(), &[]));
    sch.loop_partition_n(j, &[1]).unwrap();
    assert_eq!(run(sch.func(), arguments(sch.func(), &[])), want, "{}", sch.func());
}
