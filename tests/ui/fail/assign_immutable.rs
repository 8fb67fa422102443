use tvm::prelude::*;

#[prim_func]
fn sum(x: &Tensor<f32, n>, y: &mut Tensor<f32>) {
    let acc = 0.0;
    for i in 0..n {
        acc += x[[i]];
    }
    y[[]] = acc;
}

fn main() {}
