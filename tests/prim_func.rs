//! Kernels written with `#[prim_func]`: what they build and what their shadow computes.

use ndarray::{Array2, array};
use tvm::prelude::*;

#[prim_func]
fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j, p] in grid([m, n, k]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func]
fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

#[test]
fn matmul_builds_and_runs() {
    let func = matmul::prim_func().unwrap();
    assert_eq!(&*func.name, "matmul");
    assert_eq!(func.symbolic_dims().len(), 3);
    let a = array![[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]];
    let b = array![[1.0f32, 0.0, 2.0], [0.0, 1.0, 1.0]];
    let mut c = Array2::from_elem((3, 3), 9.0f32);
    matmul(&a, &b, &mut c).unwrap();
    assert_eq!(c, a.dot(&b));
    let err = matmul::reference(&a, &a, &mut c).unwrap_err();
    assert_eq!(err.to_string(), "`matmul`: argument `b`: axis 0 is 3, expected 2 (= k)");
}

#[test]
fn scale_runs() {
    let mut y = [0.0f32; 3];
    scale(&[1.0f32, 2.0, 3.0], 2.0, &mut y).unwrap();
    assert_eq!(y, [2.0, 4.0, 6.0]);
}
