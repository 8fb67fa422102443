//! `transform_block_layout`: what it gives, and blocks and maps that it refuses.

use super::kernels::{AT, each, input, kernel, output, r, results, s};
use super::*;
use crate::ir::Var;
use crate::script::KernelValue;
use crate::tir::IndexMap;
use crate::tir::transform::IN_ORDER;

type Change = fn(&mut Schedule) -> Result<()>;

fn map(text: &str) -> IndexMap {
    text.parse().unwrap()
}

fn symbols() -> [PrimExpr; 3] {
    ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)))
}

#[test]
fn loops_follow_the_new_axes() {
    let program = dense(dim(8), dim(6), dim(5));
    let mut sch = Schedule::new(program.clone()).unwrap();
    let y = sch.block("y").unwrap();
    sch.transform_block_layout(y, IndexMap::of(|[i, j, k]| [j.into(), i / 4, k.into(), i % 4]).unwrap())
        .unwrap();
    assert_eq!(sch.loops::<4>(y).unwrap().len(), 4);
    expect_test::expect![[r##"
        #[prim_func]
        fn dense(x: &Tensor<i64, 8, 5>, w: &Tensor<i64, 5, 6>, b: &Tensor<i64, 6>, o: &mut Tensor<i64, 8, 6>) {
            let mut y = alloc::<i64>([8, 6]);
            let mut z = alloc::<i64>([8, 6]);
            for [ax0, ax1, ax2, ax3] in grid([6, 2, 5, 4]) {
                block("y", [S(ax0), S(ax1), R(ax2), S(ax3)], |[v0, v1, v2, v3]| {
                    init(|| y[[v1 * 4 + v3, v0]] = 0);
                    y[[v1 * 4 + v3, v0]] += x[[v1 * 4 + v3, v2]] * w[[v2, v0]];
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
    let trace = sch.trace().to_string();
    let line = "s.transform_block_layout(v0, \"|i0, i1, i2| [i1, i0 / 4, i2, i0 % 4]\".parse()?)?;";
    assert!(trace.contains(line), "{trace}");
    replayed(&program, &sch);
    assert_eq!(run(sch.func(), arguments(sch.func(), &[])), run(&program, arguments(&program, &[])));
}

#[test]
fn results_stay_for_all_dimensions() {
    let changes: [Change; 6] = [
        |s| {
            let y = s.block("y")?;
            s.transform_block_layout(y, map("|i, j, k| [k, j, i]"))?;
            let [_, j, _] = s.loops(y)?;
            s.parallel(j)
        },
        |s| {
            let z = s.block("z")?;
            s.transform_block_layout(z, map("|i, j| [j, i]"))
        },
        |s| {
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            s.reorder([k, j, i])?;
            s.transform_block_layout(y, map("|i, j, k| [j, k, i]"))
        },
        |s| {
            let z = s.block("z")?;
            let [i, j] = s.loops(z)?;
            s.split(i, [None, Some(4)])?;
            s.split(j, [None, Some(3)])?;
            s.transform_block_layout(z, map("|i, j| [j, i]"))
        },
        |s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            let c = s.cache_read(z, "y", crate::tir::Scope::Local)?;
            s.transform_block_layout(c, map("|i, j| [j, 0, i]"))?;
            s.transform_block_layout(y, map("|i, j, k| [j, i, 0, k]"))
        },
        |s| {
            let y = s.block("y")?;
            s.transform_block_layout(y, map("|i, j, k| [j, k, i]"))?;
            let [_, k, _] = s.loops(y)?;
            s.decompose_reduction(y, k).map(drop)
        },
    ];
    let [m, n, k] = symbols();
    let program = dense(m, n, k);
    for (i, change) in changes.into_iter().enumerate() {
        let mut sch = Schedule::new(program.clone()).unwrap();
        change(&mut sch).unwrap_or_else(|err| panic!("{i}: {err}"));
        replayed(&program, &sch);
        for dims in [[5, 3, 4], [1, 1, 1], [8, 2, 0], [0, 3, 2], [4, 0, 4]] {
            let values = |func: &PrimFunc| run(func, arguments(func, &dims));
            assert_eq!(values(sch.func()), values(&program), "{dims:?}\n{}", sch.func());
        }
    }
}

#[test]
fn constants_of_all_sizes() {
    for (shape, maps) in [
        (
            [6, 4, 3],
            &[
                "|i, j, k| [i * 4 + j, k]",
                "|i, j, k| [k, j / 2, i / 3, j % 2, i % 3]",
                "|i, j, k| [j, i + 2, k]",
            ][..],
        ),
        ([1, 4, 1], &["|i, j, k| [i, j, k]", "|i, j, k| [i * 4 + j, 0, k]"]),
        ([0, 4, 3], &["|i, j, k| [k, j, i]", "|i, j, k| [i / 2, i % 2, j, k]"]),
        ([6, 4, 0], &["|i, j, k| [k, j, i]", "|i, j, k| [k / 2, i * 4 + j, k % 2]"]),
    ] {
        let [m, n, k] = shape;
        let program = dense(dim(m), dim(n), dim(k));
        let want = run(&program, arguments(&program, &[]));
        for text in maps {
            let mut sch = Schedule::new(program.clone()).unwrap();
            let y = sch.block("y").unwrap();
            sch.transform_block_layout(y, map(text)).unwrap_or_else(|err| panic!("{shape:?}: {err}"));
            replayed(&program, &sch);
            assert_eq!(run(sch.func(), arguments(sch.func(), &[])), want, "{shape:?} {text}\n{}", sch.func());
        }
    }
}

#[test]
fn refusals_name_the_reason() {
    let cases: [(Change, &str); 11] = [
        (
            |s| s.block("y").and_then(|y| s.transform_block_layout(y, map("|i, j| [j, i]"))),
            "takes 2 indices, got 3",
        ),
        (
            |s| s.block("y").and_then(|y| s.transform_block_layout(y, map("|i, j, k| [i, j * 5 + k]"))),
            "mixes spatial",
        ),
        (
            |s| s.block("y").and_then(|y| s.transform_block_layout(y, map("|i, j, k| [i, j]"))),
            "is not bijective here",
        ),
        (
            |s| s.block("y").and_then(|y| s.transform_block_layout(y, map("|i, j, k| [i / 2, i % 2, j, k]"))),
            "bijective",
        ),
        (
            |s| s.block("y").and_then(|y| s.transform_block_layout(y, map("|i, j, k| [i * 2, j, k]"))),
            "has gaps",
        ),
        (|s| s.block("root").and_then(|y| s.transform_block_layout(y, map("|| []"))), "root block"),
        (
            |s| {
                let y = s.block("y")?;
                let [i, _, _] = s.loops(y)?;
                s.parallel(i)?;
                s.transform_block_layout(y, map("|i, j, k| [j, i, k]"))
            },
            "annotated or not serial",
        ),
        (
            |s| {
                let (y, z) = (s.block("y")?, s.block("z")?);
                let [i, _] = s.loops(z)?;
                s.compute_at(y, i)?;
                s.transform_block_layout(z, map("|i, j| [j, i]"))
            },
            "is not the whole body of",
        ),
        (
            |s| {
                let (y, z) = (s.block("y")?, s.block("z")?);
                let [i, _] = s.loops(z)?;
                s.compute_at(y, i)?;
                s.transform_block_layout(y, map("|i, j, k| [j, i, k]"))
            },
            "is not the whole body of",
        ),
        (
            |s| {
                let y = s.block("y")?;
                s.annotate(y, IN_ORDER, true)?;
                s.transform_block_layout(y, map("|i, j, k| [j, i, k]"))
            },
            "keeps the order of its sum",
        ),
        (
            |s| {
                let y = s.block("y")?;
                let [_, _, k] = s.loops(y)?;
                s.decompose_reduction(y, k)?;
                s.transform_block_layout(y, map("|i, j, k| [j, i, k]"))
            },
            "is not the whole body of",
        ),
    ];
    let program = dense(dim(7), dim(9), dim(5));
    for (i, (change, why)) in cases.into_iter().enumerate() {
        let mut sch = Schedule::new(program.clone()).unwrap();
        let err = change(&mut sch).unwrap_err().to_string();
        assert!(err.contains(why), "{i}: {why} is missing in\n{err}");
        assert!(sch.state().verify());
    }
    let one = dense(dim(7), dim(9), dim(1));
    let mut sch = Schedule::new(one.clone()).unwrap();
    let y = sch.block("y").unwrap();
    let err = sch.transform_block_layout(y, map("|i, j, k| [i, j]")).unwrap_err().to_string();
    assert!(err.contains("does not use the axis"), "{err}");
    structural_equal(sch.func(), &one).unwrap();
}

#[test]
fn blocks_that_run_in_part_or_again() {
    let program = kernel(|b| {
        let (x, y) = (input(b, "x", &[12]), output(b, "y", &[12]));
        each(b, "i", 12, |i| {
            each(b, "again", 2, |_| {
                b.block(AT, "sum", [s("vi", &i)], |[vi]| {
                    let value = b.load(AT, &x, [vi.clone()]);
                    b.store(AT, &y, [vi], value);
                });
            });
        });
        each(b, "j", 6, |j| {
            b.block(
                AT,
                "half",
                [(
                    crate::tir::IterKind::Spatial,
                    "vj",
                    j.binary(crate::tir::BinaryOp::Add, KernelValue::int(3)),
                )],
                |[vj]| {
                    let value = b.load(AT, &x, [vj.clone()]);
                    b.store(AT, &y, [vj], value);
                },
            );
        });
        let total = output(b, "t", &[1]);
        each(b, "k", 12, |k| {
            b.block(AT, "total", [r("vk", &k)], |[vk]| {
                b.init(AT, || b.store(AT, &total, [KernelValue::int(0)], KernelValue::int(0)));
                let sum = b.load(AT, &total, [KernelValue::int(0)]);
                let sum = sum.binary(crate::tir::BinaryOp::Add, b.load(AT, &x, [vk]));
                b.store(AT, &total, [KernelValue::int(0)], sum);
            });
        });
    });
    let mut sch = Schedule::new(program.clone()).unwrap();
    let [again, half, total] = ["sum", "half", "total"].map(|name| sch.block(name).unwrap());
    let err = sch.transform_block_layout(again, map("|i| [i / 4, i % 4]")).unwrap_err().to_string();
    assert!(err.contains("not known to run once"), "{err}");
    structural_equal(sch.func(), &program).unwrap();
    sch.transform_block_layout(total, map("|k| [k % 3, k / 3]")).unwrap();
    sch.transform_block_layout(half, map("|j| [(j + 3) / 6, (j + 3) % 6]"))
        .unwrap_or_else(|err| println!("{err}"));
    replayed(&program, &sch);
    assert_eq!(results(sch.func()), results(&program), "{}", sch.func());
}
