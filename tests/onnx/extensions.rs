//! Operators of the domains beside the standard one, with results that onnxruntime computed.

use tvm_core::target::Target;
use tvm_onnx::ImportOptions;
use tvm_onnx::proto::{AttributeProto, ModelProto};
use tvm_runtime::Tensor;

use crate::build::{
    Build, assert_near, compiled, float, floats, int, ints, model, node, refusal, run, string, targets,
};

const MICROSOFT: &str = "com.microsoft";

/// A model of one node with the given inputs as variables; `_` in `inputs` marks an omitted one.
pub(crate) fn build(
    domain: &str,
    op: &str,
    inputs: &str,
    attrs: Vec<AttributeProto>,
    args: &[Tensor],
    outputs: &str,
) -> ModelProto {
    let mut node = node(op, inputs, outputs, attrs);
    node.domain = domain.into();
    let mut model = model(17, vec![node]);
    for (i, arg) in args.iter().enumerate() {
        let shape: Vec<String> = arg.shape().iter().map(i64::to_string).collect();
        model = model.typed(&format!("i{i}"), arg.dtype(), &shape.join(" "));
    }
    outputs.split_whitespace().filter(|it| *it != "_").fold(model, |model, name| model.output(name))
}

/// Compares the outputs of one node with the wanted tensors.
pub(crate) fn check(
    domain: &str,
    (op, inputs): (&str, &str),
    attrs: Vec<AttributeProto>,
    args: &[Tensor],
    want: &[Tensor],
) {
    let outputs: Vec<String> = (0..want.len()).map(|i| format!("o{i}")).collect();
    let model = build(domain, op, inputs, attrs, args, &outputs.join(" "));
    let vm = compiled(&model, &Target::interpreter()).unwrap_or_else(|err| panic!("{op}: {err}"));
    for (got, want) in run(&vm, args).iter().zip(want) {
        assert_near(got, want, op);
    }
}

fn bytes(values: &[u8], shape: &[i64]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

fn ramp() -> Tensor {
    floats(&[-2.0, -0.5, 0.0, 3.0], &[2, 2])
}

#[test]
fn fused_activations() {
    let (x, bias) = (ramp(), floats(&[0.5, -1.0], &[2]));
    let cases = [
        ("Gelu", "i0", None, [-0.045_500_28, -0.154_268_77, 0.0, 2.995_950_2]),
        ("FastGelu", "i0 i1", None, [-0.100_428_43, -0.100_428_43, 0.345_714, 1.954_597_7]),
        ("FastGelu", "i0", None, [-0.045_402_348, -0.154_286, 0.0, 2.996_362_7]),
        ("QuickGelu", "i0", None, [-0.064_341_37, -0.149_611_58, 0.0, 2.981_928_8]),
        ("QuickGelu", "i0", Some(1.0), [-0.238_405_82, -0.188_770_35, 0.0, 2.857_722_3]),
        ("BiasGelu", "i0 i1", None, [-0.100_210_816, -0.100_210_816, 0.345_731_23, 1.954_499_7]),
    ];
    for (op, inputs, alpha, want) in cases {
        let args = [x.clone(), bias.clone()];
        let attrs = alpha.map(|it| float("alpha", it)).into_iter().collect();
        let n = inputs.split(' ').count();
        check(MICROSOFT, (op, inputs), attrs, &args[..n], &[floats(&want, &[2, 2])]);
    }
}

#[test]
fn fused_products() {
    let (x, bias) = (ramp(), floats(&[0.5, -1.0], &[2]));
    let cube = floats(&[-2.0, -0.5, 0.0, 3.0, 1.0, 2.0, 3.0, 4.0], &[2, 2, 2]);
    let two = [x.clone(), x.clone()];
    let want = floats(&[2.125, -0.75, -0.75, 4.5], &[2, 2]);
    let attrs = vec![int("transB", 1), float("alpha", 0.5)];
    check(MICROSOFT, ("FusedMatMul", "i0 i1"), attrs, &two, &[want]);
    let two = [cube.clone(), cube];
    let want = floats(&[8.0, 2.0, 2.0, 18.5, 20.0, 28.0, 28.0, 40.0], &[2, 2, 2]);
    let attrs = vec![int("transA", 1), float("alpha", 2.0)];
    check(MICROSOFT, ("FusedMatMul", "i0 i1"), attrs, &two, &[want]);
    let want = floats(&[4.0, -0.5, -2.0, 5.5, 9.0, 12.0, 15.0, 22.0], &[2, 2, 2]);
    check(MICROSOFT, ("FusedMatMul", "i0 i1"), vec![int("transBatchA", 1)], &two, &[want]);
    let three = [x.clone(), x, bias];
    let attrs = vec![string("activation", "LeakyRelu"), float("activation_alpha", 0.1), int("transB", 1)];
    let want = floats(&[4.75, -0.25, -0.1, 8.0], &[2, 2]);
    check(MICROSOFT, ("FusedGemm", "i0 i1 i2"), attrs, &three, &[want]);
    let image = floats(&[-1.0, 2.0, 3.0, 4.0], &[1, 1, 2, 2]);
    let args = [image, floats(&[1.0, -1.0], &[2, 1, 1, 1]), floats(&[0.5, 0.25], &[2])];
    let want = floats(&[0.0, 2.5, 3.5, 4.5, 1.25, 0.0, 0.0, 0.0], &[1, 2, 2, 2]);
    check(MICROSOFT, ("FusedConv", "i0 i1 i2"), vec![string("activation", "Relu")], &args, &[want]);
}

#[test]
fn skip_normalisations() {
    let x = floats(&[-2.0, -0.5, 0.0, 3.0], &[1, 2, 2]);
    let skip = floats(&[1.0, 1.0, 2.0, -1.0], &[1, 2, 2]);
    let (gamma, bias) = (floats(&[1.0, 2.0], &[2]), floats(&[0.5, -1.0], &[2]));
    let attrs = || vec![float("epsilon", 0.1)];
    let args = [x.clone(), skip.clone(), gamma.clone(), bias.clone(), bias.clone()];
    let column = |a: f32, b: f32| floats(&[a, b], &[1, 2, 1]);
    let sum = floats(&[-0.5, -0.5, 2.5, 1.0], &[1, 2, 2]);
    let res = floats(&[0.5, -1.0, 1.421_442_6, -2.842_885_3], &[1, 2, 2]);
    let want = [res.clone(), column(-0.5, 1.75), column(3.162_277_7, 1.228_590_1), sum.clone()];
    check(MICROSOFT, ("SkipLayerNormalization", "i0 i1 i2 i3 i4"), attrs(), &args, &want);
    check(MICROSOFT, ("SkipLayerNormalization", "i0 i1 i2 i3 i4"), attrs(), &args, &[res]);
    let want = [floats(&[-0.921_442_6, 1.842_885_3, 0.0, 0.0], &[1, 2, 2])];
    check(MICROSOFT, ("SkipLayerNormalization", "i0 i1 i2"), attrs(), &args[..3], &want);
    let res = floats(&[-0.845_154_2, -1.690_308_5, 1.295_319_4, 1.036_255_5], &[1, 2, 2]);
    let want = [res, column(0.0, 0.0), column(1.690_308_5, 0.518_127_74), sum];
    check(MICROSOFT, ("SkipSimplifiedLayerNormalization", "i0 i1 i2 i3"), attrs(), &args[..4], &want);
    let want = [floats(&[-1.340_803_1, -0.670_401_6, 0.0, 2.797_514_4], &[2, 2])];
    check("", ("SimplifiedLayerNormalization", "i0 i1"), attrs(), &[ramp(), gamma], &want);
}

#[test]
fn quantised_operators() {
    let x = || bytes(&[0, 100, 200, 255], &[2, 2]);
    let (number, zero) = (|it: f32| floats(&[it], &[1]), |it: u8| bytes(&[it], &[1]));
    let row = bytes(&[10, 20], &[2]);
    let args = [x(), number(0.1), zero(128), row, number(0.2), zero(5), number(0.25), zero(100)];
    let inputs = "i0 i1 i2 i3 i4 i5 i6 i7";
    check(MICROSOFT, ("QLinearAdd", inputs), vec![], &args, &[bytes(&[53, 101, 133, 163], &[2, 2])]);
    check(MICROSOFT, ("QLinearMul", inputs), vec![], &args, &[bytes(&[49, 66, 129, 252], &[2, 2])]);
    let inputs = "i0 i1 i2 i3 i4";
    let args = [x(), number(0.02), zero(128), number(0.003_906_25), zero(0)];
    check(MICROSOFT, ("QLinearSigmoid", inputs), vec![], &args, &[bytes(&[18, 93, 207, 237], &[2, 2])]);
    let args = [x(), number(0.1), zero(128), number(0.2), zero(50)];
    let attrs = vec![float("alpha", 0.1)];
    check(MICROSOFT, ("QLinearLeakyRelu", inputs), attrs, &args, &[bytes(&[44, 49, 86, 114], &[2, 2])]);
    let image = bytes(&[0, 100, 200, 255], &[1, 1, 2, 2]);
    let args = [image, number(0.1), zero(128), number(0.2), zero(50)];
    let want = [bytes(&[55], &[1, 1, 1, 1])];
    check(MICROSOFT, ("QLinearGlobalAveragePool", inputs), vec![], &args, &want);
    check(MICROSOFT, ("QLinearAveragePool", inputs), vec![ints("kernel_shape", &[2, 2])], &args, &want);
    let args = [number(0.2), zero(50), x(), number(0.1), zero(128), x(), number(0.4), zero(0)];
    let want = [bytes(&[0, 36, 50, 250, 86, 114, 255, 255], &[2, 4])];
    check(MICROSOFT, ("QLinearConcat", "i0 i1 i2 i3 i4 i5 i6 i7"), vec![int("axis", 1)], &args, &want);
}

#[test]
fn products_of_integers() {
    let x = || bytes(&[0, 100, 200, 255], &[2, 2]);
    let (number, zero) = (|it: f32| floats(&[it], &[1]), |it: u8| bytes(&[it], &[1]));
    let bias = || floats(&[0.5, -1.0], &[2]);
    let args = [x(), x(), number(0.1), floats(&[0.2, 0.3], &[2]), zero(128), zero(3), bias()];
    let want = [floats(&[-102.14, -585.16, 496.56, 1168.64], &[2, 2])];
    check(MICROSOFT, ("MatMulIntegerToFloat", "i0 i1 i2 i3 i4 i5 i6"), vec![], &args, &want);
    let args = [ramp(), x(), number(0.2), zero(3), bias()];
    let want = [floats(&[-18.386_276, -65.494_12, 118.7, 150.2], &[2, 2])];
    check(MICROSOFT, ("DynamicQuantizeMatMul", "i0 i1 i2 i3 i4"), vec![], &args, &want);
}

/// Each step quantises its states by their range, so that the sequences of a batch depend on each other: on those that have
/// not ended. Backwards, all begin in the first step.
#[test]
fn quantised_layers() {
    let numbers = |len: i64, factor: i64, shape: &[i64]| {
        let by = if len == 12 { 16.0 } else { 32.0 };
        let values: Vec<f32> = (0..len).map(|i| ((i * factor % 19) as f32 - 9.0) / by).collect();
        floats(&values, shape)
    };
    let weights =
        |factor: i64| bytes(&(0..32).map(|i| (i * factor % 256) as u8).collect::<Vec<_>>(), &[2, 2, 8]);
    let scales: Vec<f32> = (0..16).map(|i| (i % 5 + 1) as f32 / 256.0).collect();
    let args = [
        numbers(12, 37, &[3, 2, 2]),
        weights(91),
        weights(53),
        numbers(32, 23, &[2, 16]),
        Tensor::from_slice(&[1i32, 3], &[2]).unwrap(),
        floats(&scales, &[2, 8]),
        bytes(&[120; 16], &[2, 8]),
    ];
    let want: [(&[f32], &[i64]); 3] = [
        (
            &[
                0.162_143_8,
                -0.173_520_6,
                0.063_578_27,
                -0.069_428_41,
                -0.073_047_41,
                0.060_741_85,
                0.283_681_9,
                0.001_803_003,
                0.0,
                0.0,
                0.050_464_87,
                -0.075_286_67,
                0.0,
                0.0,
                0.126_812_3,
                0.042_568_21,
                0.0,
                0.0,
                0.027_939_79,
                -0.055_281_26,
                0.0,
                0.0,
                -0.013_876_87,
                0.055_701_68,
            ],
            &[3, 2, 2, 2],
        ),
        (
            &[
                0.162_143_8,
                -0.173_520_6,
                0.027_939_79,
                -0.055_281_26,
                -0.073_047_41,
                0.060_741_85,
                0.283_681_9,
                0.001_803_003,
            ],
            &[2, 2, 2],
        ),
        (
            &[
                0.463_427_5,
                -0.202_429_1,
                0.061_601_28,
                -0.112_183_3,
                -0.140_055_1,
                0.146_381_9,
                0.611_093_8,
                0.003_049_748,
            ],
            &[2, 2, 2],
        ),
    ];
    let attrs = vec![int("hidden_size", 2), string("direction", "bidirectional")];
    let inputs = "i0 i1 i2 i3 i4 _ _ _ i5 i6 i5 i6";
    let want = want.map(|(values, shape)| floats(values, shape));
    check(MICROSOFT, ("DynamicQuantizeLSTM", inputs), attrs, &args, &want);
}

#[test]
fn zeros_are_quantised() {
    let want = [bytes(&[0; 3], &[3]), Tensor::scalar(1f32), Tensor::scalar(0u8)];
    check("", ("DynamicQuantizeLinear", "i0"), vec![], &[floats(&[0.0; 3], &[3])], &want);
}

#[test]
fn weights_of_few_bits() {
    let x: Vec<f32> = (1..=20).map(|it| it as f32).collect();
    let weight = |n: i64| bytes(&(0..4 * n).map(|i| (i * 37 % 256) as u8).collect::<Vec<_>>(), &[2, 2, n]);
    let attrs = |bits| vec![int("K", 20), int("N", 2), int("bits", bits), int("block_size", 16)];
    let args = |n| [floats(&x, &[1, 20]), weight(n), floats(&[0.5, 1.0, 2.0, 0.25], &[4])];
    let op = "MatMulNBits";
    check(MICROSOFT, (op, "i0 i1 i2"), attrs(4), &args(8), &[floats(&[-129.0, -231.75], &[1, 2])]);
    check(MICROSOFT, (op, "i0 i1 i2"), attrs(8), &args(16), &[floats(&[-596.0, 809.0], &[1, 2])]);
    let zeros = bytes(&[0x37, 0x91], &[2]);
    let args = [&args(8)[..], &[zeros]].concat();
    check(MICROSOFT, (op, "i0 i1 i2 i3"), attrs(4), &args, &[floats(&[309.0, 1653.75], &[1, 2])]);
    let refused = refusal(&build(MICROSOFT, op, "i0 i1 i2", attrs(2), &args[..3], "y"));
    assert!(refused.contains("2 bits"), "{refused}");
}

/// Constant weights of 4 bits stay as they are; the results are those of weights that are given.
#[test]
fn constant_weights_of_four_bits() {
    let x: Vec<f32> = (0..3 * 64).map(|it| ((it * 29) % 17) as f32 - 8.0).collect();
    let x = floats(&x, &[3, 64]);
    for (rows, block) in [(1, 16), (5, 32), (33, 64), (40, 16)] {
        let blocks = 64 / block;
        let weight: Vec<u8> = (0..rows * 32).map(|i| (i * 91 % 256) as u8).collect();
        let weight = bytes(&weight, &[rows, blocks, block / 2]);
        let scales: Vec<f32> = (0..rows * blocks).map(|i| (1 + i % 7) as f32 / 4.0).collect();
        let scales = floats(&scales, &[rows * blocks]);
        let attrs = vec![int("K", 64), int("N", rows), int("bits", 4), int("block_size", block)];
        let given = build(
            MICROSOFT,
            "MatMulNBits",
            "i0 i1 i2",
            attrs,
            &[x.clone(), weight.clone(), scales.clone()],
            "y",
        );
        let mut constant = given.clone();
        let graph = constant.graph.as_mut().unwrap();
        graph.input.retain(|it| it.name == "i0");
        let constant = constant.constant("i1", &weight).constant("i2", &scales);
        let want = run(&compiled(&given, &Target::interpreter()).unwrap(), &[x.clone(), weight, scales]);
        for target in targets() {
            let vm = compiled(&constant, &target).unwrap();
            assert_near(&run(&vm, std::slice::from_ref(&x))[0], &want[0], &format!("{rows} rows, {target}"));
        }
        let module = tvm_onnx::import_proto(&constant, None, &ImportOptions::default()).unwrap();
        assert!(module.to_string().contains("dense_int4"), "{module}");
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let args = [ramp(), ramp(), floats(&[0.5, -1.0], &[2])];
    let two = vec![int("transA", 1), int("transBatchA", 1)];
    let refused = refusal(&build(MICROSOFT, "FusedMatMul", "i0 i1", two, &args[..2], "y"));
    assert!(refused.contains("transposed in both ways"), "{refused}");
    let attrs = vec![string("activation", "Erf")];
    let refused = refusal(&build(MICROSOFT, "FusedGemm", "i0 i1 i2", attrs, &args, "y"));
    assert!(refused.contains("the activation Erf"), "{refused}");
    let refused = refusal(&build(MICROSOFT, "QuickGelus", "i0", vec![], &args[..1], "y"));
    assert!(refused.contains("there is an operator QuickGelu"), "{refused}");
    let refused = refusal(&build(MICROSOFT, "QuickGelu", "i0 i1", vec![], &args[..2], "y"));
    assert!(refused.contains("the operator takes 1"), "{refused}");
}
