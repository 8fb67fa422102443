//! Products, convolutions and windows.

use tvm::prelude::*;

#[prim_func]
pub fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j, p] in grid([m, n, k]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func]
pub fn matmul16(a: &Tensor<f32, 16, 16>, b: &Tensor<f32, 16, 16>, c: &mut Tensor<f32, 16, 16>) {
    for [i, j, p] in grid([16, 16, 16]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func]
pub fn matmul_transposed(a: &Tensor<i64, m, k>, b: &Tensor<i64, n, k>, c: &mut Tensor<i64, m, n>) {
    for i in 0..m {
        for j in 0..n {
            c[[i, j]] = 0;
            for p in 0..k {
                c[[i, j]] += a[[i, p]] * b[[j, p]];
            }
        }
    }
}

/// A batched product in half precision, with an epilogue.
#[prim_func]
pub fn batched(
    a: &Tensor<f16, g, m, k>,
    b: &Tensor<f16, g, k, n>,
    bias: &Tensor<f16, n>,
    y: &mut Tensor<f16, g, m, n>,
) {
    let c = alloc::<f16>([g, m, n]);
    for [h, i, j, p] in grid([g, m, n, k]) {
        block("C", [S(h), S(i), S(j), R(p)], |[vh, vi, vj, vp]| {
            init(|| c[[vh, vi, vj]] = 0.0);
            c[[vh, vi, vj]] += a[[vh, vi, vp]] * b[[vh, vp, vj]];
        });
    }
    for [h, i, j] in grid([g, m, n]) {
        block("relu", [S(h), S(i), S(j)], |[vh, vi, vj]| {
            y[[vh, vi, vj]] = max(c[[vh, vi, vj]] + bias[[vj]], 0.0);
        });
    }
}

/// A batch of one, which the epilogue indexes by 0.
#[prim_func]
pub fn batch_of_one(a: &Tensor<i32, 1, m, k>, b: &Tensor<i32, k, n>, y: &mut Tensor<i32, 1, m, n>) {
    let c = alloc::<i32>([1, m, n]);
    for [h, i, j, p] in grid([1, m, n, k]) {
        block("C", [S(h), S(i), S(j), R(p)], |[vh, vi, vj, vp]| {
            init(|| c[[vh, vi, vj]] = 0);
            c[[vh, vi, vj]] += a[[vh, vi, vp]] * b[[vp, vj]];
        });
    }
    for [h, i, j] in grid([1, m, n]) {
        block("relu", [S(h), S(i), S(j)], |[vh, vi, vj]| {
            y[[vh, vi, vj]] = max(c[[0, vi, vj]], 0);
        });
    }
}

/// Zero padding by a condition in the value expression.
#[prim_func]
pub fn conv(x: &Tensor<f32, h, w>, k: &Tensor<f32, 3, 3>, y: &mut Tensor<f32, h, w>) {
    for [i, j] in grid([h, w]) {
        y[[i, j]] = 0.0;
        for [di, dj] in grid([3, 3]) {
            let inside = i + di >= 1 && i + di < h + 1 && j + dj >= 1 && j + dj < w + 1;
            y[[i, j]] += if inside { x[[i + di - 1, j + dj - 1]] * k[[di, dj]] } else { 0.0 };
        }
    }
}

/// Zero padding in a separate buffer.
#[prim_func]
pub fn padded(x: &Tensor<i32, n>, y: &mut Tensor<i32, n>) {
    let p = alloc::<i32>([n + 2]);
    for i in 0..n + 2 {
        block("p", [S(i)], |[v]| {
            p[[v]] = if v >= 1 && v < n + 1 { x[[v - 1]] } else { 0 };
        });
    }
    for [i, d] in grid([n, 3]) {
        block("y", [S(i), R(d)], |[vi, vd]| {
            init(|| y[[vi]] = 0);
            y[[vi]] += p[[vi + vd]];
        });
    }
}

/// Window sums, whose neighbours the next stage reads.
#[prim_func]
pub fn halo(x: &Tensor<i64, { n + 3 }>, y: &mut Tensor<i64, n>) {
    let s = alloc::<i64>([n + 1]);
    for [i, d] in grid([n + 1, 3]) {
        block("s", [S(i), R(d)], |[vi, vd]| {
            init(|| s[[vi]] = 0);
            s[[vi]] += x[[vi + vd]];
        });
    }
    for i in 0..n {
        block("y", [S(i)], |[vi]| {
            y[[vi]] = s[[vi]] + 10 * s[[vi + 1]];
        });
    }
}

/// As `halo`, with constant extents.
#[prim_func]
pub fn halo9(x: &Tensor<i64, 12>, y: &mut Tensor<i64, 9>) {
    let s = alloc::<i64>([10]);
    for [i, d] in grid([10, 3]) {
        block("s", [S(i), R(d)], |[vi, vd]| {
            init(|| s[[vi]] = 0);
            s[[vi]] += x[[vi + vd]];
        });
    }
    for i in 0..9 {
        block("y", [S(i)], |[vi]| {
            y[[vi]] = s[[vi]] + 10 * s[[vi + 1]];
        });
    }
}

#[prim_func]
pub fn max_pool(x: &Tensor<i8, { 2 * n + 1 }, c>, y: &mut Tensor<i8, n, c>) {
    for [i, j, d] in grid([n, c, 3]) {
        block("pool", [S(i), S(j), R(d)], |[vi, vj, vd]| {
            init(|| y[[vi, vj]] = -128);
            y[[vi, vj]] = max(y[[vi, vj]], x[[vi * 2 + vd, vj]]);
        });
    }
}

/// Three element-wise stages; the first has two readers.
#[prim_func]
pub fn chain(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, n, m>) {
    let a = alloc::<f32>([m, n]);
    let b = alloc::<f32>([m, n]);
    for [i, j] in grid([m, n]) {
        a[[i, j]] = x[[i, j]] + 1.0;
    }
    for [i, j] in grid([m, n]) {
        b[[i, j]] = a[[i, j]] * 2.0;
    }
    for [i, j] in grid([n, m]) {
        y[[i, j]] = a[[j, i]] - b[[j, i]] * 3.0;
    }
}
