//! Reductions, normalisations and scans of rows and columns.

use tvm::prelude::*;

#[prim_func]
pub fn softmax(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    let top = alloc::<f32>([m]);
    let e = alloc::<f32>([m, n]);
    let total = alloc::<f32>([m]);
    for [i, j] in grid([m, n]) {
        block("top", [S(i), R(j)], |[vi, vj]| {
            init(|| top[[vi]] = f32::NEG_INFINITY);
            top[[vi]] = max(top[[vi]], x[[vi, vj]]);
        });
    }
    for [i, j] in grid([m, n]) {
        block("e", [S(i), S(j)], |[vi, vj]| {
            e[[vi, vj]] = exp(x[[vi, vj]] - top[[vi]]);
        });
    }
    for [i, j] in grid([m, n]) {
        block("total", [S(i), R(j)], |[vi, vj]| {
            init(|| total[[vi]] = 0.0);
            total[[vi]] += e[[vi, vj]];
        });
    }
    for [i, j] in grid([m, n]) {
        block("y", [S(i), S(j)], |[vi, vj]| {
            y[[vi, vj]] = e[[vi, vj]] / total[[vi]];
        });
    }
}

#[prim_func]
pub fn softmax_plain(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        let mut largest = f32::NEG_INFINITY;
        for j in 0..n {
            largest = max(largest, x[[i, j]]);
        }
        let mut sum = 0.0;
        for j in 0..n {
            let e = exp(x[[i, j]] - largest);
            y[[i, j]] = e;
            sum += e;
        }
        for j in 0..n {
            y[[i, j]] /= sum;
        }
    }
}

#[prim_func]
pub fn layer_norm(x: &Tensor<f32, m, n>, g: &Tensor<f32, n>, y: &mut Tensor<f32, m, n>) {
    let mean = alloc::<f32>([m]);
    let square = alloc::<f32>([m]);
    for [i, j] in grid([m, n]) {
        block("sums", [S(i), R(j)], |[vi, vj]| {
            init(|| {
                mean[[vi]] = 0.0;
                square[[vi]] = 0.0;
            });
            mean[[vi]] += x[[vi, vj]];
            square[[vi]] += x[[vi, vj]] * x[[vi, vj]];
        });
    }
    for [i, j] in grid([m, n]) {
        let mu = mean[[i]] / n as f32;
        y[[i, j]] = (x[[i, j]] - mu) / sqrt(square[[i]] / n as f32 - mu * mu + 0.5) * g[[j]];
    }
}

#[prim_func]
pub fn both_sums(x: &Tensor<i32, m, n>, rows: &mut Tensor<i32, m>, columns: &mut Tensor<i32, n>) {
    for [i, j] in grid([m, n]) {
        block("rows", [S(i), R(j)], |[vi, vj]| {
            init(|| rows[[vi]] = 0);
            rows[[vi]] += x[[vi, vj]];
        });
    }
    for [i, j] in grid([m, n]) {
        block("columns", [R(i), S(j)], |[vi, vj]| {
            init(|| columns[[vj]] = 0);
            columns[[vj]] += x[[vi, vj]];
        });
    }
}

#[prim_func]
pub fn argmax(x: &Tensor<i64, m, n>, best: &mut Tensor<i64, m>, at: &mut Tensor<i64, m>) {
    for [i, j] in grid([m, n]) {
        block("best", [S(i), R(j)], |[vi, vj]| {
            init(|| {
                best[[vi]] = i64::MIN;
                at[[vi]] = -1;
            });
            if x[[vi, vj]] > best[[vi]] {
                at[[vi]] = vj as i64;
                best[[vi]] = x[[vi, vj]];
            }
        });
    }
}

#[prim_func]
pub fn total(x: &Tensor<i8, n>, y: &mut Tensor<i8>) {
    y[[]] = 3;
    for i in 0..n {
        y[[]] += x[[i]];
    }
}

#[prim_func]
pub fn any_row(x: &Tensor<bool, m, n>, y: &mut Tensor<bool, m>) {
    for i in 0..m {
        y[[i]] = false;
        for j in 0..n {
            y[[i]] = y[[i]] || x[[i, j]];
        }
    }
}

#[prim_func]
pub fn scan_rows(x: &Tensor<i64, m, n>, y: &mut Tensor<i64, m, n>) {
    for [b, i] in grid([m, n]) {
        block("scan", [S(b), O(i)], |[vb, vi]| {
            y[[vb, vi]] = if vi == 0 { x[[vb, vi]] } else { y[[vb, vi - 1]] * 2 + x[[vb, vi]] };
        });
    }
}

#[prim_func]
pub fn prefix_sum(x: &Tensor<i32, n>, y: &mut Tensor<i32, n>) {
    let mut sum = 0;
    for i in 0..n {
        sum += x[[i]];
        y[[i]] = sum;
    }
}

#[prim_func]
pub fn suffix_sums(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    for i in 0..n {
        for j in i..n {
            block("B", [S(i), R(j)], |[vi, vj]| {
                init(|| y[[vi]] = 0);
                y[[vi]] += x[[vj]];
            });
        }
    }
}

/// The reduction loop starts at 1.
#[prim_func]
pub fn from_one(x: &Tensor<f32, n, m>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        for k in 1..m {
            block("B", [S(i), R(k)], |[vi, vk]| {
                init(|| y[[vi]] = 5.0);
                y[[vi]] += x[[vi, vk]];
            });
        }
    }
}

/// The reduction loop is outside, and the block has no init.
#[prim_func]
pub fn columns_outside(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, n>) {
    for j in 0..n {
        block("zero", [S(j)], |[vj]| {
            y[[vj]] = 1.0;
        });
    }
    for i in 0..m {
        for j in 0..n {
            block("add", [R(i), S(j)], |[vi, vj]| {
                y[[vj]] += x[[vi, vj]];
            });
        }
    }
}
