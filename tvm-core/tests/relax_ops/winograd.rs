//! Convolutions by Winograd's algorithm: the parts together, and the whole in one program, compute what `nn.conv2d` computes.

use tvm_core::ir::Attrs;
use tvm_core::topi::Winograd;

use crate::support::{Nd, Rng, call1, ints, shape, try_call};

/// The weights (out, in, 3, 3), transformed, in blocks of 2 inputs and 4 outputs.
fn transformed(winograd: &Winograd, weight: &Nd) -> Nd {
    let [outputs, inputs] = [weight.shape[0], weight.shape[1]];
    let size = winograd.size();
    Nd::build(&[size, size, outputs / 4, inputs / 2, 2, 4], |i| {
        let (o, c) = (i[2] * 4 + i[5], i[3] * 2 + i[4]);
        let mut window = [0f64; 9];
        window.iter_mut().enumerate().for_each(|(k, it)| {
            *it = f64::from(weight.at(&[o, c, k as i64 / 3, k as i64 % 3]));
        });
        winograd.weights(window)[(i[0] * size + i[1]) as usize] as f32
    })
}

#[test]
fn parts_and_the_whole_make_a_convolution() {
    let mut rng = Rng::new(1);
    for round in 0..16 {
        let winograd = Winograd::ALL[round % 2];
        let (batch, height, width) = (1 + round as i64 % 3, rng.int(3, 9), rng.int(3, 9));
        let x = Nd::random(&mut rng, &[batch, 3, height, width, 2]);
        let weight = Nd::random(&mut rng, &[8, 6, 3, 3]);
        let pads = [ints(&[1, 1, 1, 1]), ints(&[0, 0, 0, 0]), ints(&[2, 0, 1, 1])][round % 3].clone();
        let (top, left, bottom, right) = [(1, 1, 1, 1), (0, 0, 0, 0), (2, 0, 1, 1)][round % 3];
        let layouts = Attrs::new().with("data_layout", "NCHW2c").with("out_layout", "NCHW4c");
        let attrs = layouts.with("padding", pads.clone());
        let direct = call1("nn.conv2d", [x.arg(), weight.arg()], attrs);
        let expected = Nd { shape: direct.shape().to_vec(), data: direct.to_vec().unwrap() };

        let as_nd =
            |got: tvm_runtime::Tensor| Nd { shape: got.shape().to_vec(), data: got.to_vec().unwrap() };
        let tile = Attrs::new().with("tile", winograd.tile);
        let padded = tile.clone().with("padding", pads);
        let data = as_nd(call1("nn.winograd_data", [x.arg()], padded.clone()));
        let tiles = data.shape[3..6].to_vec();
        let rows = [&data.shape[..3], &[tiles.iter().product()], &data.shape[6..]].concat();
        let data = Nd { shape: rows, ..data };
        let kernel = transformed(&winograd, &weight);
        let products = as_nd(call1("nn.winograd_product", [data.arg(), kernel.arg()], Attrs::new()));
        let size = shape(&[height + top + bottom - 2, width + left + right - 2]);
        let products =
            Nd { shape: [&products.shape[..3], &tiles, &products.shape[4..]].concat(), ..products };
        let parts = call1("nn.winograd_result", [products.arg(), size], tile);
        let conv = |attrs| call1("nn.winograd_conv2d", [x.arg(), kernel.arg()], attrs);
        let (whole, of_parts) = (conv(padded.clone()), conv(padded.with("columns", 2i64)));
        let largest = expected.data.iter().fold(0f32, |most, it| most.max(it.abs()));
        for (form, got) in [("three programs", parts), ("one program", whole), ("parts of rows", of_parts)] {
            assert_eq!(got.shape(), expected.shape, "{form}");
            for (got, expected) in got.to_vec::<f32>().unwrap().iter().zip(&expected.data) {
                let error = (got - expected).abs();
                assert!(error <= 2e-5 * largest, "round {round}, {form}: {got} instead of {expected}");
            }
        }
    }
}

#[test]
fn errors() {
    let x = Nd::random(&mut Rng::new(2), &[1, 1, 2, 4, 2]);
    let weight = Nd::random(&mut Rng::new(2), &[1, 1, 3, 3, 2, 4]);
    let kernel = Nd::random(&mut Rng::new(2), &[4, 4, 1, 2, 2, 4]);
    let products = Nd::random(&mut Rng::new(2), &[4, 4, 1, 1, 2, 2, 2]);
    for (op, args, attrs, want) in [
        (
            "nn.winograd_data",
            vec![x.arg()],
            Attrs::new().with("tile", 3i64),
            "attribute `tile` is 2 or 4, got 3",
        ),
        (
            "nn.winograd_product",
            vec![x.arg(), weight.arg()],
            Attrs::new(),
            "axis 2 of the data is 2, axis 3 of the weight 3",
        ),
        (
            "nn.winograd_conv2d",
            vec![x.arg(), weight.arg()],
            Attrs::new().with("tile", 2i64),
            "weights of tiles of 4×4, got an extent of 1",
        ),
        (
            "nn.winograd_conv2d",
            vec![x.arg(), kernel.arg()],
            Attrs::new().with("tile", 2i64).with("padding", 1i64),
            "axis 1 of the data is 1, axis 3 of the weight 2",
        ),
        (
            "nn.winograd_conv2d",
            vec![x.arg(), kernel.arg()],
            Attrs::new().with("tile", 2i64).with("columns", -1i64),
            "attribute `columns` is 0 to 1024, got -1",
        ),
        (
            "nn.winograd_result",
            vec![products.arg(), shape(&[4, 6])],
            Attrs::new().with("tile", 2i64),
            "an extent of 6 has 3 tiles, got 2",
        ),
        (
            "nn.winograd_result",
            vec![products.arg(), shape(&[1, 4, 4])],
            Attrs::new().with("tile", 2i64),
            "the size is height and width, got 3 values",
        ),
    ] {
        let err = try_call(op, args, attrs).unwrap_err().to_string();
        assert!(err.contains(want), "{op}: {err}");
    }
}
