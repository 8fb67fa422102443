//! Attention compared with its formula, with caches, masks and shared heads.

use tvm_core::target::Target;
use tvm_onnx::proto::AttributeProto;
use tvm_runtime::{DataType, Tensor};

use crate::build::{
    Build, assert_near, compiled, float, floats, graph, info, int, model, node, run, targets,
};

/// Pseudo-random numbers between -1 and 1.
fn numbers(seed: u64, shape: &[i64]) -> Tensor {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let values = std::iter::repeat_with(next).take(shape.iter().product::<i64>() as usize).collect();
    Tensor::from_vec(values, shape).unwrap()
}

/// Reference for one batch: queries, keys and values are (head, position, size); `allowed(query, key)` is the mask.
fn reference(q: &Tensor, k: &Tensor, v: &Tensor, allowed: &dyn Fn(usize, usize) -> bool) -> Vec<f32> {
    let (qs, ks, vs) = (q.shape(), k.shape(), v.shape());
    let at = |x: &Tensor, h: usize, i: usize, d: usize| {
        let [_, _, n, size] = x.shape()[..] else { panic!() };
        f64::from(x.as_slice::<f32>().unwrap()[(h * n as usize + i) * size as usize + d])
    };
    let (heads, share) = (qs[1] as usize, (qs[1] / ks[1]) as usize);
    let mut res = Vec::new();
    for h in 0..heads {
        for i in 0..qs[2] as usize {
            let logit = |j: usize| {
                let dot: f64 = (0..qs[3] as usize).map(|d| at(q, h, i, d) * at(k, h / share, j, d)).sum();
                if allowed(i, j) { (dot / (qs[3] as f64).sqrt()).exp() } else { 0.0 }
            };
            let weights: Vec<f64> = (0..ks[2] as usize).map(logit).collect();
            let sum: f64 = weights.iter().sum();
            for d in 0..vs[3] as usize {
                let mixed: f64 = weights.iter().enumerate().map(|(j, it)| it * at(v, h / share, j, d)).sum();
                res.push(if sum == 0.0 { 0.0 } else { (mixed / sum) as f32 });
            }
        }
    }
    res
}

fn attention(inputs: &str, attrs: Vec<AttributeProto>, given: &[(&str, &Tensor)]) -> Vec<Tensor> {
    let mut model = model(24, vec![node("Attention", inputs, "y keys values", attrs)]);
    for (name, tensor) in given {
        let dims: Vec<String> = tensor.shape().iter().map(i64::to_string).collect();
        model.graph.as_mut().unwrap().input.push(info(name, tensor.dtype(), &dims.join(" ")));
    }
    let vm = compiled(&model.output("y").output("keys"), &Target::interpreter()).unwrap();
    run(&vm, &given.iter().map(|(_, it)| (*it).clone()).collect::<Vec<_>>())
}

#[test]
fn masks_and_shared_heads() {
    let (q, k, v) = (numbers(1, &[1, 4, 3, 4]), numbers(2, &[1, 2, 5, 4]), numbers(3, &[1, 2, 5, 2]));
    let qkv = [("q", &q), ("k", &k), ("v", &v)];
    let check = |got: &[Tensor], allowed: &dyn Fn(usize, usize) -> bool, what: &str| {
        assert_near(&got[0], &floats(&reference(&q, &k, &v, allowed), &[1, 4, 3, 2]), what);
    };
    check(&attention("q k v", vec![], &qkv), &|_, _| true, "everything");
    check(&attention("q k v", vec![int("is_causal", 1)], &qkv), &|i, j| j <= i, "causal");
    // Only the value 1 has a meaning.
    for other in [-1, 0, 2, i64::MAX] {
        let got = attention("q k v", vec![int("is_causal", other)], &qkv);
        check(&got, &|_, _| true, &format!("is_causal = {other}"));
    }
    // The second query may attend to no key.
    let mask: Vec<bool> = (0..15).map(|it| it / 5 != 1 && it % 5 != 2).collect();
    let mask = Tensor::from_slice(&mask, &[3, 5]).unwrap();
    let got = attention("q k v m", vec![], &[&qkv[..], &[("m", &mask)]].concat());
    check(&got, &|i, j| i != 1 && j != 2, "mask");
    let count = Tensor::from_slice(&[4i64], &[1]).unwrap();
    let got = attention("q k v _ _ _ n", vec![int("is_causal", 1)], &[&qkv[..], &[("n", &count)]].concat());
    check(&got, &|i, j| j < 4 && j <= i + 1, "count of keys");
}

#[test]
fn keys_and_values_are_as_many() {
    let mut model = model(24, vec![node("Attention", "q k v", "y", vec![])]).output("y");
    for (name, dims) in [("q", "1 2 s 4"), ("k", "1 2 n 4"), ("v", "1 2 m 4")] {
        model.graph.as_mut().unwrap().input.push(info(name, DataType::F32, dims));
    }
    for target in targets() {
        let vm = compiled(&model, &target).unwrap();
        let args = |n, m| [numbers(1, &[1, 2, 3, 4]), numbers(2, &[1, 2, n, 4]), numbers(3, &[1, 2, m, 4])];
        let fit = args(5, 5);
        let want = floats(&reference(&fit[0], &fit[1], &fit[2], &|_, _| true), &[1, 2, 3, 4]);
        assert_near(&run(&vm, &fit)[0], &want, &target.to_string());
        let misfit = args(5, 6).map(|it| tvm_runtime::Value::from(&it));
        let err = vm.invoke("main", &misfit).unwrap_err().to_string();
        assert!(err.contains("match_cast"), "{target}: {err}");
    }
}

#[test]
fn what_was_seen_before_comes_first() {
    let (q, k, v) = (numbers(1, &[1, 2, 2, 4]), numbers(2, &[1, 2, 5, 4]), numbers(3, &[1, 2, 5, 4]));
    // The same keys and values, three of them from an earlier call.
    let part = |x: &Tensor, from: usize, to: usize| {
        let all = x.as_slice::<f32>().unwrap();
        let head = |h: usize| &all[(h * 5 + from) * 4..(h * 5 + to) * 4];
        floats(&[head(0), head(1)].concat(), &[1, 2, (to - from) as i64, 4])
    };
    let (old, new) = ([part(&k, 0, 3), part(&v, 0, 3)], [part(&k, 3, 5), part(&v, 3, 5)]);
    let given = [("q", &q), ("k", &new[0]), ("v", &new[1]), ("pk", &old[0]), ("pv", &old[1])];
    let got = attention("q k v _ pk pv", vec![int("is_causal", 1), float("scale", 0.5)], &given);
    assert_near(&got[0], &floats(&reference(&q, &k, &v, &|i, j| j <= i + 3), &[1, 2, 2, 4]), "result");
    assert_eq!(got[1], k);
    assert_eq!(got[0].dtype(), DataType::F32);
}

#[test]
fn pairs_turn_by_their_angle() {
    // A rotation by a quarter turn at position 1, and none at position 0.
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0], &[1, 2, 4]);
    let (cos, sin) = (floats(&[1.0, 1.0, 0.0, 0.0], &[1, 2, 2]), floats(&[0.0, 0.0, 1.0, 1.0], &[1, 2, 2]));
    for (interleaved, want) in [(0, [-3.0, -4.0, 1.0, 2.0]), (1, [-2.0, 1.0, -4.0, 3.0])] {
        let attrs = vec![int("num_heads", 1), int("interleaved", interleaved)];
        let model = model(23, vec![node("RotaryEmbedding", "x cos sin", "y", attrs)]).input("x", "1 2 4");
        let model = model.output("y").constant("cos", &cos).constant("sin", &sin);
        let got = run(&compiled(&model, &Target::interpreter()).unwrap(), std::slice::from_ref(&x));
        assert_near(&got[0], &floats(&[&[1.0, 2.0, 3.0, 4.0], &want[..]].concat(), &[1, 2, 4]), "turned");
    }
}

/// Graphs of the model change the scores and the probabilities.
#[test]
fn attention_with_graphs_for_scores_and_probabilities() {
    let score =
        graph("score_mod", &[("s", DataType::F32, "1 1 2 2")], vec![node("Add", "s mask", "t", vec![])], "t");
    let prob =
        graph("prob_mod", &[("p", DataType::F32, "1 1 2 2")], vec![node("Mul", "p two", "r", vec![])], "r");
    let mut flex = node("FlexAttention", "q k v", "y", vec![float("scale", 1.0), score, prob]);
    flex.domain = "ai.onnx.preview".into();
    let model =
        (model(23, vec![flex]).input("q", "1 1 2 1").input("k", "1 1 2 1").input("v", "1 1 2 1").output("y"))
            .constant("two", &Tensor::scalar(2.0f32))
            .constant("mask", &floats(&[0.0, f32::NEG_INFINITY, 0.0, 0.0], &[1, 1, 2, 2]));
    let column = |values: &[f32]| floats(values, &[1, 1, 2, 1]);
    let inputs = [column(&[5.0, 0.0]), column(&[1.0, 2.0]), column(&[3.0, 7.0])];
    for target in targets() {
        let got = run(&compiled(&model, &target).unwrap(), &inputs);
        assert_near(&got[0], &column(&[6.0, 10.0]), &target.to_string());
    }
}
