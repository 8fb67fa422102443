//! Depthwise convolutions of bytes, alone and beside what surrounds them in networks: they give what sums of whole numbers give.

use tvm_core::target::Target;
use tvm_onnx::proto::{AttributeProto, ModelProto, NodeProto};
use tvm_onnx::{ImportOptions, import_proto};
use tvm_runtime::{DataType, Tensor};
use tvm_testing::Rng;

use crate::build::{Build, compiled, floats, int, ints, model, node, run, string, targets};

/// A quantised depthwise convolution.
struct Case {
    /// Extents of the data.
    data: [i64; 4],
    /// Extents of a window.
    kernel: [i64; 2],
    /// Element types of data and weights.
    dtypes: [DataType; 2],
    /// Zero point of the data.
    zero: i64,
    /// Zero points of the weights, and the exponents of their scales: one, or one for each channel.
    weight_zeros: Vec<i64>,
    exponents: Vec<i32>,
    strides: [i64; 2],
    dilations: [i64; 2],
    /// Before the rows, before the columns, after the rows, after the columns.
    pads: [i64; 4],
    auto_pad: &'static str,
    /// Channels of the result for each channel of the data.
    multiplier: i64,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            data: [1, 16, 6, 6],
            kernel: [3, 3],
            dtypes: [DataType::U8, DataType::I8],
            zero: 0,
            weight_zeros: vec![0],
            exponents: vec![-7],
            strides: [1, 1],
            dilations: [1, 1],
            pads: [1; 4],
            auto_pad: "NOTSET",
            multiplier: 1,
        }
    }
}

/// The exponent of the scale of the data.
const DATA_EXPONENT: i32 = -5;

impl Case {
    /// Extents of the weights.
    fn weights(&self) -> [i64; 4] {
        [self.data[1] * self.multiplier, 1, self.kernel[0], self.kernel[1]]
    }

    /// Before the first row or column, and the number of windows.
    fn windows(&self, axis: usize) -> (i64, i64) {
        let (extent, stride) = (self.data[2 + axis], self.strides[axis]);
        let reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1;
        let same = |upper: bool| {
            let count = (extent + stride - 1) / stride;
            let total = ((count - 1) * stride + reach - extent).max(0);
            (if upper { total / 2 } else { total - total / 2 }, count)
        };
        match self.auto_pad {
            "SAME_UPPER" => same(true),
            "SAME_LOWER" => same(false),
            "VALID" => (0, (extent - reach) / stride + 1),
            _ => {
                let (before, after) = (self.pads[axis], self.pads[2 + axis]);
                (before, (extent + before + after - reach) / stride + 1)
            }
        }
    }

    /// The sums of whole numbers, channel by channel, and their shape.
    fn sums(&self, x: &[i64], w: &[i64]) -> (Vec<i64>, [i64; 4]) {
        let [images, channels, height, width] = self.data;
        let ((top, rows), (left, columns)) = (self.windows(0), self.windows(1));
        let shape = [images, channels * self.multiplier, rows, columns];
        let mut sums = Vec::new();
        for at in 0..shape.iter().product::<i64>() {
            let (column, row) = (at % columns, at / columns % rows);
            let (out, image) = (at / columns / rows % shape[1], at / columns / rows / shape[1]);
            let zero = self.weight_zeros[out as usize % self.weight_zeros.len()];
            let mut sum = 0;
            for (y, x_of) in (0..self.kernel[0]).flat_map(|y| (0..self.kernel[1]).map(move |x| (y, x))) {
                let from_row = row * self.strides[0] + y * self.dilations[0] - top;
                let from_column = column * self.strides[1] + x_of * self.dilations[1] - left;
                if (0..height).contains(&from_row) && (0..width).contains(&from_column) {
                    let plane = image * channels + out / self.multiplier;
                    let number = x[((plane * height + from_row) * width + from_column) as usize];
                    let weight = w[((out * self.kernel[0] + y) * self.kernel[1] + x_of) as usize];
                    sum += (number - self.zero) * (weight - zero);
                }
            }
            sums.push(sum);
        }
        (sums, shape)
    }

    fn attrs(&self) -> Vec<AttributeProto> {
        let mut attrs = vec![
            int("group", self.data[1]),
            ints("strides", &self.strides),
            ints("dilations", &self.dilations),
        ];
        attrs.push(match self.auto_pad {
            "NOTSET" => ints("pads", &self.pads),
            mode => string("auto_pad", mode),
        });
        attrs
    }

    /// `Conv` between `DequantizeLinear` and `QuantizeLinear`, and one of `Conv` alone, `QLinearConv` and `ConvInteger`, which the seed
    /// chooses, give what sums of whole numbers give, for constant and symbolic extents. `reads_bytes`: the first convolves bytes.
    fn check(&self, seed: u64, reads_bytes: bool) {
        let mut rng = Rng::new(seed);
        let [x, w] = [(self.dtypes[0], self.data), (self.dtypes[1], self.weights())].map(|(dtype, shape)| {
            let (low, high) = if dtype == DataType::U8 { (0, 255) } else { (-128, 127) };
            (0..shape.iter().product()).map(|_| rng.range(low, high)).collect::<Vec<_>>()
        });
        let (sums, shape) = self.sums(&x, &w);
        let channel = |at: usize| at / (shape[2] * shape[3]) as usize % shape[1] as usize;
        let scale = |at: usize| 2f64.powi(self.exponents[channel(at) % self.exponents.len()] + DATA_EXPONENT);
        let bias: Vec<i64> = (0..shape[1]).map(|_| rng.range(-500, 500)).collect();
        let values: Vec<f64> = sums.iter().enumerate().map(|(at, sum)| *sum as f64 * scale(at)).collect();
        let bytes: Vec<f64> = (sums.iter().enumerate())
            .map(|(at, sum)| {
                let value = (sum + bias[channel(at)]) as f64 * scale(at) / 0.5;
                (value.round_ties_even() + 100.0).clamp(0.0, 255.0)
            })
            .collect();
        let data = tensor(&x, &self.data, self.dtypes[0]);
        let fixed = self.data.map(|it| it.to_string()).join(" ");
        let whole: Vec<f64> = sums.iter().map(|sum| *sum as f64).collect();
        let quantised = ("quantised", &bytes);
        let others = [("Conv", &values), ("QLinearConv", &bytes), ("ConvInteger", &whole)];
        let other = others[seed as usize % others.len()];
        let symbolic = format!("n {} h w", self.data[1]);
        let of_symbolic = if seed.is_multiple_of(2) { quantised } else { other };
        for ((form, want), extents) in [(quantised, &fixed), (other, &fixed), (of_symbolic, &symbolic)] {
            let model = self.model(form, &w, &bias, extents);
            let text = import_proto(&model, None, &ImportOptions::default()).unwrap().to_string();
            if form == "quantised" {
                assert_eq!(text.contains("out_dtype = f32"), reads_bytes, "{extents}: {text}");
            }
            for target in targets() {
                let got = run(&compiled(&model, &target).unwrap(), std::slice::from_ref(&data));
                assert_eq!(got[0].shape(), shape, "{form} of {extents} on {target}");
                assert_eq!(got[0].to_f64s().unwrap(), *want, "{form} of {extents} on {target}");
            }
        }
    }

    /// A model of the convolution in one of its forms.
    fn model(&self, form: &str, w: &[i64], bias: &[i64], extents: &str) -> ModelProto {
        let dequantise = || {
            vec![
                node("DequantizeLinear", "q s z", "x", vec![]),
                node("DequantizeLinear", "p t u", "w", vec![int("axis", 0)]),
            ]
        };
        let with = |nodes: Vec<NodeProto>| dequantise().into_iter().chain(nodes).collect();
        let attrs = self.attrs();
        let nodes = match form {
            "Conv" => with(vec![node("Conv", "x w", "y", attrs)]),
            "quantised" => with(vec![
                node("DequantizeLinear", "b v", "d", vec![int("axis", 0)]),
                node("Conv", "x w d", "c", attrs),
                node("QuantizeLinear", "c h o", "y", vec![]),
            ]),
            "QLinearConv" => vec![node("QLinearConv", "q s z p t u h o b", "y", attrs)],
            _ => vec![node("ConvInteger", "q p z u", "y", attrs)],
        };
        let vector = |values: &[i64], dtype| match values {
            [value] => tensor(&[*value], &[], dtype),
            _ => tensor(values, &[values.len() as i64], dtype),
        };
        let scales = |more: i32| -> Vec<f32> {
            self.exponents.iter().map(|exponent| 2f32.powi(exponent + more)).collect()
        };
        let per = |scales: Vec<f32>| match scales[..] {
            [scale] => Tensor::scalar(scale),
            _ => floats(&scales, &[scales.len() as i64]),
        };
        // The zero points of `DequantizeLinear` have the shape of its scales.
        let count = self.exponents.len().max(self.weight_zeros.len());
        let zeros: Vec<i64> = self.weight_zeros.iter().copied().cycle().take(count).collect();
        model(17, nodes)
            .typed("q", self.dtypes[0], extents)
            .constant("s", &Tensor::scalar(2f32.powi(DATA_EXPONENT)))
            .constant("z", &tensor(&[self.zero], &[], self.dtypes[0]))
            .constant("p", &tensor(w, &self.weights(), self.dtypes[1]))
            .constant("t", &per(scales(0).into_iter().cycle().take(count).collect()))
            .constant("u", &vector(&zeros, self.dtypes[1]))
            .constant("b", &tensor(bias, &[bias.len() as i64], DataType::I32))
            .constant("v", &per(scales(DATA_EXPONENT)))
            .constant("h", &Tensor::scalar(0.5f32))
            .constant("o", &Tensor::scalar(100u8))
            .output("y")
    }
}

fn tensor(values: &[i64], shape: &[i64], dtype: DataType) -> Tensor {
    let values: Vec<f64> = values.iter().map(|it| *it as f64).collect();
    Tensor::from_f64s(&values, shape, dtype).unwrap()
}

#[test]
fn depthwise_convolutions_of_bytes() {
    let scales = |channels: i64| (0..channels as i32).map(|channel| channel % 4 - 8).collect::<Vec<_>>();
    let zeros = |channels: i64| (0..channels).map(|channel| channel % 7 - 3).collect::<Vec<_>>();
    let cases = [
        Case::default(),
        Case { data: [2, 33, 7, 5], zero: 128, exponents: scales(33), ..Case::default() },
        Case { data: [1, 32, 14, 14], strides: [2, 2], exponents: scales(32), ..Case::default() },
        Case { data: [1, 5, 9, 8], strides: [2, 1], pads: [0, 1, 2, 3], zero: 7, ..Case::default() },
        Case { data: [1, 24, 11, 12], dilations: [2, 3], pads: [2, 3, 1, 0], zero: 255, ..Case::default() },
        Case { data: [1, 48, 8, 8], kernel: [5, 5], pads: [2; 4], exponents: scales(48), ..Case::default() },
        Case { data: [3, 17, 6, 7], kernel: [1, 1], pads: [0; 4], zero: 3, ..Case::default() },
        Case { data: [1, 16, 5, 19], kernel: [1, 7], pads: [0, 3, 0, 3], ..Case::default() },
        Case { data: [1, 20, 9, 9], auto_pad: "SAME_UPPER", zero: 5, ..Case::default() },
        Case { data: [1, 20, 8, 9], auto_pad: "SAME_LOWER", kernel: [2, 4], ..Case::default() },
        Case { data: [0, 16, 5, 5], zero: 2, ..Case::default() },
        Case { data: [1, 2, 6, 6], auto_pad: "VALID", strides: [3, 2], ..Case::default() },
        Case { dtypes: [DataType::I8, DataType::I8], zero: -128, exponents: scales(16), ..Case::default() },
        Case { dtypes: [DataType::I8, DataType::U8], weight_zeros: vec![131], ..Case::default() },
        Case {
            data: [1, 21, 7, 7],
            weight_zeros: zeros(21),
            exponents: scales(21),
            zero: 9,
            ..Case::default()
        },
    ];
    for (seed, case) in cases.iter().enumerate() {
        case.check(seed as u64, true);
    }
}

#[test]
fn other_convolutions_are_left_alone() {
    // Two channels of the result for one of the data; one channel in all.
    Case { data: [1, 6, 7, 5], multiplier: 2, zero: 3, ..Case::default() }.check(1, false);
    Case { data: [2, 1, 7, 5], ..Case::default() }.check(2, false);
}

/// Sums above 2²⁴, which floats do not count one by one: they stay in integers where the operator gives integers.
#[test]
fn large_windows_are_exact() {
    let case = Case { data: [1, 2, 33, 31], kernel: [31, 31], pads: [0; 4], ..Case::default() };
    let (x, w) = (vec![255; 2046], vec![127; 1922]);
    let (sums, shape) = case.sums(&x, &w);
    assert!(sums[0] > 1 << 24);
    let model = case.model("ConvInteger", &w, &[0, 0], "1 2 33 31");
    for target in targets() {
        let got = run(&compiled(&model, &target).unwrap(), &[tensor(&x, &case.data, DataType::U8)]);
        assert_eq!(got[0].shape(), shape);
        let want: Vec<f64> = sums.iter().map(|it| *it as f64).collect();
        assert_eq!(got[0].to_f64s().unwrap(), want, "{target}");
    }
}

/// Convolutions of bytes in blocks of channels, depthwise ones after them, and what takes the bytes after those: a residual, a pooling,
/// and a shuffle of channels joined with floats. `floats`: what is dequantised is multiplied by an input, 1, before it is convolved, so that
/// floats are.
fn network(channels: i64, zero: u8, floats: bool) -> ModelProto {
    let mut nodes = vec![];
    let mut convolved = |x: &str, w: &str, to: &str, attrs: Vec<AttributeProto>| {
        let mut data = format!("{x}_d");
        nodes.push(node("DequantizeLinear", &format!("{x} s z"), &data, vec![]));
        if floats {
            nodes.push(node("Mul", &format!("{data} one"), &format!("{to}_f"), vec![]));
            data = format!("{to}_f");
        }
        nodes.push(node("DequantizeLinear", &format!("{w} t"), &format!("{to}_w"), vec![int("axis", 0)]));
        nodes.push(node("Conv", &format!("{data} {to}_w"), &format!("{to}_c"), attrs));
        nodes.push(node("QuantizeLinear", &format!("{to}_c s z"), to, vec![]));
    };
    let depthwise =
        |strides: i64| vec![int("group", channels), ints("pads", &[1; 4]), ints("strides", &[strides; 2])];
    convolved("q", "first", "a", vec![]);
    convolved("a", "windows", "b", depthwise(1));
    convolved("b", "windows", "c", depthwise(2));
    convolved("c", "second", "d", vec![]);
    nodes.extend([
        node("DequantizeLinear", "b s z", "b_r", vec![]),
        node("DequantizeLinear", "a s z", "a_r", vec![]),
        node("Add", "a_r b_r", "sum", vec![]),
        node("QuantizeLinear", "sum s z", "residual", vec![]),
        node("AveragePool", "b_r", "mean", vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])]),
        node("DequantizeLinear", "d s z", "d_r", vec![]),
        node("Concat", "mean d_r", "joined", vec![int("axis", 1)]),
        node("Reshape", "joined halves", "apart", vec![]),
        node("Transpose", "apart", "turned", vec![ints("perm", &[0, 2, 1, 3, 4])]),
        node("Reshape", "turned whole", "shuffled", vec![]),
        node("QuantizeLinear", "shuffled s z", "y", vec![]),
    ]);
    let mut rng = Rng::new(channels as u64);
    let mut weights = |shape: &[i64], most: i64| {
        let values: Vec<i64> = (0..shape.iter().product()).map(|_| rng.range(-most, most)).collect();
        tensor(&values, shape, DataType::I8)
    };
    let longs = |values: &[i64]| tensor(values, &[values.len() as i64], DataType::I64);
    let model = model(17, nodes)
        .typed("q", DataType::U8, &format!("n {channels} 8 10"))
        .constant("s", &Tensor::scalar(0.0625f32))
        .constant("z", &Tensor::scalar(zero))
        .constant("t", &Tensor::scalar(0.015625f32))
        .constant("first", &weights(&[channels, channels, 1, 1], 15))
        .constant("windows", &weights(&[channels, 1, 3, 3], 60))
        .constant("second", &weights(&[channels, channels, 1, 1], 15))
        .constant("halves", &longs(&[-1, 2, channels, 4, 5]))
        .constant("whole", &longs(&[-1, 2 * channels, 4, 5]));
    let model = if floats { model.input("one", "") } else { model };
    model.output("residual").output("y")
}

/// Scales are powers of two and numbers small, so that floats are exact.
#[test]
fn networks_of_bytes_give_what_floats_give() {
    for (channels, zero) in [(16, 0), (24, 128), (9, 3), (40, 0)] {
        let mut rng = Rng::new(channels as u64);
        let numbers: Vec<i64> = (0..2 * channels * 80).map(|_| rng.range(0, 255)).collect();
        let data = tensor(&numbers, &[2, channels, 8, 10], DataType::U8);
        let of_floats = network(channels, zero, true);
        let text = import_proto(&of_floats, None, &ImportOptions::default()).unwrap().to_string();
        assert!(!text.contains("out_dtype"), "{text}");
        let exact = compiled(&of_floats, &Target::interpreter()).unwrap();
        let want = run(&exact, &[data.clone(), Tensor::scalar(1f32)]);
        // Not all are at a limit.
        let inside = |it: &&u8| (1..255).contains(*it);
        assert!(want.iter().all(|it| it.to_vec::<u8>().unwrap().iter().filter(inside).count() > 100));
        let of_bytes = network(channels, zero, false);
        let text = import_proto(&of_bytes, None, &ImportOptions::default()).unwrap().to_string();
        assert_eq!(text.matches("out_dtype = f32").count(), 2, "{text}");
        for target in targets() {
            let got = run(&compiled(&of_bytes, &target).unwrap(), std::slice::from_ref(&data));
            assert_eq!(got, want, "{channels} channels, zero point {zero}, on {target}");
        }
    }
}
