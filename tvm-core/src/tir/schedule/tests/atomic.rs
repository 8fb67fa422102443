//! `atomic`: the blocks that it takes and refuses, which loops may then be bound, and races that the interpreter finds without it.

use tvm_runtime::{DataType, Tensor};

use super::*;
use crate::ir::Var;
use crate::target::Target;
use crate::tir::interp::{InterpErrorKind, Program, Value};
use crate::tir::{
    BinaryOp, Block, BlockRealize, Buffer, For, ForKind, Intrinsic, Param, Scope, Stmt, ThreadTag, binary,
};
use crate::topi;

const N: i64 = 5;
const COUNT: i64 = 70;

type Combine = fn(PrimExpr, PrimExpr) -> PrimExpr;

const SUM: Combine = |old, new| old + new;

/// `y = x`, then `y[at[i]] = combine(y[at[i]], u[i])`.
fn updated(dtype: DataType, combine: Combine) -> PrimFunc {
    let x = te::placeholder("x", [dim(N)], dtype);
    let at = te::placeholder("at", [dim(COUNT)], I64);
    let u = te::placeholder("u", [dim(COUNT)], dtype);
    let y = topi::scatter_elements(&x, &at, &u, 0, combine);
    te::create_prim_func("updated", &[x, at, u], &[y]).unwrap()
}

const UPDATES: &str = "scatter_elements";

/// Makes the updates atomic, and a thread do each.
fn threads(s: &mut Schedule, any_order: bool) -> Result<()> {
    let block = s.block(UPDATES)?;
    s.atomic(block, any_order)?;
    bound(s)
}

fn bound(s: &mut Schedule) -> Result<()> {
    let block = s.block(UPDATES)?;
    let [i] = s.loops(block)?;
    let [block, thread] = s.split(i, [None, Some(32)])?;
    s.bind(block, ThreadTag::BlockIdxX)?;
    s.bind(thread, ThreadTag::ThreadIdxX)
}

fn refusal(res: Result<()>) -> String {
    res.unwrap_err().to_string()
}

fn updated_args() -> Vec<Value> {
    let of = |count: i64, f: fn(i64) -> i64| {
        Value::Tensor(Tensor::from_vec((0..count).map(f).collect::<Vec<i64>>(), &[count]).unwrap())
    };
    vec![of(N, |i| i * i), of(COUNT, |i| (i * 7) % 13 - 6), of(COUNT, |i| i * 37 % 23 - 9), of(N, |_| -1)]
}

#[test]
fn updates_in_any_order_are_bound() {
    let combines: [(Combine, BinaryOp); 6] = [
        (SUM, BinaryOp::Add),
        (|old, new| new + old, BinaryOp::Add),
        (|old, new| old - new, BinaryOp::Add),
        (|old, new| old * new, BinaryOp::Mul),
        (|old, new| old.min(new), BinaryOp::Min),
        (|old: PrimExpr, new| old.max(new), BinaryOp::Max),
    ];
    for (combine, op) in combines {
        let func = updated(I64, combine);
        let want = run(&func, updated_args());
        let mut s = Schedule::new(func.clone()).unwrap();
        threads(&mut s, false).unwrap();
        replayed(&func, &s);
        // Once more changes nothing.
        let (block, before) = (s.block(UPDATES).unwrap(), s.func().clone());
        s.atomic(block, false).unwrap();
        structural_equal(s.func(), &before).unwrap();
        let name = Intrinsic::atomic(op, I64).unwrap().name();
        assert!(s.func().to_string().contains(name), "{name}: {}", s.func());
        for seed in 0..8 {
            let mut args = updated_args();
            let program = Program::compile(s.func()).unwrap();
            program.strict(seed).run(&mut args).unwrap_or_else(|err| panic!("{err}\n{}", s.func()));
            assert_eq!(args[3].as_tensor().unwrap().to_vec::<i64>().unwrap(), want, "{}", s.func());
        }
    }
    let mut s = Schedule::new(updated(I64, SUM)).unwrap();
    threads(&mut s, false).unwrap();
    assert!(s.trace().to_string().contains("s.atomic(v0, false)?;"), "{}", s.trace());
}

#[test]
fn types_and_orders() {
    use DataType as T;
    let all = [T::I32, T::U32, T::I64, T::U64, T::F32, T::F64, T::I8, T::U8, T::I16, T::U16, T::F16, T::BF16];
    for (at, dtype) in all.into_iter().enumerate() {
        for combine in [SUM, |old, new| old * new, |old, new| old.min(new), |old: PrimExpr, new| old.max(new)]
        {
            for any_order in [false, true] {
                let mut s = Schedule::new(updated(dtype, combine)).unwrap();
                let res = threads(&mut s, any_order);
                let legal = at < 4 || (at < 6 && any_order);
                assert_eq!(res.is_ok(), legal, "{dtype}, {any_order}: {res:?}");
                let Err(err) = res else { continue };
                let why =
                    if at < 6 { "depends on the order of the updates" } else { "have no atomic updates" };
                assert!(err.to_string().contains(why), "{dtype}: {err}");
                assert_eq!(err.to_string().contains("allow any order"), at < 6, "{dtype}: {err}");
            }
        }
    }
}

/// Why floats keep their order: other orders of the same updates give other bits.
#[test]
fn orders_of_floats_give_other_bits() {
    let run = |combine: Combine, first: f32, updates: [f32; 2]| {
        let x = te::placeholder("x", [dim(1)], DataType::F32);
        let at = te::placeholder("at", [dim(2)], I64);
        let u = te::placeholder("u", [dim(2)], DataType::F32);
        let y = topi::scatter_elements(&x, &at, &u, 0, combine);
        let func = te::create_prim_func("f", &[x, at, u], &[y]).unwrap();
        let floats = |data: &[f32]| Value::Tensor(Tensor::from_slice(data, &[data.len() as i64]).unwrap());
        let at = Value::Tensor(Tensor::from_slice(&[0i64, 0], &[2]).unwrap());
        let mut args = vec![floats(&[first]), at, floats(&updates), floats(&[0.0])];
        crate::tir::interp::run(&func, &mut args).unwrap();
        args[3].as_tensor().unwrap().to_vec::<f32>().unwrap()[0].to_bits()
    };
    let [a, b] = [f32::from_bits(0x7fc0_0001), f32::from_bits(0x7fc0_0002)];
    let cases: [(Combine, f32, [f32; 2]); 6] = [
        (SUM, 1e8, [1.0, -1e8]),
        (|old, new| old * new, 1e30, [1e30, 1e-30]),
        (|old, new| old.min(new), f32::INFINITY, [0.0, -0.0]),
        (|old: PrimExpr, new| old.max(new), f32::NEG_INFINITY, [0.0, -0.0]),
        (|old, new| old.min(new), 0.0, [a, b]),
        (|old: PrimExpr, new| old.max(new), 0.0, [a, b]),
    ];
    for (at, (combine, first, [a, b])) in cases.into_iter().enumerate() {
        assert_ne!(run(combine, first, [a, b]), run(combine, first, [b, a]), "case {at}");
    }
}

/// A block over `v` in `0..COUNT` around `body`, of `y`, `at` and `u` of `dtype`.
fn program(dtype: DataType, scope: Scope, body: impl Fn([&Buffer; 3], PrimExpr) -> Stmt) -> PrimFunc {
    let [at, u] = [("at", I64), ("u", dtype)].map(|(name, dtype)| Buffer::new(name, [dim(COUNT)], dtype));
    let y = Buffer::with_scope("y", [dim(COUNT)], dtype, scope);
    let (v, i) = (Var::index("v"), Var::index("i"));
    let axis = crate::tir::IterVar {
        var: v.clone(),
        dom: crate::tir::Range::from_extent(COUNT),
        kind: crate::tir::IterKind::Opaque,
    };
    let block =
        Block { iter_vars: [axis].into(), ..Block::new(UPDATES, body([&y, &at, &u], PrimExpr::from(&v))) };
    let realize = BlockRealize {
        iter_values: [PrimExpr::from(&i)].into(),
        predicate: PrimExpr::bool(true),
        block: std::sync::Arc::new(crate::tir::analysis::with_access_regions(block)),
    };
    let nest = For::serial(i, COUNT, Stmt::from(realize)).into();
    let params = if scope == Scope::Global {
        vec![Param::In(at), Param::In(u), Param::Out(y)]
    } else {
        return PrimFunc::new(
            "f",
            [Param::In(at), Param::In(u)],
            BlockRealize::opaque(Block::root(vec![y], nest)),
        );
    };
    PrimFunc::new("f", params, BlockRealize::opaque(Block::root(vec![], nest)))
}

/// `y[at[v]]`, and its place.
fn element(y: &Buffer, at: &Buffer, v: &PrimExpr) -> (PrimExpr, [PrimExpr; 1]) {
    let place = [at.load([v.clone()])];
    (y.load(place.clone()), place)
}

#[test]
fn other_blocks_are_refused() {
    type Body = fn([&Buffer; 3], PrimExpr) -> Stmt;
    let cases: [(&str, Scope, Body); 8] = [
        ("its body is not one store", Scope::Global, |[y, at, u], v| {
            let (old, place) = element(y, at, &v);
            let store = Stmt::store(y, place, old + u.load([v]));
            Stmt::seq([store.clone(), store])
        }),
        ("its body is not one store", Scope::Global, |[y, at, u], v| {
            let (old, place) = element(y, at, &v);
            Stmt::if_then_else(v.clone().less(3), Stmt::store(y, place, old + u.load([v])), None)
        }),
        ("is not the old one plus", Scope::Global, |[y, at, u], v| {
            Stmt::store(y, element(y, at, &v).1, u.load([v]))
        }),
        ("is not the old one plus", Scope::Global, |[y, at, u], v| {
            let (old, place) = element(y, at, &v);
            Stmt::store(y, place, u.load([v]) - old)
        }),
        ("is not the old one plus", Scope::Global, |[y, at, _], v| {
            let (old, place) = element(y, at, &v);
            Stmt::store(y, place, old + y.load([v]))
        }),
        ("is not the old one plus", Scope::Global, |[y, at, u], v| {
            let other = y.load([at.load([v.clone()]) + 0 + u.load([v.clone()])]);
            Stmt::store(y, element(y, at, &v).1, other + u.load([v]))
        }),
        ("the place in `y` depends on `y`", Scope::Global, |[y, _, u], v| {
            let place = [y.load([v.clone()])];
            Stmt::store(y, place.clone(), y.load(place) + u.load([v]))
        }),
        ("`y` is in shared memory", Scope::Shared, |[y, at, u], v| {
            let (old, place) = element(y, at, &v);
            Stmt::store(y, place, old + u.load([v]))
        }),
    ];
    for (why, scope, body) in cases {
        let func = program(I64, scope, body);
        let mut s = Schedule::new(func.clone()).unwrap();
        let block = s.block(UPDATES).unwrap();
        let err = refusal(s.atomic(block, true));
        assert!(err.contains(why) && err.contains("`atomic` is not legal here"), "{why}: {err}");
        structural_equal(s.func(), &func).unwrap();
    }
    // A reduction with an init, before it is separated and after.
    let mut s = Schedule::new(small_dense()).unwrap();
    let y = s.block("y").unwrap();
    assert!(refusal(s.atomic(y, false)).contains("it has an `init`"));
    let [i, j, k] = s.loops(y).unwrap();
    s.decompose_reduction(y, i).unwrap();
    s.atomic(y, false).unwrap();
    s.bind(k, ThreadTag::ThreadIdxX).unwrap();
    s.bind(j, ThreadTag::BlockIdxX).unwrap();
    let want = run(&small_dense(), arguments(&small_dense(), &[]));
    for seed in 0..4 {
        let mut args = arguments(&small_dense(), &[]);
        Program::compile(s.func()).unwrap().strict(seed).run(&mut args).unwrap();
        assert_eq!(args.pop().unwrap().as_tensor().unwrap().to_vec::<i64>().unwrap(), want);
    }
}

#[test]
fn only_threads_update_side_by_side() {
    let mut s = Schedule::new(updated(I64, SUM)).unwrap();
    assert!(refusal(bound(&mut s.clone())).contains("whose iterations depend on each other"));
    let block = s.block(UPDATES).unwrap();
    s.atomic(block, false).unwrap();
    let [i] = s.loops(block).unwrap();
    assert!(refusal(s.parallel(i)).contains("whose iterations depend on each other"));
    assert!(refusal(s.vectorize(i)).contains("whose iterations depend on each other"));
    // Another block that reads what threads update.
    let reader = |body: &dyn Fn([&Buffer; 3], PrimExpr) -> Stmt| program(I64, Scope::Global, body);
    let both = reader(&|[y, at, u], v| {
        let (old, place) = element(y, at, &v);
        let update = PrimExpr::call(Intrinsic::AtomicAdd, [old, u.load([v.clone()])], I64);
        Stmt::seq([Stmt::store(y, place, update), Stmt::store(y, [v.clone()], y.load([v]) + 1)])
    });
    let mut s = Schedule::new(both).unwrap();
    assert!(refusal(bound(&mut s)).contains("whose iterations depend on each other"));
    // Later primitives keep what binds the loops.
    let mut s = Schedule::new(updated(I64, SUM)).unwrap();
    threads(&mut s, false).unwrap();
    let block = s.block(UPDATES).unwrap();
    let before = s.func().clone();
    assert!(s.cache_write(block, 0, Scope::Local).is_err());
    structural_equal(s.func(), &before).unwrap();
}

/// The loops of the program as `kind`, with atomic updates or plain ones.
fn racing(kind: ForKind, atomic: bool) -> PrimFunc {
    let func = program(I64, Scope::Global, |[y, at, u], v| {
        let (old, place) = element(y, at, &v);
        let term = u.load([v]);
        let value = match atomic {
            true => PrimExpr::call(Intrinsic::AtomicAdd, [old, term], I64),
            false => binary(BinaryOp::Add, old, term),
        };
        Stmt::store(y, place, value)
    });
    struct Kinds(ForKind);
    impl crate::tir::Mutator for Kinds {
        fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
            match stmt {
                Stmt::For(node) => Some(For { kind: self.0, ..(**node).clone() }.into()),
                _ => self.walk_stmt(stmt),
            }
        }
    }
    let body = crate::tir::Mutator::mutate_stmt(&mut Kinds(kind), &func.body).unwrap();
    PrimFunc { body, ..func }
}

/// Without the atomic operation, lowering refuses the program, and the interpreter reports the race.
#[test]
fn plain_updates_by_threads_race() {
    let args = || {
        let of = |f: fn(i64) -> i64| {
            Value::Tensor(Tensor::from_vec((0..COUNT).map(f).collect::<Vec<i64>>(), &[COUNT]).unwrap())
        };
        vec![of(|i| i % 9), of(|i| i), of(|_| 0)]
    };
    let block = ForKind::ThreadBinding(ThreadTag::BlockIdxX);
    for kind in [block, ForKind::ThreadBinding(ThreadTag::ThreadIdxX), ForKind::Parallel] {
        for atomic in [false, true] {
            let func = racing(kind, atomic);
            let legal = atomic && kind != ForKind::Parallel;
            for target in [Target::c(), Target::cuda()] {
                assert_eq!(check_loop_kinds(&func, target.is_gpu()).is_ok(), legal, "{kind:?}, {atomic}");
            }
            for seed in 0..6 {
                let res = Program::compile(&func).unwrap().strict(seed).run(&mut args());
                match (atomic, res) {
                    (true, Ok(())) => {}
                    (false, Err(err)) => assert!(matches!(err.kind, InterpErrorKind::Race { .. }), "{err}"),
                    (_, res) => panic!("{kind:?}, {atomic}: {res:?}"),
                }
            }
        }
    }
}

#[test]
fn lowering_asks_for_the_element_that_is_stored() {
    let wrong: [fn([&Buffer; 3], PrimExpr) -> Stmt; 3] = [
        |[y, at, u], v| {
            let value = PrimExpr::call(Intrinsic::AtomicAdd, [y.load([v.clone()]), u.load([v.clone()])], I64);
            Stmt::store(y, element(y, at, &v).1, value)
        },
        |[y, at, u], v| {
            let (old, place) = element(y, at, &v);
            Stmt::store(y, place, PrimExpr::call(Intrinsic::AtomicAdd, [old, u.load([v])], I64) + 1)
        },
        |[y, _, u], v| {
            let value = PrimExpr::call(Intrinsic::AtomicMax, [u.load([v.clone()]), u.load([v.clone()])], I64);
            Stmt::store(y, [v], value)
        },
    ];
    for body in wrong {
        let module = crate::ir::IRModule::from_prim_func(program(I64, Scope::Global, body));
        for pipeline in [crate::pipeline::lower_tir(), crate::pipeline::lower_cuda()] {
            let err = pipeline.apply(module.clone()).unwrap_err().to_string();
            assert!(err.contains("which is no value"), "{err}");
        }
    }
}
