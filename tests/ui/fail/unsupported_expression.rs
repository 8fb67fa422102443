use tvm::prelude::*;

#[prim_func]
fn first(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] + [1.0, 2.0].len() as f32;
    }
}

fn main() {}
