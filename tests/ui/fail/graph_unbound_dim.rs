use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, n>) -> (Tensor<f32, n, m>, Tensor<f32, m>) {
    (expand_dims(x, 1), x)
}

fn main() {}
