use tvm::prelude::*;

#[prim_func]
fn act(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let square = |v: f32| v * v;
    for i in 0..n {
        let v = sigmoid(x[[i]]) + x[[i]].tanh().ln() + max(x[[i]], 0.0).max(square(2.0));
        y[[i]] = fma(v, 2.0, 1.0) + x[[i]].mul_add(2.0, 1.0) + pow(v, 2.0) + v.powf(0.5);
        y[[i]] += if is_nan(v) || v.is_infinite() { 0.0 } else { min(v, f32::MAX) };
    }
}

#[test]
fn main() {
    act::prim_func().unwrap();
}
