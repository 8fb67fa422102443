use tvm::prelude::*;

#[prim_func]
fn rows(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    for [i, j] in grid([m, n]) {
        block("sum", [S(i), R(j)], |[vi, vj]| {
            init(|| y[[vi]] = 0.0);
            y[[vi]] += x[[vi, vj]];
        });
    }
    for i in 0..m {
        block("halve", [S(i)], |[vi]| {
            y[[vi]] = y[[vi]] * 0.5;
        });
    }
}

#[prim_func]
fn stored_before(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        block("zero", [S(i)], |[vi]| {
            y[[vi]] = 0.0;
        });
        for j in 0..n {
            block("sum", [S(i), R(j)], |[vi, vj]| {
                y[[vi]] += x[[vi, vj]];
            });
        }
    }
}

#[test]
fn main() {
    let x = [[1.0f32, 2.0], [3.0, 4.0]].concat();
    let x = Tensor::from_slice(&x, &[2, 2]).unwrap();
    let mut y = [0.0f32; 2];
    rows(&x, &mut y).unwrap();
    assert_eq!(y, [1.5, 3.5]);
    stored_before(&x, &mut y).unwrap();
    assert_eq!(y, [3.0, 7.0]);
}
