use tvm::prelude::*;

#[prim_func]
fn copy(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in (0..n).rev() {
        y[[i]] = x[[i]];
    }
}

fn main() {}
