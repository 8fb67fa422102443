//! A matrix product: the kernel, a hand-written schedule, the comparison of results with the kernel run as plain Rust,
//! and the comparison of speed with the `gemm` crate in the same run.
//!
//! `cargo run --release -p matmul --features llvm`

mod kernel;

use std::time::Instant;

use kernel::{N, gemm, matmul, matrix, tiled};
use ndarray::Array2;
use tvm::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = tvm::codegen::resolve(&Target::host());
    println!("{}", tiled::prim_func()?);
    let start = Instant::now();
    let f = tiled::compile(&target)?;
    println!("compiled in {:.0} ms for {target}", start.elapsed().as_secs_f64() * 1e3);

    let (a, b) = (matrix(7919), matrix(104_729));
    let (mut ours, mut theirs) = (Array2::zeros((N, N)), Array2::zeros((N, N)));
    let mut reference = Array2::zeros((N, N));
    f.call(&a, &b, &mut ours)?;
    matmul::reference(&a, &b, &mut reference)?;
    let worst = ours.iter().zip(&reference).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    println!("largest difference to the kernel run as plain Rust: {worst:e}");
    if worst > 1e-2 {
        return Err("the kernel computes something else".into());
    }

    let (mut times, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let start = Instant::now();
        f.call(&a, &b, &mut ours)?;
        times.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        gemm(&a, &b, &mut theirs);
        peer.push(start.elapsed().as_secs_f64());
    }
    let (ours, theirs) = (gflops(times), gflops(peer));
    println!("tvm {ours:.1} GFLOP/s, gemm {theirs:.1} GFLOP/s on one thread: {:.0} %", 100.0 * ours / theirs);
    Ok(())
}

/// Billions of operations per second at the median time.
fn gflops(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    2.0 * (N as f64).powi(3) / times[times.len() / 2] / 1e9
}
