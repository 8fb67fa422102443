use tvm::prelude::*;

#[relax::func]
fn f(x: Tensor<f32, n>) -> Tensor<f32, n> {
    for i in 0..3 {
        relu(i);
    }
    x
}

fn main() {}
