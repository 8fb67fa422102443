use tvm::prelude::*;

#[prim_func]
fn twice(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("copy", [S(i)], |[vi]| {
            y[[vi]] = x[[vi]];
        });
    }
    for i in 0..n {
        block("copy", [S(i)], |[vi]| {
            y[[vi]] = y[[vi]] * 2.0;
        });
    }
}

fn main() {}
