//! Depthwise convolutions of bytes, alone and beside what surrounds them in networks: they give what sums of whole numbers give.

use tvm_core::target::Target;
use tvm_onnx::proto::{AttributeProto, NodeProto};
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

    fn numbers(&self, rng: &mut Rng, dtype: DataType, shape: &[i64]) -> Vec<i64> {
        let (low, high) = if dtype == DataType::U8 { (0, 255) } else { (-128, 127) };
        (0..shape.iter().product()).map(|_| rng.range(low, high)).collect()
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

    /// `Conv` of what is dequantised, that quantised, `QLinearConv` and `ConvInteger` give what whole numbers give, on all
    /// executors, for constant and symbolic extents. `reads_bytes`: the first one convolves bytes.
    fn check(&self, seed: u64, reads_bytes: bool) {
        let mut rng = Rng::new(seed);
        let (x, w) = (
            self.numbers(&mut rng, self.dtypes[0], &self.data),
            self.numbers(&mut rng, self.dtypes[1], &self.weights()),
        );
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
        for extents in [fixed, format!("n {} h w", self.data[1])] {
            let given = [
                ("Conv", values.clone(), true),
                ("quantised", bytes.clone(), true),
                ("QLinearConv", bytes.clone(), false),
                ("ConvInteger", sums.iter().map(|it| *it as f64).collect(), false),
            ];
            for (form, want, is_conv) in given {
                let model = self.model(form, &w, &bias, &extents);
                let text = import_proto(&model, None, &ImportOptions::default()).unwrap().to_string();
                if is_conv {
                    let mixed = text.contains("out_dtype = f32");
                    assert_eq!(mixed, reads_bytes, "{form}, {extents}: {text}");
                }
                for target in targets() {
                    let got = run(&compiled(&model, &target).unwrap(), std::slice::from_ref(&data));
                    assert_eq!(got[0].shape(), shape, "{form} of {extents} on {target}");
                    assert_eq!(got[0].to_f64s().unwrap(), want, "{form} of {extents} on {target}");
                }
            }
        }
    }

    /// A model of the convolution in one of its forms.
    fn model(&self, form: &str, w: &[i64], bias: &[i64], extents: &str) -> tvm_onnx::proto::ModelProto {
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
        Case { data: [1, 2, 6, 6], auto_pad: "VALID", strides: [3, 2], ..Case::default() },
        Case { dtypes: [DataType::I8, DataType::I8], zero: -128, exponents: scales(16), ..Case::default() },
        Case { dtypes: [DataType::I8, DataType::U8], weight_zeros: vec![131], ..Case::default() },
        Case { data: [1, 21, 7, 7], weight_zeros: zeros(21), exponents: scales(21), zero: 9, ..Case::default() },
    ];
    for (seed, case) in cases.iter().enumerate() {
        case.check(seed as u64, true);
    }
}

#[test]
fn other_convolutions_are_left_alone() {
    // Two channels of the result for one of the data; one channel in all; sums beyond what f32 counts.
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
