//! Convolutions against their definition, on random shapes and parameters.

use tvm_core::ir::{Attrs, BaseFunc, IRModule, Op, Span, Var};
use tvm_core::relax::transform::legalize_ops;
use tvm_core::relax::{Arg, BlockBuilder};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::layout::rearranged;
use crate::support::{Nd, Rng, call1, indices, ints, param, run, tensor, try_call};

struct Case {
    strides: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
}

impl Case {
    fn attrs(&self) -> Attrs {
        Attrs::new()
            .with("strides", ints(&self.strides))
            .with("padding", ints(&self.padding))
            .with("dilation", ints(&self.dilation))
            .with("groups", self.groups)
    }
}

fn conv(x: &Nd, w: &Nd, case: &Case) -> Nd {
    let d = x.shape.len() - 2;
    let per_group = w.shape[0] / case.groups;
    let mut out = vec![x.shape[0], w.shape[0]];
    for k in 0..d {
        let reach = (w.shape[2 + k] - 1) * case.dilation[k] + 1;
        out.push((x.shape[2 + k] + case.padding[k] + case.padding[d + k] - reach) / case.strides[k] + 1);
    }
    Nd::build(&out, |i| {
        let mut sum = 0.0;
        for j in indices(&w.shape[1..]) {
            let mut at = vec![i[0], i[1] / per_group * w.shape[1] + j[0]];
            at.extend(
                (0..d).map(|k| i[2 + k] * case.strides[k] + j[1 + k] * case.dilation[k] - case.padding[k]),
            );
            let weight: Vec<i64> = [&[i[1]], &j[..]].concat();
            sum += x.at_or(&at, 0.0) * w.at(&weight);
        }
        sum
    })
}

/// Transposed convolution: every input element adds to the outputs that it reaches.
fn conv_transpose(x: &Nd, w: &Nd, case: &Case, output_padding: &[i64]) -> Nd {
    let d = x.shape.len() - 2;
    let mut out = vec![x.shape[0], w.shape[1] * case.groups];
    for (k, output_padding) in output_padding.iter().enumerate() {
        let reach = (w.shape[2 + k] - 1) * case.dilation[k] + 1;
        let pads = case.padding[k] + case.padding[d + k];
        out.push((x.shape[2 + k] - 1) * case.strides[k] + reach + output_padding - pads);
    }
    let mut res = Nd::build(&out, |_| 0.0);
    let group_in = x.shape[1] / case.groups;
    for i in indices(&x.shape) {
        for j in indices(&w.shape[1..]) {
            let mut at = vec![i[0], i[1] / group_in * w.shape[1] + j[0]];
            at.extend(
                (0..d).map(|k| i[2 + k] * case.strides[k] + j[1 + k] * case.dilation[k] - case.padding[k]),
            );
            if at.iter().zip(&out).all(|(at, n)| (0..*n).contains(at)) {
                let flat = at.iter().zip(&out).fold(0, |flat, (at, n)| flat * n + at);
                let weight: Vec<i64> = [&[i[1]], &j[..]].concat();
                res.data[flat as usize] += x.at(&i) * w.at(&weight);
            }
        }
    }
    res
}

#[test]
fn random_convolutions() {
    let mut rng = Rng::new(1);
    for round in 0..60 {
        let d = 1 + round % 3;
        let mut pick = |low, high| (0..d).map(|_| rng.int(low, high)).collect::<Vec<i64>>();
        let (window, strides, dilation) = (pick(1, 4), pick(1, 4), pick(1, 3));
        let padding = [pick(0, 3), pick(0, 3)].concat();
        let extra = pick(0, if d == 3 { 2 } else { 6 });
        let groups = rng.int(1, 4);
        let (per_in, per_out) = (rng.int(1, 3), rng.int(1, 3));
        let mut dims = vec![rng.int(0, 3), groups * per_in];
        dims.extend((0..d).map(|k| (window[k] - 1) * dilation[k] + 1 + extra[k]));
        let case = Case { strides, padding, dilation, groups };
        let x = Nd::random(&mut rng, &dims);

        let w = Nd::random(&mut rng, &[&[groups * per_out, per_in], &window[..]].concat());
        let got = call1(&format!("nn.conv{d}d"), [x.arg(), w.arg()], case.attrs());
        conv(&x, &w, &case).assert_is(&format!("round {round}"), &got);

        let w = Nd::random(&mut rng, &[&[groups * per_in, per_out], &window[..]].concat());
        let output_padding: Vec<i64> = case.strides.iter().map(|&stride| stride - 1).collect();
        let attrs = case.attrs().with("output_padding", ints(&output_padding));
        if let Ok(got) = try_call(&format!("nn.conv{d}d_transpose"), [x.arg(), w.arg()], attrs) {
            let want = conv_transpose(&x, &w, &case, &output_padding);
            want.assert_is(&format!("transposed, round {round}"), &got[0]);
        }
    }
}

#[test]
fn depthwise_and_one_value_attributes() {
    let mut rng = Rng::new(2);
    let (x, w) = (Nd::random(&mut rng, &[1, 6, 5, 5]), Nd::random(&mut rng, &[6, 1, 3, 3]));
    let case = Case { strides: vec![2, 2], padding: vec![1; 4], dilation: vec![1, 1], groups: 6 };
    let attrs = Attrs::new().with("strides", 2i64).with("padding", 1i64).with("groups", 6i64);
    conv(&x, &w, &case).assert_is("depthwise", &call1("nn.conv2d", [x.arg(), w.arg()], attrs));
}

#[test]
fn errors() {
    let mut rng = Rng::new(3);
    let (x, w) = (Nd::random(&mut rng, &[1, 3, 5, 5]), Nd::random(&mut rng, &[4, 2, 3, 3]));
    let cases = [
        (Attrs::new(), "`nn.conv2d`: the data has 3 channels, the weight is for 2 (in 1 groups)"),
        (Attrs::new().with("padding", -1i64), "`nn.conv2d`: attribute `padding` is not negative, got [-1]"),
        (
            Attrs::new().with("strides", ints(&[1, 1, 1])),
            "`nn.conv2d`: attribute `strides` is 2 integers, got 3: [1, 1, 1]",
        ),
        (
            Attrs::new().with("stride", 2i64),
            "`nn.conv2d`: there is no attribute `stride`\n  help: did you mean `strides`?",
        ),
        (
            Attrs::new().with("data_layout", "NHWC"),
            "`nn.conv2d`: the data has 5 channels, the weight is for 2 (in 1 groups)",
        ),
    ];
    for (attrs, want) in cases {
        assert_eq!(try_call("nn.conv2d", [x.arg(), w.arg()], attrs).unwrap_err().to_string(), want);
    }
    let w = Nd::random(&mut rng, &[4, 3, 7, 3]);
    let want = "`nn.conv2d`: a window of 7 (dilation 1) does not fit axis 2 of 5 (padding 0 and 0)";
    assert_eq!(try_call("nn.conv2d", [x.arg(), w.arg()], Attrs::new()).unwrap_err().to_string(), want);
}

/// Bytes of two types, and words of four channels of the weights: sums of i32, as floats give them.
#[test]
fn convolutions_of_bytes() {
    let mut rng = Rng::new(9);
    let whole = |rng: &mut Rng, shape: &[i64], low| Nd::build(shape, |_| rng.int(low, low + 200) as f32);
    let (x, w) = (whole(&mut rng, &[1, 8, 4, 5], 20), whole(&mut rng, &[6, 8, 3, 2], -100));
    let case = Case { strides: vec![1, 2], padding: vec![1, 0, 0, 1], dilation: vec![1, 1], groups: 1 };
    let want: Vec<i32> = conv(&x, &w, &case).data.iter().map(|&it| it as i32).collect();
    let data: Vec<u8> = x.data.iter().map(|&it| it as u8).collect();
    let weights: Vec<i8> = w.data.iter().map(|&it| it as i8).collect();
    let args = [Arg::Const(tensor(&data, &x.shape)), Arg::Const(tensor(&weights, &w.shape))];
    assert_eq!(call1("nn.conv2d", args.clone(), case.attrs()).to_vec::<i32>().unwrap(), want);

    // [n, block, row, column, channel in block] and [out, block, row, column, word in block].
    let blocked = Nd::build(&[1, 1, 4, 5, 8], |i| x.at(&[i[0], 8 * i[1] + i[4], i[2], i[3]]));
    let blocked: Vec<u8> = blocked.data.iter().map(|&it| it as u8).collect();
    let part =
        |i: &[i64], at: i64| i32::from(w.at(&[i[0], 4 * i[4] + at, i[2], i[3]]) as i8 as u8) << (8 * at);
    let words: Vec<i32> =
        indices(&[6, 1, 3, 2, 2]).iter().map(|i| (0..4).map(|at| part(i, at)).sum::<i32>()).collect();
    let args = [Arg::Const(tensor(&blocked, &[1, 1, 4, 5, 8])), Arg::Const(tensor(&words, &[6, 1, 3, 2, 2]))];
    let layouts = [("data_layout", "NCHW8c"), ("kernel_layout", "OIHW2i"), ("out_layout", "NCHW")];
    let attrs = layouts.iter().fold(case.attrs(), |attrs, (name, layout)| attrs.with(name, *layout));
    assert_eq!(call1("nn.conv2d", args.clone(), attrs).to_vec::<i32>().unwrap(), want);

    // Plain data; the last word of seven channels has a zero.
    let part =
        |i: &[i64], at: i64| i32::from(w.at(&[i[0], 4 * i[1] + at, i[2], i[3]]) as i8 as u8) << (8 * at);
    let words: Vec<i32> =
        indices(&[6, 2, 3, 2]).iter().map(|i| (0..4).map(|at| part(i, at)).sum::<i32>()).collect();
    let words = Arg::Const(tensor(&words, &[6, 2, 3, 2]));
    for channels in [8, 7] {
        let first = |of: &Nd| Nd::build(&[of.shape[0], channels, of.shape[2], of.shape[3]], |i| of.at(i));
        let want: Vec<i32> = conv(&first(&x), &first(&w), &case).data.iter().map(|&it| it as i32).collect();
        let plain: Vec<u8> = first(&x).data.iter().map(|&it| it as u8).collect();
        let plain = Arg::Const(tensor(&plain, &[1, channels, 4, 5]));
        let got = call1("nn.conv2d", [plain, words.clone()], case.attrs());
        assert_eq!(got.to_vec::<i32>().unwrap(), want, "{channels} channels");
    }

    // Two groups of four channels, each a word; plain, and in blocks of one group and of both.
    let case = Case { groups: 2, ..case };
    let half = Nd::build(&[6, 4, 3, 2], |i| w.at(i));
    let want: Vec<i32> = conv(&x, &half, &case).data.iter().map(|&it| it as i32).collect();
    let part = |i: &[i64], at: i64| i32::from(half.at(&[i[0], at, i[2], i[3]]) as i8 as u8) << (8 * at);
    let of_groups: Vec<i32> =
        indices(&[6, 1, 3, 2]).iter().map(|i| (0..4).map(|at| part(i, at)).sum::<i32>()).collect();
    for layout in ["NCHW", "NCHW4c", "NCHW8c"] {
        let data = rearranged(&x, "NCHW", layout);
        let bytes: Vec<u8> = data.data.iter().map(|&it| it as u8).collect();
        let args = [Arg::Const(tensor(&bytes, &data.shape)), Arg::Const(tensor(&of_groups, &[6, 1, 3, 2]))];
        let attrs = case.attrs().with("data_layout", layout).with("out_layout", "NCHW");
        assert_eq!(call1("nn.conv2d", args, attrs).to_vec::<i32>().unwrap(), want, "{layout}");
    }
    // Words of seven channels would reach from one group into the next.
    let seven = Arg::Const(tensor(&[1u8; 140], &[1, 7, 4, 5]));
    let of_groups = Arg::Const(tensor(&of_groups, &[6, 1, 3, 2]));
    let err = try_call("nn.conv2d", [seven, of_groups], case.attrs()).unwrap_err().to_string();
    assert!(err.contains("the data has 7 channels, the weight is for 8 (in 2 groups)"), "{err}");

    let pairs = Arg::Const(tensor(&data, &[1, 4, 4, 5, 2]));
    let err = try_call("nn.conv2d", [pairs, words], Attrs::new().with("data_layout", "NCHW2c"));
    let err = err.unwrap_err().to_string();
    assert!(err.contains("plain or in blocks of whole words, as in `NCHW32c`; got `NCHW2c`"), "{err}");
    let floats = try_call("nn.conv2d", [x.arg(), Arg::Const(tensor(&weights, &w.shape))], case.attrs());
    assert!(floats.unwrap_err().to_string().contains("different element types"));
    let transposed = [Arg::Const(tensor(&data, &x.shape)), Arg::Const(tensor(&weights, &w.shape))];
    let err = try_call("nn.conv2d_transpose", transposed, Attrs::new()).unwrap_err().to_string();
    assert!(err.contains("different element types"), "{err}");
}

/// Rows of windows in the padding are left out of depthwise convolutions, where they are many or their number is not known,
/// and no weight times 0 is NaN.
#[test]
fn padding_is_left_out_of_depthwise_convolutions() {
    let height = |it: i64| PrimExpr::index(it);
    let symbolic = PrimExpr::from(Var::index("h"));
    for (rows, pads, bad, left_out) in [
        (height(2), [2, 2], None, true),
        (height(9), [2, 2], None, true),
        (symbolic.clone(), [2, 2], None, true),
        (symbolic.clone(), [0, 2], None, false),
        // 6 of 500 rows.
        (height(100), [2, 2], None, false),
        (height(2), [2, 2], Some(f32::NAN), false),
        (height(2), [2, 2], Some(f32::NEG_INFINITY), false),
    ] {
        let mut rng = Rng::new(5);
        let mut w = Nd::random(&mut rng, &[3, 1, 5, 5]);
        if let Some(bad) = bad {
            w.data[30] = bad;
        }
        let case =
            Case { strides: vec![1; 2], padding: [pads, pads].concat(), dilation: vec![1; 2], groups: 3 };
        let x = param(&[height(1), height(3), rows.clone(), height(7)], DataType::F32);
        let mut builder = BlockBuilder::new(IRModule::new());
        let args = [(&x).into(), Arg::Const(tensor(&w.data, &w.shape))];
        builder
            .add_function("main", &[x], |builder| {
                let conv = Op::get("nn.conv2d").expect("registered");
                Ok(builder.emit_op("y", conv, args, case.attrs(), &Span::none())?.into())
            })
            .unwrap();
        let module = builder.into_module();
        let legal = legalize_ops().apply(module.clone()).unwrap();
        let programs = legal.functions().filter_map(|(_, func)| match func {
            BaseFunc::Prim(func) => Some(func.to_string()),
            BaseFunc::Relax(_) | BaseFunc::Extern(_) => None,
        });
        let text = programs.collect::<String>();
        let sum = text.lines().find(|line| line.contains("+=")).unwrap();
        assert_eq!(sum.contains("if "), left_out, "{rows}, {pads:?}, {bad:?}: {text}");
        let rows = rows.as_int().unwrap_or(4);
        let image = Nd::random(&mut rng, &[1, 3, rows, 7]);
        let got = run(module, &[tensor(&image.data, &image.shape)]).unwrap()[0].to_f64s().unwrap();
        for (got, want) in got.iter().zip(&conv(&image, &w, &case).data) {
            assert!((got - f64::from(*want)).abs() < 1e-4 || bad.is_some(), "{got}, not {want}");
        }
        assert_eq!(got.iter().any(|it| it.is_nan()), bad.is_some());
    }
}
