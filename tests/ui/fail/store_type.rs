use tvm::prelude::*;

#[prim_func]
fn widen(x: &Tensor<f32, n>, y: &mut Tensor<f64, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * 2.0;
    }
}

fn main() {}
