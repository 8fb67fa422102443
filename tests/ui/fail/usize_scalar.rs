use tvm::prelude::*;

#[prim_func]
fn fill(count: usize, y: &mut Tensor<f32, n>) {
    for i in 0..count {
        y[[i]] = 1.0;
    }
}

fn main() {}
