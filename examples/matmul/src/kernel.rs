//! The kernel, its schedule, and the `gemm` crate for comparison.

use ndarray::Array2;
use tvm::prelude::*;

/// Rows and columns of each matrix.
pub(crate) const N: usize = 1024;

#[prim_func]
pub(crate) fn matmul(a: &Tensor<f32, N, N>, b: &Tensor<f32, N, N>, c: &mut Tensor<f32, N, N>) {
    for [i, j, k] in grid([N, N, N]) {
        block("C", [S(i), S(j), R(k)], |[vi, vj, vk]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vk]] * b[[vk, vj]];
        });
    }
}

/// Packs columns of `b` in panels, and keeps a tile of `c` in registers during the loop over `k`.
#[schedule(matmul)]
pub(crate) fn tiled(s: &mut Schedule) -> Result<(), ScheduleError> {
    let c = s.block("C")?;
    let write = s.cache_write(c, "c", Scope::Local)?;
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
    let panel = s.cache_read(c, "b", Scope::Global)?;
    s.compute_at(panel, j0)?;
    let [_, _, column] = s.loops(panel)?;
    s.vectorize(column)
}

/// A matrix of values in -0.5..0.5.
pub(crate) fn matrix(seed: usize) -> Array2<f32> {
    Array2::from_shape_fn((N, N), |(i, j)| ((i * N + j) * seed % 1009) as f32 / 1009.0 - 0.5)
}

/// Computes `c = a b` with the `gemm` crate, on one thread.
pub(crate) fn gemm(a: &Array2<f32>, b: &Array2<f32>, c: &mut Array2<f32>) {
    let (n, one) = (N as isize, gemm::Parallelism::None);
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: the three matrices are N by N, row-major, and do not overlap.
    #[allow(unsafe_code, reason = "the peer takes pointers")]
    unsafe {
        gemm::gemm(N, N, N, c, 1, n, false, a, 1, n, b, 1, n, 0.0, 1.0, false, false, false, one);
    }
}
