//! Tensor intrinsics in schedules: built-in ones, and one whose description and implementation are kernels.

use tvm::prelude::*;
use tvm::tir::TensorIntrin;

use crate::kernels::matmul;
use crate::{close, matrix, targets};

/// `c += a * b` for a tile of 4 rows, 8 columns and 2 terms.
#[prim_func]
fn tile(a: &Tensor<f32, 4, 2>, b: &Tensor<f32, 2, 8>, c: &mut Tensor<f32, 4, 8>) {
    for i in 0..4 {
        for j in 0..8 {
            for k in 0..2 {
                c[[i, j]] = c[[i, j]] + a[[i, k]] * b[[k, j]];
            }
        }
    }
}

/// The same, one row after the other.
#[prim_func]
fn tile_by_rows(a: &Tensor<f32, 4, 2>, b: &Tensor<f32, 2, 8>, c: &mut Tensor<f32, 4, 8>) {
    for i in 0..4 {
        for j in 0..8 {
            c[[i, j]] = fma(a[[i, 1]], b[[1, j]], fma(a[[i, 0]], b[[0, j]], c[[i, j]]));
        }
    }
}

/// Makes the intrinsic `tile_4x8x2` known; a schedule may call this several times.
fn register() {
    let intrin = TensorIntrin::new(
        "tile_4x8x2",
        tile::prim_func().expect("a kernel"),
        tile_by_rows::prim_func().expect("a kernel"),
    );
    let intrin = intrin.expect("both kernels have the same parameters");
    intrin.check_values(1).expect("both kernels compute the same");
    let _ = intrin.register();
}

#[prim_func]
fn product(a: &Tensor<f32, m, 6>, b: &Tensor<f32, 6, 48>, c: &mut Tensor<f32, m, 48>) {
    for [i, j, k] in grid([m, 48, 6]) {
        block("C", [S(i), S(j), R(k)], |[vi, vj, vk]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vk]] * b[[vk, vj]];
        });
    }
}

#[prim_func(dims(m % 4 == 0))]
fn product_of_fours(a: &Tensor<f32, m, 6>, b: &Tensor<f32, 6, 48>, c: &mut Tensor<f32, m, 48>) {
    product(a, b, c);
}

#[schedule(product_of_fours)]
fn by_kernels(s: &mut Schedule) -> Result<(), ScheduleError> {
    register();
    let c = s.block("C")?;
    let [i, j, k] = s.loops(c)?;
    let [i_0, i_1] = s.split(i, [None, Some(4)])?;
    let [j_0, j_1] = s.split(j, [None, Some(8)])?;
    let [k_0, k_1] = s.split(k, [None, Some(2)])?;
    s.reorder([i_0, j_0, k_0, i_1, j_1, k_1])?;
    let tile = s.tensorize(i_1, "tile_4x8x2")?;
    s.decompose_reduction(tile, k_0)?;
    s.parallel(i_0)
}

#[schedule(product)]
fn by_rows(s: &mut Schedule) -> Result<(), ScheduleError> {
    let c = s.block("C")?;
    let [i, j, k] = s.loops(c)?;
    let [j_0, j_1] = s.split(j, [None, Some(16)])?;
    s.reorder([i, j_0, k, j_1])?;
    let row = s.blockize(j_1)?;
    s.tensorize(row, "fma_1x16_f32")?;
    s.parallel(i)
}

#[test]
fn tensorized_kernels_run() {
    for m in [0, 4, 36] {
        let (a, b) = (matrix(m, 6, 1), matrix(6, 48, 2));
        let expected = a.dot(&b);
        for target in targets() {
            let mut results = [ndarray::Array2::zeros((m, 48)), ndarray::Array2::zeros((m, 48))];
            by_kernels::compile(&target).unwrap().call(&a, &b, &mut results[0]).unwrap();
            by_rows::compile(&target).unwrap().call(&a, &b, &mut results[1]).unwrap();
            for c in &results {
                let same =
                    c.iter().zip(&expected).all(|(x, y): (&f32, &f32)| close((*x).into(), (*y).into(), 1e-5));
                assert!(same, "{target}");
            }
        }
    }
    let text = by_kernels::prim_func().unwrap().to_string();
    assert!(text.contains("fma("), "{text}");
}

#[test]
fn extents_must_be_known_to_fit() {
    let mut s = Schedule::new(matmul::prim_func().unwrap()).unwrap();
    let c = s.block("C").unwrap();
    let [_, j, k] = s.loops(c).unwrap();
    let [_, j_1] = s.split(j, [None, Some(16)]).unwrap();
    s.reorder([k, j_1]).unwrap();
    let err = s.tensorize(j_1, "fma_1x16_f32").unwrap_err().to_string();
    assert!(err.contains("depends on loop"), "{err}");
    assert!(err.starts_with("`tensorize` is not legal here"), "{err}");
}
