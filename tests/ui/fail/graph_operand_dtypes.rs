use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, n>, y: Tensor<f16, n>) -> Tensor<f32, n> {
    let h = relu(y);
    x * h
}

fn main() {}
