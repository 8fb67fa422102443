use tvm::prelude::*;

#[prim_helper]
fn exp(x: f32) -> f32 {
    x
}

#[prim_helper]
fn tensor(x: &Tensor<f32, n>) -> f32 {
    x[[0]]
}

#[prim_helper]
fn nothing(x: f32) {}

#[prim_helper]
fn mutable(x: f32) -> f32 {
    let mut y = x;
    y += 1.0;
    y
}

#[prim_helper]
fn itself(x: f32) -> f32 {
    itself(x)
}

#[prim_func]
fn caller(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = mutable(x[[i]]) + itself(x[[i]]) + nothing(x[[i]]);
    }
}

fn main() {}
