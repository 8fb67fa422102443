//! Matrix products.

use tvm_core::ir::Attrs;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::support::{Nd, Rng, call1, infer, param, tensor, try_call};

/// The product by its definition: an operand of rank 1 gets an axis, batches broadcast.
fn reference(a: &Nd, b: &Nd) -> Nd {
    let (row, column) = (a.shape.len() == 1, b.shape.len() == 1);
    let mut x = a.clone();
    let mut y = b.clone();
    if row {
        x.shape.insert(0, 1);
    }
    if column {
        y.shape.push(1);
    }
    let batch = |it: &Nd| it.shape[..it.shape.len() - 2].to_vec();
    let (p, q) = (batch(&x), batch(&y));
    let n = p.len().max(q.len());
    let dim = |shape: &[i64], k: usize| (k + shape.len()).checked_sub(n).map_or(1, |k| shape[k]);
    let mut out: Vec<i64> = (0..n).map(|k| if dim(&p, k) == 1 { dim(&q, k) } else { dim(&p, k) }).collect();
    let (m, k, w) = (x.shape[x.shape.len() - 2], x.shape[x.shape.len() - 1], y.shape[y.shape.len() - 1]);
    out.extend([m, w]);
    let mut res = Nd::build(&out, |i| {
        let at = |shape: &[i64], r: i64, c: i64| {
            let mut at: Vec<i64> =
                (n - shape.len()..n).map(|k| if dim(shape, k) == 1 { 0 } else { i[k] }).collect();
            at.extend([r, c]);
            at
        };
        (0..k).map(|d| x.at(&at(&p, i[n], d)) * y.at(&at(&q, d, i[n + 1]))).sum()
    });
    if column {
        res.shape.pop();
    }
    if row {
        let at = res.shape.len() - if column { 1 } else { 2 };
        res.shape.remove(at);
    }
    res
}

#[test]
fn numpy_rules() {
    let cases: &[(&[i64], &[i64])] = &[
        (&[3, 4], &[4, 5]),
        (&[4], &[4]),
        (&[4], &[4, 5]),
        (&[3, 4], &[4]),
        (&[2, 3, 4], &[4, 5]),
        (&[3, 4], &[2, 4, 5]),
        (&[2, 1, 3, 4], &[5, 4, 2]),
        (&[4], &[2, 4, 5]),
        (&[2, 3, 4], &[4]),
        (&[3, 0], &[0, 5]),
        (&[0, 4], &[4, 5]),
        (&[1, 1], &[1, 1]),
    ];
    let mut rng = Rng::new(1);
    for (a, b) in cases {
        let (x, y) = (Nd::random(&mut rng, a), Nd::random(&mut rng, b));
        let got = call1("matmul", [x.arg(), y.arg()], Attrs::new());
        reference(&x, &y).assert_is(&format!("{a:?} x {b:?}"), &got);
    }
    for (a, b) in [(&[3i64, 4][..], &[3i64, 4][..]), (&[2, 3, 4], &[3, 4, 5]), (&[], &[4]), (&[5], &[4])] {
        let (x, y) = (Nd::random(&mut rng, a), Nd::random(&mut rng, b));
        assert!(try_call("matmul", [x.arg(), y.arg()], Attrs::new()).is_err(), "{a:?} x {b:?}");
    }
}

#[test]
fn wide_results_of_small_integers() {
    let (a, b) = (tensor(&[100i8, 100], &[1, 2]), tensor(&[100i8, -3], &[2, 1]));
    let got = call1("matmul", [a.into(), b.into()], Attrs::new().with("out_dtype", DataType::I32));
    assert_eq!(got.to_vec::<i32>().unwrap(), [9700]);
}

#[test]
fn a_misfit_names_both_axes() {
    let dims =
        |dims: &[i64]| param(&dims.iter().map(|&d| PrimExpr::index(d)).collect::<Vec<_>>(), DataType::F32);
    let err = infer("matmul", [dims(&[2, 128]).into(), dims(&[256, 10]).into()], Attrs::new()).unwrap_err();
    let want = "`matmul`: the last axis of `x1` [2, 128] has extent 128, the last axis but one of `x2` [256, 10] has 256";
    assert_eq!(err.to_string(), want);
}
