//! Literals take the element type of what they meet, and must have a value in it.

use tvm::prelude::*;

#[relax::func]
fn ints(x: Tensor<i32, n>) -> Tensor<i32, n> {
    let y = x * 1.5;
    y
}

#[relax::func]
fn bytes(x: Tensor<u8, n>) -> Tensor<u8, n> {
    let y = x + 300;
    let z = x - -1;
    relu(x) * 256
}

fn main() {}
