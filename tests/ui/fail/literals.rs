//! Literals take the type of what they meet, and must have a value in it.

use tvm::prelude::*;

#[prim_func]
fn f(x: &Tensor<i32, n>, b: &Tensor<u8, n>, h: &Tensor<f16, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = (x[[i]] * 1.5) as f32;
        y[[i]] = (b[[i]] + 300) as f32;
        y[[i]] = (h[[i]] + 70000.0) as f32;
        if b[[i]] > -1 {
            y[[i]] = 0.0;
        }
    }
}

fn main() {}
