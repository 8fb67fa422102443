//! Conditions around blocks, odd bindings, several writers, updates in place, nested blocks.

use tvm::prelude::*;

#[prim_func]
pub fn if_scalar(x: &Tensor<i64, n>, f: i64, y: &mut Tensor<i64, n>) {
    let t = alloc::<i64>([n]);
    for i in 0..n {
        t[[i]] = x[[i]] * 2;
    }
    if f > 3 {
        for i in 0..n {
            y[[i]] = t[[i]] + 1;
        }
    }
}

#[prim_func]
pub fn if_loop_variable(x: &Tensor<i32, m, n>, y: &mut Tensor<i32, m, n>) {
    for i in 0..m {
        if i % 3 != 1 {
            for j in 0..n {
                y[[i, j]] = x[[i, j]] + 1;
            }
        }
    }
}

#[prim_func]
pub fn if_memory(x: &Tensor<i64, n>, a: &mut Tensor<i64, { n + 1 }, 4>) {
    for i in 0..n {
        if a[[i, 0]] > x[[i]] {
            for j in 0..4 {
                a[[i + 1, j]] = 0;
            }
        }
    }
}

#[prim_func]
pub fn if_other_memory(on: &Tensor<bool, m>, x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        if on[[i]] {
            for j in 0..n {
                block("sum", [S(i), R(j)], |[vi, vj]| {
                    init(|| y[[vi]] = 0.0);
                    y[[vi]] += x[[vi, vj]];
                });
            }
        }
    }
}

/// A condition cuts off the partial last tile.
#[prim_func]
pub fn tiles(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for io in 0..(n + 3) / 4 {
        for ii in 0..4 {
            if io * 4 + ii < n {
                y[[io * 4 + ii]] = x[[io * 4 + ii]] * 2.0;
            }
        }
    }
}

/// Even elements are written first, then odd ones; then all are read.
#[prim_func]
pub fn odd_bindings(w: &Tensor<i64, n>, x: &Tensor<i64, { 2 * n }>, y: &mut Tensor<i64, { 2 * n }>) {
    let t = alloc::<i64>([2 * n]);
    for i in 0..n {
        block("even", [S(i * 2)], |[v]| {
            t[[v]] = x[[v]] + w[[v / 2]];
        });
    }
    for i in 0..n {
        block("odd", [S(i * 2 + 1)], |[v]| {
            t[[v]] = x[[v]] - 1;
        });
    }
    for i in 0..2 * n {
        block("y", [S(i)], |[v]| {
            y[[v]] = t[[v]] * 3;
        });
    }
}

/// Only half of an output parameter is written; the other half keeps its content.
#[prim_func]
pub fn strided(x: &Tensor<i64, n>, y: &mut Tensor<i64, { 2 * n }>) {
    for i in 0..n {
        block("B", [S(i * 2)], |[v]| {
            y[[v]] = x[[v / 2]];
        });
    }
}

#[prim_func]
pub fn reversed(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let t = alloc::<f32>([n]);
    for i in 0..n {
        block("t", [S(n - 1 - i)], |[v]| {
            t[[v]] = x[[v]] + 1.0;
        });
    }
    for i in 0..n {
        block("y", [S(i)], |[v]| {
            y[[n - 1 - v]] = t[[v]] * 2.0;
        });
    }
}

#[prim_func]
pub fn offset(x: &Tensor<i32, n>, y: &mut Tensor<i32, { n + 1 }>) {
    for i in 0..n {
        block("y", [S(i + 1)], |[v]| {
            y[[v]] = x[[v - 1]] * 2;
        });
    }
}

#[prim_func]
pub fn writers(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("first", [S(i)], |[v]| {
            y[[v]] = x[[v]];
        });
    }
    for i in 0..n / 2 {
        block("second", [S(i)], |[v]| {
            y[[v]] = x[[n - 1 - v]] + 0.5;
        });
    }
    for i in 0..n {
        block("third", [S(i)], |[v]| {
            y[[v]] = y[[v]] * 2.0;
        });
    }
}

#[prim_func]
pub fn in_place(x: &Tensor<i8, m, n>, y: &mut Tensor<i8, m, n>) {
    for [i, j] in grid([m, n]) {
        y[[i, j]] = y[[i, j]] * 3 + 1;
    }
    for [i, j] in grid([m, n]) {
        y[[i, j]] += x[[i, j]];
    }
}

#[prim_func]
pub fn shifted_in_place(x: &Tensor<i64, n>, y: &mut Tensor<i64, { n + 1 }>) {
    for i in 0..n {
        y[[i]] = y[[i + 1]] + x[[i]];
    }
}

#[prim_func]
pub fn nested(x: &Tensor<i64, m, n>, y: &mut Tensor<i64, m, n>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            let t = alloc::<i64>([n]);
            for j in 0..n {
                block("t", [S(j)], |[vj]| {
                    t[[vj]] = x[[vi, vj]] + 1;
                });
            }
            for j in 0..n {
                block("y", [S(j)], |[vj]| {
                    y[[vi, vj]] = t[[n - 1 - vj]] * 2;
                });
            }
        });
    }
}

#[prim_func]
pub fn logic(x: &Tensor<bool, n>, y: &Tensor<bool, n>, z: &mut Tensor<bool, n>) {
    let t = alloc::<bool>([n]);
    for i in 0..n {
        t[[i]] = x[[i]] && !y[[i]];
    }
    for i in 0..n {
        z[[i]] = t[[i]] || (x[[i]] && i % 2 == 0);
    }
}

/// The extents of both loops may be negative.
#[prim_func]
pub fn stencil(x: &Tensor<i64, n, m>, y: &mut Tensor<i64, n, m>) {
    for [i, j] in grid([n - 2, m - 3]) {
        block("y", [S(i + 1), S(j + 1)], |[vi, vj]| {
            y[[vi, vj]] = x[[vi - 1, vj]] + x[[vi + 1, vj + 1]];
        });
    }
}

#[prim_func]
pub fn transpose(x: &Tensor<i64, n, m>, y: &mut Tensor<i64, m, n>) {
    for [i, j] in grid([n, m]) {
        y[[j, i]] = x[[i, j]];
    }
}
