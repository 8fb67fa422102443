//! Constant arrays of the host program, used in kernels.

use tvm::prelude::*;

static WEIGHTS: [f32; 4] = [0.5, -1.0, f32::INFINITY, 2.0];
const GRID: [[i32; 3]; 2] = [[1, 2, 3], [4, 5, 6]];

mod order {
    pub(super) const REVERSED: [usize; 4] = [3, 2, 1, 0];
}

#[prim_func]
fn tables(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        let at = order::REVERSED[i % 4];
        y[[i]] = x[[i]] * WEIGHTS[at] + GRID[i % 2][(i + 1) % 3] as f32;
    }
}

#[test]
fn tables_are_read_alike() {
    let x = [1.0f32, 2.0, 3.0, 4.0, -1.0];
    let expected: Vec<f32> = (0..x.len())
        .map(|i| x[i] * WEIGHTS[order::REVERSED[i % 4]] + GRID[i % 2][(i + 1) % 3] as f32)
        .collect();
    let mut y = [0.0f32; 5];
    tables::reference(&x, &mut y).unwrap();
    assert_eq!(y.to_vec(), expected);
    for target in super::targets() {
        let mut y = [0.0f32; 5];
        tables::compile(&target).unwrap().call(&x, &mut y).unwrap();
        assert_eq!(y.to_vec(), expected, "{target}");
    }
}
