use tvm::prelude::*;

#[prim_func]
fn add(x: &Tensor<f32, n>, y: &Tensor<f64, n>, z: &mut Tensor<f32, n>) {
    for i in 0..n {
        z[[i]] = x[[i]] + y[[i]] as f32;
    }
}

#[prim_func]
fn square<T: Element>(x: &Tensor<T, n>, y: &mut Tensor<T, n>) {
    for i in 0..n {
        let v = x[[i]];
        y[[i]] = if v > 0.0 { v * v } else { -v * 0.5 };
    }
}

#[test]
fn main() {
    let mut z = [0.0f32];
    add(&[1.0f32], &[2.0f64], &mut z).unwrap();
    square::<f32>(&z, &mut [0.0f32]).unwrap();
    square::<bf16>::prim_func().unwrap();
}
