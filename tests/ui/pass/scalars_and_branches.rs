use tvm::prelude::*;

#[prim_func]
fn sum(x: &Tensor<f32, n>, limit: i64, y: &mut Tensor<f32>) {
    let mut acc = 0.0;
    for i in 0..n {
        if x[[i]] < 0.0 && (i as i64) < limit {
            acc -= x[[i]];
        } else if i % 2 == 0 {
            acc += x[[i]];
        } else {
            let twice = x[[i]] * 2.0;
            acc += twice;
        }
    }
    let mut left = limit;
    while left > 0 {
        acc = acc + 1.0;
        left -= 1;
    }
    y[[]] = acc;
}

#[test]
fn main() {
    let mut y = Tensor::scalar(0.0f32);
    sum(&[-1.0f32, 2.0, 3.0], 2i64, &mut y).unwrap();
    assert_eq!(y, Tensor::scalar(1.0f32 + 4.0 + 3.0 + 2.0));
}
