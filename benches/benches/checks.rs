//! Cost of index checks: sparse matrix-vector products and segment sums against the same loops in Rust, and `take` against
//! `take` with `mode = "clip"`, which needs no check.
#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ndarray::Array2;
use tvm::codegen::compile_module;
use tvm::prelude::*;
use tvm::runtime::Value;

/// Number of rows of the matrix; each row has `IN_ROW` elements.
const ROWS: usize = 20_000;
const IN_ROW: usize = 24;

#[prim_func]
fn csr(
    ptr: &Tensor<i64, p>,
    at: &Tensor<i32, nnz>,
    val: &Tensor<f32, nnz>,
    x: &Tensor<f32, m>,
    y: &mut Tensor<f32, n>,
) {
    for i in 0..n {
        y[[i]] = 0.0;
        for e in ptr[[i]] as usize..ptr[[i + 1]] as usize {
            y[[i]] += val[[e]] * x[[at[[e]] as usize]];
        }
    }
}

#[prim_func]
fn segment_sum(ptr: &Tensor<i64, p>, val: &Tensor<f32, nnz>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        for e in ptr[[i]] as usize..ptr[[i + 1]] as usize {
            y[[i]] += val[[e]];
        }
    }
}

#[relax::func]
fn embedding(table: Tensor<f32, n, 64>, at: Tensor<i64, k>) -> Tensor<f32, k, 64> {
    take(table, at, axis = 0)
}

#[relax::func]
fn clipped(table: Tensor<f32, n, 64>, at: Tensor<i64, k>) -> Tensor<f32, k, 64> {
    take(table, at, axis = 0, mode = "clip")
}

fn sparse(c: &mut Criterion) {
    let ptr: Vec<i64> = (0..=ROWS).map(|row| (row * IN_ROW) as i64).collect();
    let len = ROWS * IN_ROW;
    let at: Vec<i32> = (0..len).map(|e| ((e * 7919) % ROWS) as i32).collect();
    let val: Vec<f32> = (0..len).map(|e| (e % 17) as f32 - 8.0).collect();
    let x: Vec<f32> = (0..ROWS).map(|e| (e % 13) as f32).collect();
    let (mut y, mut want) = (vec![0.0f32; ROWS], vec![0.0f32; ROWS]);

    let mut group = c.benchmark_group("csr");
    group.throughput(Throughput::Elements(len as u64));
    let f = csr::compile(&Target::host()).expect("the kernel compiles");
    group.bench_function("tvm", |b| b.iter(|| f.call(&ptr, &at, &val, &x, &mut y)));
    let mut rust = || {
        for i in 0..ROWS {
            want[i] = 0.0;
            for e in ptr[i] as usize..ptr[i + 1] as usize {
                want[i] += val[e] * x[at[e] as usize];
            }
        }
    };
    group.bench_function("rust", |b| b.iter(&mut rust));
    group.finish();
    assert_eq!(y, want);

    let mut group = c.benchmark_group("segment sum");
    group.throughput(Throughput::Elements(len as u64));
    let f = segment_sum::compile(&Target::host()).expect("the kernel compiles");
    group.bench_function("tvm", |b| b.iter(|| f.call(&ptr, &val, &mut y)));
    let mut rust = || {
        for i in 0..ROWS {
            want[i] = val[ptr[i] as usize..ptr[i + 1] as usize].iter().fold(0.0, |sum, it| sum + it);
        }
    };
    group.bench_function("rust", |b| b.iter(&mut rust));
    group.finish();
    assert_eq!(y, want);
}

fn gather(c: &mut Criterion) {
    let table = Tensor::from_array(Array2::<f32>::ones((ROWS, 64))).expect("a tensor");
    let at: Vec<i64> = (0..512).map(|k| (k * 7919) % ROWS as i64).collect();
    let args = [Value::Tensor(table), Value::Tensor(Tensor::from_vec(at, &[512]).expect("a tensor"))];
    let mut group = c.benchmark_group("take of 512 rows");
    for (name, module) in [("embedding", embedding::module()), ("clipped", clipped::module())] {
        let vm = compile_module(&module.expect("the graph is right"), &Target::host()).expect("it compiles");
        group.bench_function(name, |b| b.iter(|| vm.invoke(name, &args).expect("it runs")));
    }
    group.finish();
}

criterion_group!(benches, sparse, gather);
criterion_main!(benches);
