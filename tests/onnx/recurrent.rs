//! Recurrent layers of one unit, compared with their formulas.

use tvm_core::target::Target;
use tvm_onnx::proto::AttributeProto;
use tvm_runtime::Tensor;

use crate::build::{Build, assert_near, compiled, floats, int, model, node, refusal, run, string};

const X: [f64; 3] = [0.5, -1.0, 2.0];

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Runs the layer on the sequence `X`, as a batch of two sequences that differ in sign.
fn layer(op: &str, inputs: &str, attrs: Vec<AttributeProto>, constants: &[(&str, Tensor)]) -> Vec<Tensor> {
    let outputs = if op == "LSTM" { "y h c" } else { "y h" };
    let attrs = [vec![int("hidden_size", 1)], attrs].concat();
    let mut model =
        model(14, vec![node(op, inputs, outputs, attrs)]).input("x", "3 2 1").output("y").output("h");
    for (name, constant) in constants {
        model = model.constant(name, constant);
    }
    let x: Vec<f32> = X.iter().flat_map(|&it| [it as f32, -it as f32]).collect();
    run(&compiled(&model, &Target::interpreter()).unwrap(), &[floats(&x, &[3, 2, 1])])
}

/// Expected outputs of both sequences; `step` computes the new states from an input and the old states.
fn states(order: &[usize], step: &dyn Fn(f64, [f64; 2]) -> [f64; 2]) -> Tensor {
    let mut res = [0f32; 6];
    for (batch, sign) in [1.0, -1.0].into_iter().enumerate() {
        let mut state = [0.0; 2];
        for &t in order {
            state = step(sign * X[t], state);
            res[2 * t + batch] = state[0] as f32;
        }
    }
    floats(&res, &[3, 1, 2, 1])
}

#[test]
fn one_unit() {
    let weights = |values: &[f32]| floats(values, &[1, values.len() as i64, 1]);
    let bias = |values: &[f32]| floats(values, &[1, values.len() as i64]);

    let constants = [("w", weights(&[0.7])), ("r", weights(&[-0.4])), ("b", bias(&[0.1, 0.2]))];
    let want = states(&[0, 1, 2], &|x, [h, _]| [(0.7 * x - 0.4 * h + 0.3f64).tanh(), 0.0]);
    assert_near(&layer("RNN", "x w r b", vec![], &constants)[0], &want, "RNN");
    let want = states(&[2, 1, 0], &|x, [h, _]| [(0.7 * x - 0.4 * h + 0.3f64).tanh(), 0.0]);
    let got = layer("RNN", "x w r b", vec![string("direction", "reverse")], &constants);
    assert_near(&got[0], &want, "RNN backwards");

    let constants = [
        ("w", weights(&[0.7, 0.5, -0.3])),
        ("r", weights(&[-0.4, 0.2, 0.6])),
        ("b", bias(&[0.1, 0.2, 0.3, 0.0, -0.1, 0.4])),
    ];
    for linear in [false, true] {
        let want = states(&[0, 1, 2], &|x, [h, _]| {
            let (z, r) = (sigmoid(0.7 * x - 0.4 * h + 0.1), sigmoid(0.5 * x + 0.2 * h + 0.1));
            let recurrent = if linear { r * (0.6 * h + 0.4) } else { 0.6 * r * h + 0.4 };
            let new = (-0.3 * x + recurrent + 0.3).tanh();
            [(1.0 - z) * new + z * h, 0.0]
        });
        let attrs = vec![int("linear_before_reset", linear.into())];
        assert_near(&layer("GRU", "x w r b", attrs, &constants)[0], &want, "GRU");
    }

    let constants = [
        ("w", weights(&[0.7, 0.5, -0.3, 0.9])),
        ("r", weights(&[-0.4, 0.2, 0.6, 0.1])),
        ("p", bias(&[0.3, -0.2, 0.5])),
    ];
    let want = states(&[0, 1, 2], &|x, [h, c]| {
        let (i, f) = (sigmoid(0.7 * x - 0.4 * h + 0.3 * c), sigmoid(-0.3 * x + 0.6 * h + 0.5 * c));
        let c = f * c + i * (0.9 * x + 0.1 * h).tanh();
        [sigmoid(0.5 * x + 0.2 * h - 0.2 * c) * c.tanh(), c]
    });
    assert_near(&layer("LSTM", "x w r _ _ _ _ p", vec![], &constants)[0], &want, "LSTM");
}

#[test]
fn sequences_of_several_lengths() {
    let weights = |value: f32| floats(&[value], &[1, 1, 1]);
    let lengths = Tensor::from_slice(&[3i32, 1], &[2]).unwrap();
    let got = layer("RNN", "x w r _ n", vec![], &[("w", weights(1.0)), ("r", weights(1.0)), ("n", lengths)]);
    let y = got[0].to_vec::<f32>().unwrap();
    assert_eq!((y[3], y[5]), (0.0, 0.0));
    let h = got[1].to_vec::<f32>().unwrap();
    assert_eq!((h[0], h[1]), (y[4], y[1]));
}

#[test]
fn lengths_must_be_known() {
    let model = model(14, vec![node("RNN", "x w r", "y", vec![])]).input("x", "n 2 1").output("y");
    let weights = floats(&[1.0], &[1, 1, 1]);
    let err = refusal(&model.constant("w", &weights).constant("r", &weights));
    assert!(err.contains("RNN: other than 1 to 256 steps, known beforehand"), "{err}");
}
