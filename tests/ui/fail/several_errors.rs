use tvm::prelude::*;

#[prim_func]
fn many(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i, i]];
        y[[i]] = sine(x[[i]]);
        z[[i]] = 0.0;
    }
}

fn main() {}
