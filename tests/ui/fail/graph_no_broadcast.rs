use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, n, 256>, b: Tensor<f32, 128>) -> Tensor<f32, n, 256> {
    let y = x + b;
    relu(y)
}

fn main() {}
