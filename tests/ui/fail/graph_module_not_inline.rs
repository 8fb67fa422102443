use tvm::prelude::*;

#[ir_module]
#[relax::func]
fn f(x: Tensor<f32, n>) -> Tensor<f32, n> {
    relu(x)
}

fn main() {}
