//! Copies that threads do not wait for: which are marked, what they compute, and that the barrier after them is needed.

use tvm_runtime::{DataType, DimBound};

use super::super::unify_thread_binding::tests::{Without, barriers, check, lower};
use super::ASYNC_COPY;
use crate::ir::Var;
use crate::te;
use crate::tir::analysis::DeviceKernel;
use crate::tir::interp::Program;
use crate::tir::schedule::Schedule;
use crate::tir::testing::arguments;
use crate::tir::{Mutator, PrimExpr, PrimFunc, Scope, ThreadTag};

/// The sum of neighbours in rows, which 32 threads copy to shared memory, `lanes` elements at once.
fn sums(length: PrimExpr, lanes: i64, dtype: DataType) -> PrimFunc {
    let x = te::placeholder("x", [PrimExpr::index(3), length.clone()], dtype);
    let y = te::compute("y", [PrimExpr::index(3), length - 1], &[&x], |i: &[PrimExpr]| {
        x.at([i[0].clone(), i[1].clone()]) + x.at([i[0].clone(), i[1].clone() + 1])
    });
    let mut s = Schedule::new(te::create_prim_func("sums", &[x], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let copy = s.cache_read(y, 0, Scope::Shared).unwrap();
    let [row, column] = s.loops(y).unwrap();
    s.compute_at(copy, row).unwrap();
    s.bind(row, ThreadTag::BlockIdxX).unwrap();
    let [_, thread] = s.split(column, [None, Some(32)]).unwrap();
    s.bind(thread, ThreadTag::ThreadIdxX).unwrap();
    let own = *s.get_loops(copy).unwrap().last().unwrap();
    let [rest, thread, lane] = s.split(own, [None, Some(32), Some(lanes)]).unwrap();
    s.reorder([thread, rest, lane]).unwrap();
    s.vectorize(lane).unwrap();
    s.bind(thread, ThreadTag::ThreadIdxX).unwrap();
    s.annotate(rest, ASYNC_COPY, true).unwrap();
    s.into_func()
}

fn copies(func: &PrimFunc) -> usize {
    func.to_string().matches("async_copy(").count()
}

#[test]
fn rows_of_all_lengths() {
    // A loop of one iteration is none, and has no annotation.
    assert_eq!(copies(&check(&sums(PrimExpr::index(20), 1, DataType::I64), &[])), 0);
    for (length, lanes) in [(33, 1), (128, 2), (130, 2), (131, 2), (500, 4), (1000, 4)] {
        let lowered = check(&sums(PrimExpr::index(length), lanes, DataType::I64), &[]);
        assert!(copies(&lowered) > 0, "{lowered}");
        assert_eq!(barriers(&lowered), 1, "{lowered}");
    }
    let n = Var::index("n").within(DimBound::between(2, 700).ok());
    let free = sums(PrimExpr::from(n), 1, DataType::I64);
    for n in [2, 31, 257, 700] {
        assert!(copies(&check(&free, &[n])) > 0);
    }
}

/// Neighbours are one copy where each row begins at a multiple of them.
#[test]
fn neighbours_are_one_copy() {
    let vectors = |length: i64| {
        let lowered = check(&sums(PrimExpr::index(length), 2, DataType::I64), &[]);
        assert_eq!(DeviceKernel::all(&lowered).len(), 1);
        lowered.to_string().contains("ramp(")
    };
    assert!(vectors(1000) && !vectors(1001));
}

/// `cp.async` copies 4 bytes at least. The annotation is gone all the same.
#[test]
fn other_copies_stay() {
    let narrow = lower(&sums(PrimExpr::index(100), 1, DataType::I8)).unwrap();
    assert_eq!(copies(&narrow), 0, "{narrow}");
    assert!(!narrow.to_string().contains("\"async_copy\""), "{narrow}");
}

/// What a thread reads itself has no barrier before it.
#[test]
fn own_elements_stay() {
    let x = te::placeholder("x", [3, 128].map(PrimExpr::index), DataType::I64);
    let y = te::compute("y", [3, 128].map(PrimExpr::index), &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) * 3);
    let mut s = Schedule::new(te::create_prim_func("triple", &[x], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let copy = s.cache_read(y, 0, Scope::Shared).unwrap();
    let [row, column] = s.loops(y).unwrap();
    let [thread, _] = s.split(column, [None, Some(4)]).unwrap();
    s.compute_at(copy, thread).unwrap();
    s.bind(row, ThreadTag::BlockIdxX).unwrap();
    s.bind(thread, ThreadTag::ThreadIdxX).unwrap();
    let own = *s.get_loops(copy).unwrap().last().unwrap();
    s.annotate(own, ASYNC_COPY, true).unwrap();
    let lowered = check(&s.into_func(), &[]);
    assert_eq!((copies(&lowered), barriers(&lowered)), (0, 0), "{lowered}");
}

/// Without the barrier, the interpreter finds that threads read what is not there yet.
#[test]
fn the_barrier_is_needed() {
    let func = sums(PrimExpr::index(500), 2, DataType::I64);
    let lowered = check(&func, &[]);
    let body = Without { left: 0, seen: &mut 0 }.mutate_stmt(&lowered.body).unwrap();
    let mutant = Program::compile(&PrimFunc { body, ..lowered.clone() }).unwrap();
    let err = mutant.strict(1).run(&mut arguments(&func, &[])).unwrap_err();
    assert!(err.to_string().contains("is read before it is written"), "{err}");
}
