use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, n, 784>, w: Tensor<f32, 256, 10>) -> Tensor<f32, n, 10> {
    relu(x.matmul(w))
}

fn main() {}
