use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, n>) -> Tensor<f32, n> {
    sigmod(x)
}

fn main() {}
