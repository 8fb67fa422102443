//! Programs with data-dependent accesses, ragged loops and `while`.

use tvm::prelude::*;

#[prim_func]
pub fn gather(x: &Tensor<f32, n, w>, at: &Tensor<i64, m>, y: &mut Tensor<f32, m, w>) {
    for [i, j] in grid([m, w]) {
        y[[i, j]] = x[[at[[i]] as usize, j]];
    }
}

#[prim_func]
pub fn gather_staged(x: &Tensor<i32, n>, at: &Tensor<i64, m>, y: &mut Tensor<i32, m>) {
    let t = alloc::<i32>([n]);
    for i in 0..n {
        t[[i]] = x[[i]] * 3;
    }
    for i in 0..m {
        y[[i]] = t[[at[[i]] as usize]] + 1;
    }
}

#[prim_func]
pub fn scatter(x: &Tensor<f32, m>, at: &Tensor<i64, m>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
    }
    for i in 0..m {
        let to = at[[i]] as usize;
        y[[to]] = x[[i]];
    }
}

#[prim_func]
pub fn histogram(at: &Tensor<i64, m>, y: &mut Tensor<i32, n>) {
    for i in 0..n {
        y[[i]] = 0;
    }
    for i in 0..m {
        y[[at[[i]] as usize]] += 1;
    }
}

#[prim_func]
pub fn csr(ptr: &Tensor<i64, { n + 1 }>, x: &Tensor<f32, m>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        for e in ptr[[i]] as usize..ptr[[i + 1]] as usize {
            y[[i]] += x[[e]];
        }
    }
}

#[prim_func]
pub fn ragged(len: &Tensor<i64, n>, x: &Tensor<i64, n, m>, y: &mut Tensor<i64, n, m>) {
    for i in 0..n {
        for j in 0..len[[i]] as usize {
            y[[i, j]] = x[[i, j]] + 1;
        }
    }
}

#[prim_func]
pub fn collatz(x: &Tensor<i64, n>, steps: &mut Tensor<i64, n>) {
    for i in 0..n {
        let mut v = x[[i]];
        let mut count = 0;
        while v > 1 && count < 9 {
            if v % 2 == 0 {
                v /= 2;
            } else {
                v = 3 * v + 1;
            }
            count += 1;
        }
        steps[[i]] = count;
    }
}

#[prim_func]
pub fn local_row(x: &Tensor<f32, n, 8>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        let mut row = alloc::<f32>([8]);
        for j in 0..8 {
            row[[j]] = x[[i, 7 - j]] * 2.0;
        }
        y[[i]] = row[[0]] - row[[7]];
    }
}
