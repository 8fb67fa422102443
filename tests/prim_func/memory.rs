//! Local buffers: elements that were not written read as zero, in every executor and in every iteration.

use ndarray::Array1;
use tvm::prelude::*;

use crate::{agree, data};

/// Writes every second element of the scratch buffer, and reads all of it.
#[prim_func]
fn half_written(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let mut t = alloc::<f32>([n]);
    for i in 0..n / 2 {
        t[[2 * i]] = x[[2 * i]];
    }
    for i in 0..n {
        y[[i]] = t[[i]] + 1.0;
    }
}

/// Each iteration has a scratch buffer, which is written under a condition.
#[prim_func]
fn of_each_iteration(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        #[scope("local")]
        let mut t = alloc::<f32>([3]);
        if x[[i]] > 0.0 {
            t[[i % 3]] = x[[i]];
        }
        y[[i]] = t[[0]] + 2.0 * t[[1]] + 4.0 * t[[2]];
    }
}

#[test]
fn what_was_not_written_is_zero() {
    for n in [0, 1, 2, 9, 1000] {
        let x = Array1::from_vec(data(n, 3));
        let got = agree!(half_written, (&x) -> Array1::from_elem(n, f32::NAN), 0.0);
        let want = (0..n).map(|i| if i % 2 == 0 && i / 2 < n / 2 { x[i] + 1.0 } else { 1.0 });
        assert_eq!(got, Array1::from_iter(want));
        let got = agree!(of_each_iteration, (&x) -> Array1::from_elem(n, f32::NAN), 0.0);
        let want = (0..n).map(|i| if x[i] > 0.0 { x[i] * [1.0, 2.0, 4.0][i % 3] } else { 0.0 });
        assert_eq!(got, Array1::from_iter(want));
    }
}
