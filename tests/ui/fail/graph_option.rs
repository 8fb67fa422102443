use tvm::prelude::*;

#[relax::func(opt_level = 3)]
fn f(x: Tensor<f32, 64>) -> Tensor<f32, 64> {
    x
}

#[relax::func(attrs(opt_level = x))]
fn g(x: Tensor<f32, 64>) -> Tensor<f32, 64> {
    x
}

fn main() {}
