use tvm::prelude::*;

fn f() {
    let _ = relax!(|x: Tensor<f32, n>| relu(x));
}

#[relax::func]
fn g(x: Tensor<f32, n>) {
    relu(x)
}

fn main() {}
