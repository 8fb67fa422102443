//! The kernels that the tests use.

use tvm::prelude::*;

/// Matrix product with an explicit block.
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
pub fn matmul_plain(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        for j in 0..n {
            c[[i, j]] = 0.0;
            for p in 0..k {
                c[[i, j]] += a[[i, p]] * b[[p, j]];
            }
        }
    }
}

#[prim_func]
pub fn tiled(a: &Tensor<f32, 64, k>, c: &mut Tensor<f32, 64>) {
    #[parallel]
    for io in 0..4 {
        for ii in 0..16 {
            for p in 0..k {
                block("sum", [S(io * 16 + ii), R(p)], |[vi, vp]| {
                    init(|| {
                        c[[vi]] = 0.0;
                    });
                    c[[vi]] += a[[vi, vp]];
                });
            }
        }
    }
}

#[prim_func]
pub fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

#[prim_func]
pub fn softmax(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    #[parallel]
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
        let scale = 1.0 / sum;
        for j in 0..n {
            y[[i, j]] *= scale;
        }
    }
}

/// A convolution over an image with zero padding.
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

#[prim_func]
pub fn blur(x: &Tensor<f32, { n + 2 }>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = (x[[i]] + 2.0 * x[[i + 1]] + x[[i + 2]]) / 4.0;
    }
}

#[prim_func]
pub fn prefix_sum(x: &Tensor<i32, n>, y: &mut Tensor<i32, n>) {
    for i in 0..n {
        if i == 0 {
            y[[i]] = x[[i]];
        } else {
            y[[i]] = y[[i - 1]] + x[[i]];
        }
    }
}

#[prim_func]
pub fn axpy<T: Element>(x: &Tensor<T, n>, a: T, y: &mut Tensor<T, n>) {
    for i in 0..n {
        y[[i]] += x[[i]] * a;
    }
}

#[prim_func]
pub fn gelu<T: Element>(x: &Tensor<T, n>, y: &mut Tensor<T, n>) {
    for i in 0..n {
        let v = x[[i]];
        y[[i]] = 0.5 * v * (1.0 + erf(v / sqrt(2.0)));
    }
}

const BIAS: f32 = 0.25;

#[prim_func]
pub fn block_sum<const B: usize>(x: &Tensor<f32, n, B>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = BIAS;
        #[unroll]
        for j in 0..B {
            y[[i]] += x[[i, j]] * (j as f32 + std::f32::consts::PI);
        }
    }
}

#[prim_func]
pub fn total(x: &Tensor<f32, n>, y: &mut Tensor<f32>) {
    y[[]] = 0.0;
    for i in 0..n {
        y[[]] += x[[i]];
    }
}

#[prim_func]
pub fn collatz(x: &Tensor<i64, n>, steps: &mut Tensor<i64, n>) {
    for i in 0..n {
        let mut v = x[[i]];
        let mut count = 0;
        while v > 1 {
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
pub fn gather(x: &Tensor<f32, n>, at: &Tensor<i64, m>, on: &Tensor<bool, m>, y: &mut Tensor<f32, m>) {
    let pick = |v: f32| select(v > 0.0, v * 2.0, v);
    for i in 0..m {
        let from = at[[i]] as usize % n;
        y[[i]] = if on[[i]] && !(from == 3) { pick(x[[from]]) } else { -(at[[i]] as f32) };
    }
}

#[prim_func]
pub fn two_stages(x: &Tensor<f32, n, 8>, y: &mut Tensor<f32, n, 8>) {
    #[scope("local")]
    let t = alloc::<f32>([n, 8]);
    for [i, j] in grid([n, 8]) {
        t[[i, j]] = x[[i, j]].tanh().abs().max(0.125);
    }
    for i in 0..n {
        #[vectorize]
        for j in 0..8 {
            y[[i, j]] = t[[i, 7 - j]] + t[[i, j]] * 2.0;
        }
    }
}

#[prim_func(dims(n = 1..=64, n % 8 == 0))]
pub fn bounded(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[n - 1 - i]] = x[[i]];
    }
}

#[prim_func]
pub fn half_precision(x: &Tensor<f16, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = (x[[i]] * 0.5 + 1.0).exp() as f32 + i as f32;
    }
}
