//! Reductions whose init is easily run too often, or not at all.

use tvm::prelude::*;

/// The block runs in the first iteration of `a` and `b` only.
#[prim_func]
pub(super) fn one_tile(x: &Tensor<i64, 4, m>, y: &mut Tensor<i64, 4>) {
    for [i, a, b, k] in grid([4, 3, 4, 8]) {
        if a * 4 + b < 1 && k < m {
            block("y", [S(i), R(k)], |[vi, vk]| {
                init(|| y[[vi]] = 0);
                y[[vi]] += x[[vi, vk]];
            });
        }
    }
}

/// As `one_tile`, with a loop of one iteration.
#[prim_func]
pub(super) fn one_of_one(x: &Tensor<i64, 4, m>, y: &mut Tensor<i64, 4>) {
    for [i, a, b, k] in grid([4, 3, 1, 8]) {
        if a * 4 + b < 1 && k < m {
            block("y", [S(i), R(k)], |[vi, vk]| {
                init(|| y[[vi]] = 0);
                y[[vi]] += x[[vi, vk]];
            });
        }
    }
}

/// A condition of a loop around the reduction and of its own loop: the init ignores it.
#[prim_func]
pub(super) fn first_terms(x: &Tensor<i64, 4, m>, y: &mut Tensor<i64, 4>) {
    for [i, a, k] in grid([4, 2, 8]) {
        if a * 8 + k < 8 && k < m {
            block("y", [S(i), R(k)], |[vi, vk]| {
                init(|| y[[vi]] = 0);
                y[[vi]] += x[[vi, vk]];
            });
        }
    }
}

/// The sum is computed three times.
#[prim_func]
pub(super) fn computed_again(x: &Tensor<i64, 4, m>, y: &mut Tensor<i64, 4>) {
    for [i, r, k] in grid([4, 3, m]) {
        block("y", [S(i), R(k)], |[vi, vk]| {
            init(|| y[[vi]] = 0);
            y[[vi]] += x[[vi, vk]];
        });
    }
}

/// Inner elements are computed twice.
#[prim_func]
pub(super) fn overlapping(x: &Tensor<i64, 4, m>, y: &mut Tensor<i64, 4>) {
    for [i, a, k] in grid([3, 2, 8]) {
        if k < m {
            block("y", [S(i + a), R(k)], |[vi, vk]| {
                init(|| y[[vi]] = 0);
                y[[vi]] += x[[vi, vk]];
            });
        }
    }
}

/// The reduction may be of no iteration; nothing else is unusual.
#[prim_func]
pub(super) fn reduction_of_none(x: &Tensor<i64, 4, m>, y: &mut Tensor<i64, 4>) {
    for [i, k] in grid([4, 8]) {
        if k < m {
            block("y", [S(i), R(k)], |[vi, vk]| {
                init(|| y[[vi]] = 0);
                y[[vi]] += x[[vi, vk]];
            });
        }
    }
}

/// A block around the reduction takes part in it.
#[prim_func]
pub(super) fn reduction_in_parts(x: &Tensor<i64, 4, m>, y: &mut Tensor<i64, 4>) {
    for [i, r, p] in grid([4, 3, 2]) {
        block("part", [S(i), R(p)], |[vi, vp]| {
            for k in 0..4 {
                if vp * 4 + k < m {
                    block("y", [R(vp * 4 + k)], |[vk]| {
                        init(|| y[[vi]] = 0);
                        y[[vi]] += x[[vi, vk]];
                    });
                }
            }
        });
    }
}
