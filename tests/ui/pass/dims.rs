use tvm::prelude::*;

const WIDTH: usize = 4;

#[prim_func(dims(n = 1..=64, m % 8 == 0, k <= 16))]
fn double(x: &Tensor<f32, n>, m_: &Tensor<f32, m, WIDTH, k>, y: &mut Tensor<f32, { n * 2 }>) {
    for i in 0..n {
        y[[i]] = x[[i]];
        y[[i + n]] = x[[i]] + m_[[0, 0, 0]];
    }
}

#[test]
fn main() {
    let func = double::prim_func().unwrap();
    assert_eq!(func.symbolic_dims().len(), 3);
    let bounds = func.symbolic_dims().into_iter().map(|dim| dim.bound().unwrap().source(dim.name()));
    assert_eq!(bounds.collect::<Vec<_>>(), ["n = 1..=64", "m % 8 == 0", "k = 0..=16"]);
}
