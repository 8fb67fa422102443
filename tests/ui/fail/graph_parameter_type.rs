use tvm::prelude::*;

fn f() {
    let _ = relax!(|x, y: Tensor<f32, 4>| -> Tensor<f32, n, 4> { x + y });
}

fn main() {}
