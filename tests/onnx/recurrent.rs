//! Recurrent layers of one unit, compared with their formulas.

use tvm_core::target::Target;
use tvm_onnx::proto::AttributeProto;
use tvm_runtime::Tensor;

use crate::build::{Build, assert_near, compiled, floats, int, model, node, run, string, targets};

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

/// Layers of two directions and any number of steps, as a loop, and of that number of steps, one by one.
#[test]
fn any_number_of_steps() {
    let numbers = |len: i64, shape: &[i64]| {
        let values: Vec<f32> = (0..len).map(|i| ((i * 37 % 19) as f32 - 9.0) / 16.0).collect();
        floats(&values, shape)
    };
    for (op, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        let outputs = if op == "LSTM" { "y h c" } else { "y h" };
        let layer = |steps: &str, lengths: &str| {
            let attrs = vec![int("hidden_size", 3), string("direction", "bidirectional")];
            let nodes = vec![node(op, &format!("x w r b {lengths}"), outputs, attrs)];
            let res = (model(14, nodes).input("x", &format!("{steps} 2 2")).output("y").output("h"))
                .constant("w", &numbers(12 * gates, &[2, 3 * gates, 2]))
                .constant("r", &numbers(18 * gates, &[2, 3 * gates, 3]))
                .constant("b", &numbers(12 * gates, &[2, 6 * gates]))
                .constant("n", &Tensor::from_slice(&[2i32, 4], &[2]).unwrap());
            if op == "LSTM" { res.output("c") } else { res }
        };
        for target in targets() {
            for lengths in ["_", "n"] {
                let any = compiled(&layer("steps", lengths), &target).unwrap();
                for steps in [1i64, 4, 9] {
                    let x = [numbers(4 * steps, &[steps, 2, 2])];
                    let fixed =
                        compiled(&layer(&steps.to_string(), lengths), &Target::interpreter()).unwrap();
                    for (got, want) in run(&any, &x).iter().zip(run(&fixed, &x)) {
                        assert_near(got, &want, &format!("{op}, {steps} steps, lengths {lengths}, {target}"));
                    }
                }
                let got = run(&any, &[Tensor::zeros(&[0, 2, 2], tvm_runtime::DataType::F32).unwrap()]);
                assert_eq!(got[0].shape(), [0, 2, 2, 3], "{op} without steps");
                assert_eq!(got[1].to_vec::<f32>().unwrap(), [0.0; 12], "{op} without steps");
            }
        }
    }
}
