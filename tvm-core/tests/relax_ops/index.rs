//! Operators that pick or place elements by index.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::support::{Nd, Rng, call1, call1_fixed, indices, ints, shape, tensor, try_call};

fn index(data: &[i64], dims: &[i64]) -> Arg {
    tensor(data, dims).into()
}

#[test]
fn take() {
    let x = Nd::random(&mut Rng::new(1), &[3, 4, 2]);
    // Negative indices count from the end; other indices out of bounds are errors, or clipped with `mode = "clip"`.
    let cases: [([i64; 6], [i64; 6], &str); 2] = [
        ([0, 3, -1, 2, -4, 1], [0, 3, 3, 2, 0, 1], "raise"),
        ([0, 3, -1, 9, -9, 1], [0, 3, 3, 3, 0, 1], "clip"),
    ];
    for (picked, resolved, mode) in cases {
        let want = Nd::build(&[3, 2, 3, 2], |i| x.at(&[i[0], resolved[(i[1] * 3 + i[2]) as usize], i[3]]));
        let attrs = Attrs::new().with("axis", 1i64).with("mode", mode);
        want.assert_is("take", &call1("take", [x.arg(), index(&picked, &[2, 3])], attrs));
    }
    for outside in [4, -5, 999_999_999, i64::MIN, i64::MAX] {
        let attrs = Attrs::new().with("axis", 1i64);
        assert!(try_call("take", [x.arg(), index(&[0, outside], &[2])], attrs).is_err(), "{outside}");
    }
    let want = Nd::build(&[3, 4], |i| x.at(&[i[0], i[1], 1]));
    want.assert_is("one", &call1("take", [x.arg(), index(&[1], &[])], Attrs::new().with("axis", -1i64)));
    assert!(try_call("take", [x.arg(), index(&[1], &[1])], Attrs::new()).is_err());
    assert!(try_call("take", [x.arg(), x.arg()], Attrs::new().with("axis", 0i64)).is_err());
}

#[test]
fn gathers() {
    let mut rng = Rng::new(2);
    let x = Nd::random(&mut rng, &[3, 4]);
    let picked: Vec<i64> = (0..6).map(|_| rng.int(-4, 4)).collect();
    let want = Nd::build(&[3, 2], |i| x.at(&[i[0], picked[(i[0] * 2 + i[1]) as usize].rem_euclid(4)]));
    let attrs = Attrs::new().with("axis", 1i64);
    want.assert_is("gather_elements", &call1("gather_elements", [x.arg(), index(&picked, &[3, 2])], attrs));

    let x = Nd::random(&mut rng, &[2, 3, 4]);
    let rows = [0, 2, 1, -1, 0, 0];
    let want = Nd::build(&[3, 4], |i| {
        let row = &rows[i[0] as usize * 2..];
        x.at(&[row[0], row[1].rem_euclid(3), i[1]])
    });
    let args = [x.arg(), index(&rows, &[3, 2])];
    let why = "the last axis of indices has a constant extent";
    want.assert_is("gather_nd", &call1_fixed("gather_nd", args, Attrs::new(), why));
    let want = Nd::build(&[2, 2, 4], |i| x.at(&[i[0], [0, 2, 1, 2][(i[0] * 2 + i[1]) as usize], i[2]]));
    let attrs = Attrs::new().with("batch_dims", 1i64);
    want.assert_is("batched", &call1("gather_nd", [x.arg(), index(&[0, 2, 1, 2], &[2, 2, 1])], attrs));
}

#[test]
fn scatters() {
    type Combine = fn(f32, f32) -> f32;
    let cases: &[(&str, Combine)] = &[
        ("update", |_, u| u),
        ("add", |e, u| e + u),
        ("mul", |e, u| e * u),
        ("max", f32::max),
        ("min", f32::min),
    ];
    let mut rng = Rng::new(3);
    let (x, updates) = (Nd::random(&mut rng, &[3, 4]), Nd::random(&mut rng, &[2, 3]));
    let places = [0i64, -1, 0, 2, 2, 1];
    for (reduction, combine) in cases {
        let mut want = x.clone();
        for (k, i) in indices(&[2, 3]).iter().enumerate() {
            let at = (i[0] * 4 + places[k].rem_euclid(4)) as usize;
            want.data[at] = combine(want.data[at], updates.at(i));
        }
        let attrs = Attrs::new().with("axis", 1i64).with("reduction", *reduction);
        let args = [x.arg(), index(&places, &[2, 3]), updates.arg()];
        want.assert_is(reduction, &call1("scatter_elements", args, attrs));

        let rows = [2i64, 0, 2];
        let updates = Nd::random(&mut rng, &[3, 4]);
        let mut want = x.clone();
        for i in indices(&[3, 4]) {
            let at = (rows[i[0] as usize] * 4 + i[1]) as usize;
            want.data[at] = combine(want.data[at], updates.at(&i));
        }
        let attrs = Attrs::new().with("reduction", *reduction);
        want.assert_is(
            reduction,
            &call1("scatter_nd", [x.arg(), index(&rows, &[3, 1]), updates.arg()], attrs),
        );
    }
}

/// Python's slice positions.
fn positions(n: i64, begin: i64, end: i64, stride: i64) -> Vec<i64> {
    let limit = |at: i64| {
        let at = if at < 0 { at.saturating_add(n) } else { at };
        if stride > 0 { at.clamp(0, n) } else { at.clamp(-1, n - 1) }
    };
    let (mut at, end, mut found) = (limit(begin), limit(end), Vec::new());
    while (stride > 0 && at < end) || (stride < 0 && at > end) {
        found.push(at);
        at += stride;
    }
    found
}

/// True when a symbolic extent is assumed to reach begin and end, but does not: the begin counts from the front and lies
/// behind the end, which counts from the back.
fn falls_short(extent: i64, begin: i64, end: i64, stride: i64) -> bool {
    let far = i64::from(i32::MAX);
    let from_the_front = begin >= 0 && begin < far || begin <= -far;
    let from_the_back = end < 0 && end > -far || end >= far;
    let end = if end < 0 { extent + end } else { extent };
    stride > 0 && from_the_front && from_the_back && end - begin.max(0) <= -stride
}

#[test]
fn strided_slice() {
    let mut rng = Rng::new(4);
    let x = Nd::random(&mut rng, &[5, 7]);
    for round in 0..200 {
        let mut pick = || match rng.int(0, 8) {
            0 => i64::MAX,
            1 => i64::MIN,
            _ => rng.int(-9, 10),
        };
        let (begin, end) = ([pick(), pick()], [pick(), pick()]);
        let strides = [[1, 2, -1, -3][round % 4], [1, 3, -1, -2][round / 4 % 4]];
        let rows = positions(5, begin[0], end[0], strides[0]);
        let columns = positions(7, begin[1], end[1], strides[1]);
        let want = Nd::build(&[rows.len() as i64, columns.len() as i64], |i| {
            x.at(&[rows[i[0] as usize], columns[i[1] as usize]])
        });
        let args = [x.arg(), shape(&begin), shape(&end), shape(&strides)];
        let short = (0..2).any(|axis| falls_short([5, 7][axis], begin[axis], end[axis], strides[axis]));
        let got = match short {
            true => call1_fixed("strided_slice", args, Attrs::new(), "is not representable"),
            false => call1("strided_slice", args, Attrs::new()),
        };
        want.assert_is(&format!("[{begin:?}..{end:?}; {strides:?}]"), &got);
    }
    let attrs = Attrs::new().with("axes", ints(&[-1]));
    let got = call1("strided_slice", [x.arg(), shape(&[2]), shape(&[4]), shape(&[1])], attrs);
    Nd::build(&[5, 2], |i| x.at(&[i[0], i[1] + 2])).assert_is("one axis", &got);
    let args = [x.arg(), shape(&[0]), shape(&[1]), shape(&[0])];
    assert!(try_call("strided_slice", args, Attrs::new()).is_err());
}

#[test]
fn conditions_pick() {
    let x = Nd::random(&mut Rng::new(5), &[2, 3]);
    let condition: Arg = tensor(&[true, false, true], &[3]).into();
    let want = Nd::build(&[2, 3], |i| if i[1] != 1 { x.at(i) } else { -1.0 });
    let scalar: Arg = tensor(&[-1.0f32], &[]).into();
    want.assert_is("where", &call1("where", [condition.clone(), x.arg(), scalar], Attrs::new()));
    let prim = Arg::Prim(PrimExpr::float(-1.0, DataType::F32));
    want.assert_is("where", &call1("where", [condition, x.arg(), prim], Attrs::new()));
    assert!(try_call("where", [x.arg(), x.arg(), x.arg()], Attrs::new()).is_err());
}
