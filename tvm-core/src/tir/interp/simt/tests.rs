//! Tests of programs with threads, with and without the barriers that they need.

use tvm_runtime::{DataType, Tensor};

use crate::ir::{Span, Var};
use crate::tir::interp::{InterpErrorKind, Program, Value};
use crate::tir::*;

const F32: DataType = DataType::F32;
const N: i64 = 8;

fn thread(tag: ThreadTag, var: &Var, extent: i64, body: Stmt) -> Stmt {
    For { kind: ForKind::ThreadBinding(tag), ..For::serial(var.clone(), extent, body) }.into()
}

fn barrier() -> Stmt {
    let scope = PrimExpr::StringImm("shared".into());
    Evaluate { value: PrimExpr::call(Intrinsic::StorageSync, [scope], DataType::I32) }.into()
}

fn seq(stmts: Vec<Option<Stmt>>) -> Stmt {
    Stmt::seq(stmts.into_iter().flatten())
}

/// A program over `x` and `y` of 16 elements, with a shared buffer of 8.
fn program(body: impl FnOnce(&Buffer, &Buffer, &Buffer) -> Stmt) -> PrimFunc {
    let buffer = |name| Buffer::new(name, [PrimExpr::index(2 * N)], F32);
    let (x, y) = (buffer("x"), buffer("y"));
    let shared = Buffer::with_scope("sh", [PrimExpr::index(N)], F32, Scope::Shared);
    let body = body(&x, &y, &shared);
    let root = BlockRealize::opaque(Block::root(vec![shared], body));
    PrimFunc { span: Span::rust("k.rs", 1, 1), ..PrimFunc::new("f", [Param::In(x), Param::Out(y)], root) }
}

fn args() -> Vec<Value> {
    let x: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let value = |data: &[f32]| Value::Tensor(Tensor::from_slice(data, &[16]).unwrap());
    vec![value(&x), value(&[0.0; 16])]
}

fn y(args: &[Value]) -> Vec<f32> {
    args[1].as_tensor().unwrap().to_vec().unwrap()
}

/// Checks that `right` computes `want` in every order without a race, and that each of `wrong` races or reads unwritten
/// memory. Returns, for each of `wrong`, the number of runs that reported a race.
fn check(right: &PrimFunc, want: &[f32], wrong: &[PrimFunc]) -> Vec<usize> {
    let mut plain = args();
    Program::compile(right).unwrap().run(&mut plain).unwrap();
    assert_eq!(y(&plain)[..want.len()], *want);
    let mut races = vec![0; wrong.len()];
    for seed in 0..12 {
        let mut strict = args();
        Program::compile(right)
            .unwrap()
            .strict(seed)
            .run(&mut strict)
            .unwrap_or_else(|err| panic!("{err}\n{right}"));
        assert_eq!(y(&strict)[..want.len()], *want);
        for (wrong, races) in wrong.iter().zip(&mut races) {
            let err = Program::compile(wrong).unwrap().strict(seed).run(&mut args()).unwrap_err();
            match &err.kind {
                InterpErrorKind::Race { .. } => {
                    *races += 1;
                    assert!(err.to_string().contains("without a barrier between"), "{err}");
                }
                // The other thread has not reached its store yet.
                InterpErrorKind::Uninitialised { .. } => {}
                _ => panic!("{err}\n{wrong}"),
            }
        }
    }
    races
}

fn reversed() -> Vec<f32> {
    (0..8).rev().map(|i| i as f32).collect()
}

#[test]
fn threads_wait_inside_of_their_loop() {
    let kernel = |sync: bool| {
        program(|x, y, sh| {
            let tx = Var::index("tx");
            let i = || PrimExpr::from(&tx);
            let body = seq(vec![
                Some(Stmt::store(sh, [i()], x.load([i()]))),
                sync.then(barrier),
                Some(Stmt::store(y, [i()], sh.load([PrimExpr::index(N - 1) - i()]))),
            ]);
            thread(ThreadTag::ThreadIdxX, &tx, N, body)
        })
    };
    check(&kernel(true), &reversed(), &[kernel(false)]);
}

/// The statements before and after a barrier may be in separate loops over the same threads.
#[test]
fn loops_of_one_index_are_the_same_threads() {
    let kernel = |sync: bool| {
        program(|x, y, sh| {
            let [bx, t, u] = ["bx", "tx", "tx"].map(Var::index);
            let at = |v: &Var| PrimExpr::from(v);
            let fill = thread(ThreadTag::ThreadIdxX, &t, N, Stmt::store(sh, [at(&t)], x.load([at(&t)])));
            let read = sh.load([PrimExpr::index(N - 1) - at(&u)]);
            let drain = thread(ThreadTag::ThreadIdxX, &u, N, Stmt::store(y, [at(&u)], read));
            thread(ThreadTag::BlockIdxX, &bx, 1, seq(vec![Some(fill), sync.then(barrier), Some(drain)]))
        })
    };
    assert_eq!(check(&kernel(true), &reversed(), &[kernel(false)]), [12]);
    // Without a loop around them, they are two kernels that run in order.
    let two = program(|x, y, sh| {
        let [t, u] = ["tx", "tx"].map(Var::index);
        let at = |v: &Var| PrimExpr::from(v);
        let fill = thread(ThreadTag::ThreadIdxX, &t, N, Stmt::store(sh, [at(&t)], x.load([at(&t)])));
        let read = sh.load([PrimExpr::index(N - 1) - at(&u)]);
        Stmt::seq([fill, thread(ThreadTag::ThreadIdxX, &u, N, Stmt::store(y, [at(&u)], read))])
    });
    check(&two, &reversed(), &[]);
}

/// `for k in 0..3 { s = 4 >> k; if tx < s { sh[tx] += sh[tx + s] } barrier }`
#[test]
fn a_tree_needs_a_barrier_at_every_level() {
    let kernel = |filled: bool, level: bool| {
        program(|x, y, sh| {
            let (tx, k) = (Var::index("tx"), Var::index("k"));
            let i = || PrimExpr::from(&tx);
            let step = binary(BinaryOp::Shr, PrimExpr::index(4), PrimExpr::from(&k));
            let sum = sh.load([i()]) + sh.load([i() + &step]);
            let add = Stmt::if_then_else(i().less(step), Stmt::store(sh, [i()], sum), None);
            let levels = For::serial(k, 3, seq(vec![Some(add), level.then(barrier)])).into();
            let body = seq(vec![
                Some(Stmt::store(sh, [i()], x.load([i()]))),
                filled.then(barrier),
                Some(levels),
                Some(Stmt::store(y, [i()], sh.load([PrimExpr::index(0)]))),
            ]);
            thread(ThreadTag::ThreadIdxX, &tx, N, body)
        })
    };
    let races = check(&kernel(true, true), &[28.0; 8], &[kernel(true, false), kernel(false, true)]);
    assert!(races[0] > 0, "{races:?}");
}

/// All threads must have read a buffer before it is filled again.
#[test]
fn a_buffer_is_filled_again_after_a_barrier() {
    let kernel = |read: bool| {
        program(|x, y, sh| {
            let (tx, k) = (Var::index("tx"), Var::index("k"));
            let (i, at) = (|| PrimExpr::from(&tx), PrimExpr::from(&k));
            let fill = Stmt::store(sh, [i()], x.load([i() + at * N]));
            let sum = y.load([i()]) + sh.load([PrimExpr::index(N - 1) - i()]);
            let parts =
                vec![Some(fill), Some(barrier()), Some(Stmt::store(y, [i()], sum)), read.then(barrier)];
            thread(ThreadTag::ThreadIdxX, &tx, N, For::serial(k, 2, seq(parts)).into())
        })
    };
    let want: Vec<f32> = (0..8).map(|i| (7 - i) as f32 + (15 - i) as f32).collect();
    assert_eq!(check(&kernel(true), &want, &[kernel(false)]), [12]);
}

#[test]
fn threads_of_two_indices_and_buffers_of_each() {
    let kernel = |sync: bool| {
        program(|x, y, sh| {
            let [ty, tx] = ["ty", "tx"].map(Var::index);
            let own = Buffer::with_scope("own", [PrimExpr::index(1)], F32, Scope::Local);
            let zero = || [PrimExpr::index(0)];
            let i = || PrimExpr::from(&ty) * 4 + PrimExpr::from(&tx);
            let turned =
                (PrimExpr::index(1) - PrimExpr::from(&ty)) * 4 + (PrimExpr::index(3) - PrimExpr::from(&tx));
            let body = seq(vec![
                Some(Stmt::store(&own, zero(), x.load([i()]))),
                Some(Stmt::store(sh, [i()], own.load(zero()) * PrimExpr::float(2.0, F32))),
                sync.then(barrier),
                Some(Stmt::store(y, [i()], sh.load([turned]) - own.load(zero()))),
            ]);
            let block = Block { alloc_buffers: [own.clone()].into(), ..Block::new("own", body) };
            let inner = thread(ThreadTag::ThreadIdxX, &tx, 4, BlockRealize::opaque(block));
            thread(ThreadTag::ThreadIdxY, &ty, 2, inner)
        })
    };
    let want: Vec<f32> = (0..8).map(|i| (2 * (7 - i) - i) as f32).collect();
    check(&kernel(true), &want, &[kernel(false)]);
}

/// Three threads read an element, then the first of them writes it: the write is not ordered with the other reads.
#[test]
fn all_readers_are_known() {
    let wrong = program(|_, y, sh| {
        let [bx, t, u, v] = ["bx", "tx", "tx", "tx"].map(Var::index);
        let zero = || PrimExpr::index(0);
        let at = |v: &Var| PrimExpr::from(v);
        let own = |var: &Var| {
            Stmt::if_then_else(
                at(var).equal(zero()),
                Stmt::store(sh, [zero()], PrimExpr::float(1.0, F32)),
                None,
            )
        };
        let first = thread(ThreadTag::ThreadIdxX, &t, 3, own(&t));
        let reads = thread(ThreadTag::ThreadIdxX, &u, 3, Stmt::store(y, [at(&u)], sh.load([zero()])));
        let again = thread(ThreadTag::ThreadIdxX, &v, 3, own(&v));
        thread(ThreadTag::BlockIdxX, &bx, 1, Stmt::seq([first, barrier(), reads, again]))
    });
    let right = program(|x, y, _| {
        let t = Var::index("tx");
        let at = || PrimExpr::from(&t);
        thread(ThreadTag::ThreadIdxX, &t, 3, Stmt::store(y, [at()], x.load([at()])))
    });
    assert_eq!(check(&right, &[0.0, 1.0, 2.0], &[wrong]), [12]);
}

#[test]
fn blocks_do_not_wait_for_each_other() {
    let kernel = program(|_, y, _| {
        let [bx, tx] = ["bx", "tx"].map(Var::index);
        let at = PrimExpr::from(&tx);
        let store = Stmt::store(y, [at.clone()], at.cast(F32));
        let threads = thread(ThreadTag::ThreadIdxX, &tx, N, Stmt::seq([store.clone(), barrier(), store]));
        thread(ThreadTag::BlockIdxX, &bx, 2, threads)
    });
    let err = Program::compile(&kernel).unwrap().strict(1).run(&mut args()).unwrap_err().to_string();
    assert!(err.contains("of the blockIdx.x loop `bx`"), "{err}");
}

#[test]
fn threads_reach_a_barrier_together() {
    let kernel = |n: i64| {
        program(|x, y, _| {
            let tx = Var::index("tx");
            let i = || PrimExpr::from(&tx);
            let store = Stmt::store(y, [i()], x.load([i()]));
            let some = Stmt::if_then_else(i().less(n), Stmt::seq([store, barrier()]), None);
            thread(ThreadTag::ThreadIdxX, &tx, N, some)
        })
    };
    check(&kernel(N), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &[]);
    let err = Program::compile(&kernel(3)).unwrap().run(&mut args()).unwrap_err();
    assert!(matches!(err.kind, InterpErrorKind::Divergence { .. }), "{err}");
}

/// `y[t]` is `x[t ^ bits]`, exchanged between `threads` threads; with `part`, by the first of them alone.
fn exchanged(threads: i64, bits: i64, part: bool) -> PrimFunc {
    let buffer = |name| Buffer::new(name, [PrimExpr::index(64)], F32);
    let (x, y, tx) = (buffer("x"), buffer("y"), Var::index("tx"));
    let i = || PrimExpr::from(&tx);
    let args = [x.load([i()]), PrimExpr::int(bits, DataType::I32)];
    let store = Stmt::store(&y, [i()], PrimExpr::call(Intrinsic::WarpShuffleXor, args, F32));
    let body = if part { Stmt::if_then_else(i().less(16), store, None) } else { store };
    let kernel = thread(ThreadTag::ThreadIdxX, &tx, threads, body);
    PrimFunc::new("f", [Param::In(x), Param::Out(y)], BlockRealize::opaque(Block::root(vec![], kernel)))
}

#[test]
fn threads_of_a_warp_exchange_values() {
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let run = |func: &PrimFunc, seed: Option<u64>| {
        let value = |data: &[f32]| Value::Tensor(Tensor::from_slice(data, &[64]).unwrap());
        let mut args = vec![value(&x), value(&[0.0; 64])];
        let program = Program::compile(func).unwrap();
        match seed {
            Some(seed) => program.strict(seed).run(&mut args),
            None => program.run(&mut args),
        }
        .map(|()| y(&args))
    };
    for bits in [1, 5, 16] {
        let want: Vec<f32> = (0..64).map(|i| (i ^ bits) as f32).collect();
        for seed in [None, Some(1), Some(2)] {
            assert_eq!(run(&exchanged(64, bits, false), seed).unwrap(), want, "{bits}");
        }
    }
    // A thread of the warp is missing, or takes another path.
    for func in [exchanged(20, 16, false), exchanged(32, 1, true)] {
        let err = run(&func, Some(3)).unwrap_err();
        assert!(matches!(err.kind, InterpErrorKind::Divergence { .. }), "{err}");
    }
}

/// Threads that wait for each other in a `while`, whose condition holds in all of them as often.
#[test]
fn threads_wait_in_a_while() {
    let kernel = |sync: bool| {
        program(|x, y, sh| {
            let tx = Var::index("tx");
            let i = || PrimExpr::from(&tx);
            let count = Buffer::with_scope("count", [PrimExpr::index(1)], F32, Scope::Local);
            let (at, float) = (|| [PrimExpr::index(0)], |value: f64| PrimExpr::float(value, F32));
            let again = seq(vec![
                Some(Stmt::store(sh, [i()], x.load([i()]))),
                sync.then(barrier),
                Some(Stmt::store(y, [i()], sh.load([PrimExpr::index(N - 1) - i()]))),
                sync.then(barrier),
                Some(Stmt::store(&count, at(), count.load(at()) + float(1.0))),
            ]);
            let condition = count.load(at()).less(float(3.0));
            let body = seq(vec![
                Some(AllocBuffer::new(count.clone()).into()),
                Some(Stmt::store(&count, at(), float(0.0))),
                Some(While { condition, body: again, span: Span::none() }.into()),
            ]);
            thread(ThreadTag::ThreadIdxX, &tx, N, body)
        })
    };
    check(&kernel(true), &reversed(), &[kernel(false)]);
}

/// `y[0] = atomic_op(y[0], term)`.
fn update(intrinsic: Intrinsic, y: &Buffer, term: PrimExpr) -> Stmt {
    let zero = [PrimExpr::index(0)];
    Stmt::store(y, zero.clone(), PrimExpr::call(intrinsic, [y.load(zero), term], F32))
}

/// Atomic updates do not race with each other, but with plain reads and writes of other threads.
#[test]
fn atomic_updates_race_with_plain_accesses() {
    let zero = || [PrimExpr::index(0)];
    let first = |y: &Buffer, i: PrimExpr| {
        let store = Stmt::store(y, zero(), PrimExpr::float(0.0, F32));
        Stmt::if_then_else(i.equal(0), store, None)
    };
    // Cleared by the first thread, updated by all, read by all: with barriers between, or without one of them.
    let kernel = |filled: bool, updated: bool, atomic: bool| {
        program(|x, y, _| {
            let tx = Var::index("tx");
            let i = || PrimExpr::from(&tx);
            let sum = match atomic {
                true => update(Intrinsic::AtomicAdd, y, x.load([i()])),
                false => Stmt::store(y, zero(), y.load(zero()) + x.load([i()])),
            };
            let read = Stmt::store(y, [i() + 1], y.load(zero()));
            let body =
                vec![Some(first(y, i())), filled.then(barrier), Some(sum), updated.then(barrier), Some(read)];
            thread(ThreadTag::ThreadIdxX, &tx, N, seq(body))
        })
    };
    let wrong = [kernel(false, true, true), kernel(true, false, true), kernel(true, true, false)];
    assert_eq!(check(&kernel(true, true, true), &[28.0; 9], &wrong), [12, 12, 12]);
}

/// Updates, a barrier, and updates again: none of the first ones is forgotten, and a thread that reads what it alone updated
/// races with a later update of another one.
#[test]
fn all_updates_are_known() {
    let zero = || [PrimExpr::index(0)];
    let by = |var: &Var, thread: i64, stmt: Stmt| {
        Stmt::if_then_else(PrimExpr::from(var).equal(thread), stmt, None)
    };
    let kernel = |last: &dyn Fn(&Var, &Buffer) -> Stmt| {
        program(|x, y, _| {
            let [bx, t, u] = ["bx", "tx", "tx"].map(Var::index);
            let term = |var: &Var| x.load([PrimExpr::from(var)]);
            let updates = thread(ThreadTag::ThreadIdxX, &t, N, update(Intrinsic::AtomicMax, y, term(&t)));
            let last = thread(ThreadTag::ThreadIdxX, &u, N, last(&u, y));
            let clear = Stmt::store(y, zero(), PrimExpr::float(0.0, F32));
            Stmt::seq([clear, thread(ThreadTag::BlockIdxX, &bx, 1, Stmt::seq([updates, barrier(), last]))])
        })
    };
    let more = |var: &Var, y: &Buffer| {
        update(Intrinsic::AtomicMax, y, PrimExpr::from(var).cast(F32) * PrimExpr::float(2.0, F32))
    };
    let right = kernel(&|u, y| more(u, y));
    let read_and_update = kernel(&|u, y| {
        let read = Stmt::store(y, [PrimExpr::index(1)], y.load(zero()));
        Stmt::seq([by(u, 2, read), by(u, 5, more(u, y))])
    });
    let write_and_update = kernel(&|u, y| {
        let write = Stmt::store(y, zero(), PrimExpr::float(1.0, F32));
        Stmt::seq([by(u, 5, more(u, y)), by(u, 2, write)])
    });
    let races = check(&right, &[14.0], &[read_and_update, write_and_update]);
    assert_eq!(races, [12, 12]);
}
