//! Index arithmetic on data wraps, that on extents is checked to fit: in both cases, no access leaves its buffer.

use ndarray::{Array1, Array2, array};
use tvm::prelude::*;

use crate::targets;

#[prim_func]
fn eighths(idx: &Tensor<i64, k>, x: &Tensor<f32, n>, y: &mut Tensor<f32, k>) {
    for i in 0..k {
        y[[i]] = 0.0;
        let at = idx[[i]];
        if at >= 0 && at * 8 < n as i64 {
            y[[i]] = x[[(at * 8) as usize]];
        }
    }
}

#[prim_func]
fn strided(by: i64, x: &Tensor<f32, n>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        y[[i]] = x[[(i as i64 * by) as usize]];
    }
}

#[prim_func]
fn guarded(by: i64, x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        if by > 0 && i as i64 + by < n as i64 {
            y[[i]] = x[[(i as i64 + by) as usize]];
        }
    }
}

/// The condition tests the value that the buffer held before the update.
#[prim_func]
fn stale(at: &mut Tensor<i64, n>, x: &Tensor<f32, m>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        if at[[i]] >= 0 && at[[i]] < m as i64 {
            at[[i]] = at[[i]] + 1000;
            y[[i]] = x[[at[[i]] as usize]];
        }
    }
}

#[prim_func]
fn cube(x: &Tensor<f32, l>, y: &mut Tensor<f32, m, n>) {
    for [i, j] in grid([m, n]) {
        y[[i, j]] = x[[i * n * n + j]];
    }
}

#[prim_func]
fn scratch(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    let mut t = alloc::<f32>([m, n, n]);
    for [i, j, k] in grid([m, n, n]) {
        t[[i, j, k]] = x[[i, j]];
    }
    for i in 0..m {
        y[[i]] = 0.0;
    }
}

fn fails(target: &Target, res: Result<(), RuntimeError>) {
    match res {
        Err(RuntimeError::OutOfBounds { .. } | RuntimeError::IndexOverflow { .. }) => {}
        Err(err) if target == &Target::interpreter() => drop(err),
        other => panic!("{target}: {other:?}"),
    }
}

#[test]
fn data_may_wrap() {
    let x = Array1::from_iter((0..24).map(|i| i as f32));
    for target in targets() {
        let f = eighths::compile(&target).unwrap();
        let mut y = Array1::zeros(3);
        f.call(&array![0i64, 2, 5], &x, &mut y).unwrap();
        assert_eq!(y, array![0.0, 16.0, 0.0]);
        for at in [(1i64 << 60) + (1 << 59), (1 << 60) + 1, i64::MAX, i64::MAX / 8 + 1] {
            // Eight times this value is negative.
            if at.wrapping_mul(8) < 0 {
                fails(&target, f.call(&array![0i64, at, 5], &x, &mut y));
            }
        }
        let f = strided::compile(&target).unwrap();
        let mut y = Array1::zeros(3);
        f.call(8i64, &x, &mut y).unwrap();
        assert_eq!(y, array![0.0, 8.0, 16.0]);
        // In bounds at both ends, out of bounds in between.
        for by in [12i64, -1, i64::MAX, i64::MIN, 1 << 62, (1 << 62) + 1] {
            fails(&target, f.call(by, &x, &mut Array1::zeros(3)));
            fails(&target, f.call(by, &x, &mut Array1::zeros(5)));
        }
        let f = guarded::compile(&target).unwrap();
        let mut y = Array1::zeros(24);
        f.call(20i64, &x, &mut y).unwrap();
        assert_eq!(y[3], 23.0);
        fails(&target, f.call(i64::MAX - 3, &x, &mut y));
    }
}

#[test]
fn conditions_on_memory_end_with_a_write() {
    let x = array![1.0f32, 2.0];
    for target in targets() {
        let f = stale::compile(&target).unwrap();
        let mut y = Array1::zeros(2);
        f.call(&mut array![-7i64, 2], &x, &mut y).unwrap();
        fails(&target, f.call(&mut array![-7i64, 1], &x, &mut y));
    }
}

#[test]
fn extents_whose_products_do_not_fit_are_refused() {
    let huge = 1usize << 31;
    for target in targets() {
        if target == Target::interpreter() {
            continue;
        }
        let f = cube::compile(&target).unwrap();
        f.call(&Array1::<f32>::zeros(3), &mut Array2::zeros((0, 1000))).unwrap();
        let mut empty = Array2::<f32>::zeros((0, huge << 8));
        let err = f.call(&Array1::<f32>::zeros(3), &mut empty).unwrap_err();
        assert!(matches!(err, RuntimeError::IndexOverflow { .. }), "{err}");
        assert!(err.to_string().contains("wrapping.rs:"), "{err}");
        let f = scratch::compile(&target).unwrap();
        let err = f.call(&Array2::<f32>::zeros((0, huge << 1)), &mut Array1::zeros(0)).unwrap_err();
        assert!(matches!(err, RuntimeError::IndexOverflow { .. }), "{err}");
        assert!(err.to_string().contains("wrapping.rs:"), "{err}");
        f.call(&Array2::<f32>::zeros((2, 3)), &mut Array1::zeros(2)).unwrap();
    }
}
