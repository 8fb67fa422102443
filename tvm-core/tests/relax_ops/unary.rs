//! Unary operators on special and random values.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::support::{Rng, assert_close, call1, tensor};

const SPECIAL: [f32; 9] = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];

fn erf(x: f64) -> f64 {
    // Series and continued fraction, as in any handbook.
    if x.is_nan() {
        return x;
    }
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

#[test]
fn floats() {
    type Reference = fn(f64) -> f64;
    let cases: &[(&str, Reference)] = &[
        ("abs", f64::abs),
        ("acos", f64::acos),
        ("acosh", f64::acosh),
        ("asin", f64::asin),
        ("asinh", f64::asinh),
        ("atan", f64::atan),
        ("atanh", f64::atanh),
        ("ceil", f64::ceil),
        ("cos", f64::cos),
        ("cosh", f64::cosh),
        ("erf", erf),
        ("exp", f64::exp),
        ("floor", f64::floor),
        ("log", f64::ln),
        ("log1p", f64::ln_1p),
        ("negative", |x| -x),
        ("round", f64::round_ties_even),
        ("rsqrt", |x| 1.0 / x.sqrt()),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
        ("sign", sign),
        ("sin", f64::sin),
        ("sinh", f64::sinh),
        ("sqrt", f64::sqrt),
        ("square", |x| x * x),
        ("tan", f64::tan),
        ("tanh", f64::tanh),
        ("trunc", f64::trunc),
        ("nn.gelu", |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
        ("nn.gelu_tanh", |x| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }),
        ("nn.relu", |x| if x.is_nan() { x } else { x.max(0.0) }),
        ("nn.selu", |x| {
            let (alpha, scale) = (1.6732632423543772, 1.0507009873554805);
            scale * if x > 0.0 { x } else { alpha * (x.exp() - 1.0) }
        }),
        ("nn.silu", |x| x / (1.0 + (-x).exp())),
    ];
    let mut rng = Rng::new(1);
    for (op, reference) in cases {
        let mut data = SPECIAL.to_vec();
        if op.starts_with("nn.") {
            // Infinities times zero are NaN in some of the formulas and not in others.
            data.retain(|x| x.is_finite());
        }
        data.extend(rng.floats(21));
        let want: Vec<f32> = data.iter().map(|&x| reference(f64::from(x)) as f32).collect();
        let shape = [data.len() as i64 / 3, 3];
        let data = &data[..(shape[0] * 3) as usize];
        let got = call1(op, [tensor(data, &shape).into()], Attrs::new());
        assert_close(op, &got, &shape, &want[..data.len()], 1e-5);
    }
}

#[test]
fn predicates_and_empty_tensors() {
    let x: Arg = tensor(&SPECIAL, &[9]).into();
    type Reference = fn(f32) -> bool;
    let cases: &[(&str, Reference)] =
        &[("isnan", f32::is_nan), ("isinf", f32::is_infinite), ("isfinite", f32::is_finite)];
    for (op, reference) in cases {
        let got = call1(op, [x.clone()], Attrs::new());
        assert_eq!(got.to_vec::<bool>().unwrap(), SPECIAL.map(reference).to_vec(), "{op}");
    }
    for shape in [&[0i64, 3][..], &[2, 0]] {
        assert_eq!(call1("exp", [tensor::<f32>(&[], shape).into()], Attrs::new()).shape(), shape);
    }
}

#[test]
fn integers_and_bools() {
    let data = [i32::MIN + 1, -7, -1, 0, 1, 7, i32::MAX];
    let x: Arg = tensor(&data, &[7]).into();
    type Reference = fn(i32) -> i32;
    let cases: &[(&str, Reference)] = &[
        ("abs", i32::abs),
        ("negative", |x| -x),
        ("sign", i32::signum),
        ("square", |x| x.wrapping_mul(x)),
        ("floor", |x| x),
        ("bitwise_not", |x| !x),
        ("nn.relu", |x| x.max(0)),
    ];
    for (op, reference) in cases {
        let got = call1(op, [x.clone()], Attrs::new());
        assert_eq!(got.to_vec::<i32>().unwrap(), data.map(reference).to_vec(), "{op}");
    }
    let bools: Arg = tensor(&[true, false], &[2]).into();
    for op in ["logical_not", "bitwise_not"] {
        assert_eq!(call1(op, [bools.clone()], Attrs::new()).to_vec::<bool>().unwrap(), [false, true]);
    }
}

#[test]
fn clip_limits_and_keeps_nan() {
    let limit = |value: f64| Arg::Prim(PrimExpr::float(value, DataType::F32));
    let got = call1("clip", [tensor(&SPECIAL, &[9]).into(), limit(-1.0), limit(0.75)], Attrs::new());
    let want = SPECIAL.map(|x| if x.is_nan() { x } else { x.clamp(-1.0, 0.75) });
    assert_close("clip", &got, &[9], &want, 0.0);
}
