//! Attributes of loops are checked like schedule primitives: a kernel that would race does not build.

use tvm::prelude::*;

use crate::agree;
use ndarray::{Array1, Array2, array};

#[prim_func]
fn racing_sum(x: &Tensor<f32, n>, y: &mut Tensor<f32, 1>) {
    y[[0]] = 0.0;
    #[parallel]
    for i in 0..n {
        y[[0]] += x[[i]];
    }
}

#[prim_func]
fn racing_scalar(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    let mut last = 0;
    #[parallel]
    for i in 0..n {
        last = x[[i]];
        y[[i]] = last;
    }
}

#[prim_func]
fn recurrence(x: &Tensor<f32, 9>, y: &mut Tensor<f32, 9>) {
    #[vectorize]
    for i in 0..8 {
        y[[i + 1]] = y[[i]] + x[[i]];
    }
}

#[prim_func]
fn racing_block(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, n>) {
    #[parallel]
    for i in 0..m {
        for j in 0..n {
            block("sum", [R(i), S(j)], |[vi, vj]| {
                init(|| y[[vj]] = 0.0);
                y[[vj]] += x[[vi, vj]];
            });
        }
    }
}

#[prim_func]
fn racing_inside_a_block(x: &Tensor<f32, m, 8>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            y[[vi]] = 0.0;
            #[vectorize]
            for j in 0..8 {
                y[[vi]] += x[[vi, j]];
            }
        });
    }
}

#[prim_func]
fn racing_scatter(at: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    #[parallel]
    for i in 0..n {
        y[[at[[i]] as usize]] = 1;
    }
}

#[prim_func]
fn on_threads(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    #[bind("threadIdx.x")]
    for i in 0..n {
        y[[n - 1 - i]] = x[[i]] + y[[i]];
    }
}

#[test]
fn what_would_race_does_not_build() {
    let cases = [
        (racing_sum::prim_func(), 11, "`i` cannot be parallel"),
        (racing_scalar::prim_func(), 20, "`i` cannot be parallel"),
        (recurrence::prim_func(), 29, "`i` cannot be vectorised"),
        (racing_block::prim_func(), 37, "`i` cannot be parallel"),
        (racing_inside_a_block::prim_func(), 53, "`j` cannot be vectorised"),
        (racing_scatter::prim_func(), 63, "`i` cannot be parallel"),
        (on_threads::prim_func(), 71, "`i` cannot be bound to threads"),
    ];
    for (built, line, part) in cases {
        let text = built.map(|func| func.to_string()).unwrap_err().to_string();
        for part in [part, "help:", &format!("attributes.rs:{line}:")] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
    }
}

#[prim_func]
fn in_place(x: &Tensor<f32, n, 8>, y: &mut Tensor<f32, n, 8>) {
    #[parallel]
    for i in 0..n {
        #[vectorize]
        for j in 0..8 {
            y[[i, j]] = y[[i, j]] * 2.0 + x[[i, j]];
        }
    }
}

#[prim_func]
fn inside_a_block(x: &Tensor<f32, n, 8>, y: &mut Tensor<f32, n, 8>) {
    for i in 0..n {
        block("row", [S(i)], |[vi]| {
            #[vectorize]
            for j in 0..8 {
                y[[vi, j]] = x[[vi, 7 - j]] * 2.0;
            }
        });
    }
}

#[prim_func]
fn row_sums(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    #[parallel]
    for i in 0..m {
        y[[i]] = 0.0;
        for j in 0..n {
            y[[i]] += x[[i, j]];
        }
    }
}

#[prim_func]
fn row_scan(x: &Tensor<i32, m, n>, y: &mut Tensor<i32, m, n>) {
    #[parallel]
    for i in 0..m {
        let mut sum = 0;
        for j in 0..n {
            sum += x[[i, j]];
            y[[i, j]] = sum;
        }
    }
}

#[test]
fn what_is_independent_builds_and_runs() {
    let x = Array2::from_shape_fn((5, 8), |(i, j)| (i * 8 + j) as f32);
    agree!(in_place, (&x) -> Array2::<f32>::ones((5, 8)), 0.0);
    agree!(inside_a_block, (&x) -> Array2::<f32>::ones((5, 8)), 0.0);
    agree!(row_sums, (&x) -> Array1::<f32>::ones(5), 0.0);
    let got = agree!(row_scan, (&array![[1, 2, 3], [4, 5, 6]]) -> Array2::<i32>::zeros((2, 3)), 0.0);
    assert_eq!(got, array![[1, 3, 6], [4, 9, 15]]);
}
