//! 1024³ f32 matrix product on one thread: the schedule of the `matmul` example against the `gemm` crate.
#![allow(missing_docs, reason = "criterion's macros")]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ndarray::Array2;
use tvm::prelude::*;

#[path = "../../examples/matmul/src/kernel.rs"]
mod kernel;

use kernel::{N, gemm, tiled};

fn products(c: &mut Criterion) {
    let f = tiled::compile(&Target::host()).expect("the kernel compiles");
    let (a, b) = (kernel::matrix(7919), kernel::matrix(104_729));
    let (mut ours, mut theirs) = (Array2::zeros((N, N)), Array2::zeros((N, N)));
    let mut group = c.benchmark_group("matmul 1024");
    group
        .throughput(Throughput::Elements(2 * (N as u64).pow(3)))
        .measurement_time(Duration::from_secs(8))
        .sample_size(20);
    group.bench_function("tvm", |bench| bench.iter(|| f.call(&a, &b, &mut ours)));
    group.bench_function("gemm", |bench| bench.iter(|| gemm(&a, &b, &mut theirs)));
    group.finish();
}

criterion_group!(benches, products);
criterion_main!(benches);
