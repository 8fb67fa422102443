use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, n, 784>, w: Tensor<f32, 784, 10>) -> Tensor<f32, n, 12> {
    let y = matmul(x, w);
    softmax(y, -1)
}

fn main() {}
