//! Ranks, axes, conditions and arms.

use tvm::prelude::*;

#[relay::adt]
enum Form {
    Round,
    Square,
}

#[relax::func]
fn axes(x: Tensor<f32, n, 4>, w: Tensor<f32, 8, 3, 3, 3>) -> Tensor<f32, n> {
    let a = softmax(x, axis = 2);
    let b = x.sum([0, -3]);
    let c = x.conv2d(w);
    let d = x.permute_dims([0, 0]);
    let e = permute_dims(x, axes = [1]);
    x.sum(1, keepdims = true)
}

// Unless there are functions of these names.
#[relax::func]
fn named(x: Tensor<f32, n, 4>, w: Tensor<f32, 8, 3, 3, 3>) -> Tensor<f32, n, 4> {
    let a = softmax(x, 2);
    let b = if sum(x) { x } else { -x };
    let c = max_pool2d(x);
    x
}

#[relax::func]
fn conditions(x: Tensor<f32, n>, on: Tensor<bool>) -> Tensor<f32, n> {
    let a = if x > 0.0 { x } else { -x };
    let b = if x.sum() { x } else { -x };
    let c: TensorDyn<f32> = if on { x } else { x.sum() };
    if on { x } else { x.astype(f16) }
}

#[relay::func]
fn arms(s: Form, x: Tensor<f32, n>) -> Tensor<f32, n> {
    match s {
        Form::Round => x,
        Form::Square => x > 0.0,
    }
}

fn main() {}
