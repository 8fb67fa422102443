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
