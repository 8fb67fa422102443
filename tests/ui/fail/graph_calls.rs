//! Arities and attributes of calls.

use tvm::prelude::*;

#[prim_func]
fn double(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * 2.0;
    }
}

#[relax::func]
fn layer(x: Tensor<f32, n, 4>, w: Tensor<f32, 4, 4>) -> Tensor<f32, n, 4> {
    relu(x.matmul(w))
}

#[relax::func]
fn square(x: Tensor<f32, n, 4>) -> Tensor<f32, n, 4> {
    x * x
}

#[relax::func]
fn f(x: Tensor<f32, n, 4>, y: Tensor<f32, n, 4>) -> Tensor<f32, n, 4> {
    let a = softmax(x, axiss = 1);
    let b = x.softmax(1.5);
    let c = sum(x, keepdims = 1);
    let d = add(x);
    let e = relu(x, 1, 2);
    let g = layer(x);
    let h = square(x, y);
    let i = call_tir(double, (x, y));
    let j = x.reshape("flat");
    f(x)
}

fn main() {}
