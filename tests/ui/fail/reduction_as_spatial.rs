use tvm::prelude::*;

#[prim_func]
fn rows(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    for [i, j] in grid([m, n]) {
        block("sum", [R(i), R(j)], |[vi, vj]| {
            init(|| y[[0]] = 0.0);
            y[[vi]] += x[[vi, vj]];
        });
    }
}

fn main() {}
