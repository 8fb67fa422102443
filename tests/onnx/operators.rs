//! Operators with results computed by hand, mainly where versions of the operator set differ.

use tvm_core::target::Target;
use tvm_onnx::proto::{AttributeProto, ModelProto};
use tvm_runtime::{DataType, Tensor};

use crate::build::{
    Build, assert_near, compiled, float, floats, info, int, ints, longs, model, node, run, targets, tensor,
};

/// Operator, inputs, attributes, constants, expected result.
type Case = (&'static str, &'static str, Vec<AttributeProto>, Vec<Tensor>, Tensor);

/// Runs one node on `x` and constants named `c0`, `c1`, …
fn eval(
    opset: i64,
    op: &str,
    inputs: &str,
    attrs: Vec<AttributeProto>,
    x: &Tensor,
    constants: &[Tensor],
) -> Tensor {
    let shape: Vec<String> = x.shape().iter().map(i64::to_string).collect();
    let mut model: ModelProto =
        model(opset, vec![node(op, inputs, "y", attrs)]).input("x", &shape.join(" ")).output("y");
    for (i, constant) in constants.iter().enumerate() {
        model = model.constant(&format!("c{i}"), constant);
    }
    let vm = compiled(&model, &Target::interpreter()).unwrap_or_else(|err| panic!("{op} {opset}: {err}"));
    run(&vm, std::slice::from_ref(x)).remove(0)
}

#[test]
fn definitions_that_changed_between_operator_sets() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1, 2, 3]);
    let softmax = |values: &[f64]| {
        let sum: f64 = values.iter().map(|it| it.exp()).sum();
        values.iter().map(|it| (it.exp() / sum) as f32).collect::<Vec<f32>>()
    };
    // Before opset 13, softmax is over all axes from the first on; from then on, over the last axis.
    let all = softmax(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let rows = [softmax(&[1.0, 2.0, 3.0]), softmax(&[4.0, 5.0, 6.0])].concat();
    assert_near(&eval(9, "Softmax", "x", vec![], &x, &[]), &floats(&all, &[1, 2, 3]), "Softmax 9");
    assert_near(&eval(13, "Softmax", "x", vec![], &x, &[]), &floats(&rows, &[1, 2, 3]), "Softmax 13");
    // The axes were an attribute before they became an input.
    let sums = floats(&[6.0, 15.0], &[1, 2]);
    let attrs = || vec![ints("axes", &[2]), int("keepdims", 0)];
    assert_near(&eval(11, "ReduceSum", "x", attrs(), &x, &[]), &sums, "ReduceSum 11");
    let keep = vec![int("keepdims", 0)];
    assert_near(&eval(13, "ReduceSum", "x c0", keep, &x, &[longs(&[2])]), &sums, "ReduceSum 13");
    let flat = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    assert_near(&eval(9, "Squeeze", "x", vec![ints("axes", &[0])], &x, &[]), &flat, "Squeeze 9");
    assert_near(&eval(13, "Squeeze", "x c0", vec![], &x, &[longs(&[0])]), &flat, "Squeeze 13");
    let limits = vec![float("min", 2.0), float("max", 5.0)];
    let clipped = floats(&[2.0, 2.0, 3.0, 4.0, 5.0, 5.0], &[1, 2, 3]);
    assert_near(&eval(6, "Clip", "x", limits, &x, &[]), &clipped, "Clip 6");
    let limits = [Tensor::scalar(2f32), Tensor::scalar(5f32)];
    assert_near(&eval(13, "Clip", "x c0 c1", vec![], &x, &limits), &clipped, "Clip 13");
    // Before opset 7, the attribute `axis` gives the position of a shorter operand.
    let column = floats(&[10.0, 20.0], &[2]);
    let attrs = vec![int("axis", 1), int("broadcast", 1)];
    let sum = floats(&[11.0, 12.0, 13.0, 24.0, 25.0, 26.0], &[1, 2, 3]);
    assert_near(&eval(6, "Add", "x c0", attrs, &x, &[column]), &sum, "Add 6");
    let slice = vec![ints("starts", &[1]), ints("ends", &[3]), ints("axes", &[2])];
    let part = floats(&[2.0, 3.0, 5.0, 6.0], &[1, 2, 2]);
    assert_near(&eval(9, "Slice", "x", slice, &x, &[]), &part, "Slice 9");
    let args = [longs(&[-2]), longs(&[9]), longs(&[-1])];
    assert_near(&eval(13, "Slice", "x c0 c1 c2", vec![], &x, &args), &part, "Slice 13");
}

#[test]
fn attributes_and_defaults() {
    let x = floats(&[-2.0, -0.5, 0.0, 3.0], &[2, 2]);
    let constant = |values: &[f32]| floats(values, &[values.len() as i64]);
    let cases: Vec<Case> = vec![
        ("LeakyRelu", "x", vec![], vec![], floats(&[-0.02, -0.005, 0.0, 3.0], &[2, 2])),
        ("LeakyRelu", "x", vec![float("alpha", 0.5)], vec![], floats(&[-1.0, -0.25, 0.0, 3.0], &[2, 2])),
        ("HardSigmoid", "x", vec![], vec![], floats(&[0.1, 0.4, 0.5, 1.0], &[2, 2])),
        (
            "Elu",
            "x",
            vec![float("alpha", 2.0)],
            vec![],
            floats(&[-1.729_329_4, -0.786_938_7, 0.0, 3.0], &[2, 2]),
        ),
        ("PRelu", "x c0", vec![], vec![constant(&[0.5, 2.0])], floats(&[-1.0, -1.0, 0.0, 3.0], &[2, 2])),
        (
            "Max",
            "x c0 c1",
            vec![],
            vec![constant(&[-1.0]), constant(&[1.0, 2.0])],
            floats(&[1.0, 2.0, 1.0, 3.0], &[2, 2]),
        ),
        ("Mean", "x c0", vec![], vec![constant(&[2.0])], floats(&[0.0, 0.75, 1.0, 2.5], &[2, 2])),
        ("Flatten", "x", vec![int("axis", 0)], vec![], floats(&[-2.0, -0.5, 0.0, 3.0], &[1, 4])),
        (
            "Concat",
            "x x",
            vec![int("axis", -1)],
            vec![],
            floats(&[-2.0, -0.5, -2.0, -0.5, 0.0, 3.0, 0.0, 3.0], &[2, 4]),
        ),
        ("Gather", "x c0", vec![int("axis", 1)], vec![longs(&[-1])], floats(&[-0.5, 3.0], &[2, 1])),
        (
            "Expand",
            "x c0",
            vec![],
            vec![longs(&[2, 1, 2])],
            floats(&[-2.0, -0.5, 0.0, 3.0, -2.0, -0.5, 0.0, 3.0], &[2, 2, 2]),
        ),
        (
            "Tile",
            "x c0",
            vec![],
            vec![longs(&[1, 2])],
            floats(&[-2.0, -0.5, -2.0, -0.5, 0.0, 3.0, 0.0, 3.0], &[2, 4]),
        ),
        ("Pad", "x c0", vec![], vec![longs(&[0, 1, 0, -1])], floats(&[0.0, -2.0, 0.0, 0.0], &[2, 2])),
        ("ReduceLogSumExp", "x", vec![int("keepdims", 0)], vec![], floats(&[3.084_007], &[])),
        (
            "Gemm",
            "x x c0",
            vec![int("transB", 1), float("alpha", 0.5)],
            vec![constant(&[1.0, 2.0])],
            floats(&[3.125, 1.25, 0.25, 6.5], &[2, 2]),
        ),
        ("EyeLike", "x", vec![int("k", 1)], vec![], floats(&[0.0, 1.0, 0.0, 0.0], &[2, 2])),
        ("Trilu", "x", vec![int("upper", 0)], vec![], floats(&[-2.0, 0.0, 0.0, 3.0], &[2, 2])),
        ("Trilu", "x c0", vec![], vec![Tensor::scalar(1i64)], floats(&[0.0, -0.5, 0.0, 0.0], &[2, 2])),
        ("Split", "x c0", vec![], vec![longs(&[2])], x.clone()),
        ("Identity", "x", vec![], vec![], x.clone()),
        ("Dropout", "x", vec![], vec![], x.clone()),
    ];
    for (op, inputs, attrs, constants, want) in cases {
        assert_near(&eval(17, op, inputs, attrs, &x, &constants), &want, op);
    }
}

#[test]
fn windows() {
    let x = floats(&(1..=9).map(|it| it as f32).collect::<Vec<_>>(), &[1, 1, 3, 3]);
    let ones = floats(&[1.0; 4], &[1, 1, 2, 2]);
    let same = string_attr("auto_pad", "SAME_UPPER");
    let cases: Vec<Case> = vec![
        (
            "Conv",
            "x c0 c1",
            vec![],
            vec![ones.clone(), floats(&[0.5], &[1])],
            floats(&[12.5, 16.5, 24.5, 28.5], &[1, 1, 2, 2]),
        ),
        (
            "Conv",
            "x c0",
            vec![ints("strides", &[2, 2]), same.clone()],
            vec![ones.clone()],
            floats(&[12.0, 9.0, 15.0, 9.0], &[1, 1, 2, 2]),
        ),
        (
            "ConvTranspose",
            "x c0",
            vec![ints("strides", &[2, 2]), ints("pads", &[1, 1, 2, 2])],
            vec![ones],
            floats(&[1.0, 2.0, 2.0, 4.0, 5.0, 5.0, 4.0, 5.0, 5.0], &[1, 1, 3, 3]),
        ),
        (
            "MaxPool",
            "x",
            vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2]), int("ceil_mode", 1)],
            vec![],
            floats(&[5.0, 6.0, 8.0, 9.0], &[1, 1, 2, 2]),
        ),
        (
            "AveragePool",
            "x",
            vec![ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1]), ints("strides", &[2, 2])],
            vec![],
            floats(&[3.0, 4.0, 6.0, 7.0], &[1, 1, 2, 2]),
        ),
        (
            "AveragePool",
            "x",
            vec![
                ints("kernel_shape", &[2, 2]),
                ints("pads", &[1, 1, 0, 0]),
                ints("strides", &[3, 3]),
                int("count_include_pad", 1),
            ],
            vec![],
            floats(&[0.25], &[1, 1, 1, 1]),
        ),
        ("GlobalAveragePool", "x", vec![], vec![], floats(&[5.0], &[1, 1, 1, 1])),
        ("GlobalMaxPool", "x", vec![], vec![], floats(&[9.0], &[1, 1, 1, 1])),
    ];
    for (op, inputs, attrs, constants, want) in cases {
        assert_near(&eval(17, op, inputs, attrs, &x, &constants), &want, op);
    }
}

fn string_attr(name: &str, value: &'static str) -> AttributeProto {
    crate::build::string(name, value)
}

#[test]
fn results_of_other_types() {
    let x = floats(&[1.0, -1.0, 2.0, 2.0], &[2, 2]);
    let bools = |values: &[bool]| Tensor::from_slice(values, &[2, 2]).unwrap();
    let got = eval(17, "Greater", "x c0", vec![], &x, &[Tensor::scalar(0f32)]);
    assert_near(&got, &bools(&[true, false, true, true]), "Greater");
    let got = eval(17, "ArgMax", "x", vec![int("axis", 1), int("select_last_index", 1)], &x, &[]);
    assert_near(&got, &Tensor::from_slice(&[0i64, 1], &[2, 1]).unwrap(), "ArgMax");
    let got = eval(17, "Cast", "x", vec![int("to", 7)], &x, &[]);
    assert_near(&got, &Tensor::from_slice(&[1i64, -1, 2, 2], &[2, 2]).unwrap(), "Cast");
    let shape = [longs(&[2])];
    let value = Tensor::from_slice(&[3i32], &[1]).unwrap();
    let got = eval(17, "ConstantOfShape", "c0", vec![tensor("value", &value)], &x, &shape);
    assert_near(&got, &Tensor::from_slice(&[3i32, 3], &[2]).unwrap(), "ConstantOfShape");
    assert_eq!(got.dtype(), DataType::I32);
}

#[test]
fn parts() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5]);
    let parts = |attrs| {
        let split = node("Split", "x", "a b", attrs);
        let model = model(18, vec![split]).input("x", "5").output("a").output("b");
        run(&compiled(&model, &Target::interpreter()).unwrap(), std::slice::from_ref(&x))
    };
    let got = parts(vec![int("num_outputs", 2)]);
    assert_near(&got[0], &floats(&[1.0, 2.0, 3.0], &[3]), "the larger part");
    assert_near(&got[1], &floats(&[4.0, 5.0], &[2]), "what is left");
}

#[test]
fn sums_of_narrow_floats_are_not_narrow() {
    // In `f16`, 2048 + 1 is 2048.
    let x = floats(&[1.0; 4096], &[1, 4096]);
    let ones = Tensor::from_vec(vec![half::f16::ONE; 4096], &[4096, 1]).unwrap();
    for op in ["MatMul", "ReduceSum", "ReduceMean"] {
        let inputs = if op == "MatMul" { "narrow c0" } else { "narrow" };
        let nodes = vec![
            node("Cast", "x", "narrow", vec![int("to", 10)]),
            node(op, inputs, "sum", vec![]),
            node("Cast", "sum", "y", vec![int("to", 1)]),
        ];
        let model = model(13, nodes).input("x", "1 4096").output("y").constant("c0", &ones);
        let vm = compiled(&model, &Target::interpreter()).unwrap();
        let want = if op == "ReduceMean" { 1.0 } else { 4096.0 };
        assert_near(&run(&vm, std::slice::from_ref(&x))[0], &floats(&[want], &[1, 1]), op);
    }
}

#[test]
fn quantised_numbers() {
    let x = floats(&[-1.0, 0.24, 0.26, 300.0], &[4]);
    let (scale, zero) = (Tensor::scalar(0.5f32), Tensor::scalar(3u8));
    let got = eval(13, "QuantizeLinear", "x c0 c1", vec![], &x, &[scale.clone(), zero.clone()]);
    assert_near(&got, &Tensor::from_slice(&[1u8, 3, 4, 255], &[4]).unwrap(), "QuantizeLinear");
    let numbers = Tensor::from_slice(&[1u8, 3, 4, 255], &[4]).unwrap();
    let got = eval(13, "DequantizeLinear", "c0 c1 c2", vec![], &x, &[numbers, scale, zero]);
    assert_near(&got, &floats(&[-1.0, 0.0, 0.5, 126.0], &[4]), "DequantizeLinear");
}

#[test]
fn integers_wrap_at_their_limits() {
    let nodes = vec![
        node("Sub", "x b", "d", vec![]),
        node("Less", "d limit", "y", vec![]),
        node("Add", "x one", "n", vec![]),
        node("Greater", "n x", "z", vec![]),
    ];
    let mut model = (model(17, nodes).output("y").output("z"))
        .constant("b", &longs(&[-4]))
        .constant("limit", &longs(&[16]))
        .constant("one", &longs(&[1]));
    model.graph.as_mut().unwrap().input.push(info("x", DataType::I64, "n"));
    let x = [
        i64::MIN,
        i64::MIN + 3,
        i64::MIN + 4,
        -5,
        11,
        12,
        13,
        i64::MAX - 5,
        i64::MAX - 4,
        i64::MAX - 3,
        i64::MAX,
    ];
    let less: Vec<bool> = x.iter().map(|it| it.wrapping_sub(-4) < 16).collect();
    let greater: Vec<bool> = x.iter().map(|it| it.wrapping_add(1) > *it).collect();
    for target in targets() {
        let got = run(&compiled(&model, &target).unwrap(), &[longs(&x)]);
        assert_eq!(got[0].to_vec::<bool>().unwrap(), less, "{target}");
        assert_eq!(got[1].to_vec::<bool>().unwrap(), greater, "{target}");
    }
}

/// Kernels do not become expressions with exponentially many operations.
#[test]
fn nodes_that_read_the_one_before_twice() {
    let names: Vec<String> = (0..=40).map(|i| if i == 0 { "x".into() } else { format!("y{i}") }).collect();
    let square = |i: usize| {
        let (from, to, by) = (&names[i], &names[i + 1], format!("m{i}"));
        [
            node("Mul", &format!("{from} {from}"), &by, vec![]),
            node("Sub", &format!("{by} {from}"), to, vec![]),
        ]
    };
    let model = model(17, (0..40).flat_map(square).collect()).input("x", "4").output("y40");
    let start = [0.5f32, -0.25, 0.0, 1.5];
    let want = start.map(|x| (0..40).fold(x, |x, _| x * x - x));
    for target in targets() {
        let got = run(&compiled(&model, &target).unwrap(), &[floats(&start, &[4])]);
        assert_near(&got[0], &floats(&want, &[4]), &format!("{target}"));
    }
}
