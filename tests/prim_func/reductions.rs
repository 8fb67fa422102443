//! Reductions: the init runs before the first iteration that contributes to a result, and also if there is no iteration.

use ndarray::{Array1, Array2};
use tvm::prelude::*;

use crate::{agree, data, matrix};

#[prim_func]
fn row_sums(x: &Tensor<f32, n, k>, y: &mut Tensor<f32, n>) {
    for [i, j] in grid([n, k]) {
        block("y", [S(i), R(j)], |[vi, vj]| {
            init(|| y[[vi]] = 0.0);
            y[[vi]] += x[[vi, vj]];
        });
    }
}

/// The reduction loop is outside.
#[prim_func]
fn row_sums_outer(x: &Tensor<f32, n, k>, y: &mut Tensor<f32, n>) {
    for j in 0..k {
        for i in 0..n {
            block("y", [S(i), R(j)], |[vi, vj]| {
                init(|| y[[vi]] = 0.0);
                y[[vi]] += x[[vi, vj]];
            });
        }
    }
}

/// Sums of rows, from the diagonal on.
#[prim_func]
fn upper(x: &Tensor<f32, n, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        for j in i..n {
            block("y", [S(i), R(j)], |[vi, vj]| {
                init(|| y[[vi]] = 0.0);
                y[[vi]] += x[[vi, vj]];
            });
        }
    }
}

/// Sums of rows up to the diagonal: the first row is empty.
#[prim_func]
fn below(x: &Tensor<f32, n, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        for j in 0..i {
            block("y", [S(i), R(j)], |[vi, vj]| {
                init(|| y[[vi]] = -1.0);
                y[[vi]] += x[[vi, vj]];
            });
        }
    }
}

#[prim_func]
fn from_one(x: &Tensor<f32, n, k>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        for j in 1..k {
            block("y", [S(i), R(j)], |[vi, vj]| {
                init(|| y[[vi]] = 0.5);
                y[[vi]] += x[[vi, vj]];
            });
        }
    }
}

/// Visits every second element, in descending order.
#[prim_func]
fn odd_reversed(x: &Tensor<f32, n, k>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        for j in 0..k / 2 {
            block("y", [S(i), R(2 * (k / 2 - 1 - j) + 1)], |[vi, vj]| {
                init(|| y[[vi]] = 0.0);
                y[[vi]] += x[[vi, vj]];
            });
        }
    }
}

/// Two reduction loops, one of them outside; the sum starts with a bias.
#[prim_func]
fn two(x: &Tensor<f32, n, k, l>, bias: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for a in 0..k {
        for i in 0..n {
            for b in 0..l {
                block("y", [S(i), R(a), R(b)], |[vi, va, vb]| {
                    init(|| y[[vi]] = bias[[vi]]);
                    y[[vi]] += x[[vi, va, vb]];
                });
            }
        }
    }
}

/// One loop enumerates rows and columns.
#[prim_func]
fn fused(x: &Tensor<f32, 3, 4>, y: &mut Tensor<f32, 3>) {
    for f in 0..12 {
        block("y", [S(f / 4), R((f + 2) % 4)], |[vi, vj]| {
            init(|| y[[vi]] = 0.0);
            y[[vi]] += x[[vi, vj]];
        });
    }
}

/// A condition on both row and column; no column satisfies it for the last row.
#[prim_func]
fn masked(x: &Tensor<f32, n, n>, y: &mut Tensor<f32, n>) {
    for [i, j] in grid([n, n]) {
        if i + j + 1 < n {
            block("y", [S(i), R(j)], |[vi, vj]| {
                init(|| y[[vi]] = 2.0);
                y[[vi]] += x[[vi, vj]];
            });
        }
    }
}

/// A reduction that continues in the next run of the enclosing block.
#[prim_func]
fn nested(x: &Tensor<f32, n, k>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        for jo in 0..k / 4 {
            block("tile", [S(i), R(jo)], |[vi, vjo]| {
                for ji in 0..4 {
                    block("y", [S(vi), R(vjo * 4 + ji)], |[wi, wj]| {
                        init(|| y[[wi]] = 0.0);
                        y[[wi]] += x[[wi, wj]];
                    });
                }
            });
        }
    }
}

/// Two results at once; the loop over columns is outside.
#[prim_func]
fn arg_max(x: &Tensor<f32, n, k>, at: &mut Tensor<i64, n>, top: &mut Tensor<f32, n>) {
    for j in 0..k {
        for i in 0..n {
            block("top", [S(i), R(j)], |[vi, vj]| {
                init(|| {
                    at[[vi]] = -1;
                    top[[vi]] = -2.0;
                });
                if x[[vi, vj]] > top[[vi]] {
                    at[[vi]] = vj as i64;
                    top[[vi]] = x[[vi, vj]];
                }
            });
        }
    }
}

/// A reduction of one element, without a loop, next to another reduction in the same loop.
#[prim_func]
fn without_loop(x: &Tensor<f32, n, k>, y: &mut Tensor<f32, n>, z: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("z", [S(i), R(0)], |[vi, vj]| {
            init(|| z[[vi]] = 3.0);
            z[[vi]] += 1.0 + vj as f32;
        });
        for j in 0..k {
            block("y", [S(i), R(j)], |[vi, vj]| {
                init(|| y[[vi]] = z[[vi]]);
                y[[vi]] = y[[vi]].max(x[[vi, vj]]);
            });
        }
    }
}

/// Names that shadow others.
#[prim_func]
fn shadowed(x: &Tensor<f32, n, k>, y: &mut Tensor<f32, n>) {
    let start = 1.5;
    for i in 0..n {
        for j in 0..k {
            block("y", [S(i), R(j)], |[i, j]| {
                init(|| y[[i]] = start);
                y[[i]] += x[[i, j]];
            });
        }
    }
}

const SHAPES: [(usize, usize); 9] = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 4), (4, 1), (3, 7), (5, 2), (2, 9)];

/// Expected result: the sum, from `start` on, over those columns of each row for which `keep` is true.
fn expect(x: &Array2<f32>, start: f32, keep: impl Fn(usize, usize) -> bool) -> Array1<f32> {
    let row = |i: usize| (0..x.ncols()).filter(|&j| keep(i, j)).fold(start, |sum, j| sum + x[[i, j]]);
    (0..x.nrows()).map(row).collect()
}

fn near(a: &Array1<f32>, b: &Array1<f32>) {
    assert!(a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a} is not {b}");
}

#[test]
fn rows_of_every_length() {
    for (n, k) in SHAPES {
        let (x, y) = (matrix(n, k, 1), Array1::from_elem(n, f32::NAN));
        near(&agree!(row_sums, (&x) -> y, 0.0), &expect(&x, 0.0, |_, _| true));
        near(&agree!(row_sums_outer, (&x) -> y, 0.0), &expect(&x, 0.0, |_, _| true));
        near(&agree!(from_one, (&x) -> y, 0.0), &expect(&x, 0.5, |_, j| j > 0));
        near(&agree!(shadowed, (&x) -> y, 0.0), &expect(&x, 1.5, |_, _| true));
        near(&agree!(odd_reversed, (&x) -> y, 0.0), &expect(&x, 0.0, |_, j| j % 2 == 1));
        near(&agree!(nested, (&x) -> y, 0.0), &expect(&x, 0.0, |_, j| j < k / 4 * 4));
        let square = matrix(n, n, 4);
        near(&agree!(upper, (&square) -> y, 0.0), &expect(&square, 0.0, |i, j| j >= i));
        near(&agree!(below, (&square) -> y, 0.0), &expect(&square, -1.0, |i, j| j < i));
        near(&agree!(masked, (&square) -> y, 0.0), &expect(&square, 2.0, |i, j| i + j + 1 < n));
    }
    let x = matrix(3, 4, 5);
    near(&agree!(fused, (&x) -> Array1::from_elem(3, f32::NAN), 0.0), &expect(&x, 0.0, |_, _| true));
}

#[test]
fn several_axes_and_results() {
    for (n, k) in SHAPES {
        for l in [0, 1, 3] {
            let x = ndarray::Array3::from_shape_vec((n, k, l), data(n * k * l, 6)).unwrap();
            let bias = Array1::from_vec(data(n, 7));
            let got = agree!(two, (&x, &bias) -> Array1::from_elem(n, f32::NAN), 0.0);
            let want: Array1<f32> =
                (0..n).map(|i| bias[i] + x.index_axis(ndarray::Axis(0), i).sum()).collect();
            near(&got, &want);
        }
        let x = matrix(n, k, 8);
        let mut results = Vec::new();
        for target in std::iter::once(None).chain(crate::targets().map(Some)) {
            let (mut at, mut top) = (Array1::from_elem(n, 77i64), Array1::from_elem(n, f32::NAN));
            let (mut y, mut z) = (Array1::from_elem(n, f32::NAN), Array1::from_elem(n, f32::NAN));
            match target {
                None => {
                    arg_max(&x, &mut at, &mut top).unwrap();
                    without_loop(&x, &mut y, &mut z).unwrap();
                }
                Some(target) => {
                    arg_max::compile(&target).unwrap().call(&x, &mut at, &mut top).unwrap();
                    without_loop::compile(&target).unwrap().call(&x, &mut y, &mut z).unwrap();
                }
            }
            results.push((at, top, y, z));
        }
        assert!(results.iter().all(|it| *it == results[0]), "{n} x {k}: {results:?}");
        let (at, top, y, z) = &results[0];
        assert!(z.iter().all(|z| *z == 4.0) && y.iter().all(|y| *y == 4.0));
        for i in 0..n {
            let best = (0..k).max_by(|&a, &b| x[[i, a]].total_cmp(&x[[i, b]]));
            assert_eq!(at[i], best.map_or(-1, |j| j as i64));
            assert_eq!(top[i], best.map_or(-2.0, |j| x[[i, j]]));
        }
    }
}
