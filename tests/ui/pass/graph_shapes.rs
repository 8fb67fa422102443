use tvm::prelude::*;

const WIDTH: usize = 16;

#[relax::func]
fn dense(x: Tensor<f32, n, 4>, w: Tensor<f32, 4, WIDTH>, b: Tensor<f32, 1, WIDTH>) -> Tensor<f32, n, WIDTH> {
    softmax(x.matmul(w) + b, -1)
}

#[relax::func]
fn join(x: Tensor<f32, n, 4>, y: Tensor<f32, n, 4>) -> Tensor<f32, { n * 2 }, 4> {
    concat([x, y], axis = 0)
}

#[relax::func]
fn cast(x: TensorDyn<f32>) -> Tensor<f16, 4> {
    let y = match_cast(x, Tensor::<f32, 4>);
    astype(y, f16)
}

#[test]
fn main() {
    dense::module().unwrap();
    join::module().unwrap();
    cast::module().unwrap();
}
