//! Products with weights in panels: what `nn.dense_pack` computes is what `matmul` computes of the plain weights.

use half::bf16;
use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;

use crate::support::{Nd, Rng, call1, tensor, try_call};

/// The weights [k, n] in panels of `width` columns, with numbers behind the last column.
fn panels(weight: &Nd, width: i64) -> Nd {
    let [k, n] = [weight.shape[0], weight.shape[1]];
    Nd::build(&[(n + width - 1) / width, k, width], |i| {
        let column = i[0] * width + i[2];
        if column < n { weight.at(&[i[1], column]) } else { 7.0 }
    })
}

#[test]
fn panels_make_a_product() {
    let mut rng = Rng::new(3);
    for round in 0..12 {
        let (k, n, width) = (rng.int(1, 6), rng.int(1, 9), [1, 2, 4][round % 3]);
        let x = [vec![k], vec![rng.int(0, 3), k], vec![2, rng.int(1, 3), k]][round / 3 % 3].clone();
        let (x, weight) = (Nd::random(&mut rng, &x), Nd::random(&mut rng, &[k, n]));
        let expected = call1("matmul", [x.arg(), weight.arg()], Attrs::new());
        let attrs = Attrs::new().with("weight_layout", format!("NK{width}n")).with("units", n);
        let got = call1("nn.dense_pack", [x.arg(), panels(&weight, width).arg()], attrs);
        assert_eq!(got.shape(), expected.shape(), "round {round}");
        assert_eq!(got.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap(), "round {round}");
    }
    let (x, weight) = (Nd::random(&mut rng, &[2, 3]), Nd::random(&mut rng, &[5, 3]));
    let plain = call1("nn.dense_pack", [x.arg(), weight.arg()], Attrs::new().with("weight_layout", "NK"));
    assert_eq!(plain.shape(), [2, 5]);
}

/// Small whole numbers, whose sums are exact in any order.
#[test]
fn words_make_a_product_of_bf16() {
    let mut rng = Rng::new(5);
    for [m, k, n] in [[1, 1, 3], [2, 4, 4], [3, 5, 7]] {
        let whole = |rng: &mut Rng, shape: &[i64]| Nd::build(shape, |_| rng.int(-4, 4) as f32);
        let (x, weight) = (whole(&mut rng, &[m, k]), whole(&mut rng, &[k, n]));
        let words = k.div_euclid(2) + k % 2;
        let bits = |term: i64, column: i64| {
            let value = if term < k && column < n { weight.at(&[term, column]) } else { 0.0 };
            (value.to_bits() >> 16) as i32
        };
        let of_panels = |i: i64| {
            let (panel, word, column) = (i / (words * 2), i / 2 % words, i % 2);
            let column = panel * 2 + column;
            bits(2 * word, column) | bits(2 * word + 1, column) << 16
        };
        let panels = n.div_euclid(2) + n % 2;
        let data: Vec<i32> = (0..panels * words * 2).map(of_panels).collect();
        let halves: Vec<bf16> = x.data.iter().map(|&it| bf16::from_f32(it)).collect();
        let args = [Arg::Const(tensor(&halves, &[m, k])), Arg::Const(tensor(&data, &[panels, words, 2]))];
        let attrs = Attrs::new().with("weight_layout", "NK2n").with("units", n);
        let got = call1("nn.dense_pack", args, attrs);
        let expected = call1("matmul", [x.arg(), weight.arg()], Attrs::new());
        let got: Vec<f32> = got.to_vec::<bf16>().unwrap().iter().map(|it| it.to_f32()).collect();
        assert_eq!(got, expected.to_vec::<f32>().unwrap(), "{m}x{k}x{n}");
    }
}

#[test]
fn errors() {
    let (x, weight) = (Nd::random(&mut Rng::new(2), &[2, 3]), Nd::random(&mut Rng::new(2), &[2, 4, 8]));
    let layout = |layout: &str| Attrs::new().with("weight_layout", layout);
    let scalar = Nd::random(&mut Rng::new(2), &[]);
    for (data, attrs, want) in [
        (&x, layout("NK8n"), "the last axis of `data` [2, 3] has extent 3, `weight` has 4 terms"),
        (&x, layout("NK4n"), "argument `weight` has layout `NK4n`, but 8 instead of 4"),
        (&x, layout("NK2k"), "attribute `weight_layout`: axis `K` of `NK2k` is not divided here"),
        (&x, layout("OI8o"), "attribute `weight_layout` is a layout of `NK`, got `OI8o`"),
        (&scalar, layout("NK8n"), "argument `data` has rank 1 or more, got rank 0"),
    ] {
        let err = try_call("nn.dense_pack", [data.arg(), weight.arg()], attrs).unwrap_err().to_string();
        assert!(err.contains(want), "{err}");
    }
    let x = Nd::random(&mut Rng::new(2), &[2, 4]);
    for units in [-1i64, 17] {
        let attrs = layout("NK8n").with("units", units);
        let err = try_call("nn.dense_pack", [x.arg(), weight.arg()], attrs).unwrap_err().to_string();
        assert!(err.contains(&format!("attribute `units` is 0 to 16, got {units}")), "{err}");
    }
}

#[test]
fn weights_of_four_bits() {
    let mut rng = Rng::new(8);
    for [m, k, n, width, groups] in [[1, 4, 3, 2, 1], [3, 8, 5, 4, 2], [2, 12, 4, 4, 3]] {
        let panels = (n + width - 1) / width;
        let number = |rng: &mut Rng, shape: &[i64]| Nd::build(shape, |_| rng.int(-8, 7) as f32);
        let (x, numbers) = (number(&mut rng, &[m, k]), number(&mut rng, &[k, panels * width]));
        let scale = Nd::build(&[panels, groups, width], |i| (1 + (i[0] + i[1] + i[2]) % 3) as f32 / 2.0);
        let bytes = (0..panels * k / 2 * width).map(|i| {
            let (panel, pair, column) = (i / (k / 2 * width), i / width % (k / 2), i % width);
            let half = |term: i64| numbers.at(&[term, panel * width + column]) as i8 as u8 & 0xf;
            half(2 * pair) | half(2 * pair + 1) << 4
        });
        let bytes: Vec<u8> = bytes.collect();
        let weight = Nd::build(&[k, n], |i| {
            let group = i[0] / (k / groups);
            numbers.at(i) * scale.at(&[i[1] / width, group, i[1] % width])
        });
        let expected = call1("matmul", [x.arg(), weight.arg()], Attrs::new());
        let args = [x.arg(), Arg::Const(tensor(&bytes, &[panels, k / 2, width])), scale.arg()];
        let got = call1("nn.dense_int4", args, Attrs::new().with("units", n));
        assert_eq!(got.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap(), "{m}x{k}x{n}");
    }
}

#[test]
fn errors_of_weights_of_four_bits() {
    let of = |shape: &[i64]| Nd::random(&mut Rng::new(2), shape).arg();
    let bytes = |shape: &[i64]| {
        let len = shape.iter().product::<i64>() as usize;
        Arg::Const(tensor(&vec![0u8; len], shape))
    };
    for (data, weight, scale, units, want) in [
        (of(&[2, 6]), bytes(&[1, 4, 8]), of(&[1, 2, 8]), 8i64, "has extent 6, `weight` has 8 terms"),
        (of(&[2, 8]), bytes(&[1, 4, 8]), of(&[1, 3, 8]), 8, "got 4 bytes, 3 groups"),
        (of(&[2, 8]), bytes(&[1, 4, 8]), of(&[1, 0, 8]), 8, "got 4 bytes, 0 groups"),
        (of(&[2, 8]), bytes(&[1, 4, 8]), of(&[2, 2, 8]), 8, "have the same panels and columns"),
        (of(&[2, 8]), bytes(&[1, 4, 8]), of(&[1, 2, 8]), 9, "attribute `units` is 0 to 8, got 9"),
        (of(&[2, 8]), of(&[1, 4, 8]), of(&[1, 2, 8]), 8, "argument `weight` has elements of u8, got f32"),
        (of(&[]), bytes(&[1, 4, 8]), of(&[1, 2, 8]), 8, "argument `data` has rank 1 or more, got rank 0"),
    ] {
        let attrs = Attrs::new().with("units", units);
        let err = try_call("nn.dense_int4", [data, weight, scale], attrs).unwrap_err().to_string();
        assert!(err.contains(want), "{err}");
    }
}
