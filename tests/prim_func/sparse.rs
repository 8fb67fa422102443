//! Kernels with data-dependent loops, indices and buffer extents. On valid data (also with empty rows and with no data)
//! they run with checks; on invalid data they end with an error.

use ndarray::{Array1, Array2, array};
use tvm::prelude::*;

use crate::targets;

#[prim_func]
fn segment_sum(ptr: &Tensor<i64, p>, val: &Tensor<f32, nnz>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        for e in ptr[[i]] as usize..ptr[[i + 1]] as usize {
            y[[i]] += val[[e]];
        }
    }
}

#[prim_func]
fn csr(
    ptr: &Tensor<i32, p>,
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
fn ragged(len: &Tensor<i64, n>, x: &Tensor<f32, n, w>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        for e in 0..len[[i]] as usize {
            y[[i]] += x[[i, e]];
        }
    }
}

/// Blocks of four values each.
#[prim_func]
fn blocks(ptr: &Tensor<i64, p>, val: &Tensor<f32, nnz>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        for e in ptr[[i]] as usize..ptr[[i + 1]] as usize {
            for j in 0..4 {
                y[[i]] += val[[e * 4 + j]];
            }
        }
    }
}

/// A buffer whose extent depends on the loop.
#[prim_func]
fn prefix(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        let mut t = alloc::<f32>([i + 1]);
        for j in 0..i + 1 {
            t[[j]] = x[[j]];
        }
        y[[i]] = 0.0;
        for j in 0..i + 1 {
            y[[i]] += t[[j]];
        }
    }
}

/// Loops that run zero times, before an access that would be out of bounds.
#[prim_func]
fn diagonal(x: &Tensor<f32, m>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        for j in m..i {
            y[[i]] += x[[j - m]];
        }
        if i + 3 < m {
            for j in i..i + 3 {
                y[[i]] += x[[j]];
            }
        }
    }
}

fn outside(res: Result<(), RuntimeError>) -> i64 {
    match res {
        Err(RuntimeError::OutOfBounds { index, .. }) => index,
        other => panic!("{other:?}"),
    }
}

/// Asserts that the call fails. The interpreter reports the access with an error of another kind.
fn refused(target: &Target, res: Result<(), RuntimeError>) {
    assert!(res.is_err(), "{target}: {res:?}");
    if target != &Target::interpreter() {
        outside(res);
    }
}

#[test]
fn segments() {
    let val = array![1.0f32, 2.0, 4.0];
    for target in targets() {
        let f = segment_sum::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        let mut y = Array1::from_elem(3, 7.0);
        f.call(&array![0i64, 2, 2, 3], &val, &mut y).unwrap();
        assert_eq!(y, array![3.0, 0.0, 4.0]);
        // Empty segments may begin at any index, and all inputs may be empty.
        f.call(&array![100i64, 100, 100, 3], &val, &mut y).unwrap();
        f.call(&array![0i64, 0, 0, 0], &Array1::zeros(0), &mut y).unwrap();
        assert_eq!(y, array![0.0, 0.0, 0.0]);
        f.call(&Array1::zeros(0), &val, &mut Array1::zeros(0)).unwrap();
        for bad in [[-1i64, 2, 2, 3], [0, 2, 2, 4], [0, 2, i64::MAX, 3], [0, 2, -5, 3]] {
            refused(&target, f.call(&Array1::from_vec(bad.to_vec()), &val, &mut y));
        }
        // From the least integer on, the number of iterations does not fit.
        let _ = f.call(&array![i64::MIN + 1, 6, 6, 3], &val, &mut y);
        let _ = f.call(&array![i64::MIN, i64::MAX, 6, 3], &val, &mut y);
        refused(&target, f.call(&array![0i64, 2, 2], &val, &mut y));
    }
}

#[test]
fn sparse_rows() {
    let (val, x) = (array![1.0f32, 2.0, 4.0], array![1.0f32, 10.0]);
    for target in targets() {
        let f = csr::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        let mut y = Array1::zeros(3);
        f.call(&array![0, 2, 2, 3], &array![0, 1, 1], &val, &x, &mut y).unwrap();
        assert_eq!(y, array![21.0, 0.0, 40.0]);
        f.call(&array![0, 0, 0, 0], &array![9, 9, 9], &val, &x, &mut y).unwrap();
        refused(&target, f.call(&array![0, 2, 2, 3], &array![0, 2, 1], &val, &x, &mut y));
        refused(&target, f.call(&array![0, 2, 2, 3], &array![0, -1, 1], &val, &x, &mut y));
        refused(&target, f.call(&array![0, 2, 2, 4], &array![0, 1, 1], &val, &x, &mut y));
    }
}

#[test]
fn ragged_rows() {
    let x = Array2::from_shape_fn((3, 4), |(i, j)| (i * 4 + j) as f32);
    for target in targets() {
        let f = ragged::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        let mut y = Array1::zeros(3);
        f.call(&array![4i64, 0, 2], &x, &mut y).unwrap();
        assert_eq!(y, array![6.0, 0.0, 17.0]);
        f.call(&array![0i64, 0, -3], &Array2::zeros((3, 0)), &mut y).unwrap();
        assert_eq!(y, array![0.0, 0.0, 0.0]);
        refused(&target, f.call(&array![4i64, 0, 5], &x, &mut y));
        refused(&target, f.call(&array![4i64, 0, i64::MAX], &x, &mut y));
    }
}

#[test]
fn blocks_of_values() {
    let val = Array1::from_iter((0..12).map(|i| i as f32));
    for target in targets() {
        let f = blocks::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        let mut y = Array1::zeros(2);
        f.call(&array![0i64, 1, 3], &val, &mut y).unwrap();
        assert_eq!(y, array![6.0, 60.0]);
        refused(&target, f.call(&array![0i64, 1, 4], &val, &mut y));
        refused(&target, f.call(&array![-1i64, 1, 3], &val, &mut y));
        // Four times this value wraps to 0.
        refused(&target, f.call(&array![(1i64 << 62) - 1, (1 << 62) + 1, (1 << 62) + 1], &val, &mut y));
    }
}

#[test]
fn buffers_as_long_as_a_loop_says() {
    for target in targets() {
        let f = prefix::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        let mut y = Array1::zeros(4);
        f.call(&array![1.0f32, 2.0, 3.0, 4.0], &mut y).unwrap();
        assert_eq!(y, array![1.0, 3.0, 6.0, 10.0]);
        f.call(&Array1::<f32>::zeros(0), &mut Array1::zeros(0)).unwrap();
    }
}

#[test]
fn loops_that_do_not_run_fail_nowhere() {
    let x = array![1.0f32, 2.0, 3.0, 4.0, 5.0];
    for target in targets() {
        let f = diagonal::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        let mut y = Array1::zeros(5);
        f.call(&x, &mut y).unwrap();
        assert_eq!(y, array![6.0, 9.0, 0.0, 0.0, 0.0]);
        f.call(&x, &mut Array1::zeros(0)).unwrap();
        f.call(&Array1::<f32>::zeros(0), &mut Array1::zeros(1)).unwrap();
        refused(&target, f.call(&Array1::<f32>::zeros(0), &mut y));
        let mut y = Array1::zeros(7);
        f.call(&x, &mut y).unwrap();
        assert_eq!((y[5], y[6]), (0.0, 1.0));
    }
}
