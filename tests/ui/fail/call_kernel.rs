use tvm::prelude::*;

#[prim_func]
fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

#[prim_func]
fn rank(x: &Tensor<f32, n, m>, y: &mut Tensor<f32, n>) {
    scale(x, 1.0, y);
}

#[prim_func]
fn element_type(x: &Tensor<f64, n>, y: &mut Tensor<f32, n>) {
    scale(x, 1.0, y);
}

#[prim_func]
fn count(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    scale(x, y);
}

#[prim_func]
fn scalar(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    scale(x, 2, y);
}

#[prim_func]
fn writes_an_input(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    scale(y, 2.0, x);
}

#[prim_func]
fn unknown(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    scales(x, 2.0, y);
}

fn main() {}
