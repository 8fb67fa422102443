//! Names of the runtime and of the expansion do not get in the way of the user's.

use tvm::prelude::*;

#[prim_func]
fn block_sum(lit: &Tensor<f32, grid>, init: f32, out: &mut Tensor<f32>) {
    let mut max = init;
    for block in 0..grid {
        let exp = lit[[block]];
        max += exp;
    }
    out[[]] = max;
}

fn main() {
    let block_sum = block_sum::reference(&[1.0f32, 2.0], 3.0, &mut Tensor::scalar(0.0f32));
    block_sum.unwrap();
}
