//! Tests of programs with every kind of statement, against results of plain Rust.

use std::sync::Arc;

use tvm_runtime::vm::CancelToken;
use tvm_runtime::{DataType, RuntimeError, Tensor};

use super::{InterpError, InterpErrorKind, Program, Value, run};
use crate::ir::{IRModule, Span, Var};
use crate::tir::*;

fn tensor(data: &[f32], shape: &[i64]) -> Value {
    Value::Tensor(Tensor::from_slice(data, shape).unwrap())
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_tensor().unwrap().to_vec().unwrap()
}

/// `c[i, j] = sum over p of a[i, p] * b[p, j]`, as a block.
fn matmul() -> PrimFunc {
    let [m, n, k] = ["m", "n", "k"].map(Var::index);
    let dims = |vars: &[&Var]| vars.iter().map(|&var| var.into()).collect::<Vec<PrimExpr>>();
    let a = Buffer::new("a", dims(&[&m, &k]), DataType::F32);
    let b = Buffer::new("b", dims(&[&k, &n]), DataType::F32);
    let c = Buffer::new("c", dims(&[&m, &n]), DataType::F32);
    let [vi, vj, vp] = ["vi", "vj", "vp"].map(Var::index);
    let at = |vars: [&Var; 2]| vars.map(PrimExpr::from);
    let product = a.load(at([&vi, &vp])) * b.load(at([&vp, &vj]));
    let body = Stmt::store(&c, at([&vi, &vj]), c.load(at([&vi, &vj])) + product);
    let loops = [(&m, &vi), (&n, &vj), (&k, &vp)];
    let loop_vars: Vec<Var> = loops.iter().map(|(_, axis)| axis.renew()).collect();
    let iter_vars: Vec<IterVar> = loops
        .iter()
        .map(|(extent, var)| IterVar {
            var: (*var).clone(),
            dom: Range::from_extent(PrimExpr::from(*extent)),
            kind: if *var == &vp { IterKind::Reduce } else { IterKind::Spatial },
        })
        .collect();
    let init = Stmt::store(&c, at([&vi, &vj]), PrimExpr::float(0.0, DataType::F32));
    let block = Block { iter_vars: iter_vars.into(), init: Some(init), ..Block::new("C", body) };
    let realize = BlockRealize {
        iter_values: loop_vars.iter().map(PrimExpr::from).collect(),
        predicate: PrimExpr::bool(true),
        block: Arc::new(block),
    };
    let nest =
        loop_vars.iter().zip(loops).rev().fold(Stmt::from(realize), |body, (var, (extent, _))| {
            For::serial(var.clone(), extent, body).into()
        });
    PrimFunc::new(
        "matmul",
        [Param::In(a), Param::In(b), Param::Out(c)],
        BlockRealize::opaque(Block::root(vec![], nest)),
    )
}

#[test]
fn a_block_with_init_and_symbolic_dims() {
    let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut args = [tensor(&a, &[2, 3]), tensor(&a, &[3, 2]), tensor(&[9.0; 4], &[2, 2])];
    run(&matmul(), &mut args).unwrap();
    assert_eq!(floats(&args[2]), [22.0, 28.0, 49.0, 64.0]);
}

#[test]
fn arguments_are_checked() {
    let func = matmul();
    let err = |mut args: Vec<Value>| run(&func, &mut args).unwrap_err().to_string();
    let (good, bad) = (tensor(&[0.0; 4], &[2, 2]), tensor(&[0.0; 6], &[3, 2]));
    assert_eq!(err(vec![good.clone()]), "`matmul`: expected 3 argument(s), got 1");
    assert_eq!(
        err(vec![good.clone(), bad.clone(), good.clone()]),
        "`matmul`: argument `b`: axis 0 is 3, expected 2 (= k)"
    );
    assert_eq!(
        err(vec![good.clone(), good.clone(), tensor(&[0.0; 4], &[4])]),
        "`matmul`: argument `c`: rank is 1, expected 2"
    );
    let ints = Value::Tensor(Tensor::from_slice(&[0i32; 4], &[2, 2]).unwrap());
    assert_eq!(
        err(vec![ints, good.clone(), good.clone()]),
        "`matmul`: argument `a`: element type is i32, expected f32"
    );
    assert!(err(vec![Value::Int(1), good.clone(), good]).contains("expected a tensor"));
}

/// A function of one `f32` input and one output of `n` elements.
fn map(n: i64, body: impl FnOnce(&Buffer, &Buffer) -> Stmt) -> PrimFunc {
    let x = Buffer::new("x", [PrimExpr::index(n)], DataType::F32);
    let y = Buffer::new("y", [PrimExpr::index(n)], DataType::F32);
    let body = body(&x, &y);
    PrimFunc::new("map", [Param::In(x), Param::Out(y)], body)
}

fn run_map(func: &PrimFunc, x: &[f32]) -> Result<Vec<f32>, InterpError> {
    let shape = [x.len() as i64];
    let mut args = [tensor(x, &shape), tensor(&vec![0.0; x.len()], &shape)];
    run(func, &mut args).map(|()| floats(&args[1]))
}

#[test]
fn vectors_run_lane_by_lane() {
    let ramp = |base: i64, stride: i64| PrimExpr::index(base).ramp(PrimExpr::index(stride), 4);
    let func = map(4, |x, y| {
        let v = Var::prim("v", DataType::F32.with_lanes(4));
        let reversed = x.load([ramp(3, -1)]);
        let shuffled = PrimExpr::Shuffle(Arc::new(Shuffle {
            vectors: [PrimExpr::from(&v), x.load([ramp(0, 1)])].into(),
            indices: [0, 5, 2, 7].into(),
        }));
        let keep = ramp(0, 1).less(2);
        Stmt::seq([
            Bind { var: v.clone(), value: reversed * PrimExpr::float(10.0, DataType::F32) }.into(),
            Stmt::store(y, [ramp(0, 1)], shuffled),
            Stmt::store(y, [ramp(0, 1)], keep.select(y.load([ramp(0, 1)]), y.load([ramp(3, -1)]))),
        ])
    });
    assert_eq!(run_map(&func, &[1.0, 2.0, 3.0, 4.0]).unwrap(), [40.0, 2.0, 2.0, 40.0]);
}

#[test]
fn out_of_bounds_is_an_error_that_names_the_place() {
    let func = map(4, |x, y| {
        let i = Var::index("i");
        let load = PrimExpr::BufferLoad(Arc::new(BufferLoad {
            buffer: x.clone(),
            indices: [&i + 1i64].into(),
            predicate: None,
            span: Span::rust("k.rs", 3, 9),
        }));
        For::serial(i.clone(), 4, Stmt::store(y, [PrimExpr::from(&i)], load)).into()
    });
    assert_eq!(
        run_map(&func, &[0.0; 4]).unwrap_err().to_string(),
        "`x`: index 4 of axis 0 is out of bounds, expected 0..4\n  --> k.rs:3:9"
    );
    let func = map(4, |x, _| Stmt::store(x, [PrimExpr::index(0)], PrimExpr::float(0.0, DataType::F32)));
    assert_eq!(
        run_map(&func, &[0.0; 4]).unwrap_err().to_string(),
        "`x` is an input and may not be written to"
    );
}

#[test]
fn division_by_zero_and_endless_loops_stop() {
    let store = |y: &Buffer, index: PrimExpr| Stmt::store(y, [index], PrimExpr::float(1.0, DataType::F32));
    let zero = Var::index("zero");
    let func = map(4, |_, y| {
        let div = PrimExpr::index(1).floordiv(&zero);
        Stmt::seq([
            Bind { var: zero.clone(), value: PrimExpr::index(0) }.into(),
            Stmt::from(For::serial(Var::index("i"), 1, store(y, div))),
        ])
    });
    assert!(matches!(run_map(&func, &[0.0; 4]).unwrap_err().kind, InterpErrorKind::DivisionByZero));
    let func = map(4, |_, y| {
        While { condition: PrimExpr::bool(true), body: store(y, 0.into()), span: Span::none() }.into()
    });
    let mut args = [tensor(&[0.0; 4], &[4]), tensor(&[0.0; 4], &[4])];
    let program = Program::compile(&func).unwrap();
    assert!(matches!(
        program.run_limited(&mut args, 1000),
        Err(InterpError { kind: InterpErrorKind::StepLimit, .. })
    ));
    let token = CancelToken::new();
    let res = std::thread::scope(|scope| {
        let running = scope.spawn(|| program.run_until(&mut args, Some(&token)));
        token.cancel();
        running.join().unwrap()
    });
    assert!(matches!(res.unwrap_err().kind, InterpErrorKind::Runtime(RuntimeError::Cancelled)));
}

#[test]
fn packed_functions_read_their_argument_list() {
    let args = Var::prim("args", DataType::HANDLE);
    let call = |intrinsic, rest: &[i64], dtype| {
        let list = std::iter::once(PrimExpr::from(&args)).chain(rest.iter().map(|&it| it.into()));
        PrimExpr::call(intrinsic, list.collect::<Vec<_>>(), dtype)
    };
    let n = Var::index("n");
    let x = Buffer::new("x", [PrimExpr::from(&n)], DataType::F32);
    let scale = Var::prim("scale", DataType::F32);
    let i = Var::index("i");
    let at = || [PrimExpr::from(&i)];
    let ndim = call(Intrinsic::ArgNdim, &[0], DataType::I64);
    let rank = |want: i64| {
        Stmt::from(AssertStmt {
            condition: ndim.clone().equal(want),
            failure: Failure::new(2, 0, -1, want.into(), ndim.clone()),
        })
    };
    let body = |want| {
        Stmt::seq([
            rank(want),
            Bind { var: n.clone(), value: call(Intrinsic::ArgShape, &[0, 0], DataType::I64) }.into(),
            Bind { var: scale.clone(), value: call(Intrinsic::ArgScalar, &[1], DataType::F32) }.into(),
            DeclBuffer { buffer: x.clone(), data: call(Intrinsic::ArgData, &[0], DataType::HANDLE) }.into(),
            For::serial(i.clone(), &n, Stmt::store(&x, at(), x.load(at()) * &scale)).into(),
        ])
    };
    let func = |want| PrimFunc::new("scale", [Param::Scalar(args.clone())], body(want));
    let mut values = [tensor(&[1.0, 2.0, 3.0], &[3]), Value::Float(2.0)];
    run(&func(1), &mut values).unwrap();
    assert_eq!(floats(&values[0]), [2.0, 4.0, 6.0]);
    let err = run(&func(2), &mut values).unwrap_err();
    assert_eq!(err.to_string(), "assertion failed: status 2, argument 0, axis -1: expected 2, got 1");
}

/// A loop of this kind with 8 iterations, over `x` and `y` with 9 elements.
fn looped(kind: ForKind, body: impl FnOnce(&Buffer, &Buffer, &PrimExpr) -> Stmt) -> PrimFunc {
    map(9, |x, y| {
        let i = Var::index("i");
        let body = body(x, y, &PrimExpr::from(&i));
        For { kind, span: Span::rust("k.rs", 2, 5), ..For::serial(i, 8, body) }.into()
    })
}

fn run_strict(func: &PrimFunc, seed: u64, fresh: bool) -> Result<Vec<f32>, InterpError> {
    let mut args = [tensor(&[1.0; 9], &[9]), tensor(&[2.0; 9], &[9])];
    let program = Program::compile(func)?;
    let strict = program.strict(seed);
    let strict = if fresh { strict.fresh_outputs() } else { strict };
    strict.run(&mut args).map(|()| floats(&args[1]))
}

#[test]
fn iterations_that_race_are_found_in_any_order() {
    let kinds = [ForKind::Parallel, ForKind::Vectorized, ForKind::ThreadBinding(ThreadTag::ThreadIdxX)];
    let zero = || PrimExpr::index(0);
    for kind in kinds {
        let sum = looped(kind, |x, y, i| Stmt::store(y, [zero()], y.load([zero()]) + x.load([i.clone()])));
        let shift = looped(kind, |_, y, i| Stmt::store(y, [i + 1], y.load([i.clone()])));
        let last = looped(kind, |x, y, i| Stmt::store(y, [zero()], x.load([i.clone()])));
        let fine = looped(kind, |x, y, i| {
            let own = Stmt::store(y, [i.clone()], y.load([i.clone()]) + x.load([zero()]));
            let j = Var::index("j");
            Stmt::seq([own.clone(), For::serial(j, 3, own).into()])
        });
        for seed in 0..20 {
            for racing in [&sum, &shift, &last] {
                let err = run_strict(racing, seed, false).unwrap_err();
                assert!(matches!(err.kind, InterpErrorKind::Race { .. }), "{err}");
            }
            assert_eq!(run_strict(&fine, seed, false).unwrap()[..8], [6.0; 8]);
        }
        let err = run_strict(&last, 0, false).unwrap_err().to_string();
        assert!(err.starts_with("`y[[0]]` is accessed by iterations "), "{err}");
        assert!(err.contains(&format!("the {} loop `i`, and written", kind.name())), "{err}");
    }
    // Serial loops, and successive runs of one parallel loop, are ordered.
    let serial = looped(ForKind::Serial, |x, y, i| {
        let j = Var::index("j");
        let body = Stmt::store(y, [PrimExpr::from(&j)], y.load([PrimExpr::from(&j)]) + x.load([i.clone()]));
        For { kind: ForKind::Parallel, ..For::serial(j, 8, body) }.into()
    });
    assert_eq!(run_strict(&serial, 3, false).unwrap()[0], 10.0);
}

#[test]
fn loops_that_run_at_once_may_have_any_number_of_iterations() {
    let y = Buffer::new("y", [PrimExpr::index(1)], DataType::F32);
    let body = Evaluate { value: PrimExpr::index(0) }.into();
    let body = For { kind: ForKind::Parallel, ..For::serial(Var::index("i"), 1i64 << 62, body) };
    let func = PrimFunc::new("endless", vec![Param::Out(y)], body.into());
    let program = Program::compile(&func).unwrap();
    for seed in 0..8 {
        let res = program.strict(seed).run_limited(&mut [tensor(&[0.0], &[1])], 1000);
        assert!(matches!(res, Err(InterpError { kind: InterpErrorKind::StepLimit, .. })), "{res:?}");
    }
}

#[test]
fn reads_of_memory_that_was_not_written() {
    let func = looped(ForKind::Parallel, |x, y, i| {
        let t = Buffer::new("t", [PrimExpr::index(2)], DataType::F32);
        let zero = || PrimExpr::index(0);
        Stmt::seq([
            AllocBuffer::new(t.clone()).into(),
            Stmt::if_then_else(i.clone().less(5), Stmt::store(&t, [zero()], x.load([zero()])), None),
            Stmt::store(y, [i.clone()], t.load([zero()])),
        ])
    });
    assert_eq!(run_map(&func, &[1.0; 9]).unwrap()[..8], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(
        run_strict(&func, 1, false).unwrap_err().to_string(),
        "`t[[0]]` is read before it is written\n  --> k.rs:2:5"
    );
    let update = looped(ForKind::Parallel, |x, y, i| {
        Stmt::store(y, [i.clone()], y.load([i.clone()]) + x.load([i.clone()]))
    });
    assert_eq!(run_strict(&update, 1, false).unwrap()[0], 3.0);
    assert!(matches!(
        run_strict(&update, 1, true),
        Err(InterpError { kind: InterpErrorKind::Uninitialised { .. }, .. })
    ));
}

/// Lanes are combined in halves, and nothing but vectors of numbers has lanes to combine.
#[test]
fn lanes_are_reduced_in_halves() {
    let ramp = |base: i64| PrimExpr::index(base).ramp(PrimExpr::index(1), 4);
    let program = |dtype: DataType, value: &dyn Fn(&Buffer) -> PrimExpr| {
        let x = Buffer::new("x", [PrimExpr::index(8)], dtype);
        let y = Buffer::new("y", [PrimExpr::index(1)], dtype);
        let body = Stmt::store(&y, [PrimExpr::index(0)], value(&x));
        PrimFunc::new("f", [Param::In(x), Param::Out(y)], body)
    };
    let run = |intrinsic: Intrinsic, x: [f32; 8]| {
        let func = program(DataType::F32, &|x| PrimExpr::call(intrinsic, [x.load([ramp(2)])], DataType::F32));
        let tensor = |data: &[f32]| Value::Tensor(Tensor::from_slice(data, &[data.len() as i64]).unwrap());
        let mut args = [tensor(&x), tensor(&[9.0])];
        super::run(&func, &mut args).unwrap();
        args[1].as_tensor().unwrap().to_vec::<f32>().unwrap()[0]
    };
    // (1e8 - 1e8) + (1 + 2), not ((1e8 + 1) - 1e8) + 2.
    assert_eq!(run(Intrinsic::ReduceAdd, [0.0, 0.0, 1e8, 1.0, -1e8, 2.0, 0.0, 0.0]), 3.0);
    assert_eq!(run(Intrinsic::ReduceMul, [0.0, 0.0, 2.0, 3.0, 5.0, 7.0, 0.0, 0.0]), 210.0);
    assert_eq!(run(Intrinsic::ReduceMin, [0.0, 0.0, 2.0, -3.0, 5.0, 7.0, -9.0, 0.0]), -3.0);
    assert!(run(Intrinsic::ReduceMax, [0.0, 0.0, 2.0, f32::NAN, 5.0, 7.0, 0.0, 0.0]).is_nan());
    let refused = |dtype: DataType, value: &dyn Fn(&Buffer) -> PrimExpr| {
        let err = crate::ir::well_formed(&IRModule::from_prim_func(program(dtype, value))).unwrap_err();
        assert!(err.to_string().contains("reduce_add"), "{err}");
    };
    let add = |it: PrimExpr, dtype: DataType| PrimExpr::call(Intrinsic::ReduceAdd, [it], dtype);
    refused(DataType::F32, &|x| add(x.load([PrimExpr::index(0)]), DataType::F32));
    refused(DataType::F16, &|x| add(x.load([ramp(0)]), DataType::F16));
    refused(DataType::F32, &|x| add(x.load([PrimExpr::index(0).ramp(PrimExpr::index(1), 3)]), DataType::F32));
    refused(DataType::BOOL, &|x| add(x.load([ramp(0)]), DataType::BOOL));
}
