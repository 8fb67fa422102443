//! Tests that every lowering pass preserves what programs compute: random schedules of small programs are lowered pass
//! by pass and interpreted after each.

use expect_test::{Expect, expect};
use tvm_runtime::DataType;

use crate::ir::{AttrValue, IRModule, Var};
use crate::pass::{Pass, PassContext, PassError, Sequential};
use crate::pipeline::lower_tir;
use crate::te;
use crate::tir::schedule::Schedule;
use crate::tir::testing::{I64, arguments, dense, random_step, run, stencil};
use crate::tir::{For, ForKind, PrimExpr, PrimFunc, Scope, Stmt, Visitor, for_each_load, walk_stmt};
use tvm_testing::Rng;

#[test]
fn every_pass_keeps_results() {
    let mut rng = Rng::new(7);
    let dim = PrimExpr::index;
    let symbol = |name| PrimExpr::from(Var::index(name));
    let programs = [
        (dense(dim(7), dim(9), dim(5)), vec![]),
        (dense(symbol("m"), symbol("n"), symbol("k")), vec![7, 5, 11]),
        (stencil(dim(8), dim(6)), vec![]),
        (stencil(symbol("h"), symbol("w")), vec![9, 7]),
    ];
    for (program, dims) in programs {
        let want = run(&program, arguments(&program, &dims));
        for _ in 0..60 {
            let mut s = Schedule::new(program.clone()).unwrap();
            for _ in 0..rng.below(12) {
                let _ = random_step(&mut s, &mut rng);
            }
            let scheduled = s.into_func();
            let mut module = IRModule::from_prim_func(scheduled.clone());
            for pass in lower_tir().parts() {
                module = pass
                    .apply_in(module, &PassContext::default())
                    .unwrap_or_else(|err| panic!("{err}\n{scheduled}"));
                let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
                let got = run(func, arguments(&program, &dims));
                assert_eq!(got, want, "{}:\n{scheduled}\n{func}", pass.info.name);
            }
        }
    }
}

/// Constant extents of the allocations in `stmt`, in order.
fn allocations(stmt: &Stmt) -> Vec<i64> {
    struct Allocations(Vec<i64>);
    impl Visitor for Allocations {
        fn visit_stmt(&mut self, stmt: &Stmt) {
            if let Stmt::AllocBuffer(alloc) = stmt {
                self.0.push(alloc.buffer.const_shape().map_or(-1, |shape| shape.iter().product()));
            }
            walk_stmt(self, stmt);
        }
    }
    let mut found = Allocations(Vec::new());
    found.visit_stmt(stmt);
    found.0
}

#[test]
fn buffers_shrink_to_the_tile() {
    let symbol = |name| PrimExpr::from(Var::index(name));
    for (func, what) in [
        (dense(PrimExpr::index(64), PrimExpr::index(96), PrimExpr::index(32)), "constant"),
        (dense(PrimExpr::index(50), PrimExpr::index(77), PrimExpr::index(32)), "ragged"),
        (dense(symbol("m"), symbol("n"), symbol("k")), "symbolic"),
    ] {
        let mut s = Schedule::new(func).unwrap();
        for name in ["y", "z"] {
            let block = s.block(name).unwrap();
            if name == "z" {
                s.compute_inline(block).unwrap();
                continue;
            }
            let tile = s.cache_write(block, 0, Scope::Local).unwrap();
            let [i, j, k] = s.loops(block).unwrap();
            let [io, ii] = s.split(i, [None, Some(6)]).unwrap();
            let [jo, ji] = s.split(j, [None, Some(32)]).unwrap();
            s.reorder([io, jo, k, ii, ji]).unwrap();
            s.reverse_compute_at(tile, jo).unwrap();
            s.decompose_reduction(block, k).unwrap();
        }
        let lowered = crate::pipeline::lower_tir().apply(IRModule::from_prim_func(s.into_func())).unwrap();
        let func = lowered.prim_func(lowered.functions().next().unwrap().0).unwrap();
        // Besides the tile, only the whole of `y` is allocated, whose size may be symbolic.
        assert!(allocations(&func.body).contains(&(6 * 32)), "{what}: {:?}\n{func}", allocations(&func.body));
    }
}

/// The text of `func` after `passes` for a machine with vectors of 512 bits, as the printer shows it.
fn after(func: PrimFunc, passes: Vec<Pass>) -> String {
    after_for("c -vector-bits=512 -masked-vectors=0", func, passes)
}

fn after_for(target: &str, func: PrimFunc, passes: Vec<Pass>) -> String {
    let context = PassContext::new().target(target.parse().unwrap());
    let module = IRModule::from_prim_func(func);
    let module = passes.iter().try_fold(module, |module, pass| pass.apply_in(module, &context)).unwrap();
    let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
    format!("{}\n", func.to_string().trim_end())
}

#[test]
fn vectors_are_as_wide_as_those_of_the_target() {
    let x = te::placeholder("x", [PrimExpr::index(64)], I64);
    let y = te::compute("y", [PrimExpr::index(64)], &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) + 1);
    let mut s = Schedule::new(te::create_prim_func("copy", &[x], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [i] = s.loops(y).unwrap();
    s.vectorize(i).unwrap();
    let func = s.into_func();
    for (bits, lanes) in [(128, 2), (256, 4), (512, 8), (2048, 32), (8, 1)] {
        let target = format!("c -vector-bits={bits}");
        let text = after_for(&target, crate::tir::transform::renew_defs(&func), lower_tir().parts().to_vec());
        let mut stores = text.lines().filter(|line| line.trim().starts_with("y[[")).peekable();
        let wanted = if lanes == 1 { "y[[i0]] =".into() } else { format!(", 1, {lanes})]] =") };
        assert!(stores.peek().is_some() && stores.all(|line| line.contains(&wanted)), "{bits}: {text}");
    }
}

#[test]
fn passes_do_what_they_say() {
    let sum = |n: PrimExpr| {
        let x = te::placeholder("x", [PrimExpr::index(4), n.clone()], I64);
        let r = te::reduce_axis("r", n);
        let y = te::compute("y", [PrimExpr::index(4)], &[&x], |i: &[PrimExpr]| {
            te::sum(x.at([i[0].clone(), r.expr()]), &[&r])
        });
        te::create_prim_func("sum", &[x], &[y]).unwrap()
    };
    let scale = |vectorize: bool| {
        let n = PrimExpr::from(Var::index("n"));
        let x = te::placeholder("x", [n.clone()], I64);
        let y = te::compute("y", [n], &[&x], |i: &[PrimExpr]| {
            x.at([i[0].clone()]).floordiv(3) + i[0].clone().floormod(8).floordiv(2)
        });
        let mut s = Schedule::new(te::create_prim_func("scale", &[x], &[y]).unwrap()).unwrap();
        let y = s.block("y").unwrap();
        let [i] = s.loops(y).unwrap();
        if vectorize {
            let [_, lanes] = s.split(i, [None, Some(8)]).unwrap();
            s.vectorize(lanes).unwrap();
        }
        s.into_func()
    };
    let opaque =
        || vec![super::lower_init_block(), super::convert_blocks_to_opaque(), super::lower_opaque_block()];
    let flat = || [opaque(), vec![super::flatten_buffer(), super::simplify()]].concat();
    let cases: [(String, Expect); 4] = [
        (
            after(sum(PrimExpr::index(6)), opaque()),
            expect![[r#"
                #[prim_func(lowered)]
                fn sum(x: &Tensor<i64, 4, 6>, y: &mut Tensor<i64, 4>) {
                    for i0 in 0..4 {
                        y[[i0]] = 0;
                        for r in 0..6 {
                            y[[i0]] += x[[i0, r]];
                        }
                    }
                }
            "#]],
        ),
        (
            after(scale(true), [flat(), vec![super::vectorize_loop(), super::simplify()]].concat()),
            expect![[r#"
                #[prim_func(attrs(is_scheduled = true), lowered)]
                fn scale(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
                    let x_1 = decl_buffer::<i64>([n], address_of(x[[0]]));
                    let y_1 = decl_buffer::<i64>([n], address_of(y[[0]]));
                    for i0_0 in 0..(n + 7) / 8 {
                        if i0_0 * 8 < n - 7 {
                            y_1[[ramp(i0_0 * 8, 1, 8)]] = floordiv(x_1[[ramp(i0_0 * 8, 1, 8)]], broadcast(3, 8)) + floordiv(ramp(0, 1, 8), broadcast(2, 8));
                        } else {
                            #[attrs(remainder = true)]
                            for i0_1 in 0..8 {
                                if i0_0 * 8 + i0_1 < n {
                                    y_1[[i0_0 * 8 + i0_1]] = floordiv(x_1[[i0_0 * 8 + i0_1]], 3) + floordiv(i0_1 as i64, 2);
                                }
                            }
                        }
                    }
                }
            "#]],
        ),
        (
            after(scale(false), [flat(), vec![super::lower_intrin()]].concat()),
            expect![[r#"
                #[prim_func(attrs(is_scheduled = true), lowered)]
                fn scale(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
                    let x_1 = decl_buffer::<i64>([n], address_of(x[[0]]));
                    let y_1 = decl_buffer::<i64>([n], address_of(y[[0]]));
                    for i0 in 0..n {
                        y_1[[i0]] = { let x_2 = bind(x_1[[i0]]); { let y_2 = bind(3usize); { let r = bind(x_2 % (y_2 as i64)); x_2 / (y_2 as i64) - select(r < 0, 1, 0) } } } + (i0 as i64) / 2 % 4;
                    }
                }
            "#]],
        ),
        (
            after(sum(PrimExpr::from(Var::index("n"))), [flat(), vec![super::make_packed_api()]].concat()),
            expect![[r##"
                #[prim_func(lowered)]
                fn sum(args: handle, num_args: i32, ctx: handle) {
                    assert!(2 == (num_args as i64), status = 1, arg = -1, axis = -1, expected = 2, got = num_args as i64);
                    assert!(2 == arg_ndim(args, 0), status = 2, arg = 0, axis = -1, expected = 2, got = arg_ndim(args, 0));
                    assert!(81920 == arg_dtype(args, 0), status = 3, arg = 0, axis = -1, expected = 81920, got = arg_dtype(args, 0));
                    let n = arg_shape(args, 0, 1);
                    assert!(1 == arg_is_compact(args, 0), status = 5, arg = 0, axis = -1, expected = 1, got = arg_is_compact(args, 0));
                    assert!(1 == arg_ndim(args, 1), status = 2, arg = 1, axis = -1, expected = 1, got = arg_ndim(args, 1));
                    assert!(81920 == arg_dtype(args, 1), status = 3, arg = 1, axis = -1, expected = 81920, got = arg_dtype(args, 1));
                    assert!(1 == arg_is_compact(args, 1), status = 5, arg = 1, axis = -1, expected = 1, got = arg_is_compact(args, 1));
                    assert!(4 == arg_shape(args, 0, 0), status = 4, arg = 0, axis = 0, expected = 4, got = arg_shape(args, 0, 0));
                    assert!(4 == arg_shape(args, 1, 0), status = 4, arg = 1, axis = 0, expected = 4, got = arg_shape(args, 1, 0));
                    let x = decl_buffer::<i64>([4 * (n as usize)], arg_data(args, 0));
                    let y = decl_buffer::<i64>([4], arg_data(args, 1));
                    for i0 in 0..4 {
                        y[[i0]] = 0;
                        for r in 0..(n as usize) {
                            y[[i0]] += x[[i0 * (n as usize) + r]];
                        }
                    }
                }
            "##]],
        ),
    ];
    for (got, want) in cases {
        want.assert_eq(&got);
    }
}

#[test]
fn split_loops_are_divided_at_their_remainder() {
    let divided = |n: PrimExpr, whole: bool| {
        let x = te::placeholder("x", [n.clone()], I64);
        let y = te::compute("y", [n], &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) + 1);
        let mut s = Schedule::new(te::create_prim_func("next", &[x], &[y]).unwrap()).unwrap();
        let y = s.block("y").unwrap();
        let [i] = s.loops(y).unwrap();
        let [over, _] = s.split(i, [None, Some(8)]).unwrap();
        if whole {
            s.annotate(over, super::UNDIVIDED, true).unwrap();
        }
        let opaque =
            [super::lower_init_block(), super::convert_blocks_to_opaque(), super::lower_opaque_block()];
        let rest = [super::simplify(), super::loop_partition(), super::simplify(), super::narrow_loops()];
        after(s.into_func(), opaque.into_iter().chain(rest).collect())
    };
    expect![[r#"
        #[prim_func(attrs(is_scheduled = true), lowered)]
        fn next(x: &Tensor<i64, 20>, y: &mut Tensor<i64, 20>) {
            for [i0_0, i0_1] in grid([2, 8]) {
                y[[i0_0 * 8 + i0_1]] = x[[i0_0 * 8 + i0_1]] + 1;
            }
            for i0_1 in 0..4 {
                y[[i0_1 + 16]] = x[[i0_1 + 16]] + 1;
            }
        }
    "#]]
    .assert_eq(&divided(PrimExpr::index(20), false));
    expect![[r#"
        #[prim_func(attrs(is_scheduled = true), lowered)]
        fn next(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
            for [i0_0, i0_1] in grid([n / 8, 8]) {
                y[[i0_0 * 8 + i0_1]] = x[[i0_0 * 8 + i0_1]] + 1;
            }
            for i0_0 in (n / 8)..(n + 7) / 8 {
                for i0_1 in 0..n - i0_0 * 8 {
                    y[[i0_0 * 8 + i0_1]] = x[[i0_0 * 8 + i0_1]] + 1;
                }
            }
        }
    "#]]
    .assert_eq(&divided(Var::index("n").into(), false));
    let whole = divided(Var::index("n").into(), true);
    assert_eq!(whole.matches("y[[").count(), 1, "{whole}");
}

/// A long vector of which few elements exist becomes a loop over parts that exist.
#[test]
fn loops_end_with_their_conditions() {
    let divided = |factor: i64| {
        let (n, k) = (PrimExpr::from(Var::index("n")), PrimExpr::index(128));
        let x = te::placeholder("x", [n.clone(), k.clone()], DataType::F32);
        let y = te::compute("y", [n, k], &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) + 1);
        let mut s = Schedule::new(te::create_prim_func("next", &[x], &[y]).unwrap()).unwrap();
        let y = s.block("y").unwrap();
        let [row, column] = s.loops(y).unwrap();
        let flat = s.fuse([row, column]).unwrap();
        let [_, strip] = s.split(flat, [None, Some(factor)]).unwrap();
        s.vectorize(strip).unwrap();
        let blocks = [
            super::lower_init_block(),
            super::check_bounds(),
            super::convert_blocks_to_opaque(),
            super::lower_opaque_block(),
        ];
        let rest = [super::simplify(), super::loop_partition(), super::simplify()];
        after(s.into_func(), blocks.into_iter().chain(rest).collect())
    };
    // Parts of 64 would reach beyond the 200 iterations of a strip.
    let strips = divided(200);
    assert_eq!(strips.matches("in 0..200 {").count(), 2, "{strips}");
    assert!(!strips.contains("in 0..64 {"), "{strips}");
    expect![[r#"
        #[prim_func(attrs(is_scheduled = true), lowered)]
        fn next(x: &Tensor<f32, n, 128>, y: &mut Tensor<f32, n, 128>) {
            assert!((max(n, 1) as f64) * 12799.0 <= 4.611686018427388e18, status = 13, arg = -1, axis = -1, expected = 4611686018427387904, got = ((max(n, 1) as f64) * 12799.0) as i64);
            for i0_i1_fused_0 in 0..n / 32 {
                #[vectorize]
                for i0_i1_fused_1 in 0..4096 {
                    y[[i0_i1_fused_0 * 32 + i0_i1_fused_1 / 128, i0_i1_fused_1 % 128]] = x[[i0_i1_fused_0 * 32 + i0_i1_fused_1 / 128, i0_i1_fused_1 % 128]] + 1.0;
                }
            }
            for i0_i1_fused_0 in (n / 32)..(n + 31) / 32 {
                for i0_i1_fused_1 in 0..n * 2 - i0_i1_fused_0 * 64 {
                    #[vectorize]
                    for i0_i1_fused_1_1 in 0..64 {
                        y[[i0_i1_fused_0 * 32 + (i0_i1_fused_1 * 64 + i0_i1_fused_1_1) / 128, (i0_i1_fused_1 * 64 + i0_i1_fused_1_1) % 128]] = x[[i0_i1_fused_0 * 32 + (i0_i1_fused_1 * 64 + i0_i1_fused_1_1) / 128, (i0_i1_fused_1 * 64 + i0_i1_fused_1_1) % 128]] + 1.0;
                    }
                }
            }
        }
    "#]].assert_eq(&divided(4096));
}

/// Of the terms that fill no four vectors, whole vectors are added as vectors; of a multiple of a vector, none is left over.
#[test]
fn last_terms_of_reductions_are_vectors() {
    let loops = |terms: PrimExpr| {
        let x = te::placeholder("x", [terms.clone()], DataType::F32);
        let k = te::reduce_axis("k", terms);
        let y = te::compute("y", [], &[&x], |_: &[PrimExpr]| te::sum(x.at([k.expr()]), &[&k]));
        let mut s = Schedule::new(te::create_prim_func("total", &[x], &[y]).unwrap()).unwrap();
        let y = s.block("y").unwrap();
        let [k] = s.loops(y).unwrap();
        s.annotate(k, super::REDUCTION_LANES, true).unwrap();
        let passes = [
            super::lower_init_block(),
            super::convert_blocks_to_opaque(),
            super::lower_opaque_block(),
            super::flatten_buffer(),
            super::simplify(),
            super::vectorize_reductions(),
            super::simplify(),
            super::remove_no_op(),
        ];
        let text = after(s.into_func(), passes.into_iter().collect());
        // Sums in vectors, and additions of single terms.
        [text.matches("let mut sums").count(), text.matches("y_1[[0]] += x_1[[").count()]
    };
    let n = PrimExpr::from(Var::index("n"));
    let cases = [
        (64.into(), [1, 0]),
        // One vector more, and 11 terms more.
        (80.into(), [2, 0]),
        (91.into(), [2, 1]),
        (7.into(), [0, 1]),
        (&n * 32i64, [1, 0]),
        (&n * 48i64, [1, 0]),
        (n, [2, 1]),
    ];
    for (terms, expected) in cases {
        assert_eq!(loops(terms.clone()), expected, "{terms}");
    }
}

/// The last tile of a product, of which some columns do not exist, is computed whole: its operand is filled with zeros.
#[test]
fn lanes_of_a_tile_need_no_condition() {
    let symbol = |name| PrimExpr::from(Var::index(name));
    let (k, n) = (symbol("k"), symbol("n"));
    let (x, w) = (
        te::placeholder("x", [k.clone()], DataType::F32),
        te::placeholder("w", [k.clone(), n.clone()], DataType::F32),
    );
    let r = te::reduce_axis("r", k);
    let y = te::compute("y", [n], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([r.expr()]) * w.at([r.expr(), i[0].clone()]), &[&r])
    });
    let mut s = Schedule::new(te::create_prim_func("f", &[x, w], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [j, r] = s.loops(y).unwrap();
    let tile = s.cache_write(y, 0, Scope::Local).unwrap();
    let [tiles, column] = s.split(j, [None, Some(16)]).unwrap();
    s.reorder([tiles, r, column]).unwrap();
    s.reverse_compute_at(tile, tiles).unwrap();
    s.vectorize(column).unwrap();
    s.decompose_reduction(y, r).unwrap();
    let panel = s.cache_read(y, "w", Scope::Global).unwrap();
    s.compute_at(panel, tiles).unwrap();
    let passes = [
        super::contract_reductions(),
        super::lower_init_block(),
        super::convert_blocks_to_opaque(),
        super::lower_opaque_block(),
        super::simplify(),
        super::plan_and_update_buffer_allocation_location(),
        super::compact_buffer_allocation(),
        super::unguard_lanes(),
        super::simplify(),
    ];
    expect![[r##"
        #[prim_func(attrs(is_scheduled = true), lowered)]
        fn f(x: &Tensor<f32, k>, w: &Tensor<f32, k, n>, y: &mut Tensor<f32, n>) {
            for i0_0 in 0..(n + 15) / 16 {
                let mut w_global = alloc::<f32>([k, 16]);
                #[scope("local")]
                let mut y_local = alloc::<f32>([16]);
                #[vectorize]
                for i0_1 in 0..16 {
                    y_local[[i0_1]] = 0.0;
                }
                for [ax0, ax1] in grid([k, 16]) {
                    w_global[[ax0, ax1]] = 0.0;
                    if i0_0 * 16 + ax1 < n {
                        w_global[[ax0, ax1]] = w[[ax0, i0_0 * 16 + ax1]];
                    }
                }
                for r in 0..k {
                    #[vectorize]
                    for i0_1 in 0..16 {
                        y_local[[i0_1]] = fmuladd(x[[r]], w_global[[r, i0_1]], y_local[[i0_1]]);
                    }
                }
                for ax0 in 0..16 {
                    if i0_0 * 16 + ax0 < n {
                        y[[i0_0 * 16 + ax0]] = y_local[[ax0]];
                    }
                }
            }
        }
    "##]]
    .assert_eq(&after(s.into_func(), passes.into()));
}

/// 49 columns are a tile of 32 and one of 17, which computes whole vectors as well: of these, 17 elements are read and stored. A
/// column is divided among two indices of the operand.
#[test]
fn last_columns_of_constant_loops_are_whole_vectors() {
    let size = PrimExpr::index;
    let x = te::placeholder("x", [136, 7, 7].map(size), DataType::F32);
    let w = te::placeholder("w", [8, 136].map(size), DataType::F32);
    let k = te::reduce_axis("k", size(136));
    let y = te::compute("y", [8, 49].map(size), &[&x, &w], |i: &[PrimExpr]| {
        let pixel = [k.expr(), i[1].clone().floordiv(7), i[1].clone().floormod(7)];
        te::sum(x.at(pixel) * w.at([i[0].clone(), k.expr()]), &[&k])
    });
    let mut s = Schedule::new(te::create_prim_func("f", &[x, w], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [row, column, k] = s.loops(y).unwrap();
    let tile = s.cache_write(y, 0, Scope::Local).unwrap();
    let [tiles, lanes] = s.split(column, [None, Some(32)]).unwrap();
    s.reorder([tiles, k, row, lanes]).unwrap();
    s.reverse_compute_at(tile, tiles).unwrap();
    let [.., stored] = s.loops::<3>(tile).unwrap();
    for lanes in [lanes, stored] {
        s.vectorize(lanes).unwrap();
    }
    s.decompose_reduction(y, k).unwrap();
    let passes = [
        super::contract_reductions(),
        super::lower_init_block(),
        super::convert_blocks_to_opaque(),
        super::lower_opaque_block(),
        super::simplify(),
        super::plan_and_update_buffer_allocation_location(),
        super::compact_buffer_allocation(),
        super::partition_constant_loops(),
        super::unguard_lanes(),
        super::flatten_buffer(),
        super::simplify(),
        super::loop_partition(),
        super::simplify(),
        super::narrow_loops(),
        super::vectorize_loop(),
    ];
    let text = after_for("llvm -vector-bits=512 -masked-vectors=1", s.into_func(), passes.into());
    // Two vectors for each tile; of the last one, a column exists.
    let sums: Vec<&str> = text.lines().filter(|line| line.contains("fmuladd(")).collect();
    assert!(sums.len() == 4 && sums.iter().all(|it| it.contains("1, 16)]] = fmuladd(")), "{text}");
    assert_eq!(["masked(x_1", "masked(y_1"].map(|it| text.matches(it).count()), [1, 1], "{text}");
}

/// `y = x * 2` in vectors of 32 elements, whose outer loop has the annotation `prefetch`, lowered to `inject_prefetch`.
#[test]
fn unrolled_loops_without_statements_are_not_copied() {
    let x = te::placeholder("x", [PrimExpr::index(4)], I64);
    let y = te::compute("y", [PrimExpr::index(4)], &[&x], |i: &[PrimExpr]| x.at(i.to_vec()));
    let func = te::create_prim_func("copy", &[x], &[y]).unwrap();
    let huge = For::serial(Var::index("i"), PrimExpr::index(1 << 40), Stmt::seq([]));
    let body = For { kind: ForKind::Unrolled, ..huge }.into();
    let text = after(PrimFunc { body, ..func }, vec![super::unroll_loop(), super::remove_no_op()]);
    assert!(!text.contains("for"), "{text}");
}

fn prefetched(ahead: AttrValue) -> Result<String, PassError> {
    let shape = [8, 128].map(PrimExpr::index);
    let x = te::placeholder("x", shape.to_vec(), DataType::F32);
    let y = te::compute("y", shape, &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) * 2);
    let mut s = Schedule::new(te::create_prim_func("f", &[x], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [i, j] = s.loops(y).unwrap();
    let [_, vector] = s.split(j, [None, Some(32)]).unwrap();
    s.vectorize(vector).unwrap();
    s.annotate(i, super::PREFETCH, ahead).unwrap();
    let passes = vec![
        super::convert_blocks_to_opaque(),
        super::lower_opaque_block(),
        super::flatten_buffer(),
        super::simplify(),
        super::vectorize_loop(),
        super::inject_prefetch(),
    ];
    let module = IRModule::from_prim_func(s.into_func());
    let module = Sequential::new("passes", passes).apply_in(module, &PassContext::default())?;
    Ok(module.to_string())
}

#[test]
fn lines_that_later_iterations_load_are_prefetched() {
    expect![[r##"
        #[prim_func(attrs(is_scheduled = true), lowered)]
        fn f(x: &Tensor<f32, 8, 128>, y: &mut Tensor<f32, 8, 128>) {
            let x_1 = decl_buffer::<f32>([1024], address_of(x[[0, 0]]));
            let y_1 = decl_buffer::<f32>([1024], address_of(y[[0, 0]]));
            #[attrs("prefetch" = 2)]
            for i0 in 0..8 {
                for i1_0 in 0..4 {
                    prefetch(x_1[[i0 * 128 + i1_0 * 32 + 256]]);
                    prefetch(x_1[[i0 * 128 + i1_0 * 32 + 272]]);
                    y_1[[ramp(i0 * 128 + i1_0 * 32, 1, 16)]] = x_1[[ramp(i0 * 128 + i1_0 * 32, 1, 16)]] * broadcast(2.0, 16);
                    y_1[[ramp(i0 * 128 + i1_0 * 32 + 16, 1, 16)]] = x_1[[ramp(i0 * 128 + i1_0 * 32 + 16, 1, 16)]] * broadcast(2.0, 16);
                }
            }
        }"##]].assert_eq(&prefetched(AttrValue::Int(2)).unwrap());
    for wrong in [AttrValue::Int(0), AttrValue::Bool(true)] {
        let error = prefetched(wrong).unwrap_err().to_string();
        assert!(error.contains("annotation `prefetch`") && error.contains("1 or more"), "{error}");
    }
}

/// The annotation `pragma_unroll` stays on a loop that lowering keeps, also on the pieces of a divided one.
#[test]
fn unrolling_is_left_to_the_compiler_where_annotated() {
    let lowered = |copies: AttrValue| {
        let n = PrimExpr::from(Var::index("n"));
        let x = te::placeholder("x", [n.clone()], DataType::F32);
        let y = te::compute("y", [n], &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) * 2);
        let mut s = Schedule::new(te::create_prim_func("f", &[x], &[y]).unwrap()).unwrap();
        let y = s.block("y").unwrap();
        let [i] = s.loops(y).unwrap();
        let [outer, inner] = s.split(i, [None, Some(32)]).unwrap();
        s.vectorize(inner).unwrap();
        s.annotate(outer, super::PRAGMA_UNROLL, copies).unwrap();
        let module = IRModule::from_prim_func(s.into_func());
        let module = crate::pipeline::lower_tir().apply_in(module, &PassContext::default())?;
        Ok::<_, PassError>(module.to_string())
    };
    let text = lowered(AttrValue::Int(4)).unwrap();
    let mut lines = text.lines().map(str::trim);
    assert!(lines.any(|it| it == "#[attrs(pragma_unroll = 4)]"), "{text}");
    assert!(lines.next().is_some_and(|it| it.starts_with("for ")), "{text}");
    for wrong in [AttrValue::Int(0), AttrValue::Int(1025), AttrValue::Bool(true)] {
        let error = lowered(wrong).unwrap_err().to_string();
        assert!(
            error.contains("`pragma_unroll` with the value") && error.contains("from 1 to 1024"),
            "{error}"
        );
    }
}

/// What is left of the columns after whole tiles is transposed in registers too: no vector is gathered from rows.
#[test]
fn last_tiles_of_transposes_gather_nothing() {
    for (rows, columns) in [(16, 36), (32, 24), (16, 20), (8, 12)] {
        let x = te::placeholder("x", [columns, rows].map(PrimExpr::index), DataType::F32);
        let y = crate::topi::permute(&x, &[1, 0]);
        let mut s = Schedule::new(te::create_prim_func("f", &[x], &[y]).unwrap()).unwrap();
        let block = s.block("transpose").unwrap();
        let [i, j] = s.loops(block).unwrap();
        let tile = 16.min(rows);
        let [rows_of_tiles, row] = s.split(i, [None, Some(tile)]).unwrap();
        let [tiles, column] = s.split(j, [None, Some(tile)]).unwrap();
        s.reorder([rows_of_tiles, tiles, row, column]).unwrap();
        s.vectorize(column).unwrap();
        let lowered = lower_tir().apply(IRModule::from_prim_func(s.into_func())).unwrap();
        let func = lowered.prim_func(lowered.functions().next().unwrap().0).unwrap();
        let (mut vectors, mut gathers) = (0, 0);
        for_each_load(&func.body, &mut |load| match &load.indices[0] {
            PrimExpr::Ramp(ramp) if ramp.stride.is_const(1) => vectors += 1,
            index if index.dtype().lanes() > 1 => gathers += 1,
            _ => {}
        });
        assert!(vectors > 0 && gathers == 0, "{rows}x{columns}: {func}");
    }
}
