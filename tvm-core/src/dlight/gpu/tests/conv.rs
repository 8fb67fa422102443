//! Convolutions as products of matrices.

use super::*;
use crate::te::TensorExpr;
use crate::topi::{self, ConvLayouts, ConvParams};

/// A convolution of images, in `i64`.
#[derive(Clone)]
struct Conv {
    batch: PrimExpr,
    channels: [i64; 2],
    image: [PrimExpr; 2],
    window: [i64; 2],
    stride: i64,
    pad: i64,
    dilation: i64,
    groups: i64,
    /// The letters of the axes of data and result, and of the weights.
    layouts: [&'static str; 2],
}

impl Conv {
    fn new(channels: [i64; 2], image: [i64; 2], window: [i64; 2]) -> Conv {
        Conv {
            batch: 1.into(),
            channels,
            image: image.map(PrimExpr::index),
            window,
            stride: 1,
            pad: 0,
            dilation: 1,
            groups: 1,
            layouts: ["NCHW", "OIHW"],
        }
    }

    /// The operands and the result.
    fn tensors(&self) -> [TensorExpr; 3] {
        let [inputs, outputs] = self.channels;
        let params = ConvParams {
            strides: vec![self.stride; 2],
            pad_before: vec![self.pad; 2],
            pad_after: vec![self.pad; 2],
            dilation: vec![self.dilation; 2],
            groups: self.groups,
        };
        let extent = |axis: usize| {
            let reach = (self.window[axis] - 1) * self.dilation + 1;
            match self.image[axis].as_int() {
                Some(extent) => PrimExpr::index((extent + 2 * self.pad - reach) / self.stride + 1),
                None => (self.image[axis].clone() + (2 * self.pad - reach)).floordiv(self.stride) + 1i64,
            }
        };
        let shape = |channels: i64, [h, w]: [PrimExpr; 2]| -> Vec<PrimExpr> {
            let channels = PrimExpr::index(channels);
            let of = |letter| match letter {
                'N' => self.batch.clone(),
                'C' => channels.clone(),
                'H' => h.clone(),
                _ => w.clone(),
            };
            self.layouts[0].chars().map(of).collect()
        };
        let [kh, kw] = self.window;
        let of_weight = |letter| match letter {
            'O' => outputs,
            'I' => inputs / self.groups,
            'H' => kh,
            _ => kw,
        };
        let weight: Vec<PrimExpr> =
            self.layouts[1].chars().map(of_weight).map(PrimExpr::index).collect();
        let x = te::placeholder("x", shape(inputs, self.image.clone()), DataType::I64);
        let weight = te::placeholder("weight", weight, DataType::I64);
        let [data, kernel] = self.layouts.map(|it| it.parse().unwrap());
        let layouts = ConvLayouts { letters: "NCHW".into(), out: Clone::clone(&data), data, kernel };
        let out = shape(outputs, [extent(0), extent(1)]);
        let y = topi::conv("conv2d", &x, &weight, &params, &layouts, &out, DataType::I64);
        [x, weight, y]
    }

    fn func(&self) -> PrimFunc {
        let [x, weight, y] = self.tensors();
        te::create_prim_func("conv", &[x, weight], &[y]).unwrap()
    }

    /// With a bias of each channel, a residual and not less than 0.
    fn with_epilogue(&self) -> PrimFunc {
        let [x, weight, y] = self.tensors();
        let channel = self.layouts[0].find('C').unwrap();
        let bias = te::placeholder("bias", [PrimExpr::index(self.channels[1])], DataType::I64);
        let more = te::placeholder("more", y.shape().to_vec(), DataType::I64);
        let sum = te::compute("sum", y.shape().to_vec(), &[&y, &bias], |i: &[PrimExpr]| {
            y.at(i.to_vec()) + bias.at([i[channel].clone()])
        });
        let out = te::compute("out", y.shape().to_vec(), &[&sum, &more], |i: &[PrimExpr]| {
            (sum.at(i.to_vec()) + more.at(i.to_vec())).max(PrimExpr::int(0, DataType::I64))
        });
        te::create_prim_func("conv", &[x, weight, bias, more], &[out]).unwrap()
    }
}

/// Checks that the rule takes all of `func`, in one kernel, and what this computes.
fn one_kernel(func: &PrimFunc, dims: &[&[i64]]) {
    assert_eq!(rules(func), ["conv"], "{}", schedule_for_gpu(func, GpuArch::DEFAULT.limits()).unwrap().0);
    for dims in dims {
        let kernels = check(func, dims);
        let [kernel] = &kernels[..] else { unreachable!("there is one kernel: {kernels:?}") };
        assert_eq!(kernel.shared.len(), 2, "{kernels:?}");
    }
}

#[test]
fn convolutions_are_products() {
    let small = Conv::new([4, 33], [7, 9], [3, 3]);
    let cases = [
        Conv { pad: 1, ..small.clone() },
        Conv { batch: 2.into(), ..small.clone() },
        Conv { dilation: 2, pad: 2, ..small.clone() },
        Conv { stride: 2, pad: 3, window: [7, 7], image: [13, 11].map(PrimExpr::index), ..small.clone() },
        Conv { window: [1, 1], channels: [37, 40], ..small.clone() },
        Conv { window: [1, 1], channels: [37, 40], image: [12, 12].map(PrimExpr::index), stride: 2, batch: 3.into(), ..small.clone() },
        Conv { window: [1, 3], channels: [12, 33], ..small.clone() },
        Conv { groups: 2, channels: [8, 66], pad: 1, ..small.clone() },
        Conv { layouts: ["NHWC", "HWIO"], pad: 1, ..small.clone() },
    ];
    for conv in cases {
        one_kernel(&conv.func(), &[&[]]);
        one_kernel(&conv.with_epilogue(), &[&[]]);
    }
}
