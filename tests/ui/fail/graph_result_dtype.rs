use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, n>) -> Tensor<f16, n> {
    relu(x)
}

fn main() {}
