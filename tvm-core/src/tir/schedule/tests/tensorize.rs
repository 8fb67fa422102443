//! `tensorize`: values and traces of programs with built-in intrinsics and others, and what it refuses.

use tvm_runtime::{DataType, Tensor};
use tvm_testing::Rng;

use super::*;
use crate::ir::{IRModule, Var};
use crate::pass::PassContext;
use crate::tir::interp::{Program, Value};
use crate::tir::pipeline::lower_tir;
use crate::tir::{
    BinaryOp, Block, BlockRealize, Buffer, For, IterKind, IterVar, Param, Range, Stmt, TensorIntrin, binary,
};

const F32: DataType = DataType::F32;

/// `y[.., i, j] = sum over k of x[.., i, k] * w[j / lanes, k / part, j % lanes, k % part]`, or of `w[k, j]` without packing.
fn product(
    [m, n, k]: [i64; 3],
    (of_x, of_w, of_y): (DataType, DataType, DataType),
    packed: Option<(i64, i64)>,
) -> PrimFunc {
    let x = te::placeholder("x", [dim(m), dim(k)], of_x);
    let w = match packed {
        Some((lanes, part)) => {
            te::placeholder("w", [dim(n / lanes), dim(k / part), dim(lanes), dim(part)], of_w)
        }
        None => te::placeholder("w", [dim(k), dim(n)], of_w),
    };
    let r = te::reduce_axis("r", k);
    let y = te::compute("y", [dim(m), dim(n)], &[&x, &w], |i: &[PrimExpr]| {
        let (j, k) = (i[1].clone(), r.expr());
        let of_w = match packed {
            Some((lanes, part)) => w.at([
                j.clone().floordiv(lanes),
                k.clone().floordiv(part),
                j.floormod(lanes),
                k.clone().floormod(part),
            ]),
            None => w.at([k.clone(), j]),
        };
        te::sum(x.at([i[0].clone(), k]).cast(of_y) * of_w.cast(of_y), &[&r])
    });
    te::create_prim_func("product", &[x, w], &[y]).unwrap()
}

fn random_arguments(func: &PrimFunc, rng: &mut Rng) -> Vec<Value> {
    let value = |param: &Param| {
        let buffer = param.buffer().unwrap();
        let shape = buffer.const_shape().unwrap();
        let numbers: Vec<f64> = (0..shape.iter().product::<i64>())
            .map(|_| match buffer.dtype {
                DataType::U8 => rng.range(0, 255) as f64,
                DataType::I8 => rng.range(-128, 127) as f64,
                _ => rng.range(-4, 4) as f64,
            })
            .collect();
        Value::Tensor(Tensor::from_f64s(&numbers, &shape, buffer.dtype).unwrap())
    };
    func.params.iter().map(value).collect()
}

/// Checks that `change` keeps the results, in strict mode and after each pass of lowering, and that its trace can be replayed.
fn keeps(program: &PrimFunc, change: impl Fn(&mut Schedule) -> Result<()>) -> Schedule {
    let mut sch = Schedule::new(program.clone()).unwrap();
    change(&mut sch).unwrap_or_else(|err| panic!("{err}"));
    replayed(program, &sch);
    let args = random_arguments(program, &mut Rng::new(7));
    let out = |func: &PrimFunc| {
        let mut args = args.clone();
        let program = Program::compile(func).unwrap_or_else(|err| panic!("{err}\n{func}"));
        program.strict(3).run(&mut args).unwrap_or_else(|err| panic!("{err}\n{func}"));
        args.last().unwrap().as_tensor().unwrap().to_f64s().unwrap()
    };
    let want = out(program);
    assert_eq!(out(sch.func()), want, "{}", sch.func());
    let mut module = IRModule::from_prim_func(sch.func().clone());
    for pass in lower_tir().parts() {
        module = pass.apply_in(module, &PassContext::default()).unwrap();
        let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
        assert_eq!(out(func), want, "after {}:\n{func}", pass.info.name);
    }
    sch
}

/// Splits the loops of `y` by `tile` (rows, columns, terms) and brings the inner ones inside.
fn tiled(s: &mut Schedule, [m, n, k]: [i64; 3]) -> Result<[LoopRV; 6]> {
    let y = s.block("y")?;
    let [i, j, r] = s.loops(y)?;
    let [i_0, i_1] = s.split(i, [None, Some(m)])?;
    let [j_0, j_1] = s.split(j, [None, Some(n)])?;
    let [r_0, r_1] = s.split(r, [None, Some(k)])?;
    s.reorder([i_0, j_0, r_0, i_1, j_1, r_1])?;
    Ok([i_0, j_0, r_0, i_1, j_1, r_1])
}

#[test]
fn built_in_intrinsics_keep_results() {
    let (u8, i8, i32, bf16) = (DataType::U8, DataType::I8, DataType::I32, DataType::BF16);
    let u32 = DataType::U32;
    type Case = (&'static str, [i64; 3], (DataType, DataType, DataType), Option<(i64, i64)>);
    let cases: [Case; 11] = [
        ("fma_1x8_f32", [1, 8, 1], (F32, F32, F32), None),
        ("fma_1x16_f32", [1, 16, 1], (F32, F32, F32), None),
        ("fma_4x16_f32", [4, 16, 1], (F32, F32, F32), None),
        ("fma_8x16_f32", [8, 16, 1], (F32, F32, F32), None),
        ("dot_8x4_vnni", [1, 8, 4], (u8, i8, i32), Some((8, 4))),
        ("dot_16x4_vnni", [1, 16, 4], (u8, i8, i32), Some((16, 4))),
        ("dot_8x2_bf16", [1, 8, 2], (bf16, bf16, F32), Some((8, 2))),
        ("dot_16x2_bf16", [1, 16, 2], (bf16, bf16, F32), Some((16, 2))),
        ("dot_4x4_i8i8s32_sdot", [1, 4, 4], (i8, i8, i32), Some((4, 4))),
        ("dot_4x4_u8u8u32_udot", [1, 4, 4], (u8, u8, u32), Some((4, 4))),
        ("dot_16x4_vnni", [1, 16, 4], (u8, i8, i32), Some((32, 4))),
    ];
    for (intrin, tile, types, packed) in cases {
        let program = product([8, 32, 12], types, packed);
        for decompose in [false, true] {
            for outside in [false, true] {
                let sch = keeps(&program, |s| {
                    let [i, _, r, i_1, j_1, _] = tiled(s, tile)?;
                    let inner = if tile[0] == 1 { j_1 } else { i_1 };
                    let block = match outside {
                        true => s.tensorize(inner, intrin)?,
                        false => {
                            let block = s.blockize(inner)?;
                            s.tensorize(block, intrin)?
                        }
                    };
                    if decompose {
                        s.decompose_reduction(block, r)?;
                    }
                    s.parallel(i)
                });
                let trace = sch.trace().to_string();
                assert!(trace.contains("s.tensorize(v") && trace.contains(intrin), "{trace}");
            }
        }
    }
}

#[test]
fn a_tile_of_the_program_is_replaced() {
    let sch = keeps(&product([8, 32, 12], (F32, F32, F32), None), |s| {
        let [_, _, _, i, _, _] = tiled(s, [4, 16, 1])?;
        s.tensorize(i, "fma_4x16_f32").map(drop)
    });
    expect_test::expect![[r##"
        #[prim_func]
        fn product(x: &Tensor<f32, 8, 12>, w: &Tensor<f32, 12, 32>, y: &mut Tensor<f32, 8, 32>) {
            for [i0_0, i1_0, r_0] in grid([2, 2, 12]) {
                block("y_o", [S(i0_0), S(i1_0), R(r_0)], |[v_i0_o, v_i1_o, v_r]| {
                    init(|| {
                        for [i0_1, i1_1] in grid([4, 16]) {
                            block("y_init", [S(v_i0_o * 4 + i0_1), S(v_i1_o * 16 + i1_1)], |[v_i0, v_i1]| {
                                y[[v_i0, v_i1]] = 0.0;
                            });
                        }
                    });
                    #[unroll]
                    for i in 0..4 {
                        #[vectorize]
                        for j in 0..16 {
                            block("y", [S(i), S(j)], |[vi, vj]| {
                                y[[v_i0_o * 4 + vi, v_i1_o * 16 + vj]] = fmuladd(x[[v_i0_o * 4 + vi, v_r]], w[[v_r, v_i1_o * 16 + vj]], y[[v_i0_o * 4 + vi, v_i1_o * 16 + vj]]);
                            });
                        }
                    }
                });
            }
        }"##]].assert_eq(&sch.func().to_string());
}

/// `c[i] (op)= a[i, k] * b[k]` over 4 rows and 3 terms, as a description or with local sums.
fn rows(local: bool, op: BinaryOp, dtype: DataType) -> PrimFunc {
    let (a, b, c) = (
        Buffer::new("a", [dim(4), dim(3)], dtype),
        Buffer::new("b", [dim(3)], dtype),
        Buffer::new("c", [dim(4)], dtype),
    );
    let sum = Buffer::new("sum", [dim(1)], dtype);
    let [i, k, vi, vk] = ["i", "k", "vi", "vk"].map(Var::index);
    let axis = |var: &Var, n: i64, kind| IterVar { var: var.clone(), dom: Range::from_extent(n), kind };
    let at: [PrimExpr; 2] = [(&vi).into(), (&vk).into()];
    let term = a.load(at.clone()) * b.load([at[1].clone()]);
    let zero = || [PrimExpr::index(0)];
    let nest = match local {
        false => {
            let c_at = [at[0].clone()];
            let body = Stmt::store(&c, c_at.clone(), binary(op, c.load(c_at), term));
            let block = crate::tir::analysis::with_access_regions(Block {
                iter_vars: [axis(&vi, 4, IterKind::Spatial), axis(&vk, 3, IterKind::Reduce)].into(),
                ..Block::new("y", body)
            });
            let realize = BlockRealize {
                iter_values: [(&i).into(), (&k).into()].into(),
                predicate: PrimExpr::bool(true),
                block: block.into(),
            };
            For::serial(k, 3, realize.into()).into()
        }
        true => {
            let own: FxMap =
                [(vi.id(), PrimExpr::from(&i)), (vk.id(), PrimExpr::from(&k))].into_iter().collect();
            let term = crate::tir::substitute_expr(&term, &own);
            let i_at = [PrimExpr::from(&i)];
            let add = Stmt::store(&sum, zero(), binary(op, sum.load(zero()), term));
            Stmt::seq([
                Stmt::store(&sum, zero(), c.load(i_at.clone())),
                For::serial(k, 3, add).into(),
                Stmt::store(&c, i_at, sum.load(zero())),
            ])
        }
    };
    let own = if local { vec![sum] } else { vec![] };
    let body = BlockRealize::opaque(Block::root(own, For::serial(i, 4, nest).into()));
    PrimFunc::new("rows", [Param::In(a), Param::In(b), Param::Out(c)], body)
}

type FxMap = rustc_hash::FxHashMap<crate::ir::VarId, PrimExpr>;

#[test]
fn intrinsics_of_the_user() {
    let intrin =
        TensorIntrin::new("rows_4x3", rows(false, BinaryOp::Add, I64), rows(true, BinaryOp::Add, I64));
    let intrin = intrin.unwrap();
    intrin.check_values(5).unwrap();
    intrin.register().unwrap();
    let x = te::placeholder("x", [dim(8), dim(9)], I64);
    let w = te::placeholder("w", [dim(2), dim(9)], I64);
    let r = te::reduce_axis("r", 9);
    let y = te::compute("y", [dim(2), dim(8)], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([i[1].clone(), r.expr()]) * w.at([i[0].clone(), r.expr()]), &[&r])
    });
    let program = te::create_prim_func("rows", &[x, w], &[y]).unwrap();
    let sch = keeps(&program, |s| {
        let [_, _, _, i, _, _] = {
            let y = s.block("y")?;
            let [h, i, r] = s.loops(y)?;
            let [i_0, i_1] = s.split(i, [None, Some(4)])?;
            let [r_0, r_1] = s.split(r, [None, Some(3)])?;
            s.reorder([h, i_0, r_0, i_1, r_1])?;
            [h, i_0, r_0, i_1, r_1, r_1]
        };
        s.tensorize(i, "rows_4x3").map(drop)
    });
    assert!(sch.func().to_string().contains("sum[["), "{}", sch.func());
    // The description as its own implementation: its block gets a name of its own, and its sum stays a declared one.
    let desc = || rows(false, BinaryOp::Add, I64);
    TensorIntrin::new("rows_4x3_again", desc(), desc()).unwrap().register().unwrap();
    let sch = keeps(&program, |s| {
        let y = s.block("y")?;
        let [h, i, r] = s.loops(y)?;
        let [i_0, i_1] = s.split(i, [None, Some(4)])?;
        let [r_0, r_1] = s.split(r, [None, Some(3)])?;
        s.reorder([h, i_0, r_0, i_1, r_1])?;
        let o = s.tensorize(i_1, "rows_4x3_again")?;
        let y = s.block("y")?;
        s.annotate(y, "hint", true)?;
        s.decompose_reduction(o, r_0).map(drop)
    });
    assert!(sch.func().to_string().contains("decomposed_reduction"), "{}", sch.func());
}

#[test]
fn what_differs_is_refused() {
    let on = |s: &mut Schedule, tile, at: usize, intrin: &str| {
        let loops = tiled(s, tile)?;
        s.tensorize(loops[at], intrin).map(drop)
    };
    let floats = product([8, 32, 12], (F32, F32, F32), None);
    let bytes = product([8, 32, 12], (DataType::U8, DataType::I8, DataType::I32), Some((16, 4)));
    let same = product([8, 32, 12], (DataType::I8, DataType::I8, DataType::I32), Some((16, 4)));
    for (program, tile, at, intrin, why) in [
        (&floats, [4, 16, 1], 3, "fma_8x16_f32", "the block loops over"),
        (&floats, [8, 16, 2], 3, "fma_8x16_f32", "the block loops over"),
        (&floats, [8, 16, 1], 4, "fma_8x16_f32", "the block loops over"),
        (&floats, [1, 16, 1], 4, "dot_16x4_vnni", "the block loops over"),
        (&floats, [1, 16, 4], 4, "dot_16x4_vnni", "holds f32"),
        (&floats, [1, 16, 1], 4, "fma_1x16_f23", "did you mean `fma_1x16_f32`?"),
        (&floats, [1, 16, 1], 4, "no such thing at all", "unknown tensor intrinsic"),
        (&bytes, [1, 16, 4], 4, "dot_16x2_bf16", "the block loops over"),
        (&same, [1, 16, 4], 4, "dot_16x4_vnni", "holds i8"),
        (&bytes, [1, 16, 4], 5, "dot_16x4_vnni", "the block loops over"),
    ] {
        let mut sch = Schedule::new(program.clone()).unwrap();
        let mut before = Schedule::new(program.clone()).unwrap();
        tiled(&mut before, tile).unwrap();
        let err = on(&mut sch, tile, at, intrin).unwrap_err().to_string();
        assert!(err.contains(why), "{intrin}: {why} is missing in\n{err}");
        structural_equal(sch.func(), before.func()).unwrap();
        assert!(sch.state().verify());
    }
}

/// A program with one block named `y` in loops over 4 and 3, which stores `value` to `c[index]`.
fn program(
    buffers: (&Buffer, &Buffer, &Buffer),
    vars: [&Var; 2],
    axes: [&Var; 2],
    index: PrimExpr,
    value: PrimExpr,
    init: bool,
) -> PrimFunc {
    let (a, b, c) = buffers;
    let axis = |var: &Var, n: i64, kind| IterVar { var: var.clone(), dom: Range::from_extent(n), kind };
    let block = crate::tir::analysis::with_access_regions(Block {
        iter_vars: [axis(axes[0], 4, IterKind::Spatial), axis(axes[1], 3, IterKind::Reduce)].into(),
        init: init.then(|| Stmt::store(c, [index.clone()], PrimExpr::constant(0.0, c.dtype))),
        ..Block::new("y", Stmt::store(c, [index], value))
    });
    let realize = BlockRealize {
        iter_values: vars.map(PrimExpr::from).into(),
        predicate: PrimExpr::bool(true),
        block: block.into(),
    };
    let nest = For::serial(vars[0].clone(), 4, For::serial(vars[1].clone(), 3, realize.into()).into()).into();
    let mut params = vec![Param::In(a.clone())];
    if b != a && b != c {
        params.push(Param::In(b.clone()));
    }
    params.push(Param::Out(c.clone()));
    PrimFunc::new("f", params, BlockRealize::opaque(Block::root(vec![], nest)))
}

#[test]
fn operations_and_indices_are_compared() {
    type Build = fn([&Buffer; 3], [PrimExpr; 2]) -> (PrimExpr, PrimExpr);
    for (name, dtype) in [("rows_compared_i64", I64), ("rows_compared_f32", F32)] {
        let func = || rows(false, BinaryOp::Add, dtype);
        TensorIntrin::new(name, func(), func()).unwrap().register().unwrap();
    }
    let try_with = |dtype, build: &Build, init| {
        let (a, b, c) = (
            Buffer::new("a", [dim(8), dim(9)], dtype),
            Buffer::new("b", [dim(9)], dtype),
            Buffer::new("c", [dim(9)], dtype),
        );
        let [i, k, vi, vk] = ["i", "k", "vi", "vk"].map(Var::index);
        let (index, value) = build([&a, &b, &c], [(&vi).into(), (&vk).into()]);
        let func = program((&a, &b, &c), [&i, &k], [&vi, &vk], index, value, init);
        well_formed(&func).unwrap();
        let mut sch = Schedule::new(func.clone()).unwrap();
        let y = sch.block("y").unwrap();
        let [i, _] = sch.loops(y).unwrap();
        let res = sch.tensorize(i, if dtype == I64 { "rows_compared_i64" } else { "rows_compared_f32" });
        match res {
            Ok(_) => {
                well_formed(sch.func()).unwrap();
                None
            }
            Err(err) => {
                structural_equal(sch.func(), &func).unwrap();
                Some(err.to_string())
            }
        }
    };
    let cases: [(Build, &str); 12] = [
        (|[a, b, c], [i, k]| (i.clone(), c.load([i.clone()]) + a.load([i, k.clone()]) * b.load([k])), ""),
        // Operands of sums and products may be exchanged.
        (|[a, b, c], [i, k]| (i.clone(), b.load([k.clone()]) * a.load([i.clone(), k]) + c.load([i])), ""),
        // Constant offsets.
        (
            |[a, b, c], [i, k]| {
                let at = i.clone() + 2;
                (at.clone(), c.load([at]) + a.load([i + 1, k.clone() + 5]) * b.load([k + 6]))
            },
            "",
        ),
        (
            |[a, b, c], [i, k]| (i.clone(), c.load([i.clone()]) - a.load([i, k.clone()]) * b.load([k])),
            "is not `",
        ),
        (
            |[a, b, c], [i, k]| (i.clone(), c.load([i.clone()]) + a.load([i, k.clone()]) + b.load([k])),
            "is not `",
        ),
        (
            |[a, b, c], [i, k]| {
                (i.clone(), c.load([i.clone()]) + a.load([i, k.clone()]) * b.load([k.clone() + k]))
            },
            "dimension 0 of `b` has the index",
        ),
        (
            |[a, b, c], [i, k]| (i.clone(), c.load([i.clone()]) + a.load([k.clone(), i]) * b.load([k])),
            "dimension 0 of `a` has the index",
        ),
        (
            |[a, b, c], [i, k]| (i.clone(), c.load([i.clone() + 1]) + a.load([i, k.clone()]) * b.load([k])),
            "accessed at several places",
        ),
        (
            |[a, _, c], [i, k]| {
                (i.clone(), c.load([i.clone()]) + a.load([i.clone(), k.clone()]) * a.load([i, k]))
            },
            "dimension 0 of `a` has the index",
        ),
        (
            |[a, b, c], [i, k]| {
                let at = b.load([k.clone()]);
                let row = if b.dtype == I64 { i.clone() + at } else { i.clone() * 2 };
                (i.clone(), c.load([i]) + a.load([row, k.clone()]) * b.load([k]))
            },
            "of `a`",
        ),
        // The element of `c` that is a factor is another parameter of the intrinsic.
        (
            |[a, _, c], [i, k]| (i.clone(), c.load([i.clone()]) + a.load([i, k.clone()]) * c.load([k + 5])),
            "another parameter",
        ),
        (|[a, b, _], [i, k]| (i.clone(), a.load([i, k.clone()]) * b.load([k])), "is not `"),
    ];
    for dtype in [I64, F32] {
        for (n, (build, why)) in cases.iter().enumerate() {
            match try_with(dtype, build, false) {
                // A sum of floats without an init keeps its order.
                Some(err) if why.is_empty() => {
                    assert!(dtype == F32 && err.contains("keeps its order"), "{n}: {err}");
                }
                Some(err) => assert!(err.contains(why), "{n}: {why} is missing in\n{err}"),
                None => assert!(why.is_empty() && dtype == I64, "{n} is accepted"),
            }
        }
        for (build, _) in &cases[..3] {
            assert_eq!(try_with(dtype, build, true), None);
        }
    }
}

#[test]
fn sums_in_order_stay() {
    let program = product([8, 32, 12], (F32, F32, F32), None);
    let mut sch = Schedule::new(program).unwrap();
    let [_, _, _, i, _, _] = tiled(&mut sch, [4, 16, 1]).unwrap();
    let y = sch.block("y").unwrap();
    sch.annotate(y, crate::tir::transform::IN_ORDER, true).unwrap();
    let err = sch.tensorize(i, "fma_4x16_f32").unwrap_err().to_string();
    assert!(err.contains("keeps its order and rounding"), "{err}");
    let root = sch.block("root").unwrap();
    let err = sch.tensorize(root, "fma_4x16_f32").unwrap_err().to_string();
    assert!(err.contains("root block"), "{err}");
}
