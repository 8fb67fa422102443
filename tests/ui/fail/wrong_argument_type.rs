use tvm::prelude::*;

#[prim_func]
fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

fn main() {
    let _ = scale::reference(&[1.0f64], 2.0, &mut [0.0f32]);
}
