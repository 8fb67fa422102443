use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, 64>) -> Tensor<f32, 64> {
    x + constant::<f32, 64>(/* 64 elements */)
}

fn main() {}
