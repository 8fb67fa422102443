use tvm::prelude::*;

#[relay::adt]
struct Pair {
    a: Tensor<f32>,
    b: Tensor<f32>,
}

fn main() {}
