use tvm::prelude::*;

#[prim_func(dims(n = 5..=3, m = -1..=4, k % 8 == 9, l <= 4, l > 4))]
fn copy(x: &Tensor<f32, n, m, k, l>, y: &mut Tensor<f32, n, m, k, l>) {
    for [h, i, j, g] in grid([n, m, k, l]) {
        y[[h, i, j, g]] = x[[h, i, j, g]];
    }
}

#[relax::func(dims(n = 8..=4, q = 1, m % 4 == 0, m % 6 == 0, f = 2))]
fn graph(f: f32, x: Tensor<f32, n, m>) -> Tensor<f32, n, m> {
    relu(x)
}

#[relay::func(dims(n * 2))]
fn functional(x: Tensor<f32, n>) -> Tensor<f32, n> {
    x
}

fn main() {}
