//! Programs written as plain loops that begin at 1 or depend on the iteration before.

use tvm::prelude::*;

#[prim_func]
pub fn running_rows(x: &Tensor<i64, m, n>, y: &mut Tensor<i64, m, { n + 1 }>) {
    for i in 0..m {
        y[[i, 0]] = 7;
        for j in 1..n + 1 {
            y[[i, j]] = y[[i, j - 1]] + x[[i, j - 1]];
        }
    }
}

#[prim_func]
pub fn running_columns(x: &Tensor<i64, m, n>, y: &mut Tensor<i64, { m + 1 }, n>) {
    for j in 0..n {
        y[[0, j]] = 7;
    }
    for i in 1..m + 1 {
        for j in 0..n {
            y[[i, j]] = y[[i - 1, j]] + x[[i - 1, j]];
        }
    }
}

#[prim_func]
pub fn life(
    old: &Tensor<u8, m, n>,
    x: &Tensor<u8, { m + 2 }, { n + 2 }>,
    y: &mut Tensor<u8, { m + 2 }, { n + 2 }>,
) {
    for i in 0..m + 2 {
        for j in 0..n + 2 {
            y[[i, j]] = 0;
        }
    }
    for i in 1..m + 1 {
        for j in 1..n + 1 {
            let n = x[[i - 1, j - 1]] + x[[i - 1, j + 1]] + x[[i, j - 1]] + x[[i, j + 1]] + x[[i + 1, j]];
            y[[i, j]] = if n == 3 || n == 2 && x[[i, j]] == 1 { old[[i - 1, j - 1]] } else { 0 };
        }
    }
}

#[prim_func]
pub fn distance(a: &Tensor<u8, m>, b: &Tensor<u8, n>, d: &mut Tensor<i32, { m + 1 }, { n + 1 }>) {
    for i in 0..m + 1 {
        d[[i, 0]] = i as i32;
    }
    for j in 0..n + 1 {
        d[[0, j]] = j as i32;
    }
    for i in 0..m {
        for j in 0..n {
            let cost = if a[[i]] == b[[j]] { 0 } else { 1 };
            d[[i + 1, j + 1]] = (d[[i, j]] + cost).min(d[[i, j + 1]] + 1).min(d[[i + 1, j]] + 1);
        }
    }
}
