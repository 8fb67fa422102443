//! Tests with real models: the digits classifier with its data sets, and two light models of the onnx package.

use std::path::{Path, PathBuf};

use tvm_codegen::compile_module;
use tvm_core::target::Target;
use tvm_onnx::{DimOption, ImportOptions, import_file, read_tensor};
use tvm_runtime::{DataType, Tensor};

use crate::build::{assert_near, floats, run};

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn read(relative: &str) -> Tensor {
    read_tensor(&std::fs::read(path(relative)).unwrap()).unwrap()
}

/// The first row of a batch.
fn first(batch: &Tensor) -> Tensor {
    let mut shape = batch.shape().to_vec();
    shape[0] = 1;
    let n: i64 = shape.iter().product();
    floats(&batch.as_slice::<f32>().unwrap()[..n as usize], &shape)
}

#[test]
fn digits_on_c_for_every_batch() {
    let module = import_file(path("examples/data/digits_cnn/model.onnx"), &ImportOptions::default()).unwrap();
    let vm = std::sync::Arc::new(compile_module(&module, &Target::c()).unwrap());
    for set in 0..3 {
        let file = |name: &str| read(&format!("examples/data/digits_cnn/test_data_set_{set}/{name}_0.pb"));
        let (input, want) = (file("input"), file("output"));
        assert_near(&run(&vm, &[input])[0], &want, &format!("data set {set}"));
    }
}

#[test]
fn digits_on_the_interpreter() {
    let options = ImportOptions::default().dim("n", DimOption::Fixed(1));
    let module = import_file(path("examples/data/digits_cnn/model.onnx"), &options).unwrap();
    let vm = std::sync::Arc::new(compile_module(&module, &Target::interpreter()).unwrap());
    let input = first(&read("examples/data/digits_cnn/test_data_set_0/input_0.pb"));
    let want = first(&read("examples/data/digits_cnn/test_data_set_0/output_0.pb"));
    assert_near(&run(&vm, &[input])[0], &want, "first image");
}

/// Runs a light model, whose expected output assumes `i / n` as element `i` of `n` of the input.
fn light(name: &str) {
    let module =
        import_file(path(&format!("tests/data/light/{name}/model.onnx")), &ImportOptions::default()).unwrap();
    let vm = std::sync::Arc::new(compile_module(&module, &Target::c()).unwrap());
    let n = 3 * 224 * 224;
    let input: Vec<f32> = (0..n).map(|i| (f64::from(i) / f64::from(n)) as f32).collect();
    let want = read(&format!("tests/data/light/{name}/output_0.pb"));
    assert_eq!(want.dtype(), DataType::F32);
    assert_near(&run(&vm, &[floats(&input, &[1, 3, 224, 224])])[0], &want, name);
}

#[test]
fn light_squeezenet() {
    light("light_squeezenet");
}

#[test]
fn light_resnet50() {
    light("light_resnet50");
}
