//! Normalisations, softmax, activations with attributes.

use tvm_core::ir::Attrs;

use crate::support::{Nd, Rng, assert_close, call1, indices, ints, tensor, try_call};

/// Mean and variance over `axes` of the elements that share the other indices with `i`.
fn statistics(x: &Nd, axes: &[usize], i: &[i64]) -> (f32, f32) {
    let group: Vec<f32> = indices(&x.shape)
        .iter()
        .filter(|at| (0..at.len()).all(|k| axes.contains(&k) || at[k] == i[k]))
        .map(|at| x.at(at))
        .collect();
    let mean = group.iter().sum::<f32>() / group.len() as f32;
    (mean, group.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / group.len() as f32)
}

#[test]
fn normalisations() {
    let mut rng = Rng::new(1);
    let x = Nd::random(&mut rng, &[2, 3, 4]);
    let [gamma, beta, mean] = [(); 3].map(|()| Nd::random(&mut rng, &[3]));
    let var = Nd::build(&[3], |i| 0.5 + i[0] as f32);
    let attrs = Attrs::new().with("epsilon", 0.01);
    let args = [x.arg(), gamma.arg(), beta.arg(), mean.arg(), var.arg()];
    let want = Nd::build(&[2, 3, 4], |i| {
        let c = &i[1..2];
        (x.at(i) - mean.at(c)) / (var.at(c) + 0.01).sqrt() * gamma.at(c) + beta.at(c)
    });
    want.assert_is("batch_norm", &call1("nn.batch_norm", args, attrs.clone()));

    let [g, b] = [(); 2].map(|()| Nd::random(&mut rng, &[3, 4]));
    let want = Nd::build(&[2, 3, 4], |i| {
        let (mean, var) = statistics(&x, &[1, 2], i);
        (x.at(i) - mean) / (var + 0.01).sqrt() * g.at(&i[1..]) + b.at(&i[1..])
    });
    let over = attrs.clone().with("axes", ints(&[-2, -1]));
    want.assert_is("layer_norm", &call1("nn.layer_norm", [x.arg(), g.arg(), b.arg()], over.clone()));

    let want = Nd::build(&[2, 3, 4], |i| {
        let (mean, var) = statistics(&x, &[1, 2], i);
        x.at(i) / (var + mean * mean + 0.01).sqrt() * g.at(&i[1..])
    });
    want.assert_is("rms_norm", &call1("nn.rms_norm", [x.arg(), g.arg()], over));

    let want = Nd::build(&[2, 3, 4], |i| {
        let (mean, var) = statistics(&x, &[2], i);
        (x.at(i) - mean) / (var + 0.01).sqrt() * gamma.at(&i[1..2]) + beta.at(&i[1..2])
    });
    let over = attrs.with("axes", ints(&[2]));
    want.assert_is("instance_norm", &call1("nn.instance_norm", [x.arg(), gamma.arg(), beta.arg()], over));

    let bad = try_call("nn.batch_norm", [x.arg(), g.arg(), beta.arg(), mean.arg(), var.arg()], Attrs::new());
    assert!(bad.is_err());
}

#[test]
fn local_response() {
    let x = Nd::random(&mut Rng::new(2), &[1, 6, 2]);
    for size in [1i64, 3, 4] {
        let want = Nd::build(&[1, 6, 2], |i| {
            let (low, high) = (i[1] - (size - 1) / 2, i[1] + size / 2);
            let squares: f32 = (low.max(0)..=high.min(5)).map(|c| x.at(&[i[0], c, i[2]]).powi(2)).sum();
            x.at(i) / (2.0 + 0.3 / size as f32 * squares).powf(0.75)
        });
        let attrs = Attrs::new().with("size", size).with("alpha", 0.3).with("bias", 2.0);
        want.assert_is("lrn", &call1("nn.lrn", [x.arg()], attrs));
    }
}

#[test]
fn softmax() {
    let mut x = Nd::random(&mut Rng::new(3), &[2, 5, 3]);
    x.data[0] = 1000.0;
    x.data[1] = -1000.0;
    for axis in [0usize, 1, 2] {
        let total = |i: &[i64]| {
            let along = |k: i64| {
                let mut at = i.to_vec();
                at[axis] = k;
                x.at(&at)
            };
            let largest = (0..x.shape[axis]).map(along).fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = (0..x.shape[axis]).map(|k| (along(k) - largest).exp()).sum();
            largest + sum.ln()
        };
        let attrs = Attrs::new().with("axis", axis);
        let want = Nd::build(&[2, 5, 3], |i| (x.at(i) - total(i)).exp());
        want.assert_is("softmax", &call1("nn.softmax", [x.arg()], attrs.clone()));
        let want = Nd::build(&[2, 5, 3], |i| x.at(i) - total(i));
        want.assert_is("log_softmax", &call1("nn.log_softmax", [x.arg()], attrs));
    }
    assert_eq!(call1("nn.softmax", [tensor::<f32>(&[], &[0, 3]).into()], Attrs::new()).shape(), [0, 3]);
}

#[test]
fn activations() {
    let x = Nd::random(&mut Rng::new(4), &[2, 3, 2]);
    let each = |f: &dyn Fn(f32) -> f32| Nd::build(&[2, 3, 2], |i| f(x.at(i)));
    let attrs = Attrs::new().with("alpha", 0.2);
    let leaky = each(&|x| if x > 0.0 { x } else { 0.2 * x });
    leaky.assert_is("leakyrelu", &call1("nn.leakyrelu", [x.arg()], attrs));
    each(&|x| x).assert_is("dropout", &call1("nn.dropout", [x.arg()], Attrs::new().with("rate", 0.5)));
    let softplus = each(&|x| (1.0 + (2.0 * x).exp()).ln() / 2.0);
    softplus.assert_is("softplus", &call1("nn.softplus", [x.arg()], Attrs::new().with("beta", 2.0)));
    let large = call1("nn.softplus", [tensor(&[1000.0f32], &[1]).into()], Attrs::new());
    assert_close("softplus", &large, &[1], &[1000.0], 0.0);
    let alpha = Nd { shape: vec![3], data: vec![0.1, 0.2, 0.3] };
    let want = Nd::build(&[2, 3, 2], |i| if x.at(i) > 0.0 { x.at(i) } else { x.at(i) * alpha.at(&i[1..2]) });
    want.assert_is("prelu", &call1("nn.prelu", [x.arg(), alpha.arg()], Attrs::new()));
}
