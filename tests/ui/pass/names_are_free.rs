//! Names of the runtime and of the expansion do not get in the way of the user's.

use tvm::prelude::*;

#[prim_func]
fn block_sum(lit: &Tensor<f32, grid>, init: f32, out: &mut Tensor<f32>) {
    let mut max = init;
    for block in 0..grid {
        let exp = lit[[block]];
        max += exp;
    }
    out[[]] = max;
}

/// Names of the expansion itself, also where literals become calls.
#[prim_func]
fn generated<T: Element>(
    __b: &Tensor<T, __sig>,
    __args: &Tensor<T, { __sig * 2 }>,
    __a0: &mut Tensor<T, __sig>,
) {
    for __value in 0..__sig {
        let __first = __b[[__value]];
        __a0[[__value]] = __first;
        __a0[[__value]] += __args[[__value * 2]];
    }
}

/// A dimension named like a function.
#[prim_func]
fn dims(exp: &Tensor<f32, max>, min: &mut Tensor<f32, max>) {
    for i in 0..max {
        min[[i]] = exp[[i]];
    }
}

#[test]
fn main() {
    let mut out = [0.0f32; 2];
    generated::<f32>(&[1.0f32, 2.0], &[1.0f32, 2.0, 3.0, 4.0], &mut out).unwrap();
    assert_eq!(out, [2.0, 5.0]);
    dims::prim_func().unwrap();
    generated::<half::f16>::prim_func().map(|_| ()).unwrap_or(());
    let block_sum = block_sum::reference(&[1.0f32, 2.0], 3.0, &mut Tensor::scalar(0.0f32));
    block_sum.unwrap();
}
