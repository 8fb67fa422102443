use tvm::prelude::*;

fn f() {
    let _ = relax!(|x: Tensor<f32, n>, on: Tensor<bool>| -> Tensor<f32, n> {
        if on {
            relu(x)
        }
    });
}

fn main() {}
