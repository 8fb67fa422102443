//! Symbolic shapes: names shared between inputs, dimensions set by the caller, shape arithmetic at import.

use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::target::Target;
use tvm_onnx::proto::ModelProto;
use tvm_onnx::{DimOption, ImportOptions, import_proto};
use tvm_runtime::{DataType, RuntimeError, Tensor, Value};

use crate::build::{
    Build, assert_near, compiled, floats, graph, info, int, ints, longs, model, node, run, targets,
};

/// Types of the parameters and of the result, as text.
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
        imported(&sum(), &options.clone().dim("n", DimOption::Fixed(3))),
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

#[test]
fn bounds_of_dimensions_are_those_of_the_variables() {
    let sum =
        model(17, vec![node("Add", "a b", "y", vec![])]).input("a", "n 4").input("b", "n 4").output("y");
    let bounded = |low, high| ImportOptions::default().dim("n", DimOption::Range(low, high));
    let module = import_proto(&sum, None, &bounded(2, 64)).unwrap();
    assert!(module.to_string().contains("#[relax::func(dims(n = 2..=64), attrs("), "{module}");
    for target in targets() {
        let vm = tvm_codegen::compile_module(&module, &target).unwrap();
        let args = |n: i64| [(); 2].map(|()| Value::Tensor(Tensor::zeros(&[n, 4], DataType::F32).unwrap()));
        assert!(vm.invoke("main", args(64)).is_ok());
        let err = vm.invoke("main", args(1)).unwrap_err();
        let RuntimeError::ArgBound { arg, dim, expected, got, .. } = &err else { panic!("{err}") };
        assert_eq!((&**arg, &**dim, &**expected, *got), ("a", "n", "2..=64", 1));
    }
    for (low, high, message) in [
        (5, 3, "the extent given for dimension `n`: no number from 5 to 3"),
        (-1, 3, "the extent given for dimension `n`: the minimum -1 is negative"),
    ] {
        let err = import_proto(&sum, None, &bounded(low, high)).unwrap_err().to_string();
        assert!(err.contains(message), "{err}");
    }
}

/// `reshape(x, [shape(x)[0], shape(x)[1] * 3])`, in the form that exporters produce.
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

/// An arm of a branch gives the name of an input to another value; both are shapes that only a run knows.
#[test]
fn shapes_of_one_name() {
    let then = vec![node("Mul", "j j", "k", vec![]), node("Expand", "x k", "a", vec![])];
    let arms = vec![
        graph("then_branch", &[], then, "a"),
        graph("else_branch", &[], vec![node("Expand", "x k", "b", vec![])], "b"),
    ];
    let nodes = vec![node("Expand", "x k", "e", vec![]), node("If", "c", "y", arms)];
    let model =
        (model(17, nodes).input("x", "1").typed("k", DataType::I64, "1").typed("j", DataType::I64, "1"))
            .typed("c", DataType::BOOL, "")
            .output("e")
            .output("y");
    for target in targets() {
        let vm = compiled(&model, &target).unwrap();
        for (cond, extent) in [(true, 4), (false, 3)] {
            let got = run(&vm, &[floats(&[5.0], &[1]), longs(&[3]), longs(&[2]), Tensor::scalar(cond)]);
            assert_eq!((got[0].shape(), got[1].shape()), (&[3][..], &[extent][..]), "{cond} on {target}");
        }
    }
}

/// The second input of each operator is the shape of another tensor.
#[test]
fn shapes_of_other_tensors() {
    let x = floats(&[1.0, 2.0, 3.0], &[3, 1]);
    let twice = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
    let cases: &[(&str, &[i64], Tensor)] = &[
        ("Tile", &[1, 2], floats(&twice, &[3, 2])),
        ("Tile", &[2, 1], floats(&[1.0, 2.0, 3.0, 1.0, 2.0, 3.0], &[6, 1])),
        ("Tile", &[0, 4], floats(&[], &[0, 4])),
        ("Expand", &[3, 2], floats(&twice, &[3, 2])),
        ("Reshape", &[1, 3], floats(&[1.0, 2.0, 3.0], &[1, 3])),
        ("CenterCropPad", &[1, 1], floats(&[2.0], &[1, 1])),
        ("ConstantOfShape", &[2, 1], floats(&[0.0, 0.0], &[2, 1])),
    ];
    for (op, shape, want) in cases {
        let inputs = if *op == "ConstantOfShape" { "s" } else { "x s" };
        let nodes = vec![node("Shape", "t", "s", vec![]), node(op, inputs, "y", vec![])];
        let model = model(21, nodes).input("x", "n 1").input("t", "a b").output("y");
        for target in targets() {
            let vm = compiled(&model, &target).unwrap();
            let got = run(&vm, &[x.clone(), Tensor::zeros(shape, DataType::F32).unwrap()]);
            assert_near(&got[0], want, &format!("{op} {shape:?} on {target}"));
        }
    }
}

#[test]
fn shapes_that_are_inputs() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let flat: Vec<f32> = (1..=6).map(|it| it as f32).collect();
    let twice = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0];
    let cases: &[(&str, &[i64], Tensor)] = &[
        ("Reshape", &[3, 2], floats(&flat, &[3, 2])),
        ("Reshape", &[-1], floats(&flat, &[6])),
        ("Reshape", &[0, 1, -1], floats(&flat, &[2, 1, 3])),
        ("Expand", &[2, 1], x.clone()),
        ("Expand", &[2, 1, 1], floats(&[flat.clone(), flat.clone()].concat(), &[2, 2, 3])),
        ("Tile", &[1, 2], floats(&twice, &[2, 6])),
        ("Trilu", &[1], floats(&[0.0, 2.0, 3.0, 0.0, 0.0, 6.0], &[2, 3])),
        ("Trilu", &[-1], x.clone()),
        ("ConstantOfShape", &[1, 2], floats(&[0.0, 0.0], &[1, 2])),
    ];
    for (op, shape, want) in cases {
        let inputs = if *op == "ConstantOfShape" { "s" } else { "x s" };
        let mut model = model(21, vec![node(op, inputs, "y", vec![])]).input("x", "2 3").output("y");
        let len = shape.len().to_string();
        model.graph.as_mut().unwrap().input.push(info("s", DataType::I64, &len));
        for target in [Target::interpreter(), Target::host()] {
            let vm = compiled(&model, &target).unwrap();
            let got = run(&vm, &[x.clone(), longs(shape)]);
            assert_near(&got[0], want, &format!("{op} {shape:?}"));
        }
    }
    // Both limits of a slice; one of them counts from the end.
    let slice = node("Slice", "x from to", "y", vec![]);
    let mut model = model(21, vec![slice]).input("x", "2 3").output("y");
    for name in ["from", "to"] {
        model.graph.as_mut().unwrap().input.push(info(name, DataType::I64, "2"));
    }
    let vm = compiled(&model, &Target::host()).unwrap();
    let got = run(&vm, &[x, longs(&[-1, 0]), longs(&[9, 2])]);
    assert_near(&got[0], &floats(&[4.0, 5.0], &[1, 2]), "Slice");
}

#[test]
fn shapes_that_do_not_fit_are_refused_when_run() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    for (op, shape) in [("Reshape", [4, 2]), ("Reshape", [-2, -3]), ("Tile", [-1, 1]), ("Expand", [1, -1])] {
        let reshape = node(op, "x s", "y", vec![]);
        let mut model =
            model(21, vec![reshape]).input("x", if op == "Expand" { "1" } else { "2 3" }).output("y");
        model.graph.as_mut().unwrap().input.push(info("s", DataType::I64, "2"));
        let vm = compiled(&model, &Target::host()).unwrap();
        let x = if op == "Expand" { floats(&[1.0], &[1]) } else { x.clone() };
        let args = [x, longs(&shape)].map(|it| tvm_runtime::Value::from(&it));
        assert!(vm.invoke("main", &args).is_err(), "{op} {shape:?}");
    }
}

/// Convolutions and pools, then a product of each column with a matrix. `width` is a number or a name.
fn recognition(width: &str) -> ModelProto {
    let numbers = |len: i64, shape: &[i64]| {
        let values: Vec<f32> = (0..len).map(|i| ((i * 37 % 19) as f32 - 9.0) / 16.0).collect();
        floats(&values, shape)
    };
    let (pads, two) = (|| ints("pads", &[1, 1, 1, 1]), || ints("kernel_shape", &[2, 2]));
    let nodes = vec![
        node("Conv", "x k1", "a", vec![pads()]),
        node("Relu", "a", "b", vec![]),
        node("MaxPool", "b", "c", vec![two(), ints("strides", &[2, 2])]),
        node("Conv", "c k2", "d", vec![pads(), ints("strides", &[2, 1])]),
        node("AveragePool", "d", "e", vec![two(), ints("strides", &[1, 2]), ints("pads", &[0, 0, 0, 1])]),
        node("Reshape", "e shape", "f", vec![]),
        node("Transpose", "f", "g", vec![ints("perm", &[0, 2, 1])]),
        node("MatMul", "g w", "h", vec![]),
        node("Softmax", "h", "y", vec![int("axis", -1)]),
    ];
    (model(17, nodes).input("x", &format!("1 1 8 {width}")).output("y"))
        .constant("k1", &numbers(27, &[3, 1, 3, 3]))
        .constant("k2", &numbers(108, &[4, 3, 3, 3]))
        .constant("shape", &longs(&[0, 4, -1]))
        .constant("w", &numbers(20, &[4, 5]))
}

#[test]
fn a_recognition_model_takes_any_width() {
    for target in targets() {
        let any = compiled(&recognition("width"), &target).unwrap();
        for width in [4i64, 7, 10, 33] {
            let values: Vec<f32> = (0..8 * width).map(|i| ((i * 29 % 23) as f32 - 11.0) / 8.0).collect();
            let x = [floats(&values, &[1, 1, 8, width])];
            let fixed = compiled(&recognition(&width.to_string()), &Target::interpreter()).unwrap();
            assert_near(&run(&any, &x)[0], &run(&fixed, &x)[0], &format!("width {width} on {target}"));
        }
    }
}

/// An empty tensor may have a large extent beside the one that is 0: nothing runs over it.
#[test]
fn large_extents_of_empty_tensors() {
    let nodes = vec![
        node("Transpose", "x", "t", vec![ints("perm", &[2, 0, 1])]),
        node("ReduceMax", "t", "r", vec![ints("axes", &[0]), int("keepdims", 0)]),
        node("Softmax", "r", "y", vec![int("axis", 0)]),
    ];
    let model = model(13, nodes).input("x", "a b c").output("y");
    for target in targets() {
        let vm = compiled(&model, &target).unwrap();
        let got = run(&vm, &[floats(&[], &[1 << 40, 0, 3])]);
        assert_eq!(got[0].shape(), [1 << 40, 0], "{target}");
    }
}

/// Every link of these chains reads the one before twice, so an expression for the last one has exponentially many nodes.
#[test]
fn chains_of_shape_arithmetic_are_computed_when_the_model_runs() {
    type Link = (&'static [&'static str], fn(i64) -> i64);
    let chains: &[Link] = &[
        (&["Add v one", "Div v three", "Max t0 t1"], |v| (v + 1).max(v / 3)),
        (&["Mod v three", "Add v t0"], |v| v + v % 3),
        (&["Mul v v", "Mod t0 prime"], |v| v * v % 10007),
        (&["Less v three", "Add v one", "Where t0 t1 v"], |v| if v < 3 { v + 1 } else { v }),
    ];
    for (link, value) in chains {
        let mut nodes = vec![node("Shape", "x", "v0", vec![])];
        for i in 0..24 {
            for (j, text) in link.iter().enumerate() {
                let (op, inputs) = text.split_once(' ').unwrap();
                let name = |it: &str| match it {
                    "v" => format!("v{i}"),
                    it if it.starts_with('t') && it.len() == 2 => format!("{it}_{i}"),
                    it => it.to_string(),
                };
                let inputs: Vec<String> = inputs.split(' ').map(name).collect();
                let last = j + 1 == link.len();
                let made = if last { format!("v{}", i + 1) } else { format!("t{j}_{i}") };
                nodes.push(node(op, &inputs.join(" "), &made, vec![]));
            }
        }
        nodes.push(node("Mod", "v24 three", "size", vec![]));
        nodes.push(node("ConstantOfShape", "size", "z", vec![]));
        let model = model(17, nodes).input("x", "n").output("v24").output("z");
        let model = (model.constant("one", &longs(&[1])).constant("three", &longs(&[3])))
            .constant("prime", &longs(&[10007]));
        let x = floats(&[0.0; 5], &[5]);
        let want = (0..24).fold(5, |v, _| value(v));
        let got = run(&compiled(&model, &Target::interpreter()).unwrap(), std::slice::from_ref(&x));
        assert_eq!(got[0].to_vec::<i64>().unwrap(), [want], "{link:?}");
        assert_eq!(got[1].shape(), [want % 3], "{link:?}");
    }
}
