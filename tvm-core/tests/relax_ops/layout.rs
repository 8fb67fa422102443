//! Operators in layouts of blocks and of other orders: results are those of the plain layout, rearranged.

use tvm_core::ir::Attrs;

use crate::support::{Nd, Rng, call1, ints, try_call};

/// Axes of a layout: letter, and extent of an inner axis.
fn axes(layout: &str) -> Vec<(char, Option<i64>)> {
    let mut axes = Vec::new();
    let mut factor = 0;
    for c in layout.chars() {
        match c.to_digit(10) {
            Some(digit) => factor = factor * 10 + i64::from(digit),
            None => {
                axes.push((c.to_ascii_uppercase(), (factor > 0).then_some(factor)));
                factor = 0;
            }
        }
    }
    axes
}

/// `x`, whose axes are `letters`, in `layout`, which divides each axis once at most.
pub(crate) fn rearranged(x: &Nd, letters: &str, layout: &str) -> Nd {
    let axes = axes(layout);
    let block = |letter: char| axes.iter().find_map(|axis| axis.1.filter(|_| axis.0 == letter)).unwrap_or(1);
    let extent = |letter: char| x.shape[letters.find(letter).expect("an axis of the layout")];
    let shape: Vec<i64> =
        axes.iter().map(|&(letter, factor)| factor.unwrap_or(extent(letter) / block(letter))).collect();
    Nd::build(&shape, |i| {
        let mut at = vec![0; letters.len()];
        for (&(letter, factor), index) in axes.iter().zip(i) {
            at[letters.find(letter).expect("an axis of the layout")] +=
                index * if factor.is_some() { 1 } else { block(letter) };
        }
        x.at(&at)
    })
}

fn transform(src: &str, dst: &str) -> Attrs {
    Attrs::new().with("src_layout", src).with("dst_layout", dst)
}

#[test]
fn transforms() {
    let x = Nd::random(&mut Rng::new(1), &[2, 12, 3, 5]);
    let layouts = ["NCHW", "NHWC", "NCHW4c", "NCHW12c", "CNHW3n3h", "NHWC6c", "N2nCHW", "NCHW3c5w"];
    for src in layouts {
        for dst in layouts {
            let known = |layout: &str| layout != "CNHW3n3h" && layout != "N2nCHW";
            if known(src) && known(dst) {
                let (from, to) = (rearranged(&x, "NCHW", src), rearranged(&x, "NCHW", dst));
                let got = call1("layout_transform", [from.arg()], transform(src, dst));
                to.assert_is(&format!("{src} to {dst}"), &got);
            }
        }
    }
}

#[test]
fn convolutions() {
    let mut rng = Rng::new(2);
    let data = ["NCHW", "NHWC", "NCHW2c", "NCHW4c", "CHW4cN"];
    let kernels = ["OIHW", "HWIO", "OIHW2o", "OIHW2i4o", "OIHW4i4o", "IOHW2i"];
    for round in 0..40 {
        let groups = [1, 1, 2, 8][round % 4];
        let (per_in, per_out) = if groups == 8 { (1, 1) } else { (8, 4 * rng.int(1, 3)) };
        let x = Nd::random(&mut rng, &[rng_batch(round), groups * per_in, 5, 6]);
        let w = Nd::random(&mut rng, &[groups * per_out, per_in, 3, 2]);
        let attrs = Attrs::new()
            .with("strides", ints(&[1 + round as i64 % 2, 1]))
            .with("padding", ints(&[1, 0, 2, 1]))
            .with("groups", groups);
        let (src, dst) = (data[round % 5], data[(round / 5) % 5]);
        let kernel = if per_in == 1 { kernels[round % 3] } else { kernels[round % 6] };
        let plain = call1("nn.conv2d", [x.arg(), w.arg()], attrs.clone());
        let plain = Nd { shape: plain.shape().to_vec(), data: plain.to_vec().unwrap() };
        let attrs = attrs.with("data_layout", src).with("kernel_layout", kernel).with("out_layout", dst);
        let (from, weight) = (rearranged(&x, "NCHW", src), rearranged(&w, "OIHW", kernel));
        let got = call1("nn.conv2d", [from.arg(), weight.arg()], attrs);
        rearranged(&plain, "NCHW", dst)
            .assert_is(&format!("{src} * {kernel} = {dst}, {groups} groups"), &got);
    }
}

fn rng_batch(round: usize) -> i64 {
    [1, 2, 0][round % 3]
}

#[test]
fn poolings() {
    let x = Nd::random(&mut Rng::new(3), &[2, 8, 7, 6]);
    let window = Attrs::new()
        .with("pool_size", ints(&[3, 2]))
        .with("strides", ints(&[2, 1]))
        .with("padding", ints(&[1, 0, 1, 1]))
        .with("ceil_mode", true);
    for (op, attrs) in [
        ("nn.max_pool2d", window.clone()),
        ("nn.avg_pool2d", window.clone().with("count_include_pad", true)),
        ("nn.avg_pool2d", window),
        ("nn.adaptive_avg_pool2d", Attrs::new().with("output_size", ints(&[3, 1]))),
    ] {
        let plain = call1(op, [x.arg()], attrs.clone());
        let plain = Nd { shape: plain.shape().to_vec(), data: plain.to_vec().unwrap() };
        for layout in ["NCHW", "NHWC", "NCHW4c", "NHWC8c"] {
            let got = call1(op, [rearranged(&x, "NCHW", layout).arg()], attrs.clone().with("layout", layout));
            rearranged(&plain, "NCHW", layout).assert_is(&format!("{op} in {layout}"), &got);
        }
    }
}

#[test]
fn errors() {
    let x = Nd::random(&mut Rng::new(4), &[1, 6, 4, 4]);
    for (src, dst, want) in [
        ("NCHW", "NCHW4c", "`layout_transform`: blocks of `NCHW4c` do not divide the extents 1, 6, 4, 4"),
        ("NCHW", "NCW", "`layout_transform`: the layouts `NCHW` and `NCW` have different axes"),
        (
            "NCHW",
            "NCHWc",
            "`layout_transform`: attribute `dst_layout`: `NCHWc` is no layout: the inner axis `c` has no extent before it",
        ),
        ("NCW", "NCW", "`layout_transform`: argument `x` has rank 3, got Tensor<f32, 1, 6, 4, 4>"),
        ("NCW2w", "NCW", "`layout_transform`: the layout `NCW2w` has 2 where the data has 4"),
    ] {
        assert_eq!(
            try_call("layout_transform", [x.arg()], transform(src, dst)).unwrap_err().to_string(),
            want
        );
    }
    let pool = Attrs::new().with("pool_size", 2i64).with("layout", "NCHW2c").with("out_layout", "NCHW");
    let want = "`nn.max_pool2d`: the result has the layout `NCHW2c` of the data, attribute `out_layout` is `NCHW`\n  help: bring the result to another layout with `layout_transform`";
    assert_eq!(try_call("nn.max_pool2d", [x.arg()], pool).unwrap_err().to_string(), want);
    let w = Nd::random(&mut Rng::new(5), &[4, 6, 3, 3]);
    for (attrs, want) in [
        (
            Attrs::new().with("out_layout", "NCHW3c"),
            "`nn.conv2d`: 4 channels of the result are not whole blocks of 3",
        ),
        (
            Attrs::new().with("data_layout", "NCHW2h"),
            "`nn.conv2d`: attribute `data_layout`: axis `H` of `NCHW2h` is not divided here",
        ),
        (
            Attrs::new().with("kernel_layout", "NCHW"),
            "`nn.conv2d`: attribute `kernel_layout` is a layout of `OIHW`, got `NCHW`",
        ),
    ] {
        assert_eq!(try_call("nn.conv2d", [x.arg(), w.arg()], attrs).unwrap_err().to_string(), want);
    }
}
