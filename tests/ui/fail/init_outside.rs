use tvm::prelude::*;

#[prim_func]
fn sum(x: &Tensor<f32, n>, y: &mut Tensor<f32>) {
    init(|| y[[]] = 0.0);
    for i in 0..n {
        y[[]] += x[[i]];
    }
}

fn main() {}
