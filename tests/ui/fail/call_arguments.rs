use tvm::prelude::*;

#[prim_helper]
fn twice(x: f32) -> f32 {
    x + x
}

#[prim_func]
fn itself(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    itself(x, y);
}

#[prim_func]
fn by_value(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let mut t = alloc::<f32>([n]);
    itself(x, t);
    itself(&t, &mut x);
}

#[prim_func]
fn statements(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    twice(x[[0]]);
    y[[0]] = twice(x);
}

#[prim_func]
fn in_init(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("B", [R(i)], |[vi]| {
            init(|| itself(x, y));
            y[[0]] += x[[vi]];
        });
    }
}

fn main() {}
