use tvm::prelude::*;

#[relax::func]
fn gate(x: Tensor<f32, n>, on: Tensor<bool>) -> Tensor<f32, n> {
    if on { relu(x) } else { x }
}

#[relax::func]
fn swap(x: Tensor<f32, n>, y: Tensor<i32, 3>) -> (Tensor<i32, 3>, Tensor<f32, n>) {
    let pair = (x, y);
    let (x, y) = (pair.1, pair.0);
    (x + x, relu(y))
}

#[test]
fn main() {
    gate::module().unwrap();
    swap::module().unwrap();
    let zero = 0.0;
    let f = relax!(|x: Tensor<f32, n>| -> Tensor<f32, n> {
        let (low, high) = (maximum(x, zero), minimum(x, zero));
        low - high * 2.0
    });
    f.module().unwrap();
}
