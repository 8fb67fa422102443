use tvm::prelude::*;

#[prim_func]
fn scale(x: &Tensor<f32, m, n>, s: &Tensor<f32>, y: &mut Tensor<f32, m, n>) {
    for [i, j] in grid([m, n]) {
        y[[i, j]] = x[[i, j]] * s[[]];
    }
}

#[prim_func]
fn first(x: &Tensor<f32, 128>, y: &mut Tensor<f32, 64>) {
    for i in 0..64 {
        y[[i]] = x[[i + 64]];
    }
    for i in 0..200 {
        if i < 64 {
            y[[i]] += x[[i]];
        }
    }
}

#[test]
fn main() {
    scale::prim_func().unwrap();
    first::prim_func().unwrap();
}
