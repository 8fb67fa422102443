//! `pad_einsum`: what it gives, and blocks that it refuses.

use super::*;
use crate::ir::Var;
use crate::tir::interp::{self, Value};
use tvm_runtime::{DataType, Tensor};

type Change = fn(&mut Schedule) -> Result<()>;

fn pad(s: &mut Schedule, padding: &[i64]) -> Result<()> {
    let y = s.block("y")?;
    s.pad_einsum(y, padding)
}

#[test]
fn operands_are_padded_with_zero() {
    let program = dense(dim(7), dim(5), dim(9));
    let mut sch = Schedule::new(program.clone()).unwrap();
    pad(&mut sch, &[4, 1, 8]).unwrap();
    expect_test::expect![[r##"
        #[prim_func]
        fn dense(x: &Tensor<i64, 7, 9>, w: &Tensor<i64, 9, 5>, b: &Tensor<i64, 5>, o: &mut Tensor<i64, 7, 5>) {
            let mut y = alloc::<i64>([7, 5]);
            let mut z = alloc::<i64>([7, 5]);
            let mut x_pad = alloc::<i64>([8, 16]);
            let mut w_pad = alloc::<i64>([16, 5]);
            let mut y_pad = alloc::<i64>([8, 5]);
            for [ax0, ax1] in grid([8, 16]) {
                block("x_pad", [S(ax0), S(ax1)], |[v0, v1]| {
                    x_pad[[v0, v1]] = if v0 < 7 && v1 < 9 { x[[v0, v1]] } else { 0 };
                });
            }
            for [ax0, ax1] in grid([16, 5]) {
                block("w_pad", [S(ax0), S(ax1)], |[v0, v1]| {
                    w_pad[[v0, v1]] = if v0 < 9 { w[[v0, v1]] } else { 0 };
                });
            }
            for [i0, i1, r] in grid([8, 5, 16]) {
                block("y", [S(i0), S(i1), R(r)], |[v_i0, v_i1, v_r]| {
                    init(|| y_pad[[v_i0, v_i1]] = 0);
                    y_pad[[v_i0, v_i1]] += x_pad[[v_i0, v_r]] * w_pad[[v_r, v_i1]];
                });
            }
            for [ax0, ax1] in grid([7, 5]) {
                block("y_pad", [S(ax0), S(ax1)], |[v0, v1]| {
                    y[[v0, v1]] = y_pad[[v0, v1]];
                });
            }
            for [i0, i1] in grid([7, 5]) {
                block("z", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    z[[v_i0, v_i1]] = y[[v_i0, v_i1]] + b[[v_i1]];
                });
            }
            for [i0, i1] in grid([7, 5]) {
                block("o", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    o[[v_i0, v_i1]] = max(z[[v_i0, v_i1]], 0);
                });
            }
        }"##]].assert_eq(&sch.func().to_string());
    assert!(sch.trace().to_string().ends_with("s.pad_einsum(v0, &[4, 1, 8])?;\n"), "{}", sch.trace());
    replayed(&program, &sch);
    assert_eq!(run(sch.func(), arguments(sch.func(), &[])), run(&program, arguments(&program, &[])));
}

#[test]
fn results_stay_for_all_dimensions() {
    let changes: [Change; 6] = [
        |s| pad(s, &[4, 8, 16]),
        |s| pad(s, &[1, 1, 4]),
        |s| pad(s, &[1, 3, 1]),
        |s| {
            pad(s, &[4, 4, 4])?;
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            let [i_0, i_1] = s.split(i, [None, Some(4)])?;
            s.reorder([i_0, k, j, i_1])?;
            s.parallel(i_0)
        },
        |s| {
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            s.reorder([k, j, i])?;
            s.pad_einsum(y, &[2, 4, 8])?;
            let copy = s.block("x_pad")?;
            let [row, _] = s.loops(copy)?;
            s.decompose_padding(copy, row).map(drop)
        },
        |s| {
            let y = s.block("y")?;
            let [i, _, _] = s.loops(y)?;
            s.split(i, [None, Some(4)])?;
            s.pad_einsum(y, &[1, 4, 8])?;
            let z = s.block("z")?;
            s.reverse_compute_inline(z).or(Ok(()))
        },
    ];
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let program = dense(m, n, k);
    for change in changes {
        let mut sch = Schedule::new(program.clone()).unwrap();
        change(&mut sch).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
        replayed(&program, &sch);
        for dims in [[5, 3, 4], [1, 1, 1], [8, 2, 0], [0, 3, 2], [4, 0, 4], [7, 9, 17]] {
            let values = |func: &PrimFunc| run(func, arguments(func, &dims));
            assert_eq!(values(sch.func()), values(&program), "{dims:?}\n{}", sch.func());
        }
    }
    for shape in [[1, 4, 1], [0, 4, 3], [6, 0, 2], [6, 4, 0]] {
        let [m, n, k] = shape.map(dim);
        let program = dense(m, n, k);
        let mut sch = Schedule::new(program.clone()).unwrap();
        pad(&mut sch, &[4, 4, 4]).unwrap();
        replayed(&program, &sch);
        let values = |func: &PrimFunc| run(func, arguments(func, &[]));
        assert_eq!(values(sch.func()), values(&program), "{shape:?}\n{}", sch.func());
    }
}

/// `y[i] = sum of x[i, k] * w[k] * s[i]` in f32, where `s` holds infinities if it occurs.
fn floats(scaled: bool) -> PrimFunc {
    let f32 = DataType::F32;
    let x = te::placeholder("x", [dim(3), dim(5)], f32);
    let w = te::placeholder("w", [dim(5)], f32);
    let scale = te::placeholder("s", [dim(3)], f32);
    let k = te::reduce_axis("k", 5);
    let inputs = if scaled { vec![x.clone(), w.clone(), scale.clone()] } else { vec![x.clone(), w.clone()] };
    let used: Vec<&te::TensorExpr> = inputs.iter().collect();
    let y = te::compute("y", [dim(3)], &used, |i: &[PrimExpr]| {
        let product = x.at([i[0].clone(), k.expr()]) * w.at([k.expr()]);
        te::sum(if scaled { product * scale.at([i[0].clone()]) } else { product }, &[&k])
    });
    te::create_prim_func("floats", &inputs, &[y]).unwrap()
}

#[test]
fn floats_stay_as_they_are() {
    let program = floats(false);
    let mut sch = Schedule::new(program.clone()).unwrap();
    pad(&mut sch, &[4, 4]).unwrap();
    replayed(&program, &sch);
    let values = |func: &PrimFunc| {
        let tensor = |data: Vec<f32>, shape: &[i64]| Value::Tensor(Tensor::from_vec(data, shape).unwrap());
        let x = (0..15).map(|i| if i == 7 { f32::INFINITY } else { -0.1 * i as f32 }).collect();
        let w = vec![0.5, -0.0, f32::NAN, 0.0, 1.5];
        let mut args = vec![tensor(x, &[3, 5]), tensor(w, &[5]), tensor(vec![7.0; 3], &[3])];
        interp::run(func, &mut args).unwrap_or_else(|err| panic!("{err}\n{func}"));
        let y = args[2].as_tensor().unwrap().to_vec::<f32>().unwrap();
        y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(values(sch.func()), values(&program));
    let mut sch = Schedule::new(floats(true)).unwrap();
    pad(&mut sch, &[4, 1]).unwrap();
    let mut sch = Schedule::new(floats(true)).unwrap();
    let err = pad(&mut sch, &[1, 4]).unwrap_err().to_string();
    assert!(err.contains("not known to be 0"), "{err}");
}

#[test]
fn refusals_name_the_reason() {
    let cases: [(Change, &str); 10] = [
        (|s| pad(s, &[4, 4]), "expected 3 multiples"),
        (|s| pad(s, &[4, 4, 0]), "multiples from 1 to"),
        (|s| pad(s, &[4, i64::MIN, 1]), "multiples from 1 to"),
        (|s| pad(s, &[i64::MAX, 1, 1]), "multiples from 1 to"),
        (|s| s.block("z").and_then(|z| s.pad_einsum(z, &[4, 4])), "is not a sum from 0"),
        (|s| s.block("root").and_then(|z| s.pad_einsum(z, &[])), "is not a sum from 0"),
        (
            |s| {
                let y = s.block("y")?;
                let [i, _, _] = s.loops(y)?;
                s.split(i, [None, Some(4)])?;
                s.pad_einsum(y, &[4, 1, 1])
            },
            "is not one loop",
        ),
        (
            |s| {
                let y = s.block("y")?;
                let [i, _, _] = s.loops(y)?;
                s.parallel(i)?;
                s.pad_einsum(y, &[4, 1, 1])
            },
            "annotated or not serial",
        ),
        (
            |s| {
                let (y, z) = (s.block("y")?, s.block("z")?);
                let [i, _] = s.loops(z)?;
                s.compute_at(y, i)?;
                s.pad_einsum(y, &[1, 1, 4])
            },
            "is not the whole body of",
        ),
        (
            |s| {
                let y = s.block("y")?;
                let [_, _, k] = s.loops(y)?;
                s.decompose_reduction(y, k)?;
                s.pad_einsum(y, &[1, 1, 4])
            },
            "is not a sum from 0",
        ),
    ];
    for (i, (change, why)) in cases.into_iter().enumerate() {
        let mut sch = Schedule::new(small_dense()).unwrap();
        let err = change(&mut sch).unwrap_err().to_string();
        assert!(err.contains(why), "{i}: {why} is missing in\n{err}");
        assert!(sch.state().verify());
    }
    let mut sch = Schedule::new(small_dense()).unwrap();
    pad(&mut sch, &[7, 3, 1]).unwrap();
    structural_equal(sch.func(), &small_dense()).unwrap();
}
