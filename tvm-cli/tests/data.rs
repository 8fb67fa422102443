//! Tests of what `tvmc` reads and writes: tensors, models and artifacts in files and pipes, and JSON.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::fs;

use serde_json::Value as Json;
use support::{digits, model, refused, tvmc, tvmc_with};

fn image() -> String {
    format!("{}/test_data_set_0/input_0.pb", digits())
}

#[test]
fn tensors_travel_as_npz() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (model, image) = (model(), format!("image={}", image()));
    let run = ["run", &model, "--target", "c", "--input", &image];
    tvmc(&[&run[..], &["--output", &at("out.npz"), "--output-dir", &at("dir")]].concat());
    tvmc(&[&run[..], &["--output", &at("out.npy")]].concat());
    let npy = fs::read(at("out.npy")).unwrap();
    assert_eq!(npy, fs::read(at("dir/output_0.npy")).unwrap());
    let npz = fs::read(at("out.npz")).unwrap();
    assert!(npz.starts_with(b"PK"));
    // The entries are not compressed.
    assert!(npz.windows(npy.len()).any(|it| it == npy), "the output is in the archive");
    let piped = tvmc_with(&[&run[..], &["--output", "-"]].concat(), "");
    assert_eq!(piped.stdout, npz);
    // An archive of outputs is no archive of inputs.
    let (code, err) = refused(&["run", &model, "--input", &at("out.npz")]);
    assert!(code == 2 && err.contains("out.npz: `probabilities` names no input"), "{err}");
    fs::write(at("cut.npz"), &npz[..npz.len() / 2]).unwrap();
    let (code, err) = refused(&["run", &model, "--input", &format!("image={}", at("cut.npz"))]);
    assert!(code == 1 && err.contains("input `image`: ") && err.contains("not a valid .npz file"), "{err}");
}

#[test]
fn standard_input_gives_models_artifacts_and_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (model, image) = (model(), image());
    let onnx = fs::read(&model).unwrap();
    let piped = |args: &[&str], input: &[u8]| {
        let output = tvmc_with(args, input);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && err.is_empty(), "{args:?}: {err}");
        output.stdout
    };
    let artifact = piped(&["compile", "-", "--target", "c", "--output", "-"], &onnx);
    tvmc(&["compile", &model, "--target", "c", "--output", &at("digits.tvm")]);
    assert_eq!(artifact, fs::read(at("digits.tvm")).unwrap());
    let want = piped(&["run", &model, "--target", "c", "--input", &image, "--output", "-"], b"");
    let tensor = fs::read(&image).unwrap();
    let from_model = piped(&["run", "-", "--target", "c", "--input", &image, "--output", "-"], &onnx);
    let from_artifact = piped(&["run", "-", "--input", &image, "--output", "-"], &artifact);
    let from_tensor = piped(&["run", &at("digits.tvm"), "--input", "image=-", "--output", "-"], &tensor);
    assert!(from_model == want && from_artifact == want && from_tensor == want);
    let shown = String::from_utf8(piped(&["inspect", "-"], &artifact)).unwrap();
    assert!(shown.contains("tvm artifact"), "{shown}");
    let output = tvmc_with(&["run", "-", "--input", "-"], &artifact);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && err.contains("standard input can be read only once"), "{err}");
}

#[test]
fn results_are_written_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let model = model();
    let json = |args: &[&str]| -> Json { serde_json::from_str(&tvmc(args)).unwrap() };
    let run = ["run", &model, "--target", "c", "--fill", "ones", "--dim", "n=2..8", "--threads", "1"];
    let found = json(&[&run[..], &["--fast-math", "--json", "--repeat", "3", "--profile"]].concat());
    assert_eq!(found["outputs"][0]["name"], "probabilities");
    // What is made up has the least extents.
    assert_eq!(found["outputs"][0]["shape"], serde_json::json!([2, 10]));
    assert_eq!(found["times_s"].as_array().unwrap().len(), 3);
    assert!(found["run_s"].as_f64().unwrap() > 0.0 && found["profile"]["entries"][0]["calls"] == 1);
    let out = at("digits.tvm");
    let found = json(&["compile", &model, "--target", "c", "--output", &out, "--json"]);
    assert_eq!(found["bytes"].as_u64().unwrap(), fs::metadata(&out).unwrap().len());
    let found = json(&["onnx-test", &digits(), "--target", "c", "--json"]);
    assert!(found["passed"] == 1 && found["tests"][0]["result"] == "ok", "{found}");
    let found = json(&["ops", "softmax", "--json"]);
    assert_eq!(found["graph"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(json(&["doctor", "--json"])["entries"][0]["what"], "C compiler");
}

/// Strings travel in `.npy` files; a sequence is given element by element.
#[test]
fn strings_and_sequences() {
    use prost::Message;
    use tvm_onnx::proto::{
        ElementTypeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
        TensorTypeProto, TypeProto, ValueInfoProto,
    };

    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let shape = Some(TensorShapeProto { dim: vec![Default::default()] });
    let words =
        TypeProto { tensor_type: Some(TensorTypeProto { elem_type: 8, shape }), ..TypeProto::default() };
    let element = ElementTypeProto { elem_type: Some(Box::new(words.clone())) };
    let sequence = TypeProto { sequence_type: Some(Box::new(element)), ..TypeProto::default() };
    let node = |op: &str, input: &[&str], output: &str| NodeProto {
        op_type: op.into(),
        input: input.iter().map(|it| it.to_string()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    };
    let info = |name: &str, ty: Option<&TypeProto>| ValueInfoProto { name: name.into(), ty: ty.cloned() };
    let graph = GraphProto {
        name: "g".into(),
        node: vec![node("SequenceAt", &["s", "i"], "e"), node("StringConcat", &["e", "x"], "y")],
        initializer: vec![tvm_onnx::proto::TensorProto {
            name: "i".into(),
            data_type: 7,
            int64_data: vec![1],
            ..Default::default()
        }],
        input: vec![info("s", Some(&sequence)), info("x", Some(&words))],
        output: vec![info("y", None)],
        ..GraphProto::default()
    };
    let set = OperatorSetIdProto { version: 20, ..OperatorSetIdProto::default() };
    let model = ModelProto { graph: Some(graph), opset_import: vec![set], ..ModelProto::default() };
    fs::write(at("m.onnx"), model.encode_to_vec()).unwrap();
    for (name, texts) in [("a", ["u", "v"]), ("b", ["ab", "ü"]), ("x", ["1", ""])] {
        let texts = tvm_onnx::encode_strings(&texts, &[2]).unwrap();
        fs::write(at(&format!("{name}.npy")), tvm_onnx::write_npy_strings(&texts).unwrap()).unwrap();
    }
    let inputs = [("s[0]", "a.npy"), ("s[1]", "b.npy"), ("x", "x.npy")]
        .map(|(name, file)| format!("{name}={}", at(file)));
    let mut run = vec![
        "run".to_string(),
        at("m.onnx"),
        "--target".into(),
        "c".into(),
        "--sequence".into(),
        "s=2".into(),
    ];
    run.extend(inputs.into_iter().flat_map(|it| ["--input".to_string(), it]));
    run.extend(["--output".to_string(), at("y.npy")]);
    let run: Vec<&str> = run.iter().map(String::as_str).collect();
    let shown = tvmc(&run);
    assert!(shown.contains(r#"y: strings of shape [2]: "ab1", "ü""#), "{shown}");
    let y = tvm_onnx::read_npy(&fs::read(at("y.npy")).unwrap()).unwrap();
    assert_eq!(tvm_onnx::decode_strings(&y).unwrap(), ["ab1", "ü"]);
    let (code, err) = refused(&["run", &at("m.onnx"), "--target", "c"]);
    assert!(code == 1 && err.contains("sequences of unknown length"), "{err}");
}
