use tvm::prelude::*;

#[prim_func]
fn copy(source: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = sorce[[i]];
    }
}

fn main() {}
