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

    /// How many tiles its kernel has in shared memory.
    fn tiles(&self) -> usize {
        if self.window == [1, 1] { IN_STAGES } else { OF_WINDOWS }
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
            skip_padding: false,
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
        let weight: Vec<PrimExpr> = self.layouts[1].chars().map(of_weight).map(PrimExpr::index).collect();
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

/// The tiles of a kernel in shared memory: those of windows have one stage, others two.
const OF_WINDOWS: usize = 2;
const IN_STAGES: usize = 4;

/// Checks that the rule takes all of `func`, in one kernel with `tiles`, and what this computes.
fn one_kernel(func: &PrimFunc, dims: &[&[i64]], tiles: usize) {
    assert_eq!(rules(func), ["conv"], "{}", schedule_for_gpu(func, GpuArch::DEFAULT.limits()).unwrap().0);
    for dims in dims {
        let kernels = check(func, dims);
        let [kernel] = &kernels[..] else { unreachable!("there is one kernel: {kernels:?}") };
        assert_eq!(kernel.shared.len(), tiles, "{kernels:?}");
    }
}

#[test]
fn convolutions_are_products() {
    let small = Conv::new([4, 33], [7, 9], [3, 3]);
    let cases = [
        Conv {
            stride: 2,
            pad: 3,
            window: [7, 7],
            channels: [1, 33],
            image: [13, 11].map(PrimExpr::index),
            ..small.clone()
        },
        Conv {
            window: [1, 1],
            channels: [32, 40],
            image: [12, 12].map(PrimExpr::index),
            stride: 2,
            batch: 3.into(),
            ..small.clone()
        },
        Conv { window: [1, 3], channels: [12, 33], dilation: 2, ..small.clone() },
        Conv { groups: 2, channels: [8, 66], pad: 1, ..small.clone() },
        Conv { layouts: ["NHWC", "HWIO"], pad: 1, ..small.clone() },
    ];
    one_kernel(&small.func(), &[&[]], OF_WINDOWS);
    for conv in cases {
        one_kernel(&conv.with_epilogue(), &[&[]], conv.tiles());
    }
}

#[test]
fn batches_of_any_size_are_products() {
    let batch = || PrimExpr::from(Var::index("n"));
    let small = Conv { batch: batch(), pad: 1, ..Conv::new([4, 33], [5, 6], [3, 3]) };
    let cases = [
        Conv { stride: 2, image: [9, 10].map(PrimExpr::index), ..small.clone() },
        Conv { window: [1, 1], channels: [32, 40], pad: 0, ..small.clone() },
        Conv { layouts: ["NHWC", "HWIO"], ..small.clone() },
    ];
    one_kernel(&small.func(), &[&[2]], OF_WINDOWS);
    for conv in cases {
        one_kernel(&conv.with_epilogue(), &[&[1], &[0]], conv.tiles());
    }
}

/// Each row of an image is a product, or its rows together if they have a known length.
#[test]
fn images_of_any_size_are_products() {
    let [n, h, w] = ["n", "h", "w"].map(|name| PrimExpr::from(Var::index(name)));
    let small = Conv { pad: 1, image: [h.clone(), w.clone()], ..Conv::new([4, 33], [7, 9], [3, 3]) };
    // That each window is inside of the padded image is not proved for strides: a kernel of its own pads it.
    let strided = Conv { stride: 2, ..small.clone() }.with_epilogue();
    assert_eq!(rules(&strided), ["conv", "fallback"]);
    check(&strided, &[6, 5]);
    let cases = [
        Conv { window: [1, 1], channels: [32, 40], pad: 0, ..small.clone() },
        Conv { layouts: ["NHWC", "HWIO"], ..small.clone() },
        Conv { groups: 2, channels: [8, 66], ..small.clone() },
    ];
    one_kernel(&small.func(), &[&[7, 9], &[1, 1], &[40, 3], &[2, 70]], OF_WINDOWS);
    for conv in cases {
        one_kernel(&conv.with_epilogue(), &[&[6, 5], &[3, 66]], conv.tiles());
    }
    let rows = Conv { image: [h, 9.into()], ..small.clone() };
    one_kernel(&rows.with_epilogue(), &[&[7], &[1]], OF_WINDOWS);
    let batch = Conv { batch: n, ..small };
    one_kernel(&batch.with_epilogue(), &[&[2, 7, 9], &[0, 4, 4], &[3, 1, 65]], OF_WINDOWS);
}

/// What is no product of large enough matrices of known form stays as it is.
#[test]
fn other_convolutions_stay() {
    let small = Conv { pad: 1, ..Conv::new([4, 33], [7, 9], [3, 3]) };
    let cases = [
        // Depthwise: no rows.
        Conv { channels: [36, 36], groups: 36, ..small.clone() },
        // Too few channels, terms, or pixels.
        Conv { channels: [4, 8], ..small.clone() },
        Conv { channels: [3, 33], ..small.clone() },
        Conv { image: [5, 5].map(PrimExpr::index), ..small.clone() },
        Conv { channels: [8, 32], groups: 2, ..small.clone() },
    ];
    for conv in cases {
        let func = conv.func();
        assert!(!rules(&func).contains(&"conv"), "{func}");
    }
}

/// Products of several axes that are no windows.
#[test]
fn products_of_several_axes_are_products() {
    let int = PrimExpr::index;
    let layer = |lead: [PrimExpr; 2]| {
        let x = te::placeholder("x", [lead[0].clone(), lead[1].clone(), int(37)], DataType::I64);
        let w = te::placeholder("w", [int(37), int(40)], DataType::I64);
        let r = te::reduce_axis("r", int(37));
        let y =
            te::compute("y", [lead[0].clone(), lead[1].clone(), int(40)], &[&x, &w], |i: &[PrimExpr]| {
                te::sum(x.at([i[0].clone(), i[1].clone(), r.expr()]) * w.at([r.expr(), i[2].clone()]), &[&r])
            });
        te::create_prim_func("layer", &[x, w], &[y]).unwrap()
    };
    one_kernel(&layer([3, 17].map(int)), &[&[]], IN_STAGES);
    one_kernel(&layer([Var::index("n").into(), 17.into()]), &[&[2], &[0]], IN_STAGES);
    // A convolution along one axis.
    let x = te::placeholder("x", [int(2), int(12), int(40)], DataType::I64);
    let w = te::placeholder("w", [int(33), int(12), int(5)], DataType::I64);
    let params = ConvParams {
        strides: vec![1],
        pad_before: vec![2],
        pad_after: vec![1],
        dilation: vec![1],
        groups: 1,
        skip_padding: false,
    };
    let [data, kernel] = ["NCW", "OIW"].map(|it| it.parse().unwrap());
    let layouts = ConvLayouts { letters: "NCW".into(), out: Clone::clone(&data), data, kernel };
    let y = topi::conv("conv1d", &x, &w, &params, &layouts, &[2, 33, 39].map(int), DataType::I64);
    one_kernel(&te::create_prim_func("conv1d", &[x, w], &[y]).unwrap(), &[&[]], OF_WINDOWS);
}
