use tvm::prelude::*;

#[prim_func]
fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

#[test]
fn main() {
    let mut y = vec![0.0f32; 2];
    scale::reference(&[1.0f32, 2.0], 3.0, &mut y).unwrap();
    scale(&vec![1.0f32, 2.0], 3.0, &mut y[..]).unwrap();
    let scale = scale::compile(&Target::native(tvm::target::TargetKind::Interpreter)).unwrap();
    scale.call(&[1.0f32, 2.0], 3.0, &mut y).unwrap();
    assert_eq!(y, [3.0, 6.0]);
}
