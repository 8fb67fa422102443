//! Symbolic shapes: names shared between inputs, what callers say about dimensions, shape arithmetic at import.

use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::target::Target;
use tvm_onnx::proto::ModelProto;
use tvm_onnx::{DimSpec, ImportOptions, import_proto};

use crate::build::{Build, assert_near, compiled, floats, int, ints, longs, model, node, run};

/// Types of the parameters and the result, as they are printed.
fn signature(module: &IRModule) -> String {
    let Some(BaseFunc::Relax(func)) = module.lookup("main") else { panic!("there is no main") };
    let params: Vec<String> = func.params.iter().map(|it| it.ty().to_string()).collect();
    format!("({}) -> {}", params.join(", "), func.ret)
}

fn imported(model: &ModelProto, options: &ImportOptions) -> String {
    signature(&import_proto(model, None, options).unwrap())
}

#[test]
fn dimensions_of_one_name_are_one_variable() {
    let sum =
        || model(17, vec![node("Add", "a b", "y", vec![])]).input("a", "n 4").input("b", "n 4").output("y");
    let options = ImportOptions::default();
    assert_eq!(imported(&sum(), &options), "(Tensor<f32, n, 4>, Tensor<f32, n, 4>) -> Tensor<f32, n, 4>");
    assert_eq!(
        imported(&sum(), &options.clone().dim("n", DimSpec::Fixed(3))),
        "(Tensor<f32, 3, 4>, Tensor<f32, 3, 4>) -> Tensor<f32, 3, 4>"
    );
    assert_eq!(
        imported(&sum(), &options.clone().dim("n", (1..=64).into())),
        "(Tensor<f32, n, 4>, Tensor<f32, n, 4>) -> Tensor<f32, n, 4>"
    );
    let err = import_proto(&sum(), None, &options.clone().dim("m", 3.into())).unwrap_err().to_string();
    assert!(err.contains("no input has a dimension `m`; there are [n]"), "{err}");
    let relu = model(17, vec![node("Relu", "x", "y", vec![])]).input("x", "? 2").output("y");
    assert_eq!(imported(&relu, &options), "(Tensor<f32, x_dim0, 2>) -> Tensor<f32, x_dim0, 2>");
    assert_eq!(imported(&relu, &options.shape("x", &[5, 2])), "(Tensor<f32, 5, 2>) -> Tensor<f32, 5, 2>");
}

/// `reshape(x, [shape(x)[0], shape(x)[1] * 3])`, as exporters write it.
fn flattening() -> ModelProto {
    let nodes = vec![
        node("Shape", "x", "s", vec![]),
        node("Gather", "s zero", "n", vec![int("axis", 0)]),
        node("Gather", "s one", "c", vec![]),
        node("Mul", "c three", "d", vec![]),
        node("Unsqueeze", "n axes", "n1", vec![]),
        node("Unsqueeze", "d axes", "d1", vec![]),
        node("Concat", "n1 d1", "t", vec![int("axis", 0)]),
        node("Reshape", "x t", "y", vec![]),
    ];
    let scalar = tvm_runtime::Tensor::scalar::<i64>;
    (model(17, nodes).input("x", "n 2 3").output("y"))
        .constant("zero", &scalar(0))
        .constant("one", &scalar(1))
        .constant("three", &scalar(3))
        .constant("axes", &longs(&[0]))
}

#[test]
fn shape_arithmetic_is_folded() {
    let options = ImportOptions::default();
    assert_eq!(imported(&flattening(), &options), "(Tensor<f32, n, 2, 3>) -> Tensor<f32, n, 6>");
    let vm = compiled(&flattening(), &Target::interpreter()).unwrap();
    let values: Vec<f32> = (0..12).map(|it| it as f32).collect();
    let got = run(&vm, &[floats(&values, &[2, 2, 3])]);
    assert_near(&got[0], &floats(&values, &[2, 6]), "flattened");
}

#[test]
fn symbolic_integers_become_tensors_where_needed() {
    let nodes = vec![
        node("Shape", "x", "s", vec![]),
        node("Size", "x", "n", vec![]),
        node("Slice", "s start end", "last", vec![]),
    ];
    let model = (model(17, nodes).input("x", "n 3").output("s").output("n").output("last"))
        .constant("start", &longs(&[-1]))
        .constant("end", &longs(&[i64::MAX]));
    let vm = compiled(&model, &Target::interpreter()).unwrap();
    let got = run(&vm, &[floats(&[0.0; 6], &[2, 3])]);
    assert_eq!(got[0].to_vec::<i64>().unwrap(), [2, 3]);
    assert_eq!((got[1].shape(), got[1].to_vec::<i64>().unwrap()), (&[][..], vec![6]));
    assert_eq!(got[2].to_vec::<i64>().unwrap(), [3]);
}

#[test]
fn one_kernel_serves_every_extent() {
    let nodes = vec![
        node("MatMul", "x w", "h", vec![]),
        node("ReduceMean", "h", "m", vec![ints("axes", &[0]), int("keepdims", 0)]),
    ];
    let weight = floats(&[1.0, 0.0, 2.0, 0.0, 1.0, -1.0], &[2, 3]);
    let model = model(17, nodes).input("x", "n 2").output("m").constant("w", &weight);
    let vm = compiled(&model, &Target::c()).unwrap();
    for n in [1i64, 2, 7] {
        let x: Vec<f32> = (0..2 * n).map(|it| it as f32).collect();
        let mean = |column: i64| (0..n).map(|i| x[(2 * i + column) as usize]).sum::<f32>() / n as f32;
        let (a, b) = (mean(0), mean(1));
        let want = floats(&[a, b, 2.0 * a - b], &[3]);
        assert_near(&run(&vm, &[floats(&x, &[n, 2])])[0], &want, &format!("n = {n}"));
    }
}
