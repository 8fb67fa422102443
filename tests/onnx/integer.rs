//! Convolutions and products of dequantised bytes: they are computed with the bytes, and give what floats give.

use tvm_core::target::Target;
use tvm_onnx::proto::{AttributeProto, ModelProto, NodeProto};
use tvm_onnx::{ImportOptions, import_proto};
use tvm_runtime::{DataType, Tensor};
use tvm_testing::Rng;

use crate::build::{Build, assert_near, compiled, floats, int, ints, model, node, run, targets};

/// Bytes of data, of weights, and what they stand for.
struct Bytes {
    data: Tensor,
    zero: u8,
    scale: f32,
    weights: Tensor,
    weight_zero: i8,
    /// Powers of two: floats are exact then.
    scales: Vec<f32>,
    /// The axis of the weights that has the scales.
    axis: i64,
}

impl Bytes {
    fn new(seed: u64, data: &[i64], weights: &[i64], axis: i64, [zero, weight_zero]: [i64; 2]) -> Bytes {
        let mut rng = Rng::new(seed);
        let len = |shape: &[i64]| shape.iter().product::<i64>();
        let values: Vec<u8> = (0..len(data)).map(|_| rng.range(0, 255) as u8).collect();
        let given: Vec<i8> = (0..len(weights)).map(|_| rng.range(-127, 127) as i8).collect();
        let scales = (0..weights[axis as usize]).map(|_| (1 << rng.range(0, 3)) as f32 / 512.0).collect();
        Bytes {
            data: Tensor::from_slice(&values, data).unwrap(),
            zero: zero as u8,
            scale: 0.03125,
            weights: Tensor::from_slice(&given, weights).unwrap(),
            weight_zero: weight_zero as i8,
            scales,
            axis,
        }
    }

    /// A model in which `op` reads the dequantised `x` and `w`, and the same with floats.
    fn models(&self, op: NodeProto, shape: &str) -> [ModelProto; 2] {
        let nodes = vec![
            node("DequantizeLinear", "q s z", "x", vec![]),
            node("DequantizeLinear", "p t u", "w", vec![int("axis", self.axis)]),
            op.clone(),
        ];
        let zeros = vec![self.weight_zero; self.scales.len()];
        let of_bytes = model(17, nodes)
            .typed("q", DataType::U8, shape)
            .constant("s", &Tensor::scalar(self.scale))
            .constant("z", &Tensor::scalar(self.zero))
            .constant("p", &self.weights)
            .constant("t", &floats(&self.scales, &[self.scales.len() as i64]))
            .constant("u", &Tensor::from_slice(&zeros, &[zeros.len() as i64]).unwrap());
        let inner: i64 = self.weights.shape()[self.axis as usize + 1..].iter().product();
        let given = self.weights.to_vec::<i8>().unwrap();
        let weights: Vec<f32> = (given.iter().enumerate())
            .map(|(at, it)| {
                let scale = self.scales[at / inner as usize % self.scales.len()];
                (f32::from(*it) - f32::from(self.weight_zero)) * scale
            })
            .collect();
        let of_floats =
            model(17, vec![op]).input("x", shape).constant("w", &floats(&weights, self.weights.shape()));
        [of_bytes, of_floats].map(|it| it.output("y"))
    }

    /// Both models give the same; the first one multiplies bytes if `in_integers`.
    fn check(&self, op: &NodeProto, shape: &str, in_integers: bool) {
        let [of_bytes, of_floats] = self.models(op.clone(), shape);
        let text = import_proto(&of_bytes, None, &ImportOptions::default()).unwrap().to_string();
        assert_eq!(text.contains("out_dtype = i32"), in_integers, "{text}");
        let values = self.data.to_vec::<u8>().unwrap();
        let x: Vec<f32> =
            values.iter().map(|it| (f32::from(*it) - f32::from(self.zero)) * self.scale).collect();
        let x = floats(&x, self.data.shape());
        // Whose sums are exact: Winograd's algorithm is within 2·10⁻⁵ of the largest element.
        let exact = compiled(&of_floats, &Target::interpreter()).unwrap();
        let want = run(&exact, std::slice::from_ref(&x));
        for target in targets() {
            let got = run(&compiled(&of_bytes, &target).unwrap(), std::slice::from_ref(&self.data));
            assert_near(&got[0], &want[0], &format!("{shape}, {} on {target}", op.op_type));
        }
    }
}

#[test]
fn convolutions_of_bytes() {
    let conv = |attrs| node("Conv", "x w", "y", attrs);
    let pads = || ints("pads", &[1, 0, 2, 1]);
    for (at, (data, weights, zero, attrs)) in [
        ([1, 8, 7, 6], [5, 8, 3, 2], 0, vec![pads()]),
        ([2, 12, 9, 5], [16, 12, 3, 3], 3, vec![pads(), ints("strides", &[2, 1])]),
        ([1, 16, 6, 6], [33, 16, 1, 1], 255, vec![]),
        ([1, 32, 14, 14], [64, 32, 3, 3], 0, vec![ints("pads", &[1; 4])]),
        ([3, 64, 5, 8], [32, 64, 1, 1], 7, vec![ints("strides", &[2, 2])]),
        ([1, 9, 6, 6], [4, 9, 2, 2], 1, vec![ints("dilations", &[2, 2])]),
        ([1, 3, 9, 8], [33, 3, 3, 3], 5, vec![pads(), ints("strides", &[2, 2])]),
        ([1, 40, 5, 5], [24, 40, 3, 3], 9, vec![pads()]),
        ([2, 21, 4, 6], [40, 21, 1, 2], 0, vec![]),
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = Bytes::new(at as u64, &data, &weights, 0, [zero, 0]);
        let shape = data.map(|it: i64| it.to_string()).join(" ");
        bytes.check(&conv(attrs.clone()), &shape, true);
        let symbolic = format!("n {} h w", data[1]);
        bytes.check(&conv(attrs), &symbolic, true);
    }
    // Few channels, weights with a zero point, several groups.
    Bytes::new(1, &[1, 2, 6, 6], &[4, 2, 3, 3], 0, [2, 0]).check(&conv(vec![]), "1 2 6 6", false);
    Bytes::new(2, &[1, 8, 6, 6], &[4, 8, 3, 3], 0, [2, 1]).check(&conv(vec![]), "1 8 6 6", false);
    let groups = conv(vec![int("group", 2)]);
    Bytes::new(3, &[1, 16, 6, 6], &[4, 8, 3, 3], 0, [2, 0]).check(&groups, "1 16 6 6", false);
}

/// `q` dequantised, then the largest of each window, then quantised: with the bytes, and as the two ends say.
fn pooled(
    data: &Tensor,
    zero: &Tensor,
    scales: [f32; 2],
    attrs: Vec<AttributeProto>,
) -> (String, Vec<Tensor>) {
    let nodes = vec![
        node("DequantizeLinear", "q s z", "x", vec![]),
        node("MaxPool", "x", "m", attrs),
        node("QuantizeLinear", "m t z", "y", vec![]),
    ];
    let shape = data.shape().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let model = model(17, nodes)
        .typed("q", data.dtype(), &shape)
        .constant("s", &Tensor::scalar(scales[0]))
        .constant("t", &Tensor::scalar(scales[1]))
        .constant("z", zero)
        .output("y");
    let text = import_proto(&model, None, &ImportOptions::default()).unwrap().to_string();
    let result = |target| run(&compiled(&model, target).unwrap(), std::slice::from_ref(data)).swap_remove(0);
    let results = targets().iter().map(result).collect();
    (text, results)
}

#[test]
fn the_largest_of_dequantised_bytes() {
    let mut rng = Rng::new(5);
    let shape = [2i64, 3, 7, 6];
    let window =
        || vec![ints("kernel_shape", &[3, 2]), ints("pads", &[1, 0, 1, 1]), ints("strides", &[2, 1])];
    let bytes: Vec<u8> = (0..252).map(|_| rng.range(0, 255) as u8).collect();
    let signed: Vec<i8> = bytes.iter().map(|&it| it as i8).collect();
    for (data, zero) in [
        (Tensor::from_slice(&bytes, &shape).unwrap(), Tensor::scalar(131u8)),
        (Tensor::from_slice(&signed, &shape).unwrap(), Tensor::scalar(-7i8)),
    ] {
        let (text, results) = pooled(&data, &zero, [0.037, 0.037], window());
        assert!(!text.contains("round"), "{text}");
        let at = |n: i64, c: i64, y: i64, x: i64| {
            let inside = (0..7).contains(&y) && (0..6).contains(&x);
            inside.then(|| data.to_f64s().unwrap()[(((n * 3 + c) * 7 + y) * 6 + x) as usize])
        };
        for result in results {
            assert_eq!((result.dtype(), result.shape()), (data.dtype(), &[2i64, 3, 4, 6][..]));
            let got = result.to_f64s().unwrap();
            for (i, got) in got.iter().enumerate() {
                let i = i as i64;
                let (n, c, y, x) = (i / 72, i / 24 % 3, i / 6 % 4 * 2 - 1, i % 6);
                let taps = (0..6).filter_map(|k| at(n, c, y + k / 2, x + k % 2));
                assert_eq!(*got, taps.fold(f64::MIN, f64::max), "{n} {c} {y} {x}");
            }
        }
        // Another scale after the pooling, and windows that may lie in the padding.
        assert!(pooled(&data, &zero, [0.037, 0.05], window()).0.contains("round"));
        let holes = vec![ints("kernel_shape", &[2, 2]), ints("dilations", &[2, 2])];
        assert!(pooled(&data, &zero, [0.037, 0.037], holes).0.contains("round"));
    }
}

#[test]
fn products_of_bytes() {
    let matmul = node("MatMul", "x w", "y", vec![]);
    let gemm = |swapped| node("Gemm", "x w", "y", vec![int("transB", swapped)]);
    for (at, (data, weights, zero)) in [
        (vec![5, 16], [16, 24], 0),
        (vec![40, 9], [9, 33], 17),
        (vec![2, 3, 70], [70, 16], 128),
        (vec![1, 64], [64, 100], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = Bytes::new(at as u64, &data, &weights, 1, [zero, 0]);
        let dims: Vec<String> = data.iter().map(ToString::to_string).collect();
        bytes.check(&matmul, &dims.join(" "), true);
        bytes.check(&matmul, &[&["m".to_string()], &dims[1..]].concat().join(" "), true);
        if data.len() == 2 {
            bytes.check(&gemm(0), &dims.join(" "), true);
            let swapped = Bytes::new(at as u64, &data, &[weights[1], weights[0]], 0, [zero, 0]);
            swapped.check(&gemm(1), &dims.join(" "), true);
        }
    }
    // Scales along the terms are no scales of the result.
    Bytes::new(7, &[4, 16], &[16, 8], 0, [1, 0]).check(&matmul, "4 16", false);
}

/// `QLinearConv` of bytes is `QuantizeLinear` of their convolution, but for one step where that is between two.
#[test]
fn quantised_results() {
    let bytes = Bytes::new(5, &[1, 8, 7, 7], &[12, 8, 3, 3], 0, [9, 0]);
    let [_, of_floats] = bytes.models(node("Conv", "x w", "y", vec![ints("pads", &[1; 4])]), "1 8 7 7");
    let zeros = vec![0i8; 12];
    let quantised = model(17, vec![node("QLinearConv", "q s z p t u a b", "y", vec![ints("pads", &[1; 4])])])
        .typed("q", DataType::U8, "1 8 7 7")
        .constant("s", &Tensor::scalar(bytes.scale))
        .constant("z", &Tensor::scalar(bytes.zero))
        .constant("p", &bytes.weights)
        .constant("t", &floats(&bytes.scales, &[12]))
        .constant("u", &Tensor::from_slice(&zeros, &[12]).unwrap())
        .constant("a", &Tensor::scalar(0.5f32))
        .constant("b", &Tensor::scalar(100u8))
        .output("y");
    let text = import_proto(&quantised, None, &ImportOptions::default()).unwrap().to_string();
    assert!(text.contains("out_dtype = i32"), "{text}");
    let values = bytes.data.to_vec::<u8>().unwrap();
    let x: Vec<f32> =
        values.iter().map(|it| (f32::from(*it) - f32::from(bytes.zero)) * bytes.scale).collect();
    for target in targets() {
        let want = run(&compiled(&of_floats, &target).unwrap(), &[floats(&x, &[1, 8, 7, 7])]);
        let got = run(&compiled(&quantised, &target).unwrap(), std::slice::from_ref(&bytes.data));
        let got = got[0].to_vec::<u8>().unwrap();
        for (got, want) in got.into_iter().zip(want[0].to_vec::<f32>().unwrap()) {
            let exact = (want / 0.5 + 100.0).clamp(0.0, 255.0);
            assert!((f32::from(got) - exact).abs() <= 0.51, "{got}, {exact} on {target}");
        }
    }
}
