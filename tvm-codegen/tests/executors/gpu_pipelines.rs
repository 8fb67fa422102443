//! Tiles that are copied while threads compute, and accesses of several elements at once: what kernels compute, and mutants of their
//! source that must be found.

use tvm_codegen::cuda as generator;
use tvm_core::ir::IRModule;
use tvm_core::te;
use tvm_core::tir::schedule::Schedule;
use tvm_core::tir::{ForKind, PrimExpr, PrimFunc, Scope, ThreadTag};
use tvm_runtime::{DataType, Value};

use super::cuda::{emulate, emulate_source, interpret, lower};
use super::data::Rng;
use super::gpu::{args, close, far, symbols, tiled_in};
use super::suite::{matmul, tensor};

const F32: DataType = DataType::F32;

fn pipelined(sizes: [PrimExpr; 3], tile: i64) -> PrimFunc {
    tiled_in(Scope::Shared, sizes, tile, &["software_pipeline"])
}

#[test]
fn tiles_are_copied_while_threads_compute() {
    let mut rng = Rng(31);
    let free = [[8, 8, 8], [17, 9, 20], [1, 1, 1], [3, 30, 5], [0, 3, 3], [5, 5, 0]];
    let mut cases: Vec<(PrimFunc, Vec<[i64; 3]>)> = vec![(pipelined(symbols(), 4), free.to_vec())];
    for (sizes, tile) in [([16, 24, 32], 8), ([13, 7, 29], 4), ([8, 8, 16], 8), ([9, 8, 40], 8)] {
        cases.push((pipelined(sizes.map(PrimExpr::index), tile), vec![sizes]));
    }
    for (func, sizes) in cases {
        let programs = lower(&IRModule::from_prim_func(func));
        let calls = [sizes.iter().map(|it| args(*it, &mut rng)).collect::<Vec<_>>()];
        let want = interpret(&[("the schedule".into(), matmul([ForKind::Serial; 3]))], &calls);
        close(&interpret(&programs, &calls), &want);
        if let Some(got) = emulate(&programs, &calls) {
            close(&got, &want);
        }
    }
}

/// Each mutant of the kernels of `source`, which is a change of one place, is found.
fn all_are_found(source: &generator::CudaSource, calls: &[Vec<Vec<Value>>], changes: &[(&str, &str)]) {
    let (prelude, kernels) = source.text.split_at(source.text.find("// grid").unwrap());
    let Some(want) = emulate_source(source, calls) else { return };
    let want = want.unwrap();
    for (from, to) in changes {
        let places: Vec<usize> = kernels.match_indices(from).map(|it| it.0).collect();
        assert!(!places.is_empty(), "{from} in {kernels}");
        for at in places {
            let mutant = [prelude, &kernels[..at], to, &kernels[at + from.len()..]].concat();
            let mutant = generator::CudaSource { text: mutant, ..source.clone() };
            let found = match emulate_source(&mutant, calls).unwrap() {
                Ok(got) => far(&got, &want).is_some(),
                Err(_) => true,
            };
            assert!(found, "`{to}` instead of `{from}` at {at} is not found:\n{kernels}");
        }
    }
}

/// A barrier less, and one that does not wait for the copies.
#[test]
fn copies_that_nothing_waits_for_are_found() {
    let sizes = [13, 9, 22];
    let programs = lower(&IRModule::from_prim_func(pipelined(sizes.map(PrimExpr::index), 4)));
    let source = generator::source(&programs).unwrap();
    let calls = [vec![args(sizes, &mut Rng(5)), args(sizes, &mut Rng(6))]];
    let barrier = "(void)tvm_async_barrier();";
    assert_eq!(source.text.matches(barrier).count(), 2, "{}", source.text);
    all_are_found(&source, &calls, &[(barrier, ""), (barrier, "(void)tvm_barrier();")]);
}

/// `y[i] = x[i] w[i] + x[i]`, four elements for each of 8 threads.
fn four_each(dtype: DataType) -> PrimFunc {
    let n = PrimExpr::index(96);
    let [x, w] = ["x", "w"].map(|name| te::placeholder(name, [n.clone()], dtype));
    let y = te::compute("y", [n], &[&x, &w], |i: &[PrimExpr]| {
        x.at(i.to_vec()) * w.at(i.to_vec()) + x.at(i.to_vec())
    });
    let mut s = Schedule::new(te::create_prim_func("four", &[x, w], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [i] = s.loops(y).unwrap();
    let [block, thread, own] = s.split(i, [None, Some(8), Some(4)]).unwrap();
    s.bind(block, ThreadTag::BlockIdxX).unwrap();
    s.bind(thread, ThreadTag::ThreadIdxX).unwrap();
    s.vectorize(own).unwrap();
    s.into_func()
}

#[test]
fn neighbours_are_accessed_at_once() {
    for dtype in [F32, DataType::U8, DataType::I32, DataType::F16, DataType::BF16] {
        let func = four_each(dtype);
        let mut rng = Rng(9);
        let calls = [vec![(0..3).map(|_| tensor(&[96], dtype, &mut rng)).collect::<Vec<_>>()]];
        let want = interpret(&[("the schedule".into(), func.clone())], &calls);
        let programs = lower(&IRModule::from_prim_func(func));
        let source = generator::source(&programs).unwrap();
        assert_eq!(source.text.matches("  tvm_copy<4>(").count(), 3, "{}", source.text);
        let bytes = |all: &[Vec<Vec<Value>>]| all[0][0][2].as_tensor().unwrap().bytes().unwrap().to_vec();
        assert_eq!(bytes(&interpret(&programs, &calls)), bytes(&want), "{dtype}");
        if let Some(got) = emulate(&programs, &calls) {
            assert_eq!(bytes(&got), bytes(&want), "{dtype}");
        }
    }
}

/// An address that is no multiple of the bytes of the access.
#[test]
fn accesses_that_are_not_aligned_are_found() {
    let programs = lower(&IRModule::from_prim_func(four_each(F32)));
    let source = generator::source(&programs).unwrap();
    let mut rng = Rng(9);
    let calls = [vec![(0..3).map(|_| tensor(&[96], F32, &mut rng)).collect::<Vec<_>>()]];
    all_are_found(&source, &calls, &[("tvm_copy<4>(&", "tvm_copy<4>(1 + &")]);
}
