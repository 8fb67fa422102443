//! Reductions, positions of extremes, running sums.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_runtime::DataType;

use crate::support::{Nd, Rng, call1, indices, ints, tensor, try_call};

/// `f` of the elements along `axes`, for every remaining index.
fn reduce(x: &Nd, axes: &[usize], keepdims: bool, f: impl Fn(&[f32]) -> f32) -> Nd {
    let kept: Vec<i64> =
        x.shape.iter().enumerate().map(|(k, &n)| if axes.contains(&k) { 1 } else { n }).collect();
    let mut out = Nd::build(&kept, |i| {
        let group: Vec<f32> = indices(&x.shape)
            .iter()
            .filter(|at| (0..at.len()).all(|k| axes.contains(&k) || at[k] == i[k]))
            .map(|at| x.at(at))
            .collect();
        f(&group)
    });
    if !keepdims {
        out.shape = (0..x.shape.len()).filter(|k| !axes.contains(k)).map(|k| x.shape[k]).collect();
    }
    out
}

fn mean(group: &[f32]) -> f32 {
    group.iter().sum::<f32>() / group.len() as f32
}

fn variance(group: &[f32]) -> f32 {
    let m = mean(group);
    group.iter().map(|x| (x - m) * (x - m)).sum::<f32>() / group.len() as f32
}

#[test]
fn reductions() {
    type Reference = fn(&[f32]) -> f32;
    let cases: &[(&str, Reference)] = &[
        ("sum", |g| g.iter().sum()),
        ("prod", |g| g.iter().product()),
        ("max", |g| g.iter().copied().fold(f32::NEG_INFINITY, f32::max)),
        ("min", |g| g.iter().copied().fold(f32::INFINITY, f32::min)),
        ("mean", mean),
        ("variance", variance),
        ("std", |g| variance(g).sqrt()),
    ];
    let x = Nd::random(&mut Rng::new(1), &[3, 4, 2]);
    for (op, reference) in cases {
        for (given, axes) in [
            (None, vec![0, 1, 2]),
            (Some(vec![1]), vec![1]),
            (Some(vec![-1, 0]), vec![0, 2]),
            (Some(vec![0, 1, 2]), vec![0, 1, 2]),
            (Some(vec![]), vec![]),
        ] {
            for keepdims in [false, true] {
                let mut attrs = Attrs::new().with("keepdims", keepdims);
                if let Some(given) = &given {
                    attrs.set("axis", ints(given));
                }
                let want = reduce(&x, &axes, keepdims, reference);
                want.assert_is(&format!("{op} {given:?}"), &call1(op, [x.arg()], attrs));
            }
        }
    }
}

#[test]
fn special_values_and_empty_axes() {
    let x: Arg = tensor(&[1.0f32, f32::NAN, 3.0, f32::NEG_INFINITY, 5.0, 2.0], &[2, 3]).into();
    let last = || Attrs::new().with("axis", ints(&[1]));
    let nan = |got: Vec<f32>, second: f32| assert!(got[0].is_nan() && got[1] == second, "{got:?}");
    nan(call1("max", [x.clone()], last()).to_vec().unwrap(), 5.0);
    nan(call1("min", [x.clone()], last()).to_vec().unwrap(), f32::NEG_INFINITY);
    nan(call1("sum", [x], last()).to_vec().unwrap(), f32::NEG_INFINITY);
    let empty: Arg = tensor::<f32>(&[], &[2, 0]).into();
    let got = call1("sum", [empty.clone()], last());
    assert_eq!(got.to_vec::<f32>().unwrap(), [0.0, 0.0]);
    let got = call1("max", [empty.clone()], last());
    assert_eq!(got.to_vec::<f32>().unwrap(), [f32::NEG_INFINITY; 2]);
    let got = call1("prod", [empty.clone()], Attrs::new().with("axis", ints(&[0])));
    assert_eq!(got.shape(), [0]);
    assert!(try_call("argmax", [empty], Attrs::new().with("axis", 1i64)).is_err());
    let ints32: Arg = tensor(&[i32::MAX, 1, -5, 7], &[4]).into();
    assert_eq!(call1("sum", [ints32.clone()], Attrs::new()).to_vec::<i32>().unwrap(), [i32::MIN + 2]);
    assert_eq!(call1("min", [ints32.clone()], Attrs::new()).to_vec::<i32>().unwrap(), [-5]);
    assert!(try_call("mean", [ints32], Attrs::new()).is_err());
}

#[test]
fn positions_of_extremes() {
    let data = [1.0f32, 5.0, 5.0, 2.0, f32::NAN, 7.0, f32::NAN, 0.0, -1.0, -1.0, -1.0, -1.0];
    let x: Arg = tensor(&data, &[3, 4]).into();
    let inf: Arg = tensor(&[f32::NEG_INFINITY; 3], &[3]).into();
    let run = |op: &str, x: &Arg, attrs: Attrs| call1(op, [x.clone()], attrs).to_vec::<i64>().unwrap();
    let axis = |axis: i64| Attrs::new().with("axis", axis);
    assert_eq!(run("argmax", &x, axis(1)), [1, 0, 0]);
    assert_eq!(run("argmax", &x, axis(-1).with("select_last_index", true)), [2, 2, 3]);
    assert_eq!(run("argmin", &x, axis(1)), [0, 0, 0]);
    assert_eq!(run("argmax", &x, axis(0)), [1, 1, 1, 0]);
    assert_eq!(run("argmax", &x, Attrs::new()), [4]);
    assert_eq!(run("argmax", &inf, axis(0)), [0]);
    assert_eq!(run("argmin", &tensor(&[3u8, 0, 255, 0], &[4]).into(), axis(0)), [1]);
    assert_eq!(run("argmax", &tensor(&[i64::MIN, i64::MIN], &[2]).into(), axis(0)), [0]);
    assert_eq!(call1("argmax", [x], axis(1).with("keepdims", true)).shape(), [3, 1]);
}

#[test]
fn running_sums() {
    let x = Nd::random(&mut Rng::new(2), &[2, 5]);
    for exclusive in [false, true] {
        let attrs = |axis: i64| Attrs::new().with("axis", axis).with("exclusive", exclusive);
        let until = |n: i64| if exclusive { 0..n } else { 0..n + 1 };
        let want = Nd::build(&[2, 5], |i| until(i[1]).map(|k| x.at(&[i[0], k])).sum());
        want.assert_is("cumsum", &call1("cumsum", [x.arg()], attrs(-1)));
        let want = Nd::build(&[2, 5], |i| until(i[0]).map(|k| x.at(&[k, i[1]])).product());
        want.assert_is("cumprod", &call1("cumprod", [x.arg()], attrs(0)));
    }
    let got =
        call1("cumsum", [tensor(&[200u8, 100], &[2]).into()], Attrs::new().with("dtype", DataType::I32));
    assert_eq!(got.to_vec::<i32>().unwrap(), [200, 300]);
}

#[test]
fn sorting() {
    let mut x = Nd::random(&mut Rng::new(3), &[2, 6, 2]);
    x.data[0] = f32::NAN;
    x.data[2] = f32::NEG_INFINITY;
    x.data[4] = x.data[8];
    // The order along axis 1 of every other index.
    let order = |a: i64, c: i64, descending: bool| {
        let key = |k: i64| x.at(&[a, k, c]);
        let mut order: Vec<i64> = (0..6).collect();
        order.sort_by(|&p, &q| {
            let rank = |it: f32| if it.is_nan() { (1, 0.0) } else { (0, it) };
            let (p, q) = (rank(key(p)), rank(key(q)));
            let it = p.partial_cmp(&q).expect("no NaN is left");
            if descending { it.reverse() } else { it }
        });
        order
    };
    for descending in [false, true] {
        let attrs = Attrs::new().with("axis", 1i64).with("descending", descending);
        let at = |i: &[i64]| order(i[0], i[2], descending)[i[1] as usize];
        let want = Nd::build(&[2, 6, 2], |i| x.at(&[i[0], at(i), i[2]]));
        want.assert_is("sort", &call1("sort", [x.arg()], attrs.clone()));
        let got = call1("argsort", [x.arg()], attrs.with("dtype", DataType::I32)).to_vec::<i32>().unwrap();
        let want: Vec<i32> = indices(&[2, 6, 2]).iter().map(|i| at(i) as i32).collect();
        assert_eq!(got, want);
        let attrs = Attrs::new().with("axis", -2i64).with("k", 3i64).with("largest", descending);
        let got = crate::support::call("topk", [x.arg()], attrs.clone());
        Nd::build(&[2, 3, 2], |i| x.at(&[i[0], at(i), i[2]])).assert_is("topk", &got[0]);
        let want: Vec<i64> = indices(&[2, 3, 2]).iter().map(|i| at(i)).collect();
        assert_eq!(got[1].to_vec::<i64>().unwrap(), want);
        assert_eq!(call1("topk", [x.arg()], attrs.with("ret_type", "values")).shape(), [2, 3, 2]);
    }
    assert!(try_call("topk", [x.arg()], Attrs::new().with("k", 7i64).with("axis", 1i64)).is_err());
}
