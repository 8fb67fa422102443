use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f31, n>) -> Tensor<f32, n> {
    let y = x + x;
    relu(y)
}

#[relax::func]
fn g(x: Tensor<f32, n>) -> Tensor<f32, n> {
    f(x) * 2.0
}

fn main() {}
