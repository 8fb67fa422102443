use tvm::prelude::*;

#[prim_func]
fn smooth(x: &Tensor<f32, n, 8>, y: &mut Tensor<f32, n>) {
    let t = alloc::<f32>([n, 8]);
    for [i, j] in grid([n, 8]) {
        t[[i, j]] = x[[i, j]] * 0.5;
    }
    for i in 0..n {
        let mut row = alloc::<f32>([8]);
        for j in 0..8 {
            row[[j]] = t[[i, 7 - j]];
        }
        y[[i]] = row[[0]] + row[[7]];
    }
}

#[test]
fn main() {
    let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0], &[1, 8]).unwrap();
    let mut y = [0.0f32];
    smooth(&x, &mut y).unwrap();
    assert_eq!(y, [2.0]);
}
