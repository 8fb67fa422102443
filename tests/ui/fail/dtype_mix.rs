use tvm::prelude::*;

#[prim_func]
fn add(x: &Tensor<f32, n>, y: &Tensor<f64, n>, z: &mut Tensor<f32, n>) {
    for i in 0..n {
        z[[i]] = x[[i]] + y[[i]];
    }
}

fn main() {}
