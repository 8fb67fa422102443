//! The model API: inputs by position and by name, outputs, options of calls, artifacts, and every error.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use prost::Message;
use tvm::ndarray::{Array2, ArrayD, arr2, s};
use tvm::onnx::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use tvm::onnx::{dtype_to_onnx, read_tensor};
use tvm::prelude::*;
use tvm::runtime::vm::{CancelToken, VmConfig};
use tvm::runtime::{PackedFunc, Value};
use tvm::{Input, ModelError};

const DIGITS: &str = "examples/data/digits_cnn/model.onnx";

fn info(name: &str, dtype: DataType, dims: &str) -> ValueInfoProto {
    let dim = |text: &str| match text.parse::<i64>() {
        Ok(value) => DimensionProto { dim_value: Some(value), dim_param: None },
        Err(_) => DimensionProto { dim_value: None, dim_param: Some(text.into()) },
    };
    let shape = TensorShapeProto { dim: dims.split_whitespace().map(dim).collect() };
    let tensor = TensorTypeProto { elem_type: dtype_to_onnx(dtype).unwrap(), shape: Some(shape) };
    let ty = TypeProto { tensor_type: Some(tensor), ..TypeProto::default() };
    ValueInfoProto { name: name.into(), ty: Some(ty) }
}

fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op.into(),
        name: format!("{op}_{output}"),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

/// `sum = left + right`, `difference = left - right`, of shape `[n, 3]`.
fn pair() -> Vec<u8> {
    let out = |name: &str| ValueInfoProto { name: name.into(), ty: None };
    let graph = GraphProto {
        name: "g".into(),
        node: vec![node("Add", &["left", "right"], "sum"), node("Sub", &["left", "right"], "difference")],
        input: vec![info("left", DataType::F32, "n 3"), info("right", DataType::F32, "n 3")],
        output: vec![out("sum"), out("difference")],
        ..GraphProto::default()
    };
    let set = OperatorSetIdProto { domain: String::new(), version: 17 };
    ModelProto { ir_version: 8, graph: Some(graph), opset_import: vec![set], ..ModelProto::default() }
        .encode_to_vec()
}

fn compiled() -> CompiledModel {
    Model::onnx_bytes(&pair()).unwrap().dim("n", 1..=8).compile().unwrap()
}

fn text(res: Result<tvm::Outputs, ModelError>) -> String {
    res.unwrap_err().to_string()
}

#[test]
fn a_model_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<CompiledModel>();
    shared::<RunOptions>();
}

#[test]
fn the_digits_model_gives_its_recorded_outputs() {
    let model = Model::onnx(DIGITS).unwrap().threads(2).compile().unwrap();
    let read = |name: &str| {
        let path = format!("examples/data/digits_cnn/test_data_set_0/{name}_0.pb");
        read_tensor(&std::fs::read(path).unwrap()).unwrap()
    };
    let (image, expected) = (read("input"), read("output"));
    let outputs = model.run(&image).unwrap();
    let (got, expected) = (outputs[0].as_slice::<f32>().unwrap(), expected.as_slice::<f32>().unwrap());
    assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{got:?} {expected:?}");
    assert_eq!(outputs.names().next(), Some(model.outputs()[0].name.as_str()));
}

#[test]
fn inputs_and_outputs_are_described() {
    let model = compiled();
    let shown = "input  left: Tensor<f32, n, 3> where n = 1..=8\ninput  right: Tensor<f32, n, 3> where n = 1..=8\n\
                 output sum: Tensor<f32, n, 3> where n = 1..=8\noutput difference: Tensor<f32, n, 3> where n = 1..=8\n";
    assert_eq!(model.to_string(), shown);
    let left = &model.inputs()[0];
    assert_eq!((left.dtype, left.fixed_shape()), (Some(DataType::F32), None));
    let fixed = Model::onnx_bytes(&pair()).unwrap().dim("n", 2).compile().unwrap();
    assert_eq!(fixed.inputs()[1].fixed_shape(), Some(vec![2, 3]));
    let shaped = Model::onnx_bytes(&pair()).unwrap().shape("left", &[4, 3]).shape("right", &[4, 3]);
    assert_eq!(shaped.compile().unwrap().outputs()[0].fixed_shape(), Some(vec![4, 3]));
}

#[test]
fn every_way_to_pass_inputs_gives_the_same() {
    let model = compiled();
    let (a, b) = (arr2(&[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]), arr2(&[[6.0f32, 4.0, 2.0], [1.0, 3.0, 5.0]]));
    let tensor = |it: &Array2<f32>| Tensor::from_array(it.clone()).unwrap();
    let (x, y) = (tensor(&a), tensor(&b));
    let (v, w) = (x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
    // A transposed copy, whose transposed view is the array again.
    let strided = a.t().as_standard_layout().into_owned();
    let wide = Array2::from_shape_fn((2, 6), |(i, j)| if j % 2 == 0 { a[[i, j / 2]] } else { -1.0 });
    let named = |x: Input, y: Input| [("right", y), ("left", x)];
    let runs = [
        model.run((&x, &y)),
        model.run([&x, &y]),
        model.run([x.clone(), y.clone()]),
        model.run(vec![x.clone(), y.clone()]),
        model.run(&[x.clone(), y.clone()]),
        model.run(&[x.clone(), y.clone()][..]),
        model.run((&a, b.view())),
        model.run((a.clone(), &b.view())),
        model.run((strided.t(), &b)),
        model.run((wide.slice(s![.., ..;2]), &b)),
        model.run((&a.clone().into_dyn(), b.clone().into_dyn())),
        model.run(((&v[..], [2, 3]), (w.clone(), [2, 3]))),
        model.run(((&v, [2, 3]), (&w[..], &[2i64, 3][..]))),
        model.run((("right", &y), ("left", &a))),
        model.run([("right", (&y).into()), ("left", (&a).into())]),
        model.run(named(x.clone().into(), b.view().into())),
        model.run(vec![("right", &y), ("left", &x)]),
        model.run(vec![("right".to_string(), &y), ("left".to_string(), &x)]),
        model.run(HashMap::from([("right", y.clone()), ("left", x.clone())])),
        model.run(BTreeMap::from([("right".to_string(), &b), ("left".to_string(), &a)])),
    ];
    for (i, outputs) in runs.into_iter().enumerate() {
        let outputs = outputs.unwrap_or_else(|err| panic!("run {i}: {err}"));
        assert_eq!(outputs["sum"].to_array::<f32>().unwrap(), (&a + &b).into_dyn(), "{i}");
        assert_eq!(outputs[1].to_array::<f32>().unwrap(), (&a - &b).into_dyn(), "{i}");
    }
    // What was lent is unchanged.
    assert_eq!((x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap()), (v, w));
}

#[test]
fn outputs_are_taken_by_name_and_position() {
    let model = compiled();
    let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], &[1, 3]).unwrap();
    let mut outputs = model.run((&x, &x)).unwrap();
    assert_eq!((outputs.len(), outputs.names().collect::<Vec<_>>()), (2, vec!["sum", "difference"]));
    assert_eq!(outputs.get("sum").unwrap().as_slice::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    let all: Vec<ArrayD<f32>> = outputs.clone().into_iter().map(|it| it.to_array().unwrap()).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(outputs.take(0).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    assert_eq!(outputs.take("sum").unwrap_err().to_string(), "output `sum` was taken before");
    assert_eq!(outputs.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["difference"]);
    let near = outputs.get("diference").unwrap_err().to_string();
    assert_eq!(
        near,
        "there is no output `diference`; the outputs are `sum`, `difference`\n  help: did you mean `difference`?"
    );
    assert_eq!(
        outputs.get(2).unwrap_err().to_string(),
        "there is no output `2`; the outputs are `sum`, `difference`"
    );
    assert_eq!(outputs.into_iter().count(), 1);
}

#[test]
fn wrong_inputs_are_errors_that_name_them() {
    let model = compiled();
    let zeros = |shape: &[i64], dtype| Tensor::zeros(shape, dtype).unwrap();
    let x = zeros(&[2, 3], DataType::F32);
    let sig = "`left: Tensor<f32, n, 3> where n = 1..=8`, `right: Tensor<f32, n, 3> where n = 1..=8`";
    assert_eq!(text(model.run(&x)), format!("the model has 2 input(s), but 1 is given: {sig}"));
    assert_eq!(text(model.run(())), format!("the model has 2 input(s), but 0 are given: {sig}"));
    assert_eq!(text(model.run([&x, &x, &x])), format!("the model has 2 input(s), but 3 are given: {sig}"));
    assert_eq!(
        text(model.run((("left", &x), ("rihgt", &x)))),
        "there is no input `rihgt`; the inputs are `left`, `right`\n  help: did you mean `right`?"
    );
    assert_eq!(text(model.run((("left", &x), ("left", &x)))), "input `left` is given twice");
    assert_eq!(text(model.run(("left", &x))), "not given: `right: Tensor<f32, n, 3> where n = 1..=8`");
    assert_eq!(
        text(model.run((&x, zeros(&[2, 3], DataType::F64)))),
        "input `right`: expected elements of type f32, got f64"
    );
    assert_eq!(
        text(model.run((&x, zeros(&[6], DataType::F32)))),
        "input `right: Tensor<f32, n, 3> where n = 1..=8`: expected rank 2, got rank 1 (shape [6])"
    );
    assert_eq!(
        text(model.run((&x, zeros(&[2, 4], DataType::F32)))),
        "input `right`: axis 1: expected 3, got 4"
    );
    assert_eq!(
        text(model.run((&x, zeros(&[3, 3], DataType::F32)))),
        "input `right`: axis 0: expected 2, got 3: `n` is 2 in input `left`"
    );
    assert_eq!(
        text(model.run((zeros(&[9, 3], DataType::F32), &x))),
        "input `left`: axis 0: the model was compiled for `n` in 1..=8, got 9"
    );
    assert_eq!(
        text(model.run((Value::Int(3), &x))),
        "input `left: Tensor<f32, n, 3> where n = 1..=8`: expected a tensor, got an integer"
    );
    let short = text(model.run(((&[1.0f32, 2.0][..], [2, 3]), &x)));
    assert_eq!(short, "input `left`: shape [2, 3] of f32 holds 24 bytes, got 8");
    let negative = text(model.run(((vec![1.0f32], [-1]), &x)));
    assert!(negative.starts_with("input `left`: "), "{negative}");
}

#[test]
fn wrong_models_and_options_are_errors() {
    let error =
        |model: Result<Model, ModelError>| model.and_then(Model::compile).map(drop).unwrap_err().to_string();
    assert!(error(Model::onnx("no/such.onnx")).starts_with("cannot read no/such.onnx: "));
    assert!(error(Model::onnx("Cargo.toml")).starts_with("Cargo.toml: not a valid ONNX model: "));
    assert!(error(Model::onnx_bytes(b"no model")).starts_with("not a valid ONNX model: "));
    let model = || Model::onnx_bytes(&pair());
    let misplaced = error(model().map(|it| it.place("Sum", Device::cpu())));
    let there = "there is no node and no operator `Sum` to place; there are the operators [Add, Sub] and the nodes [Add_sum, Sub_difference]";
    assert!(misplaced.contains(there), "{misplaced}");
    let misplaced = error(model().map(|it| it.place("Add", Device::cuda(0))));
    let target = "a node is placed on cuda:0, but the target computes on cpu:0";
    assert!(misplaced.contains(target) && misplaced.contains("Add_sum"), "{misplaced}");
    assert!(error(model().map(|it| it.dim("m", 2))).contains("no input has a dimension `m`; there are [n]"));
    assert!(error(model().map(|it| it.shape("x", &[2]))).contains("there is no input `x`"));
    assert_eq!(error(model().map(|it| it.threads(0))), "a call on 0 threads: expected 1..=1024");
    assert_eq!(
        error(model().map(|it| it.entry("mian"))),
        "there is no graph function `mian`; the graph functions are `main`\n  help: did you mean `main`?"
    );
    assert_eq!(error(Ok(Model::module(IRModule::new()))), "the module has no graph function");
    let shaped = error(Ok(Model::module(IRModule::new()).shape("x", &[1])));
    assert!(
        shaped.starts_with("`dim`, `shape`, `sequence`, `absent` and `place` are options of the import"),
        "{shaped}"
    );
}

#[test]
fn many_threads_call_one_model() {
    let model = Model::onnx_bytes(&pair()).unwrap().dim("n", 1..=64).threads(2).compile().unwrap();
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4i64 {
            let (model, barrier) = (&model, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..50 {
                    let n = 1 + (thread * 17 + round * 5) % 64;
                    let left = vec![(thread * 100 + round) as f32; (n * 3) as usize];
                    let options = RunOptions::new().threads(1 + (round % 2) as usize);
                    let inputs = ((&left, [n, 3]), (vec![1.0f32; (n * 3) as usize], [n, 3]));
                    let outputs = model.run_with(inputs, &options).unwrap();
                    let sum = outputs["sum"].as_slice::<f32>().unwrap();
                    assert!(sum.len() as i64 == n * 3 && sum.iter().all(|it| *it == left[0] + 1.0));
                }
            });
        }
    });
}

#[relax::func(impure)]
fn twice(x: Tensor<f32, n>) -> Tensor<f32, n> {
    let y = match_cast(call_packed("tests.model.cancel", (x,), Object), Tensor::<f32, n>);
    y + y
}

#[relax::func]
fn repeated(x: Tensor<f32, n>, k: i64) -> Tensor<f32, k, n> {
    broadcast_to(x, shape([k, n]))
}

#[test]
fn scalar_parameters_take_numbers_and_tensors_of_rank_0() {
    let model = Model::module(repeated::module().unwrap()).compile().unwrap();
    let x = Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap();
    let shown = |res: Result<tvm::Outputs, ModelError>| res.unwrap()[0].to_vec::<f32>().unwrap();
    let want = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0];
    assert_eq!(shown(model.run((&x, 3i64))), want);
    assert_eq!(shown(model.run((&x, Tensor::scalar(3i32)))), want);
    assert_eq!(shown(model.run([("k", 3i64.into()), ("x", (&x).into())])), want);
    let help = "\n  help: pass a number (`3i64`, `0.5f64`) or a tensor of rank 0 (`Tensor::scalar(3i64)`)";
    for (k, got) in [
        (Input::from(&x), "a tensor of shape [2] of f32"),
        (Tensor::scalar(0.5f32).into(), "a tensor of shape [] of f32"),
        (0.5f64.into(), "a float"),
    ] {
        let text = text(model.run((&x, k)));
        assert_eq!(text, format!("input `k: i64`: expected one number, got {got}{help}"));
    }
}

#[test]
fn a_call_is_cancelled_between_two_instructions() {
    let (token, calls) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
    let (of_model, counted) = (token.clone(), calls.clone());
    let cancel = move |x: Tensor| {
        of_model.cancel();
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(x)
    };
    let mut config = VmConfig::default();
    config.functions.insert("tests.model.cancel".into(), PackedFunc::typed(cancel));
    let model = Model::module(twice::module().unwrap()).config(config).compile().unwrap();
    let x = Tensor::from_vec(vec![1.0f32, 2.0], &[2]).unwrap();
    let run = |options: &RunOptions| model.run_with(&x, options);
    let cancelled = |res| matches!(res, Err(ModelError::Runtime(RuntimeError::Cancelled)));
    // The packed function is called, and the rest is not run.
    assert!(cancelled(run(&RunOptions::new().cancel(&token))));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    // A cancelled token lets nothing run.
    assert!(cancelled(run(&RunOptions::new().cancel(&token))));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    // Without the token, or with another one, the model runs.
    for options in [RunOptions::new(), RunOptions::new().cancel(&CancelToken::new())] {
        assert_eq!(run(&options).unwrap()[0].to_vec::<f32>().unwrap(), [2.0, 4.0]);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[test]
fn artifacts_hold_the_same_model() {
    let model = compiled();
    let (x, y) = ((vec![1.0f32, 2.0, 3.0], [1, 3]), (vec![3.0f32, 2.0, 1.0], [1, 3]));
    let expected = model.run((x.clone(), y.clone())).unwrap()[0].to_vec::<f32>().unwrap();
    let path = std::env::temp_dir().join(format!("tvm-model-{}.tvm", std::process::id()));
    model.save(&path).unwrap();
    // SAFETY: both artifacts were compiled here.
    let loaded = unsafe { [CompiledModel::load(&path), CompiledModel::from_bytes(&model.bytes().unwrap())] };
    std::fs::remove_file(&path).unwrap();
    for loaded in loaded {
        let loaded = loaded.unwrap();
        assert_eq!((loaded.inputs(), loaded.outputs()), (model.inputs(), model.outputs()));
        let outputs = loaded.run((x.clone(), y.clone())).unwrap();
        assert_eq!(outputs["sum"].to_vec::<f32>().unwrap(), expected);
        assert_eq!(loaded.bytes().unwrap(), model.bytes().unwrap());
        assert_eq!(
            text(loaded.run((x.clone(), (vec![0.0f32; 27], [9, 3])))),
            text(model.run((x.clone(), (vec![0.0f32; 27], [9, 3]))))
        );
    }
    // SAFETY: nothing is loaded from bytes that are no artifact.
    let damaged = unsafe { CompiledModel::from_bytes(b"no artifact") };
    assert!(matches!(damaged, Err(ModelError::Runtime(RuntimeError::Artifact(_)))));
    let interpreted = Model::onnx_bytes(&pair()).unwrap().target(Target::interpreter()).compile().unwrap();
    assert!(matches!(interpreted.bytes(), Err(ModelError::Codegen(_))));
    let missing = model.save("no/such/folder/model.tvm").unwrap_err().to_string();
    assert!(missing.starts_with("no/such/folder/model.tvm: "), "{missing}");
}

#[test]
fn models_are_warmed_up_on_zeros() {
    compiled().warm_up().unwrap();
    Model::onnx(DIGITS).unwrap().fast_math(true).compile().unwrap().warm_up().unwrap();
    let unbounded = Model::onnx_bytes(&pair()).unwrap().compile().unwrap();
    unbounded.warm_up().unwrap();
    let large = Model::onnx_bytes(&pair()).unwrap().dim("n", 100..=1000).compile().unwrap();
    large.warm_up().unwrap();
}

#[test]
fn places_on_the_device_of_the_target_change_nothing() {
    let compile = |model: Model| {
        let file = std::env::temp_dir().join(format!("tvm-test-places-{}.tvm", std::process::id()));
        model.target(Target::c()).compile().unwrap().save(&file).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let exe = tvm::runtime::vm::Executable::load(&bytes).unwrap();
        assert!(!exe.to_string().contains("device_copy"), "{exe}");
        bytes
    };
    let model = || Model::onnx_bytes(&pair()).unwrap();
    let placed = model().place("Add", Device::cpu()).place("Sub_difference", Device::cpu());
    assert!(compile(placed) == compile(model()));
}

#[test]
fn nodes_compute_on_another_device() {
    let placed = Model::onnx_bytes(&pair()).unwrap().place("Sub", Device::virtual_cpu(1)).compile().unwrap();
    let (left, right) = (arr2(&[[1.0f32, 2.0, 3.0]]), arr2(&[[0.5f32, 4.0, -1.0]]));
    let outputs = placed.run((&left, &right)).unwrap();
    let [sum, difference] = [0, 1].map(|i: usize| outputs[i].to_vec::<f32>().unwrap());
    assert_eq!((sum, difference), (vec![1.5, 6.0, 2.0], vec![0.5, -2.0, 4.0]));
}
