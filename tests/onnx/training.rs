//! Steps of optimisers; the wanted numbers follow by hand from the definitions.

use tvm_onnx::proto::AttributeProto;
use tvm_runtime::Tensor;

use crate::build::{float, floats, string};
use crate::extensions::check;

const TRAINING: &str = "ai.onnx.preview.training";

fn step(op: &str, attrs: Vec<AttributeProto>, count: i64, tensors: &[Tensor], want: &[Tensor]) {
    let args: Vec<Tensor> =
        [Tensor::scalar(0.5f32), Tensor::scalar(count)].into_iter().chain(tensors.iter().cloned()).collect();
    let inputs: Vec<String> = (0..args.len()).map(|i| format!("i{i}")).collect();
    check(TRAINING, (op, &inputs.join(" ")), attrs, &args, want);
}

#[test]
fn adagrad() {
    // The rate is 0.5 / (1 + 1 · 0.25), the gradient 3 + 0.5 · 2.
    let attrs = vec![float("norm_coefficient", 0.5), float("decay_factor", 0.25), float("epsilon", 0.0)];
    let tensors = [floats(&[2.0], &[1]), floats(&[3.0], &[1]), floats(&[9.0], &[1])];
    let want = [floats(&[2.0 - 0.4 * 4.0 / 5.0], &[1]), floats(&[25.0], &[1])];
    step("Adagrad", attrs, 1, &tensors, &want);
}

#[test]
fn adam_before_and_after_the_first_update() {
    let attrs = || vec![float("alpha", 0.5), float("beta", 0.75), float("epsilon", 0.0)];
    let tensors = [floats(&[1.0], &[1]), floats(&[4.0], &[1]), floats(&[2.0], &[1]), floats(&[0.0], &[1])];
    // Mean 3, mean of squares 4.
    let statistics = [floats(&[3.0], &[1]), floats(&[4.0], &[1])];
    let [mean, squares] = statistics;
    step(
        "Adam",
        attrs(),
        0,
        &tensors,
        &[floats(&[1.0 - 0.5 * 3.0 / 2.0], &[1]), mean.clone(), squares.clone()],
    );
    // The rate is 0.5 · sqrt(1 - 0.75) / (1 - 0.5).
    step(
        "Adam",
        attrs(),
        1,
        &tensors,
        &[floats(&[1.0 - 0.5 * 3.0 / 2.0], &[1]), mean.clone(), squares.clone()],
    );
    let twice = 0.5 * (1.0f32 - 0.5625).sqrt() / 0.75;
    step("Adam", attrs(), 2, &tensors, &[floats(&[1.0 - twice * 3.0 / 2.0], &[1]), mean, squares]);
}

#[test]
fn momentum_of_several_parameters() {
    let attrs = |mode| vec![float("alpha", 0.5), float("beta", 2.0), string("mode", mode)];
    let one = |x: f32| floats(&[x], &[1]);
    let tensors = [one(1.0), one(2.0), one(4.0), one(6.0), one(8.0), one(10.0)];
    // The first update takes the gradient once, later ones `beta` times.
    step("Momentum", attrs("standard"), 0, &tensors, &[one(-3.0), one(-3.5), one(8.0), one(11.0)]);
    step("Momentum", attrs("standard"), 1, &tensors, &[one(-5.0), one(-6.5), one(12.0), one(17.0)]);
    step("Momentum", attrs("nesterov"), 0, &tensors, &[one(-3.0), one(-3.75), one(8.0), one(11.0)]);
}
