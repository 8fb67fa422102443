//! A kernel is not called by its name alone; a public function cannot have an operator's name.

use tvm::prelude::*;

#[prim_func]
fn relu(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]].max(0.0);
    }
}

#[relax::func]
fn f(x: Tensor<f32, n>) -> Tensor<f32, n> {
    relu(x)
}

#[relax::func]
pub fn softmax(x: Tensor<f32, n>) -> Tensor<f32, n> {
    x
}

#[relax::func]
fn shape(x: Tensor<f32, n>) -> Tensor<f32, n> {
    x
}

#[relay::adt]
enum Tensor2 {
    Nil,
}

#[relay::adt]
enum Object {
    Nil,
}

fn main() {}
