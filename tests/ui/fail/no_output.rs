use tvm::prelude::*;

#[prim_func]
fn nothing(x: &Tensor<f32, n>) {
    for i in 0..n {
        let _v = x[[i]];
    }
}

fn main() {}
