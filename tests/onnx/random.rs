//! Random numbers: their distribution, and that every run and every executor gives the same ones.

use tvm_onnx::proto::AttributeProto;
use tvm_runtime::{DataType, Tensor};

use crate::build::{Build, compiled, float, floats, int, ints, model, node, run, targets};

/// The numbers that a node of one output makes, the same on all executors.
fn numbers(op: &str, attrs: Vec<AttributeProto>, x: Option<&Tensor>) -> Vec<f64> {
    let inputs = if x.is_some() { "x" } else { "" };
    let mut model = model(22, vec![node(op, inputs, "y", attrs)]).output("y");
    if let Some(x) = x {
        let dims: Vec<String> = (0..x.shape().len()).map(|i| format!("d{i}")).collect();
        model = model.typed("x", x.dtype(), &dims.join(" "));
    }
    let mut results = Vec::new();
    for target in targets() {
        let vm = compiled(&model, &target).unwrap();
        let args: Vec<Tensor> = x.into_iter().cloned().collect();
        let first = run(&vm, &args)[0].to_f64s().unwrap();
        assert_eq!(first, run(&vm, &args)[0].to_f64s().unwrap(), "{op} on {target}");
        results.push(first);
    }
    for other in &results[1..] {
        let far = results[0].iter().zip(other).filter(|(a, b)| (*a - *b).abs() > 1e-5).count();
        assert_eq!(far, 0, "{op}: executors disagree");
    }
    results.remove(0)
}

/// Mean, deviation and third moment.
fn moments(values: &[f64]) -> [f64; 3] {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let moment = |k: i32| values.iter().map(|it| (it - mean).powi(k)).sum::<f64>() / count;
    [mean, moment(2).sqrt(), moment(3)]
}

fn assert_moments(values: &[f64], want: [f64; 3], what: &str) {
    for (got, want) in moments(values).into_iter().zip(want) {
        assert!((got - want).abs() < 0.05, "{what}: {got}, expected {want}");
    }
}

#[test]
fn distributions() {
    let shape = || ints("shape", &[40, 250]);
    let values = numbers("RandomUniform", vec![shape(), float("low", -1.0), float("high", 3.0)], None);
    assert_moments(&values, [1.0, 4.0 / 12f64.sqrt(), 0.0], "uniform");
    assert!(values.iter().all(|it| (-1.0..3.0).contains(it)));
    let values = numbers("RandomNormal", vec![shape(), float("mean", 2.0), float("scale", 0.5)], None);
    assert_moments(&values, [2.0, 0.5, 0.0], "normal");
    let outside = values.iter().filter(|it| (*it - 2.0).abs() > 1.0).count();
    assert!((350..560).contains(&outside), "{outside} of 10,000 beyond two deviations");
    // Neighbours do not depend on each other.
    let pairs: f64 = values.windows(2).map(|it| (it[0] - 2.0) * (it[1] - 2.0)).sum::<f64>() / 10_000.0;
    assert!(pairs.abs() < 0.01, "{pairs}");
}

#[test]
fn seeds_tell_nodes_apart() {
    let make = |seed: f32| numbers("RandomNormal", vec![ints("shape", &[64]), float("seed", seed)], None);
    assert_ne!(make(1.0), make(2.0));
    assert_eq!(make(1.0), make(1.0));
    let two = vec![
        node("RandomUniformLike", "x", "a", vec![]),
        node("RandomUniformLike", "x", "b", vec![int("dtype", 11)]),
    ];
    let model = model(22, two).input("x", "n").output("a").output("b");
    let got = run(&compiled(&model, &targets()[0]).unwrap(), &[floats(&[0.0; 8], &[8])]);
    assert_eq!(got[1].dtype(), DataType::F64);
    assert_ne!(got[0].to_f64s().unwrap(), got[1].to_f64s().unwrap());
}

#[test]
fn chances() {
    let p: Vec<f32> = (0..9000).map(|i| [0.0, 0.25, 1.0][i % 3]).collect();
    let values = numbers("Bernoulli", vec![int("dtype", 7)], Some(&floats(&p, &[9000])));
    let hits = |class: usize| values.iter().skip(class).step_by(3).sum::<f64>();
    assert_eq!((hits(0), hits(2)), (0.0, 3000.0));
    assert!((650.0..850.0).contains(&hits(1)), "{}", hits(1));

    let logits = [0.5f32, 0.25, 0.25].map(f32::ln);
    let logits = floats(&[logits, [f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY]].concat(), &[2, 3]);
    let values = numbers("Multinomial", vec![int("sample_size", 2000)], Some(&logits));
    let drawn = |class: f64| values[..2000].iter().filter(|it| **it == class).count();
    assert!(
        (920..1080).contains(&drawn(0.0)) && (420..580).contains(&drawn(2.0)),
        "{} {}",
        drawn(0.0),
        drawn(2.0)
    );
    assert!(values[2000..].iter().all(|it| *it == 1.0));
}

/// The mode is an input: the elements that are kept grow, and nothing is dropped otherwise.
#[test]
fn dropped_elements() {
    let model = (model(22, vec![node("Dropout", "x ratio training", "y mask", vec![int("seed", 3)])]))
        .input("x", "n")
        .typed("training", DataType::BOOL, "")
        .output("y")
        .output("mask")
        .constant("ratio", &Tensor::scalar(0.75f32));
    for target in targets() {
        let vm = compiled(&model, &target).unwrap();
        let x = floats(&[3.0; 4000], &[4000]);
        let got = run(&vm, &[x.clone(), Tensor::scalar(true)]);
        let (y, mask) = (got[0].as_slice::<f32>().unwrap(), got[1].as_slice::<bool>().unwrap());
        assert!(y.iter().zip(mask).all(|(y, kept)| *y == if *kept { 12.0 } else { 0.0 }));
        let kept = mask.iter().filter(|it| **it).count();
        assert!((900..1100).contains(&kept), "{kept} of 4,000 are kept");
        let got = run(&vm, &[x.clone(), Tensor::scalar(false)]);
        assert_eq!(got[0], x);
        assert!(got[1].as_slice::<bool>().unwrap().iter().all(|it| *it));
    }
}
