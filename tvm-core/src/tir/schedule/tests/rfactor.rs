//! `rfactor`: what it gives, and reductions that it refuses.

use super::kernels::{AT, each, input, kernel, output, r, results, s};
use super::*;
use crate::script::{FuncBuilder, KernelValue};
use crate::tir::transform::IN_ORDER;
use crate::tir::{BinaryOp, Stmt, ThreadTag};

type Change = fn(&mut Schedule) -> Result<()>;

/// `sums[i] = start + sum of x[i, k]`.
fn row_sums(b: &FuncBuilder, op: BinaryOp, start: i64) {
    let x = input(b, "x", &[4, 13]);
    let y = output(b, "y", &[4]);
    each(b, "i", 4, |i| {
        each(b, "k", 13, |k| {
            b.block(AT, "sum", [s("vi", &i), r("vk", &k)], |[vi, vk]| {
                b.init(AT, || b.store(AT, &y, [vi.clone()], KernelValue::int(start)));
                let sum = b.load(AT, &y, [vi.clone()]).binary(op, b.load(AT, &x, [vi.clone(), vk]));
                b.store(AT, &y, [vi], sum);
            });
        });
    });
}

fn check(program: &PrimFunc, change: Change) -> Schedule {
    let mut sch = Schedule::new(program.clone()).unwrap();
    change(&mut sch).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
    replayed(program, &sch);
    assert_eq!(results(sch.func()), results(program), "{}", sch.func());
    sch
}

#[test]
fn partial_sums_have_an_axis_of_the_loop() {
    let program = kernel(|b| row_sums(b, BinaryOp::Add, 0));
    let sch = check(&program, |s| {
        let sum = s.block("sum")?;
        let [_, k] = s.loops(sum)?;
        let [_, inner] = s.split(k, [None, Some(4)])?;
        let partial = s.rfactor(inner, 1)?;
        assert_eq!(s.loops::<3>(partial)?[2].id(), inner.id());
        s.loops::<2>(sum).map(drop)
    });
    let shown = sch.func().to_string();
    expect_test::expect![[r##"
        #[prim_func]
        fn f(x: &Tensor<i64, 4, 13>, y: &mut Tensor<i64, 4>) {
            let mut y_rf = alloc::<i64>([4, 4]);
            for [i, k_0, k_1] in grid([4, 4, 4]) {
                if k_0 * 4 + k_1 < 13 {
                    block("sum_rf", [S(k_1), S(i), R(k_0)], |[vk_1, vi, vk_0]| {
                        init(|| y_rf[[vi, vk_1]] = 0);
                        y_rf[[vi, vk_1]] += x[[vi, vk_0 * 4 + vk_1]];
                    });
                }
            }
            for [i, k_1] in grid([4, 4]) {
                block("sum", [S(i), R(k_1)], |[vi, vk_1]| {
                    init(|| y[[vi]] = 0);
                    y[[vi]] += y_rf[[vi, vk_1]];
                });
            }
        }"##]]
    .assert_eq(&shown);
    assert!(sch.trace().to_string().contains("let v5 = s.rfactor(v4, 1)?;"), "{}", sch.trace());
}

/// Reduces every fourth term of a row in a lane of its own.
fn reduce_in_lanes(s: &mut Schedule, block: &str) -> Result<()> {
    let block = s.block(block)?;
    let [i, k] = s.loops(block)?;
    let [outer, inner] = s.split(k, [None, Some(4)])?;
    let partial = s.rfactor(inner, -1)?;
    s.vectorize(inner)?;
    s.decompose_reduction(partial, outer)?;
    s.parallel(i)
}

#[test]
fn each_iteration_can_run_side_by_side() {
    let changes: [Change; 5] = [
        |s| {
            let sum = s.block("sum")?;
            let [i, k] = s.loops(sum)?;
            let [outer, inner] = s.split(k, [None, Some(5)])?;
            s.rfactor(outer, 0)?;
            s.reorder([outer, i, inner])?;
            s.parallel(outer)
        },
        |s| reduce_in_lanes(s, "sum"),
        |s| {
            let sum = s.block("sum")?;
            let [_, k] = s.loops(sum)?;
            let partial = s.rfactor(k, -2)?;
            let [i, k] = s.loops(partial)?;
            let fused = s.fuse([i, k])?;
            s.parallel(fused)
        },
        |s| {
            let sum = s.block("sum")?;
            let [_, k] = s.loops(sum)?;
            let [outer, _] = s.split(k, [None, Some(4)])?;
            s.rfactor(outer, 0)?;
            let [_, again] = s.loops(sum)?;
            let [outer, _] = s.split(again, [None, Some(3)])?;
            s.rfactor(outer, 0).map(drop)
        },
        |s| {
            let sum = s.block("sum")?;
            let [i, k] = s.loops(sum)?;
            s.reorder([k, i])?;
            let partial = s.rfactor(k, 0)?;
            let [i, _] = s.loops(sum)?;
            s.compute_at(partial, i).or(Ok(()))
        },
    ];
    for (op, start) in [
        (BinaryOp::Add, 0),
        (BinaryOp::Add, 5),
        (BinaryOp::Mul, 1),
        (BinaryOp::Min, 3),
        (BinaryOp::Max, -2),
        (BinaryOp::BitAnd, 255),
        (BinaryOp::BitOr, 0),
        (BinaryOp::BitXor, 9),
    ] {
        let program = kernel(|b| row_sums(b, op, start));
        changes.into_iter().for_each(|change| drop(check(&program, change)));
    }
}

#[test]
fn rows_and_terms_may_not_be_whole_tiles() {
    let changes: [Change; 2] = [
        |s| {
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            let [i0, i1] = s.split(i, [None, Some(4)])?;
            let [k0, k1] = s.split(k, [None, Some(3)])?;
            s.reorder([i0, k0, j, k1, i1])?;
            s.rfactor(k0, 2).map(drop)
        },
        |s| {
            let y = s.block("y")?;
            let [i, _, k] = s.loops(y)?;
            s.split(i, [None, Some(4)])?;
            let [k0, k1, k2] = s.split(k, [None, Some(2), Some(2)])?;
            s.reorder([k2, k0])?;
            s.rfactor(k1, -1).map(drop)
        },
    ];
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(crate::ir::Var::index(name)));
    let program = dense(m, n, k);
    for change in changes {
        let mut sch = Schedule::new(program.clone()).unwrap();
        change(&mut sch).unwrap_or_else(|err| panic!("{err}"));
        well_formed(sch.func()).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
        for dims in [[7, 5, 9], [4, 6, 9], [1, 1, 1], [3, 0, 2], [3, 2, 0], [0, 2, 3]] {
            let want = run(&program, arguments(&program, &dims));
            assert_eq!(run(sch.func(), arguments(sch.func(), &dims)), want, "{dims:?}\n{}", sch.func());
        }
    }
}

fn refused(program: &PrimFunc, change: Change) -> String {
    let mut sch = Schedule::new(program.clone()).unwrap();
    let err = change(&mut sch).unwrap_err().to_string();
    assert!(sch.state().verify());
    assert_eq!(results(sch.func()), results(program));
    err
}

#[test]
fn refusals_name_the_reason() {
    let sums = kernel(|b| row_sums(b, BinaryOp::Add, 0));
    let differences = kernel(|b| row_sums(b, BinaryOp::Sub, 0));
    let cases: [(&PrimFunc, Change, &str); 9] = [
        (&sums, |s| with_loops(s, |s, [i, _]| s.rfactor(i, 0)), "drives no reduction axis"),
        (&sums, |s| with_loops(s, |s, [_, k]| s.rfactor(k, 2)), "expected an axis from -2 to 1, got 2"),
        (&sums, |s| with_loops(s, |s, [_, k]| s.rfactor(k, -3)), "expected an axis from -2 to 1, got -3"),
        (&differences, |s| with_loops(s, |s, [_, k]| s.rfactor(k, 0)), "no update like"),
        (
            &sums,
            |s| {
                let sum = s.block("sum")?;
                let [i, k] = s.loops(sum)?;
                s.decompose_reduction(sum, i)?;
                s.rfactor(k, 0).map(drop)
            },
            "has no init",
        ),
        (
            &sums,
            |s| {
                let sum = s.block("sum")?;
                let [_, k] = s.loops(sum)?;
                let [_, inner] = s.split(k, [None, Some(1 << 20)])?;
                s.rfactor(inner, 0).map(drop)
            },
            "at most 65536 iterations, got 1048576",
        ),
        (
            &sums,
            |s| {
                let sum = s.block("sum")?;
                let [i, k] = s.loops(sum)?;
                let fused = s.fuse([i, k])?;
                s.rfactor(fused, 0).map(drop)
            },
            "drives spatial and reduction axes",
        ),
        (
            &sums,
            |s| {
                let sum = s.block("sum")?;
                let [i, k] = s.loops(sum)?;
                s.bind(i, ThreadTag::BlockIdxX)?;
                s.rfactor(k, 0).map(drop)
            },
            "is bound to a thread",
        ),
        (
            &sums,
            |s| {
                let sum = s.block("sum")?;
                let [_, k] = s.loops(sum)?;
                s.annotate(sum, IN_ORDER, true)?;
                s.rfactor(k, 0).map(drop)
            },
            "keeps the order of its sum",
        ),
    ];
    for (program, change, why) in cases {
        let err = refused(program, change);
        assert!(err.contains(why), "{why} is missing in\n{err}");
    }
}

fn with_loops(s: &mut Schedule, f: impl FnOnce(&mut Schedule, [LoopRV; 2]) -> Result<BlockRV>) -> Result<()> {
    let sum = s.block("sum")?;
    let loops = s.loops(sum)?;
    f(s, loops).map(drop)
}

#[test]
fn a_condition_on_rows_and_terms_together_is_refused() {
    let mut sch = Schedule::new(kernel(|b| row_sums(b, BinaryOp::Add, 0))).unwrap();
    let sum = sch.block("sum").unwrap();
    let [i, k] = sch.loops(sum).unwrap();
    let var = |it: LoopRV| PrimExpr::from(&sch.state().get_for(it.id()).unwrap().loop_var);
    let realize = (**sch.state().get_block(sum.id()).unwrap()).clone();
    let with =
        |predicate: PrimExpr| -> Stmt { crate::tir::BlockRealize { predicate, ..realize.clone() }.into() };
    let (apart, together) = (with(var(i).less(3).and(var(k).less(9))), with((var(i) + var(k)).less(7)));
    sch.state.replace(sum.sref(), together).unwrap();
    let before = sch.func().clone();
    let err = sch.rfactor(k, 0).unwrap_err().to_string();
    assert!(err.contains("relates a reduction to spatial axes"), "{err}");
    structural_equal(&before, sch.func()).unwrap();
    sch.state.replace(sum.sref(), apart).unwrap();
    let want = results(sch.func());
    sch.rfactor(k, 0).unwrap();
    assert_eq!(results(sch.func()), want, "{}", sch.func());
}

/// Position and value of an extreme of each row of `x`, whose positions are counted from `from`.
fn positions(from: i64, (largest, last): (bool, bool)) -> PrimFunc {
    let x = te::placeholder("x", [4, 13].map(PrimExpr::index), I64);
    let r = te::reduce_axis("r", 13);
    let combiner = te::Combiner::arg_extreme(I64, largest, last);
    // Some rows are nothing but the worst value there is.
    let worst = if largest { i64::MIN } else { i64::MAX };
    let y = te::compute_many("y", vec![PrimExpr::index(4)], &[&x], |i: &[PrimExpr]| {
        let few = x.at([i[0].clone(), r.expr()]).floormod(3);
        let value = i[0].clone().floormod(2).equal(0).select(PrimExpr::int(worst, I64), few);
        te::reduce(combiner.clone(), vec![r.expr() + from, value], &[&r])
    });
    te::create_prim_func("f", &[x], &y).unwrap()
}

#[test]
fn parts_of_positions_and_values() {
    let changes: [Change; 3] = [
        |s| {
            let y = s.block("y")?;
            let [_, k] = s.loops(y)?;
            let [outer, _] = s.split(k, [None, Some(5)])?;
            s.rfactor(outer, 0)?;
            s.parallel(outer)
        },
        |s| reduce_in_lanes(s, "y"),
        |s| {
            let y = s.block("y")?;
            let [i, k] = s.loops(y)?;
            s.reorder([k, i])?;
            s.rfactor(k, 0).map(drop)
        },
    ];
    for kind in [(true, false), (true, true), (false, false), (false, true)] {
        // Positions on either side of those that a reduction of no terms has.
        for from in [0, -20] {
            let program = positions(from, kind);
            changes.into_iter().for_each(|change| drop(check(&program, change)));
        }
    }
}
