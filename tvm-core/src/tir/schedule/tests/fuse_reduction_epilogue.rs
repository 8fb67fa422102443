//! `fuse_reduction_epilogue`: what it gives, chains that go through a reduction, and what it refuses.

use super::kernels::{AT, each, input, kernel, local, output, r, results, s};
use super::*;
use crate::ir::Var;
use crate::script::{FuncBuilder, KernelValue};
use crate::te::{Combiner, Reduce};
use crate::tir::interp::{self, Value};
use crate::tir::{BinaryOp, Buffer, Scope, binary};
use tvm_runtime::{DataType, Element, Tensor};

type Change = fn(&mut Schedule) -> Result<()>;

fn fuse(s: &mut Schedule) -> Result<()> {
    let (y, z) = (s.block("y")?, s.block("z")?);
    s.fuse_reduction_epilogue(y, z)
}

/// Fuses the epilogue of `program` after `change`, which makes it illegal: nothing changes. Returns the reason.
fn refused(program: &PrimFunc, change: Change) -> String {
    let mut sch = Schedule::new(program.clone()).unwrap();
    change(&mut sch).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
    let before = sch.func().clone();
    let err = fuse(&mut sch).expect_err("the epilogue cannot be fused");
    structural_equal(sch.func(), &before).unwrap();
    assert!(sch.state().verify());
    assert!(matches!(err, ScheduleError::Illegal { .. }), "{err}");
    err.to_string()
}

#[test]
fn a_bias_becomes_the_init() {
    let program = dense(dim(7), dim(5), dim(9));
    let mut sch = Schedule::new(program.clone()).unwrap();
    fuse(&mut sch).unwrap();
    expect_test::expect![[r##"
        #[prim_func]
        fn dense(x: &Tensor<i64, 7, 9>, w: &Tensor<i64, 9, 5>, b: &Tensor<i64, 5>, o: &mut Tensor<i64, 7, 5>) {
            let mut z = alloc::<i64>([7, 5]);
            for [i0, i1, r] in grid([7, 5, 9]) {
                block("y", [S(i0), S(i1), R(r)], |[v_i0, v_i1, v_r]| {
                    init(|| z[[v_i0, v_i1]] = b[[v_i1]]);
                    z[[v_i0, v_i1]] += x[[v_i0, v_r]] * w[[v_r, v_i1]];
                });
            }
            for [i0, i1] in grid([7, 5]) {
                block("o", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    o[[v_i0, v_i1]] = max(z[[v_i0, v_i1]], 0);
                });
            }
        }"##]].assert_eq(&sch.func().to_string());
    assert!(sch.trace().to_string().ends_with("s.fuse_reduction_epilogue(v0, v1)?;\n"), "{}", sch.trace());
    replayed(&program, &sch);
    assert_eq!(run(sch.func(), arguments(sch.func(), &[])), run(&program, arguments(&program, &[])));
}

#[test]
fn results_stay_for_all_dimensions_and_loops() {
    let changes: [Change; 6] = [
        |_| Ok(()),
        |s| {
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            s.reorder([k, j, i])
        },
        |s| {
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            let ([i_0, i_1], [k_0, k_1]) = (s.split(i, [None, Some(4)])?, s.split(k, [None, Some(3)])?);
            s.reorder([i_0, k_0, j, k_1, i_1])?;
            s.parallel(i_0)
        },
        |s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            let [i, _] = s.loops(z)?;
            s.compute_at(y, i)
        },
        |s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            let [i, j, _] = s.loops(y)?;
            s.split(i, [None, Some(2)])?;
            s.reverse_compute_at(z, j)
        },
        |s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            let [_, j] = s.loops(z)?;
            s.split(j, [None, Some(4)])?;
            let [_, j_0, _] = s.loops(z)?;
            s.compute_at(y, j_0)
        },
    ];
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let program = dense(m, n, k);
    let mut accepted = Vec::new();
    for change in changes {
        let mut sch = Schedule::new(program.clone()).unwrap();
        change(&mut sch).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
        accepted.push(fuse(&mut sch).is_ok());
        replayed(&program, &sch);
        for dims in [[5, 3, 4], [1, 1, 1], [8, 2, 0], [0, 3, 2], [4, 0, 4], [7, 9, 7]] {
            let values = |func: &PrimFunc| run(func, arguments(func, &dims));
            assert_eq!(values(sch.func()), values(&program), "{dims:?}\n{}", sch.func());
        }
    }
    assert_eq!(accepted, [true; 6]);
}

type Combine = fn(PrimExpr, PrimExpr) -> PrimExpr;
type Epilogue = fn(PrimExpr, [PrimExpr; 2]) -> PrimExpr;

/// `y[i] = x[i, k] combined over k`, then `z[i] = epilogue(y[i], [b[i], a constant])`.
fn reduction(combiner: Combiner, dtype: DataType, epilogue: Epilogue) -> PrimFunc {
    let x = te::placeholder("x", [dim(6), dim(5)], dtype);
    let b = te::placeholder("b", [dim(6)], dtype);
    let k = te::reduce_axis("k", 5);
    let y = te::compute("y", [dim(6)], &[&x], |i: &[PrimExpr]| -> Reduce {
        te::reduce(combiner, vec![x.at([i[0].clone(), k.expr()])], &[&k])
    });
    let z = te::compute("z", [dim(6)], &[&y, &b], |i: &[PrimExpr]| {
        epilogue(y.at(i.to_vec()), [b.at(i.to_vec()), PrimExpr::constant(3.0, dtype)])
    });
    te::create_prim_func("reduction", &[x, b], &[z]).unwrap()
}

/// `z` of [`reduction`] for elements `f(0), f(1), …`.
fn values<T: Element + Default>(func: &PrimFunc, f: impl Fn(i64) -> T) -> Vec<T> {
    let tensor = |data: Vec<T>, shape: &[i64]| Value::Tensor(Tensor::from_vec(data, shape).unwrap());
    let mut args = vec![
        tensor((0..30).map(&f).collect(), &[6, 5]),
        tensor((30..36).map(&f).collect(), &[6]),
        tensor((0..6).map(|_| T::default()).collect(), &[6]),
    ];
    interp::run(func, &mut args).unwrap_or_else(|err| panic!("{err}\n{func}"));
    args[2].as_tensor().unwrap().to_vec::<T>().unwrap()
}

#[test]
fn chains_that_go_through_the_reduction_are_exact() {
    let dtype = DataType::I8;
    let combine = |zero: i64, f: Combine| Combiner::single(PrimExpr::int(zero, dtype), f);
    let sum = || Combiner::sum(dtype);
    let product = || Combiner::prod(dtype);
    let (most, least) = (|| Combiner::max(dtype), || Combiner::min(dtype));
    let cases: Vec<(Combiner, Epilogue, bool)> = vec![
        (sum(), |y, _| y, true),
        (sum(), |y, [b, _]| b + y, true),
        (sum(), |y, [b, c]| y - b + c, true),
        (sum(), |y, [b, c]| c + (y - b * 2), true),
        (sum(), |y, [b, _]| b - y, false),
        (sum(), |y, [b, _]| y * b, false),
        (sum(), |y, [b, _]| (y + b).max(0), false),
        (sum(), |y, [_, c]| y.min(c), false),
        (sum(), |y, [b, _]| y.clone() + y + b, false),
        (product(), |y, [b, c]| y * b * c, true),
        (product(), |y, [b, _]| y + b, false),
        (most(), |y, [b, _]| y.max(b), true),
        (most(), |y, [b, c]| y.max(b).min(c), true),
        (most(), |y, [_, c]| y.min(c).max(-2), true),
        (most(), |y, [b, c]| y.min(c).max(b).min(2), true),
        (most(), |y, [b, _]| y.min(b), false),
        (most(), |y, [b, _]| y + b, false),
        (least(), |y, [b, c]| b.min(y).max(c), true),
        (least(), |y, [_, c]| y.max(0).min(c), true),
        (
            combine(-1, |a, b| binary(BinaryOp::BitAnd, a, b)),
            |y, [b, _]| binary(BinaryOp::BitAnd, y, b),
            true,
        ),
        (combine(0, |a, b| binary(BinaryOp::BitOr, a, b)), |y, [b, _]| binary(BinaryOp::BitOr, b, y), true),
        (combine(0, |a, b| binary(BinaryOp::BitXor, a, b)), |y, [b, _]| binary(BinaryOp::BitXor, b, y), true),
        (
            combine(0, |a, b| binary(BinaryOp::BitXor, a, b)),
            |y, [b, _]| binary(BinaryOp::BitAnd, b, y),
            false,
        ),
    ];
    for (i, (combiner, epilogue, legal)) in cases.into_iter().enumerate() {
        let program = reduction(combiner, dtype, epilogue);
        if !legal {
            let why = refused(&program, |_| Ok(()));
            assert!(why.contains("cannot be applied") || why.contains("once"), "{i}: {why}");
            continue;
        }
        let mut sch = Schedule::new(program.clone()).unwrap();
        fuse(&mut sch).unwrap_or_else(|err| panic!("{i}: {err}\n{}", sch.func()));
        replayed(&program, &sch);
        assert!(!sch.func().to_string().contains("alloc"), "{}", sch.func());
        for seed in [7, 37, 91, 113] {
            let of = |func: &PrimFunc| values(func, |j| (j * seed % 251) as i8);
            assert_eq!(of(sch.func()), of(&program), "{i}\n{}", sch.func());
        }
    }
}

#[test]
fn floats_differ_by_rounding_only() {
    let f32 = DataType::F32;
    let cases: [(Combiner, Epilogue, f32); 4] = [
        (Combiner::sum(f32), |y, [b, _]| y + b, 1e-5),
        (Combiner::sum(f32), |y, [b, c]| y - b + c, 1e-5),
        (Combiner::max(f32), |y, [b, c]| y.max(b).min(c), 0.0),
        (Combiner::min(f32), |y, [_, c]| y.max(c.clone() - c.clone() - c.clone()).min(c.clone() - c), 0.0),
    ];
    for (combiner, epilogue, error) in cases {
        let program = reduction(combiner, f32, epilogue);
        let mut sch = Schedule::new(program.clone()).unwrap();
        fuse(&mut sch).unwrap();
        replayed(&program, &sch);
        for special in [0.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let of = |func: &PrimFunc| {
                values(func, |j| if j % 8 == 3 { special } else { (j * 37 % 23) as f32 * 0.37 - 3.0 })
            };
            for (new, old) in of(sch.func()).into_iter().zip(of(&program)) {
                let same = new == old || (new.is_nan() && old.is_nan()) || (new - old).abs() <= error;
                assert!(same, "{new} instead of {old}\n{}", sch.func());
            }
        }
    }
}

#[test]
fn refusals_name_the_reason() {
    let cases = [
        ("y", "o", "is not the only reader of `y`"),
        ("y", "y", "is not the only reader of `y`"),
        ("z", "o", "is no reduction of one update"),
        ("z", "y", "is no reduction of one update"),
        ("root", "y", "is no reduction of one update"),
        ("y", "root", "is not the only reader of `y`"),
    ];
    for (y, z, why) in cases {
        let mut sch = Schedule::new(small_dense()).unwrap();
        let (first, second) = (sch.block(y).unwrap(), sch.block(z).unwrap());
        let err = sch.fuse_reduction_epilogue(first, second).unwrap_err().to_string();
        assert!(err.contains(why), "{y}, {z}: {why} is missing in\n{err}");
        structural_equal(sch.func(), &small_dense()).unwrap();
    }
    let changes: [(Change, &str); 3] = [
        (
            |s| {
                let y = s.block("y")?;
                let [i, _, _] = s.loops(y)?;
                s.decompose_reduction(y, i).map(drop)
            },
            "before the reduction is decomposed",
        ),
        (
            |s| {
                let y = s.block("y")?;
                s.cache_write(y, 0, Scope::Local).map(drop)
            },
            "is not the only reader of `y_local`",
        ),
        (
            |s| {
                let z = s.block("z")?;
                s.cache_write(z, 0, Scope::Local)?;
                s.cache_read(z, 0, Scope::Local).map(drop)
            },
            "is not the only reader of `y`",
        ),
    ];
    for (change, why) in changes {
        let err = refused(&small_dense(), change);
        assert!(err.contains(why), "{why} is missing in\n{err}");
    }
}

fn add(a: KernelValue, b: KernelValue) -> KernelValue {
    a.binary(BinaryOp::Add, b)
}

/// One iteration of the reduction `t[i] += x[i + k]`.
fn reduce_at(b: &FuncBuilder, t: &Buffer, x: &Buffer, i: &KernelValue, k: &KernelValue) {
    b.block(AT, "y", [s("vi", i), r("vk", k)], |[vi, vk]| {
        b.init(AT, || b.store(AT, t, [vi.clone()], KernelValue::int(2)));
        b.update(AT, t, [vi.clone()], BinaryOp::Add, b.load(AT, x, [add(vi, vk)]));
    });
}

/// One iteration of the epilogue `z[i] = t[i] + bias[i]`.
fn epilogue_at(b: &FuncBuilder, z: &Buffer, (t, bias): (&Buffer, &Buffer), i: &KernelValue) {
    b.block(AT, "z", [s("vi", i)], |[vi]| {
        let sum = add(b.load(AT, t, [vi.clone()]), b.load(AT, bias, [vi.clone()]));
        b.store(AT, z, [vi], sum);
    });
}

fn reversed(i: &KernelValue) -> KernelValue {
    KernelValue::int(5).binary(BinaryOp::Sub, i.clone())
}

/// Programs of a reduction of 6 elements over 3 terms and its epilogue; the number says how they stand to each other.
fn arranged(how: usize) -> PrimFunc {
    kernel(|b| {
        let (x, c) = (input(b, "x", &[9]), input(b, "c", &[7]));
        let z = output(b, "z_out", &[7]);
        let t = local(b, "t", if how == 5 { 7 } else { 6 });
        let bias = if (3..6).contains(&how) { c.clone() } else { local(b, "bias", 7) };
        let set_bias = |i: &KernelValue, times: i64| {
            b.block(AT, "bias", [s("v", i)], |[v]| {
                let value = b.load(AT, &c, [v.clone()]).binary(BinaryOp::Mul, KernelValue::int(times));
                b.store(AT, &bias, [v], value);
            });
        };
        let sum = |i: &KernelValue| each(b, "k", 3, |k| reduce_at(b, &t, &x, i, &k));
        let end = |i: &KernelValue| epilogue_at(b, &z, (&t, &bias), i);
        match how {
            // Apart, and in one loop over the elements.
            0 => {
                each(b, "i", 6, |i| set_bias(&i, 2));
                each(b, "i", 6, |i| sum(&i));
                each(b, "i", 6, |i| end(&i));
            }
            1 => each(b, "i", 6, |i| {
                set_bias(&i, 2);
                sum(&i);
                end(&i);
            }),
            // The epilogue runs again for each term.
            2 => each(b, "k", 3, |k| {
                each(b, "i", 6, |i| set_bias(&i, 2));
                each(b, "i", 6, |i| reduce_at(b, &t, &x, &i, &k));
                each(b, "i", 6, |i| end(&i));
            }),
            // It reads elements of other iterations.
            3 => each(b, "i", 6, |i| {
                sum(&i);
                end(&reversed(&i));
            }),
            // It is before the reduction.
            4 => {
                each(b, "i", 6, |i| end(&i));
                each(b, "i", 6, |i| sum(&i));
            }
            // It reads an element that is not reduced.
            5 => {
                each(b, "i", 6, |i| sum(&i));
                each(b, "i", 7, |i| end(&i));
            }
            // What it reads is written beside the terms, and after them.
            6 => {
                each(b, "i", 6, |i| {
                    each(b, "k", 3, |k| {
                        set_bias(&i, 3);
                        reduce_at(b, &t, &x, &i, &k);
                    });
                });
                each(b, "i", 6, |i| end(&i));
            }
            7 => {
                each(b, "i", 6, |i| sum(&i));
                each(b, "i", 6, |i| set_bias(&i, 3));
                each(b, "i", 6, |i| end(&i));
            }
            // Another block reads what the epilogue overwrites.
            _ => {
                each(b, "i", 6, |i| sum(&i));
                each(b, "i", 7, |i| {
                    b.block(AT, "bias", [s("v", &i)], |[v]| {
                        b.store(AT, &bias, [v.clone()], b.load(AT, &z, [v]));
                    });
                });
                each(b, "i", 6, |i| end(&i));
            }
        }
    })
}

#[test]
fn places_of_reduction_and_epilogue() {
    for how in 0..9 {
        let program = arranged(how);
        if how > 1 {
            refused(&program, |_| Ok(()));
            continue;
        }
        let mut sch = Schedule::new(program.clone()).unwrap();
        fuse(&mut sch).unwrap_or_else(|err| panic!("{how}: {err}\n{}", sch.func()));
        replayed(&program, &sch);
        assert_eq!(results(sch.func()), results(&program), "{}", sch.func());
    }
}

#[test]
fn casts_and_other_types_are_refused() {
    let dtype = DataType::I32;
    let cases: [Epilogue; 2] =
        [|y, [b, _]| (y + b).cast(DataType::I64), |y, [b, _]| y.cast(DataType::I64) + b.cast(DataType::I64)];
    for epilogue in cases {
        let program = reduction(Combiner::sum(dtype), dtype, epilogue);
        let why = refused(&program, |_| Ok(()));
        assert!(why.contains("writes another type"), "{why}");
    }
    let program = reduction(Combiner::sum(dtype), dtype, |y, [b, _]| {
        (y.cast(DataType::I64) + b.cast(DataType::I64)).cast(DataType::I32)
    });
    let why = refused(&program, |_| Ok(()));
    assert!(why.contains("does more with the result"), "{why}");
}
