//! Matched buffers and assertions.

use tvm::prelude::*;

/// A reduction through matched buffers, with an init.
#[prim_func]
pub(super) fn matched_rows(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    for [i, k] in grid([m, n]) {
        block("sum", [S(i), R(k)], |[vi, vk]| {
            let row = match_buffer(x[[vi, 0..n]]);
            let total = match_buffer(y[[vi..vi + 1]]);
            init(|| total[[0]] = 0.0);
            total[[0]] += row[[vk]];
        });
    }
}

/// Tiles that are read and written through matched buffers, after a plain producer and before a plain consumer.
#[prim_func]
pub(super) fn matched_tiles(x: &Tensor<i64, 6, 8>, y: &mut Tensor<i64, 6, 8>) {
    let mut s = alloc::<i64>([6, 8]);
    let mut t = alloc::<i64>([6, 8]);
    for [i, j] in grid([6, 8]) {
        block("s", [S(i), S(j)], |[vi, vj]| {
            s[[vi, vj]] = x[[vi, vj]] * 2;
        });
    }
    for [i, j] in grid([3, 2]) {
        block("t", [S(i), S(j)], |[vi, vj]| {
            let from = match_buffer(s[[vi * 2..vi * 2 + 2, vj * 4..vj * 4 + 4]]);
            let to = match_buffer(t[[vi * 2..vi * 2 + 2, vj * 4..vj * 4 + 4]]);
            for [a, b] in grid([2, 4]) {
                to[[a, b]] = from[[1 - a, b]] + 1;
            }
        });
    }
    for [i, j] in grid([6, 8]) {
        block("y", [S(i), S(j)], |[vi, vj]| {
            y[[vi, vj]] = t[[vi, vj]] - s[[vi, 0]];
        });
    }
}

/// A block that meets its own elements again through a second name.
#[prim_func]
pub(super) fn two_names(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    for i in 0..n {
        block("first", [S(i)], |[vi]| {
            y[[vi]] = x[[vi]];
        });
    }
    for i in 1..n {
        block("second", [O(i)], |[vi]| {
            let before = match_buffer(y[[vi - 1..vi]]);
            y[[vi]] += before[[0]];
            before[[0]] += 1;
        });
    }
}

/// Assertions that hold, in blocks, branches and an init, and beside blocks.
#[prim_func]
pub(super) fn asserted(x: &Tensor<i64, m, n>, y: &mut Tensor<i64, m>, z: &mut Tensor<i64, m, n>) {
    for [i, k] in grid([m, n]) {
        block("sum", [S(i), R(k)], |[vi, vk]| {
            init(|| {
                assert!(vi < m, "a row");
                y[[vi]] = 0;
            });
            assert!(y[[vi]] < 1000000, "a sum");
            y[[vi]] += x[[vi, vk]];
        });
    }
    for i in 0..m {
        assert!(y[[i]] > -1000000, "beside");
        for k in 0..n {
            if k % 2 == 0 {
                assert!(x[[i, k]] < 1000000, "in a branch");
            }
            z[[i, k]] = y[[i]] - x[[i, k]];
        }
    }
}
