//! `reindex`: what it gives, and accesses that it refuses.

use super::kernels::{AT, each, input, kernel, output, results, s};
use super::*;
use crate::ir::Var;
use crate::script::KernelValue;
use crate::tir::BinaryOp;

type Change = fn(&mut Schedule) -> Result<()>;

/// A convolution of stride 2 over a row: `y[c, i] = sum of x[2 * i + r] * w[r, c]`.
fn windows(n: PrimExpr, channels: PrimExpr, taps: i64) -> PrimFunc {
    let x = te::placeholder("x", [n.clone() * 2 + (taps - 1)], I64);
    let w = te::placeholder("w", [dim(taps), channels.clone()], I64);
    let r = te::reduce_axis("r", taps);
    let y = te::compute("y", [channels, n], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([i[1].clone() * 2 + r.expr()]) * w.at([r.expr(), i[0].clone()]), &[&r])
    });
    te::create_prim_func("windows", &[x, w], &[y]).unwrap()
}

fn check(program: &PrimFunc, change: Change, runs: &dyn Fn(&PrimFunc) -> Vec<Vec<i64>>) -> Schedule {
    let mut sch = Schedule::new(program.clone()).unwrap();
    change(&mut sch).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
    replayed(program, &sch);
    assert_eq!(runs(sch.func()), runs(program), "{}", sch.func());
    sch
}

#[test]
fn windows_become_rows_of_a_matrix() {
    let program = windows(dim(5), dim(4), 3);
    let sch = check(
        &program,
        |s| {
            let y = s.block("y")?;
            let x = s.reindex(y, "x")?;
            assert_eq!(s.loops::<2>(x)?.len(), 2);
            s.reindex(y, 0).map(drop)
        },
        &|func| results(func),
    );
    expect_test::expect![[r##"
        #[prim_func]
        fn windows(x: &Tensor<i64, 12>, w: &Tensor<i64, 3, 4>, y: &mut Tensor<i64, 4, 5>) {
            let mut x_reindex = alloc::<i64>([5, 3]);
            let mut y_reindex = alloc::<i64>([4, 5]);
            for [ax0, ax1] in grid([5, 3]) {
                block("x_reindex", [S(ax0), S(ax1)], |[v0, v1]| {
                    x_reindex[[v0, v1]] = x[[v0 * 2 + v1]];
                });
            }
            for [i0, i1, r] in grid([4, 5, 3]) {
                block("y", [S(i0), S(i1), R(r)], |[v_i0, v_i1, v_r]| {
                    init(|| y_reindex[[v_i0, v_i1]] = 0);
                    y_reindex[[v_i0, v_i1]] += x_reindex[[v_i1, v_r]] * w[[v_r, v_i0]];
                });
            }
            for [ax0, ax1] in grid([4, 5]) {
                block("y_reindex", [S(ax0), S(ax1)], |[v0, v1]| {
                    y[[v0, v1]] = y_reindex[[v0, v1]];
                });
            }
        }"##]]
    .assert_eq(&sch.func().to_string());
    let trace = sch.trace().to_string();
    assert!(trace.contains("let v1 = s.reindex(v0, \"x\")?;"), "{trace}");
    assert!(trace.ends_with("= s.reindex(v0, 0)?;\n"), "{trace}");
}

#[test]
fn results_stay_for_all_dimensions() {
    let changes: [Change; 5] = [
        |s| s.block("y").and_then(|y| s.reindex(y, "y")).map(drop),
        |s| s.block("y").and_then(|y| s.reindex(y, "x")).map(drop),
        |s| {
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            let [_, _] = s.split(i, [None, Some(4)])?;
            s.reorder([j, k])?;
            s.reindex(y, "y")?;
            s.reindex(y, "w").map(drop)
        },
        |s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            let [i, _] = s.loops(z)?;
            s.compute_at(y, i)?;
            s.reindex(y, "w")?;
            s.reindex(z, "b").map(drop)
        },
        |s| {
            let z = s.block("z")?;
            let copy = s.reindex(z, "y")?;
            let [_, j] = s.loops(z)?;
            s.compute_at(copy, j)?;
            s.parallel(j)
        },
    ];
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let program = dense(m, n, k);
    for change in changes {
        let runs = |func: &PrimFunc| -> Vec<Vec<i64>> {
            let all = [[5, 3, 4], [1, 1, 1], [8, 2, 0], [0, 3, 2], [4, 0, 4], [7, 9, 1]];
            all.iter().map(|dims| run(func, arguments(func, dims))).collect()
        };
        check(&program, change, &runs);
    }
    for (n, channels, taps) in [(1, 1, 1), (4, 1, 3), (0, 3, 2), (3, 0, 2), (6, 2, 1)] {
        let program = windows(dim(n), dim(channels), taps);
        check(&program, |s| s.block("y").and_then(|y| s.reindex(y, "x")).map(drop), &|func| results(func));
    }
}

#[test]
fn refusals_name_the_reason() {
    let value = KernelValue::int;
    let program = kernel(|b| {
        let (x, y, z) = (input(b, "x", &[12]), output(b, "y", &[12]), output(b, "z", &[12]));
        let t = super::kernels::local(b, "t", 12);
        let add = |a: &KernelValue, c: i64| a.clone().binary(BinaryOp::Add, value(c));
        each(b, "i", 11, |i| {
            b.block(AT, "several", [s("vi", &i)], |[vi]| {
                let sum = b.load(AT, &x, [vi.clone()]).binary(BinaryOp::Add, b.load(AT, &x, [add(&vi, 1)]));
                b.store(AT, &y, [vi], sum);
            });
        });
        each(b, "i", 12, |i| {
            let last = i.clone().binary(BinaryOp::Gt, value(2));
            b.if_else(
                AT,
                last,
                || {
                    b.block(AT, "part", [s("vi", &i)], |[vi]| {
                        let value = b.load(AT, &x, [add(&vi, -3)]);
                        b.store(AT, &t, [vi], value);
                    })
                },
                None,
            );
        });
        each(b, "i", 9, |i| {
            b.block(AT, "rest", [s("vi", &i)], |[vi]| {
                let value = b.load(AT, &t, [add(&vi, 3)]);
                b.store(AT, &z, [vi], value);
            });
        });
    });
    let cases: [(Change, &str); 7] = [
        (|s| s.block("several").and_then(|it| s.reindex(it, "x")).map(drop), "at several places"),
        (|s| s.block("several").and_then(|it| s.reindex(it, "q")).map(drop), "names none"),
        (|s| s.block("several").and_then(|it| s.reindex(it, 7)).map(drop), "names none"),
        (|s| s.block("part").and_then(|it| s.reindex(it, "x")).map(drop), "not known to lie in it"),
        (|s| s.block("part").and_then(|it| s.reindex(it, "t")).map(drop), "for every value of its axes"),
        (|s| s.block("rest").and_then(|it| s.reindex(it, "t")).map(drop), "known to write all of `t`"),
        (|s| s.block("root").and_then(|it| s.reindex(it, 0)).map(drop), "names none"),
    ];
    for (i, (change, why)) in cases.into_iter().enumerate() {
        let mut sch = Schedule::new(program.clone()).unwrap();
        let err = change(&mut sch).unwrap_err().to_string();
        assert!(err.contains(why), "{i}: {why} is missing in\n{err}");
        assert!(sch.state().verify());
        structural_equal(sch.func(), &program).unwrap();
    }
    check(&program, |s| s.block("several").and_then(|it| s.reindex(it, "y")).map(drop), &|func| {
        results(func)
    });
    // A dimension of 0 would make the copy negative.
    let n = PrimExpr::from(Var::index("n"));
    let x = te::placeholder("x", [n.clone()], I64);
    let y = te::compute("y", [n.clone() * 2 - 1], &[&x], |i: &[PrimExpr]| x.at([i[0].clone().floordiv(2)]));
    let program = te::create_prim_func("halves", &[x], &[y]).unwrap();
    for which in 0..2 {
        let mut sch = Schedule::new(program.clone()).unwrap();
        let y = sch.block("y").unwrap();
        let err = sch.reindex(y, which).unwrap_err().to_string();
        assert!(err.contains("does not count from 0 to a dimension"), "{err}");
    }
    let mut sch = Schedule::new(small_dense()).unwrap();
    let (y, z) = (sch.block("y").unwrap(), sch.block("z").unwrap());
    let [i, _] = sch.loops(z).unwrap();
    sch.compute_at(y, i).unwrap();
    let err = sch.reindex(z, "y").unwrap_err().to_string();
    assert!(err.contains("beside or after"), "{err}");
}
