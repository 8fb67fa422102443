//! Attention.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::show_type;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::support::{Nd, Rng, call1, infer, param};

/// Attention computed as the definition says.
fn expected([q, k, v]: [&Nd; 3], bias: impl Fn(&[i64]) -> f32, scale: f32) -> Nd {
    let rank = q.shape.len();
    let (depth, terms) = (q.shape[rank - 1], k.shape[rank - 2]);
    let mut shape = q.shape.clone();
    shape[rank - 1] = v.shape[rank - 1];
    Nd::build(&shape, |i| {
        let at = |x: &Nd, row: i64, column: i64| x.at(&[&i[..rank - 2], &[row, column]].concat());
        let score = |n: i64| {
            let dot: f32 = (0..depth).map(|d| at(q, i[rank - 2], d) * at(k, n, d)).sum();
            dot * scale + bias(&[&i[..rank - 1], &[n]].concat())
        };
        let scores: Vec<f32> = (0..terms).map(score).collect();
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exp: Vec<f32> = scores.iter().map(|it| (it - largest).exp()).collect();
        let weighted = exp.iter().zip(0..).map(|(e, n)| e * at(v, n, i[rank - 1]));
        weighted.sum::<f32>() / exp.iter().sum::<f32>()
    })
}

#[test]
fn attention_of_heads() {
    let mut rng = Rng::new(7);
    let [q, k, v] = [[2, 3, 5, 4], [2, 3, 7, 4], [2, 3, 7, 6]].map(|dims| Nd::random(&mut rng, &dims));
    let scale = Attrs::new().with("scale", 0.5);
    let want = expected([&q, &k, &v], |_| 0.0, 0.5);
    want.assert_is("attention", &call1("nn.attention", [q.arg(), k.arg(), v.arg()], scale.clone()));
    for dims in [vec![2, 1, 5, 7], vec![5, 7], vec![1, 7]] {
        let bias = Nd::random(&mut rng, &dims);
        let at = |i: &[i64]| {
            let aligned = i[4 - dims.len()..].iter().zip(&dims);
            bias.at(&aligned.map(|(i, n)| if *n == 1 { 0 } else { *i }).collect::<Vec<_>>())
        };
        let want = expected([&q, &k, &v], at, 0.5);
        let args = [q.arg(), k.arg(), v.arg(), bias.arg()];
        want.assert_is("attention with a bias", &call1("nn.attention", args, scale.clone()));
    }
    let [q, k, v] = [[3, 5, 4], [3, 2, 4], [3, 2, 1]].map(|dims| Nd::random(&mut rng, &dims));
    let want = expected([&q, &k, &v], |_| 0.0, 0.25);
    let args = [q.arg(), k.arg(), v.arg()];
    want.assert_is("attention of rank 3", &call1("nn.attention", args, Attrs::new().with("scale", 0.25)));
}

#[test]
fn rows_that_are_masked_out_are_nan() {
    let mut rng = Rng::new(8);
    let [q, k, v] = [(); 3].map(|()| Nd::random(&mut rng, &[1, 2, 3]));
    let bias = Nd::build(&[2, 2], |i| if i[0] == 0 { f32::NEG_INFINITY } else { 0.0 });
    let args = [q.arg(), k.arg(), v.arg(), bias.arg()];
    let got = call1("nn.attention", args, Attrs::new().with("scale", 1.0));
    let got = got.to_vec::<f32>().unwrap();
    assert!(got[..3].iter().all(|it| it.is_nan()) && got[3..].iter().all(|it| it.is_finite()), "{got:?}");
}

#[test]
fn types_and_errors() {
    let x = |dims: &[i64], dtype| -> Arg {
        param(&dims.iter().map(|&dim| PrimExpr::index(dim)).collect::<Vec<_>>(), dtype).into()
    };
    let of = |shapes: &[&[i64]], dtype| {
        let args: Vec<Arg> = shapes.iter().map(|dims| x(dims, dtype)).collect();
        match infer("nn.attention", args, Attrs::new()) {
            Ok(ty) => show_type(&ty),
            Err(err) => err.to_string(),
        }
    };
    let half = DataType::F16;
    assert_eq!(of(&[&[2, 5, 4], &[2, 7, 4], &[2, 7, 6]], half), "Tensor<f16, 2, 5, 6>");
    let cases: [(&[&[i64]], DataType, &str); 6] = [
        (&[&[5, 4], &[7, 4], &[7, 6]], half, "the arguments have rank 3 or 4, got rank 2"),
        (
            &[&[2, 5, 4], &[2, 7, 3], &[2, 7, 6]],
            half,
            "axis 2 of `q` [2, 5, 4] has extent 4, axis 2 of `k` [2, 7, 3] has 3",
        ),
        (
            &[&[2, 5, 4], &[2, 7, 4], &[2, 8, 6]],
            half,
            "axis 1 of `k` [2, 7, 4] has extent 7, axis 1 of `v` [2, 8, 6] has 8",
        ),
        (
            &[&[2, 5, 4], &[3, 7, 4], &[2, 7, 6]],
            half,
            "axis 0 of `q` [2, 5, 4] has extent 2, axis 0 of `k` [3, 7, 4] has 3",
        ),
        (&[&[2, 5, 4], &[2, 7, 4], &[2, 7, 6]], DataType::I32, "expected float elements, got i32"),
        (
            &[&[2, 1, 4], &[2, 7, 4], &[2, 7, 6], &[5, 7]],
            half,
            "argument `bias` of shape [5, 7] does not broadcast to [2, 1, 7]",
        ),
    ];
    for (shapes, dtype, want) in cases {
        let got = of(shapes, dtype);
        assert!(got.contains(&format!("`nn.attention`: {want}")), "{got}");
    }
}
