use tvm::prelude::*;

#[prim_func]
fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

#[prim_func]
fn aliases(y: &mut Tensor<f32, n>) {
    scale(&y, 2.0, &mut y);
}

fn main() {}
