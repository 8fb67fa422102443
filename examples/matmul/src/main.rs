//! A matrix product: the kernel, a hand-written schedule, the check against the kernel's own shadow, and the speed beside
//! the `gemm` crate in the same run.
//!
//! `cargo run --release -p matmul --features llvm`

use std::time::Instant;

use ndarray::Array2;
use tvm::prelude::*;
use tvm::tir::Scope;
use tvm::tir::schedule::{Schedule, ScheduleError};

const N: usize = 1024;

#[prim_func]
fn matmul(a: &Tensor<f32, N, N>, b: &Tensor<f32, N, N>, c: &mut Tensor<f32, N, N>) {
    for [i, j, k] in grid([N, N, N]) {
        block("C", [S(i), S(j), R(k)], |[vi, vj, vk]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vk]] * b[[vk, vj]];
        });
    }
}

/// Columns of `b` are packed in panels; a tile of `c` stays in registers while `k` runs.
#[schedule(matmul)]
fn tiled(s: &mut Schedule) -> Result<(), ScheduleError> {
    let c = s.block("C")?;
    let write = s.cache_write(c, 0, Scope::Local)?;
    let [i, j, k] = s.loops(c)?;
    let [i0, i1] = s.split(i, [None, Some(8)])?;
    let [j0, j1] = s.split(j, [None, Some(32)])?;
    s.reorder([j0, i0, k, i1, j1])?;
    s.reverse_compute_at(write, i0)?;
    let [_, _, row, column] = s.loops(write)?;
    s.unroll(row)?;
    s.vectorize(column)?;
    s.unroll(i1)?;
    s.vectorize(j1)?;
    s.decompose_reduction(c, k)?;
    let panel = s.cache_read(c, 2, Scope::Global)?;
    s.compute_at(panel, j0)?;
    let [_, _, column] = s.loops(panel)?;
    s.vectorize(column)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = tvm::codegen::resolve(&Target::host());
    println!("{}", tiled::prim_func()?);
    let start = Instant::now();
    let f = tiled::compile(&target)?;
    println!("compiled in {:.0} ms for {target}", start.elapsed().as_secs_f64() * 1e3);
    let value = |i: usize| (i * 7919 % 1009) as f32 / 1009.0 - 0.5;
    let a = Array2::from_shape_fn((N, N), |(i, j)| value(i * N + j));
    let b = Array2::from_shape_fn((N, N), |(i, j)| value(i + j * N));
    let (mut c, mut want) = (Array2::zeros((N, N)), Array2::<f32>::zeros((N, N)));
    f.call(&a, &b, &mut c)?;
    let gemm = |c: &mut Array2<f32>| {
        let n = N as isize;
        // SAFETY: the three matrices are N by N, row-major, and do not overlap.
        unsafe {
            gemm::gemm(
                N,
                N,
                N,
                c.as_mut_ptr(),
                1,
                n,
                false,
                a.as_ptr(),
                1,
                n,
                b.as_ptr(),
                1,
                n,
                0.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    };
    gemm(&mut want);
    let worst = c.iter().zip(&want).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    println!("largest difference to gemm: {worst:e}");
    let flop = 2.0 * (N as f64).powi(3);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let start = Instant::now();
        f.call(&a, &b, &mut c)?;
        ours.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        gemm(&mut want);
        theirs.push(start.elapsed().as_secs_f64());
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (ours, theirs) = (flop / median(&mut ours) / 1e9, flop / median(&mut theirs) / 1e9);
    println!("ours {ours:.1} GFLOP/s, gemm {theirs:.1} GFLOP/s: {:.0} %", 100.0 * ours / theirs);
    Ok(())
}
