//! `blockize`: what it gives, and loops that it refuses.

use super::kernels::{AT, each, input, kernel, output, r, results, s};
use super::*;
use crate::ir::Var;
use crate::script::KernelValue;
use crate::tir::{BinaryOp, IterKind, Scope, ThreadTag};

type Change = fn(&mut Schedule) -> Result<()>;

/// The tile of `y` with 4 rows, 3 columns and 5 terms.
fn tile(s: &mut Schedule) -> Result<[LoopRV; 6]> {
    let y = s.block("y")?;
    let [i, j, k] = s.loops(y)?;
    let [i_0, i_1] = s.split(i, [None, Some(4)])?;
    let [j_0, j_1] = s.split(j, [None, Some(3)])?;
    let [k_0, k_1] = s.split(k, [None, Some(5)])?;
    s.reorder([i_0, j_0, k_0, i_1, j_1, k_1])?;
    Ok([i_0, j_0, k_0, i_1, j_1, k_1])
}

#[test]
fn a_tile_becomes_a_block() {
    let program = dense(dim(8), dim(6), dim(10));
    let mut sch = Schedule::new(program.clone()).unwrap();
    let [_, _, _, i_1, _, _] = tile(&mut sch).unwrap();
    let outer = sch.blockize(i_1).unwrap();
    assert_eq!(sch.loops::<3>(outer).unwrap().len(), 3);
    expect_test::expect![[r##"
        #[prim_func]
        fn dense(x: &Tensor<i64, 8, 10>, w: &Tensor<i64, 10, 6>, b: &Tensor<i64, 6>, o: &mut Tensor<i64, 8, 6>) {
            let mut y = alloc::<i64>([8, 6]);
            let mut z = alloc::<i64>([8, 6]);
            for [i0_0, i1_0, r_0] in grid([2, 2, 2]) {
                block("y_o", [S(i0_0), S(i1_0), R(r_0)], |[v_i0_o, v_i1_o, v_r_o]| {
                    init(|| {
                        for [i0_1, i1_1] in grid([4, 3]) {
                            block("y_init", [S(v_i0_o * 4 + i0_1), S(v_i1_o * 3 + i1_1)], |[v_i0, v_i1]| {
                                y[[v_i0, v_i1]] = 0;
                            });
                        }
                    });
                    for [i0_1, i1_1, r_1] in grid([4, 3, 5]) {
                        #[attrs(decomposed_reduction = true)]
                        block("y", [S(i0_1), S(i1_1), R(r_1)], |[v_i0_i, v_i1_i, v_r_i]| {
                            y[[v_i0_o * 4 + v_i0_i, v_i1_o * 3 + v_i1_i]] += x[[v_i0_o * 4 + v_i0_i, v_r_o * 5 + v_r_i]] * w[[v_r_o * 5 + v_r_i, v_i1_o * 3 + v_i1_i]];
                        });
                    }
                });
            }
            for [i0, i1] in grid([8, 6]) {
                block("z", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    z[[v_i0, v_i1]] = y[[v_i0, v_i1]] + b[[v_i1]];
                });
            }
            for [i0, i1] in grid([8, 6]) {
                block("o", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    o[[v_i0, v_i1]] = max(z[[v_i0, v_i1]], 0);
                });
            }
        }"##]].assert_eq(&sch.func().to_string());
    assert!(
        sch.trace()
            .to_string()
            .ends_with("let v10 = s.blockize(v5)?;\nlet [v11, v12, v13] = s.loops(v10)?;\n"),
        "{}",
        sch.trace()
    );
    replayed(&program, &sch);
    assert_eq!(run(sch.func(), arguments(sch.func(), &[])), run(&program, arguments(&program, &[])));
}

#[test]
fn results_stay_for_all_dimensions() {
    let changes: [Change; 9] = [
        |s| {
            let y = s.block("y")?;
            let [_, j, _] = s.loops(y)?;
            s.blockize(j).map(drop)
        },
        |s| {
            let y = s.block("y")?;
            let [i, _, _] = s.loops(y)?;
            let o = s.blockize(i)?;
            s.add_unit_loop(o).map(drop)
        },
        |s| {
            let y = s.block("y")?;
            let [i, _, k] = s.loops(y)?;
            let o = s.blockize(k)?;
            s.parallel(i)?;
            let [_, j] = s.loops(o)?;
            s.decompose_reduction(o, j).map(drop)
        },
        |s| {
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            s.reorder([k, i, j])?;
            let o = s.blockize(i)?;
            let [k] = s.loops(o)?;
            s.decompose_reduction(o, k).map(drop)
        },
        |s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            let [i, _] = s.loops(z)?;
            s.compute_at(y, i)?;
            let loops = s.get_loops(y)?;
            s.blockize(loops[loops.len() - 2])?;
            s.parallel(i)
        },
        |s| {
            let z = s.block("z")?;
            let [i, j] = s.loops(z)?;
            let o = s.blockize(j)?;
            let copy = s.cache_read(z, "b", Scope::Local)?;
            s.annotate(copy, "hint", 1i64)?;
            s.parallel(i)?;
            s.add_unit_loop(o).map(drop)
        },
        |s| {
            let z = s.block("z")?;
            let [i, j] = s.loops(z)?;
            s.blockize(j)?;
            s.blockize(i)?;
            s.parallel(i)
        },
        |s| {
            let z = s.block("z")?;
            let [i, _] = s.loops(z)?;
            let [_, i] = s.split(i, [None, Some(1)])?;
            s.blockize(i).map(drop)
        },
        |s| {
            let o = s.block("o")?;
            let [_, j] = s.loops(o)?;
            let tile = s.blockize(j)?;
            let z = s.block("z")?;
            let [i] = s.loops(tile)?;
            s.compute_at(z, i)
        },
    ];
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let program = dense(m, n, k);
    for (i, change) in changes.into_iter().enumerate() {
        let mut sch = Schedule::new(program.clone()).unwrap();
        change(&mut sch).unwrap_or_else(|err| panic!("{i}: {err}"));
        replayed(&program, &sch);
        for dims in [[5, 3, 4], [1, 1, 1], [8, 2, 0], [0, 3, 2], [4, 0, 4]] {
            let values = |func: &PrimFunc| run(func, arguments(func, &dims));
            assert_eq!(values(sch.func()), values(&program), "{i}: {dims:?}\n{}", sch.func());
        }
    }
}

#[test]
fn every_inner_part_of_a_tile() {
    let program = dense(dim(8), dim(6), dim(10));
    let want = run(&program, arguments(&program, &[]));
    for at in 0..6 {
        for decompose in [false, true] {
            let mut sch = Schedule::new(program.clone()).unwrap();
            let loops = tile(&mut sch).unwrap();
            let outer = sch.blockize(loops[at]).unwrap_or_else(|err| panic!("{at}: {err}"));
            if decompose && at > 0 {
                let first = sch.get_loops(outer).unwrap()[0];
                sch.decompose_reduction(outer, first).unwrap();
                sch.parallel(first).unwrap();
            }
            replayed(&program, &sch);
            assert_eq!(run(sch.func(), arguments(sch.func(), &[])), want, "{at}\n{}", sch.func());
        }
    }
}

#[test]
fn refusals_name_the_reason() {
    let cases: [(Change, &str); 8] = [
        (
            |s| {
                let y = s.block("y")?;
                let [i, _, _] = s.loops(y)?;
                let [_, i] = s.split(i, [None, Some(4)])?;
                s.blockize(i).map(drop)
            },
            "depends on loop `i0_1` inside",
        ),
        (
            |s| {
                let y = s.block("y")?;
                let [_, j, _] = s.loops(y)?;
                let [j_0, j_1] = s.split(j, [None, Some(3)])?;
                s.reorder([j_1, j_0])?;
                s.blockize(j_0).map(drop)
            },
            "in steps of `3`",
        ),
        (
            |s| {
                let (y, z) = (s.block("y")?, s.block("z")?);
                let [i, _] = s.loops(z)?;
                s.compute_at(y, i)?;
                s.blockize(i).map(drop)
            },
            "holds 2 blocks",
        ),
        (
            |s| {
                let z = s.block("z")?;
                let [_, j] = s.loops(z)?;
                s.bind(j, ThreadTag::ThreadIdxX)?;
                s.blockize(j).map(drop)
            },
            "is bound to threads",
        ),
        (
            |s| {
                let y = s.block("y")?;
                let [i, j, _] = s.loops(y)?;
                let both = s.fuse([i, j])?;
                let [_, part] = s.split(both, [None, Some(7)])?;
                s.blockize(part).map(drop)
            },
            "cannot be divided",
        ),
        (
            |s| {
                let (y, z) = (s.block("y")?, s.block("z")?);
                let [_, j] = s.loops(z)?;
                s.compute_at(y, j)?;
                s.blockize(j).map(drop)
            },
            "holds 2 blocks",
        ),
        (
            |s| {
                let y = s.block("y")?;
                let [_, _, k] = s.loops(y)?;
                s.blockize(k)?;
                s.blockize(k).map(drop)
            },
            "",
        ),
        (
            |s| {
                let y = s.block("y")?;
                let [i, _, k] = s.loops(y)?;
                s.decompose_reduction(y, k)?;
                s.blockize(i).map(drop)
            },
            "holds 2 blocks",
        ),
    ];
    let program = dense(dim(7), dim(9), dim(5));
    for (i, (change, why)) in cases.into_iter().enumerate() {
        let mut sch = Schedule::new(program.clone()).unwrap();
        match change(&mut sch) {
            Err(err) => assert!(err.to_string().contains(why), "{i}: {why} is missing in\n{err}"),
            Ok(()) => assert!(why.is_empty(), "{i} is accepted\n{}", sch.func()),
        }
        assert!(sch.state().verify());
        assert_eq!(run(sch.func(), arguments(sch.func(), &[])), run(&program, arguments(&program, &[])));
    }
}

#[test]
fn blocks_that_are_no_plain_reductions() {
    let at = |v: &KernelValue, by: i64| v.clone().binary(BinaryOp::Add, KernelValue::int(by));
    let program = kernel(|b| {
        let (x, y) = (input(b, "x", &[12]), output(b, "y", &[12]));
        each(b, "i", 12, |i| {
            each(b, "again", 2, |_| {
                b.block(AT, "again", [s("vi", &i)], |[vi]| {
                    b.store(AT, &y, [vi.clone()], b.load(AT, &x, [vi]));
                });
            });
        });
        let total = output(b, "t", &[1]);
        each(b, "k", 12, |k| {
            b.block(AT, "ordered", [(IterKind::Ordered, "vk", k)], |[vk]| {
                let last = b.load(AT, &total, [KernelValue::int(0)]);
                let sum = last
                    .binary(BinaryOp::Mul, KernelValue::int(3))
                    .binary(BinaryOp::Add, b.load(AT, &x, [vk]));
                b.store(AT, &total, [KernelValue::int(0)], sum);
            });
        });
        let last = output(b, "l", &[12]);
        each(b, "i", 6, |i| {
            each(b, "k", 2, |k| {
                b.block(AT, "shared", [s("vi", &i), r("vk", &k)], |[vi, vk]| {
                    let place = vi.clone().binary(BinaryOp::FloorDiv, KernelValue::int(2));
                    b.init(AT, || b.store(AT, &last, [place.clone()], vi.clone()));
                    let sum = b.load(AT, &last, [place.clone()]);
                    let sum = sum.binary(BinaryOp::Add, b.load(AT, &x, [vk]));
                    b.store(AT, &last, [place.clone()], sum);
                });
            });
        });
        let from = output(b, "f", &[12]);
        each(b, "i", 8, |i| {
            b.block(AT, "from", [s("vi", &at(&i, 3))], |[vi]| {
                b.store(AT, &from, [vi.clone()], b.load(AT, &x, [vi]));
            });
        });
        let direct = output(b, "d", &[12]);
        each(b, "i", 4, |i| {
            each(b, "j", 3, |j| {
                b.block(AT, "direct", [s("vj", &j)], |[vj]| {
                    let place =
                        i.clone().binary(BinaryOp::Mul, KernelValue::int(3)).binary(BinaryOp::Add, vj);
                    b.store(AT, &direct, [place.clone()], b.load(AT, &x, [place]));
                });
            });
        });
    });
    let cases: [(&str, usize, &str); 7] = [
        ("again", 0, "are not used up"),
        ("again", 1, "are not used up"),
        ("ordered", 0, ""),
        ("shared", 0, "not known to write other elements"),
        ("shared", 1, "not known to write other elements"),
        ("from", 0, ""),
        ("direct", 1, "uses loop `i#4` itself"),
    ];
    for (name, at, why) in cases {
        let mut sch = Schedule::new(program.clone()).unwrap();
        let block = sch.block(name).unwrap();
        let target = sch.get_loops(block).unwrap()[at];
        match sch.blockize(target) {
            Ok(_) => assert!(why.is_empty(), "{name} {at} is accepted"),
            Err(err) => {
                assert!(!why.is_empty() && err.to_string().contains(why), "{name} {at}: {err}");
                structural_equal(sch.func(), &program).unwrap();
            }
        }
        replayed(&program, &sch);
        assert_eq!(results(sch.func()), results(&program), "{}", sch.func());
    }
    // Names of regions have extents that depend on axes.
    let program = kernel(|b| {
        let (x, y) = (input(b, "x", &[12]), output(b, "y", &[12]));
        each(b, "i", 12, |i| {
            b.block(AT, "view", [s("vi", &i)], |[vi]| {
                let end = vi.clone().binary(BinaryOp::Add, KernelValue::int(1));
                let view = b.match_buffer(AT, "view", &y, [(vi.clone(), Some(end))]);
                b.store(AT, &view, [KernelValue::int(0)], b.load(AT, &x, [vi]));
            });
        });
    });
    let mut sch = Schedule::new(program.clone()).unwrap();
    let view = sch.block("view").unwrap();
    let [i] = sch.loops(view).unwrap();
    let err = sch.blockize(i).unwrap_err().to_string();
    assert!(err.contains("matches a buffer to a region"), "{err}");
    structural_equal(sch.func(), &program).unwrap();
}

#[test]
fn the_outer_part_is_a_multiple_of_the_inner_extent() {
    let program = kernel(|b| {
        let (x, from) = (input(b, "x", &[12]), output(b, "f", &[12]));
        each(b, "i", 8, |i| {
            let place = i.binary(BinaryOp::Add, KernelValue::int(3));
            b.block(AT, "from", [s("vi", &place)], |[vi]| {
                b.store(AT, &from, [vi.clone()], b.load(AT, &x, [vi]));
            });
        });
    });
    // With an offset, the outer part is not a multiple of the inner extent.
    let mut sch = Schedule::new(program.clone()).unwrap();
    let from = sch.block("from").unwrap();
    let [i] = sch.loops(from).unwrap();
    let [_, i] = sch.split(i, [None, Some(4)]).unwrap();
    let err = sch.blockize(i).unwrap_err().to_string();
    assert!(err.contains("does not divide"), "{err}");
}
