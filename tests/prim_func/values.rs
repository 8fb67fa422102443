//! Results that kernels compute.

use ndarray::{Array0, Array1, Array2, array};
use tvm::prelude::*;

use crate::kernels::*;
use crate::{agree, data, matrix};

#[test]
fn matrix_products() {
    for (m, n, k) in [(3, 4, 5), (1, 1, 1), (7, 2, 9), (0, 3, 2), (3, 0, 2), (3, 2, 0)] {
        let (a, b) = (matrix(m, k, 1), matrix(k, n, 2));
        let c = Array2::from_elem((m, n), f32::NAN);
        let got = agree!(matmul, (&a, &b) -> c, 0.0);
        let plain = agree!(matmul_plain, (&a, &b) -> c, 0.0);
        let expected = a.dot(&b);
        assert!(plain.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5));
        assert_eq!(got, plain);
    }
    let a = matrix(64, 5, 3);
    let got = agree!(tiled, (&a) -> Array1::from_elem(64, 9.0f32), 0.0);
    assert!((got[63] - a.row(63).sum()).abs() < 1e-5);
}

#[test]
fn element_wise() {
    let x = Array1::from_vec(data(9, 4));
    assert_eq!(agree!(scale, (&x, 2.0f32) -> Array1::zeros(9), 0.0), &x * 2.0);
    agree!(scale, (&Array1::<f32>::zeros(0), 2.0f32) -> Array1::<f32>::zeros(0), 0.0);
    let x: Array1<f32> = array![1.0, 2.0, 3.0, 4.0];
    assert_eq!(agree!(blur, (&x) -> Array1::<f32>::zeros(2), 0.0), array![2.0, 3.0]);
    let x = matrix(3, 8, 5);
    let got = agree!(two_stages, (&x) -> Array2::<f32>::zeros((3, 8)), 1e-6);
    let t = |j: usize| x[[1, j]].tanh().abs().max(0.125);
    assert!((got[[1, 2]] - (t(5) + 2.0 * t(2))).abs() < 1e-6);
}

#[test]
fn softmax_rows_sum_to_one() {
    let x = matrix(4, 7, 6);
    let got = agree!(softmax, (&x) -> Array2::<f32>::zeros((4, 7)), 1e-6);
    assert!(got.rows().into_iter().all(|row| (row.sum() - 1.0).abs() < 1e-6));
    agree!(softmax, (&Array2::<f32>::zeros((3, 0))) -> Array2::<f32>::zeros((3, 0)), 0.0);
}

#[test]
fn a_convolution_with_padding() {
    let (x, k) = (matrix(5, 6, 7), matrix(3, 3, 8));
    let got = agree!(conv, (&x, &k) -> Array2::<f32>::zeros((5, 6)), 1e-6);
    let at = |i: usize, j: usize| {
        let (rows, columns) = (i.max(1) - 1..(i + 2).min(5), j.max(1) - 1..(j + 2).min(6));
        let sum: f32 = rows
            .flat_map(|r| columns.clone().map(move |c| (r, c)))
            .map(|(r, c)| x[[r, c]] * k[[r + 1 - i, c + 1 - j]])
            .sum();
        sum
    };
    assert!((got[[0, 0]] - at(0, 0)).abs() < 1e-6 && (got[[2, 5]] - at(2, 5)).abs() < 1e-6);
}

#[test]
fn integers_branches_and_loops() {
    let x = array![3, 1, 4, 1, 5];
    assert_eq!(agree!(prefix_sum, (&x) -> Array1::<i32>::zeros(5), 0.0), array![3, 4, 8, 9, 14]);
    let x: Array1<i64> = array![1, 2, 3, 7, 27];
    let mut got = Array1::<i64>::zeros(5);
    collatz(&x, &mut got).unwrap();
    assert_eq!(got, array![0, 1, 7, 16, 111]);
    for target in crate::targets() {
        let mut compiled = Array1::<i64>::zeros(5);
        collatz::compile(&target).unwrap().call(&x, &mut compiled).unwrap();
        assert_eq!(compiled, got, "{target}");
    }
    let x = Array1::from_vec(data(5, 9));
    let at: Array1<i64> = array![0, 7, 3, 4];
    let on = array![true, true, true, false];
    let got = agree!(gather, (&x, &at, &on) -> Array1::<f32>::zeros(4), 0.0);
    let pick = |v: f32| if v > 0.0 { v * 2.0 } else { v };
    assert_eq!(got, array![pick(x[0]), pick(x[2]), -3.0, -4.0]);
}

#[test]
fn element_types_are_parameters() {
    let x: Array1<f64> = array![1.0, 2.0, 3.0];
    assert_eq!(agree!(axpy::<f64>, (&x, 2.0) -> array![1.0f64, 1.0, 1.0], 0.0), array![3.0, 5.0, 7.0]);
    let x: Array1<i32> = array![1, 2, 3];
    assert_eq!(agree!(axpy::<i32>, (&x, 2) -> array![1i32, 1, 1], 0.0), array![3, 5, 7]);
    let x = Array1::from_iter([0.5f32, -1.0, 2.0].map(f16::from_f32));
    agree!(axpy::<f16>, (&x, f16::from_f32(3.0)) -> x, 0.0);
    agree!(gelu::<f16>, (&x) -> x, 2e-3);
    let x: Array1<f32> = array![0.5, -1.0, 2.0];
    let got = agree!(gelu::<f32>, (&x) -> Array1::<f32>::zeros(3), 1e-6);
    assert!((got[2] - 1.9545).abs() < 1e-4);
    agree!(gelu::<f64>, (&x.mapv(f64::from)) -> Array1::<f64>::zeros(3), 1e-7);
    let x = Array1::from_iter((0..6).map(|i| f16::from_f32(i as f32 / 4.0)));
    agree!(half_precision, (&x) -> Array1::<f32>::zeros(6), 2e-3);
}

#[test]
fn constants_of_the_host() {
    let x = matrix(3, 4, 10);
    let got = agree!(block_sum::<4>, (&x) -> Array1::<f32>::zeros(3), 1e-6);
    let expected: f32 = (0..4).map(|j| x[[1, j]] * (j as f32 + std::f32::consts::PI)).sum();
    assert!((got[1] - 0.25 - expected).abs() < 1e-5);
    let err = block_sum::<3>::reference(&x, &mut Array1::<f32>::zeros(3)).unwrap_err();
    assert_eq!(err.to_string(), "`block_sum`: argument `x`: axis 1 is 4, expected 3");
}

#[test]
fn rank_zero() {
    let x = Array1::from_vec(vec![1.0f32, 2.5, -0.5]);
    let got = agree!(total, (&x) -> Array0::from_elem((), 7.0f32), 0.0);
    assert_eq!(got[[]], 3.0);
}

#[test]
fn arguments_are_checked() {
    let text = |res: Result<(), RuntimeError>| res.unwrap_err().to_string();
    let (a, b) = (matrix(2, 3, 1), matrix(2, 4, 2));
    let mut c = Array2::zeros((2, 4));
    let expected = "`matmul`: argument `b`: axis 0 is 2, expected 3 (= k)";
    assert_eq!(text(matmul(&a, &b, &mut c)), expected);
    for target in crate::targets() {
        assert_eq!(text(matmul::compile(&target).unwrap().call(&a, &b, &mut c)), expected, "{target}");
    }
    let expected = "`blur`: argument `x`: axis 0 is 4, expected 5 (= n + 2)";
    assert_eq!(text(blur(&[0.0f32; 4], &mut [0.0f32; 3])), expected);
    let x = Tensor::zeros(&[2, 3], DataType::F64).unwrap();
    let expected = "`matmul`: argument `a`: element type is f64, expected f32";
    assert_eq!(text(matmul(&x, &b, &mut c)), expected);
    assert!(text(matmul(&a.t(), &b, &mut c)).contains("not contiguous"));
    assert_eq!(
        text(bounded(&[0.0f32; 12], &mut [0.0f32; 12])),
        "`bounded`: argument `x`: axis 0 is 12, dimension `n` was compiled for 8..=64 in steps of 8"
    );
    assert!(text(bounded(&[0.0f32; 72], &mut [0.0f32; 72])).contains("axis 0 is 72"));
    let mut y = [0.0f32; 8];
    bounded(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &mut y).unwrap();
    assert_eq!(y[0], 8.0);
}
