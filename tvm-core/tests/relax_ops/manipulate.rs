//! Operators that move elements.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;

use crate::support::{Nd, Rng, call, call1, ints, shape, try_call};

#[test]
fn permute_dims() {
    let mut rng = Rng::new(1);
    for (dims, axes) in [
        (&[2i64, 3, 4][..], &[1i64, 2, 0][..]),
        (&[2, 3], &[-1, 0]),
        (&[5], &[0]),
        (&[], &[]),
        (&[0, 3], &[1, 0]),
    ] {
        let x = Nd::random(&mut rng, dims);
        let axis = |k: usize| axes[k].rem_euclid(dims.len() as i64) as usize;
        let out: Vec<i64> = (0..dims.len()).map(|k| dims[axis(k)]).collect();
        let want = Nd::build(&out, |i| {
            let mut at = vec![0; i.len()];
            (0..i.len()).for_each(|k| at[axis(k)] = i[k]);
            x.at(&at)
        });
        want.assert_is(
            "permute_dims",
            &call1("permute_dims", [x.arg()], Attrs::new().with("axes", ints(axes))),
        );
    }
    let x = Nd::random(&mut rng, &[2, 3, 4]);
    let want = Nd::build(&[4, 3, 2], |i| x.at(&[i[2], i[1], i[0]]));
    want.assert_is("reversed", &call1("permute_dims", [x.arg()], Attrs::new()));
}

#[test]
fn shapes_without_moving() {
    let x = Nd::random(&mut Rng::new(2), &[2, 1, 6]);
    let none = Attrs::new;
    let cases: Vec<(&str, Vec<Arg>, Attrs, &[i64])> = vec![
        ("reshape", vec![x.arg(), shape(&[3, 4])], none(), &[3, 4]),
        ("reshape", vec![x.arg(), shape(&[4, -1])], none(), &[4, 3]),
        ("flatten", vec![x.arg()], none(), &[12]),
        ("nn.batch_flatten", vec![x.arg()], none(), &[2, 6]),
        ("expand_dims", vec![x.arg()], none().with("axis", ints(&[0, -1])), &[1, 2, 1, 6, 1]),
        ("squeeze", vec![x.arg()], none(), &[2, 6]),
        ("squeeze", vec![x.arg()], none().with("axis", ints(&[-2])), &[2, 6]),
    ];
    for (op, args, attrs, want) in cases {
        let want = Nd { shape: want.to_vec(), data: x.data.clone() };
        want.assert_is(op, &call1(op, args, attrs));
    }
    let empty = Nd { shape: vec![0, 3], data: vec![] };
    assert_eq!(call1("reshape", [empty.arg(), shape(&[3, 0])], none()).shape(), [3, 0]);
    for (bad, attrs) in [(shape(&[5, 2]), none()), (shape(&[-1, -1]), none()), (shape(&[5, -1]), none())] {
        assert!(try_call("reshape", [x.arg(), bad], attrs).is_err());
    }
}

/// The tensor program of a view operator copies the elements in the order in which the view has them.
#[test]
fn a_reshape_kernel_keeps_the_order() {
    let x = Nd::random(&mut Rng::new(3), &[2, 3, 4]);
    let want = Nd { shape: vec![2, 12], data: x.data.clone() };
    want.assert_is("nn.batch_flatten", &call1("nn.batch_flatten", [x.arg()], Attrs::new()));
}

#[test]
fn concat_and_stack() {
    let mut rng = Rng::new(4);
    let parts: Vec<Nd> = [1i64, 3, 0, 2].iter().map(|&n| Nd::random(&mut rng, &[2, n, 3])).collect();
    let args: Vec<Arg> = parts.iter().map(Nd::arg).collect();
    let want = Nd::build(&[2, 6, 3], |i| {
        let (mut at, mut part) = (i[1], 0);
        while at >= parts[part].shape[1] {
            at -= parts[part].shape[1];
            part += 1;
        }
        parts[part].at(&[i[0], at, i[2]])
    });
    let axis = |axis: i64| Attrs::new().with("axis", axis);
    want.assert_is("concat", &call1("concat", args.clone(), axis(-2)));
    want.assert_is("concat of a tuple", &call1("concat", [Arg::Tuple(args.into())], axis(1)));
    parts[1].assert_is("concat of one", &call1("concat", [parts[1].arg()], axis(0)));

    let same: Vec<Nd> = (0..3).map(|_| Nd::random(&mut rng, &[2, 4])).collect();
    let args: Vec<Arg> = same.iter().map(Nd::arg).collect();
    let want = Nd::build(&[2, 3, 4], |i| same[i[1] as usize].at(&[i[0], i[2]]));
    want.assert_is("stack", &call1("stack", args.clone(), axis(1)));
    let want = Nd::build(&[2, 4, 3], |i| same[i[2] as usize].at(&[i[0], i[1]]));
    want.assert_is("stack at the end", &call1("stack", args, axis(-1)));
    assert!(try_call("concat", [parts[0].arg(), same[0].arg()], axis(0)).is_err());
}

#[test]
fn split() {
    let x = Nd::random(&mut Rng::new(5), &[2, 7]);
    let cases: [(Attrs, &[i64]); 3] = [
        (Attrs::new().with("indices_or_sections", 3i64), &[0, 3, 6, 7]),
        (Attrs::new().with("indices_or_sections", ints(&[2, 2, 5])), &[0, 2, 2, 5, 7]),
        (Attrs::new().with("indices_or_sections", 1i64), &[0, 7]),
    ];
    for (attrs, cuts) in cases {
        let got = call("split", [x.arg()], attrs.with("axis", 1i64));
        assert_eq!(got.len(), cuts.len() - 1);
        for (part, cut) in got.iter().zip(cuts.windows(2)) {
            Nd::build(&[2, cut[1] - cut[0]], |i| x.at(&[i[0], i[1] + cut[0]])).assert_is("split", part);
        }
    }
    for attrs in [
        Attrs::new(),
        Attrs::new().with("indices_or_sections", ints(&[5, 2])),
        Attrs::new().with("indices_or_sections", 0i64),
    ] {
        assert!(try_call("split", [x.arg()], attrs.with("axis", 1i64)).is_err());
    }
}

#[test]
fn repetitions() {
    let x = Nd::random(&mut Rng::new(6), &[2, 3]);
    let tile = |repeats: &[i64]| call1("tile", [x.arg()], Attrs::new().with("repeats", ints(repeats)));
    Nd::build(&[4, 9], |i| x.at(&[i[0] % 2, i[1] % 3])).assert_is("tile", &tile(&[2, 3]));
    Nd::build(&[2, 2, 3], |i| x.at(&[i[1], i[2]])).assert_is("tile of more axes", &tile(&[2, 1, 1]));
    Nd::build(&[2, 6], |i| x.at(&[i[0], i[1] % 3])).assert_is("tile of fewer axes", &tile(&[2]));
    Nd::build(&[2, 0], |_| 0.0).assert_is("tile 0 times", &tile(&[1, 0]));
    let attrs = Attrs::new().with("repeats", 2i64).with("axis", -1i64);
    Nd::build(&[2, 6], |i| x.at(&[i[0], i[1] / 2])).assert_is("repeat", &call1("repeat", [x.arg()], attrs));
    Nd::build(&[2, 3], |i| x.at(&[1 - i[0], 2 - i[1]]))
        .assert_is("flip", &call1("flip", [x.arg()], Attrs::new()));
    let attrs = Attrs::new().with("axis", 1i64);
    Nd::build(&[2, 3], |i| x.at(&[i[0], 2 - i[1]])).assert_is("flip 1", &call1("flip", [x.arg()], attrs));
    let wide = call1("broadcast_to", [x.arg(), shape(&[4, 2, 3])], Attrs::new());
    Nd::build(&[4, 2, 3], |i| x.at(&i[1..])).assert_is("broadcast_to", &wide);
    assert!(try_call("broadcast_to", [x.arg(), shape(&[2, 4])], Attrs::new()).is_err());
}

#[test]
fn pad() {
    let x = Nd::random(&mut Rng::new(7), &[2, 4]);
    let pad = |mode: &str, widths: &[i64]| {
        let attrs =
            Attrs::new().with("pad_width", ints(widths)).with("pad_mode", mode).with("pad_value", 7.5);
        call1("nn.pad", [x.arg()], attrs)
    };
    Nd::build(&[3, 9], |i| x.at_or(&[i[0], i[1] - 2], 7.5))
        .assert_is("constant", &pad("constant", &[0, 1, 2, 3]));
    Nd::build(&[3, 2], |i| x.at_or(&[i[0] - 1, i[1] + 1], 7.5))
        .assert_is("crop", &pad("constant", &[1, 0, -1, -1]));
    let edge = Nd::build(&[2, 9], |i| x.at(&[i[0], (i[1] - 2).clamp(0, 3)]));
    edge.assert_is("replicate", &pad("replicate", &[0, 0, 2, 3]));
    let wrap = Nd::build(&[2, 9], |i| x.at(&[i[0], (i[1] - 2).rem_euclid(4)]));
    wrap.assert_is("circular", &pad("circular", &[0, 0, 2, 3]));
    let mirror = [2, 1, 0, 1, 2, 3, 2, 1, 0];
    let reflect = Nd::build(&[2, 9], |i| x.at(&[i[0], mirror[i[1] as usize]]));
    reflect.assert_is("reflect", &pad("reflect", &[0, 0, 2, 3]));
}
