//! Tests of `tvmc compare` as a process. The comparison itself is tested where Python has onnxruntime.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use prost::Message;
use serde_json::Value as Json;
use support::{digits, model, refused, tvmc, tvmc_with};
use tvm_onnx::proto::StringStringEntryProto;

/// True if a Python with onnxruntime can be found.
fn has_onnxruntime() -> bool {
    let output = tvmc_with(&["compare", &model(), "--dim", "n=1", "--target", "interpreter"], "");
    !String::from_utf8_lossy(&output.stderr).contains("no Python with onnxruntime")
}

#[test]
fn a_missing_onnxruntime_is_explained() {
    let (code, err) = refused(&["compare", &model(), "--python", "/nonexistent/python"]);
    assert!(code == 1 && err.contains("no Python with onnxruntime: tried /nonexistent/python ("), "{err}");
    assert!(err.contains("python3 -m pip install onnxruntime") && err.contains("--python"), "{err}");
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tvmc"));
    let command = command.args(["compare", &model()]).env("PATH", dir.path()).env("PERF_HOME", dir.path());
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.contains("onnxruntime: there is none in PATH"), "{err}");
    assert_eq!(refused(&["compare", &model(), "--with", "nothing"]).0, 2);
    let artifact = dir.path().join("digits.tvm").display().to_string();
    tvmc(&["compile", &model(), "--target", "c", "--output", &artifact]);
    let (code, err) = refused(&["compare", &artifact]);
    assert!(code == 2 && err.contains("digits.tvm is compiled already"), "{err}");
}

/// Runs the comparison with a program in the place of Python.
#[cfg(unix)]
fn with_program(dir: &Path, script: &str) -> Output {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join("python");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let python = path.display().to_string();
    tvmc_with(&["compare", &model(), "--python", &python, "--dim", "n=1", "--target", "interpreter"], "")
}

#[cfg(unix)]
#[test]
fn what_the_other_program_says_is_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    for (script, want) in [
        ("echo '{\"version\":\"0\"}'; read line; echo '{\"error\":\"bad model\"}'", "onnxruntime: bad model"),
        ("echo '{\"version\":\"0\"}'; read line", "onnxruntime: the process ended without an answer"),
        ("echo '{\"error\":\"No module named x\"}'", "python (No module named x)"),
        ("exit 1", "python (it cannot run a program)"),
    ] {
        let output = with_program(dir.path(), script);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && err.contains(want), "{script}: {err}");
    }
}

#[test]
fn onnxruntime_gives_the_same_values() {
    if !has_onnxruntime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let input = format!("image={}/test_data_set_0/input_0.pb", digits());
    let run = ["compare", &model(), "--target", "c", "--input", &input];
    let text = tvmc(&run);
    assert!(text.starts_with("compared with onnxruntime ") && text.ends_with(" same\n"), "{text}");
    // No two programs agree in the last bit of everything.
    let output = tvmc_with(&[&run[..], &["--rtol", "0", "--atol", "0", "--json"]].concat(), "");
    assert_eq!(output.status.code(), Some(1));
    let found: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["same"] == false && found["outputs"][0]["differs"] == true, "{found}");
    let first = &found["first"];
    assert!(first["index"].as_u64().unwrap() < 14 && first["value"]["differs"] == true, "{found}");
    let reads = first["reads"].as_array().unwrap();
    assert!(reads.iter().all(|it| it["differs"] == false), "{found}");

    // Weights in a file beside the model, which comes from a folder of its own.
    let mut proto = tvm_onnx::read_model(&fs::read(model()).unwrap()[..]).unwrap();
    let mut data = Vec::new();
    for tensor in &mut proto.graph.as_mut().unwrap().initializer {
        if tensor.raw_data.is_empty() {
            continue;
        }
        let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
        tensor.external_data = vec![
            entry("location", "weights.bin".into()),
            entry("offset", data.len().to_string()),
            entry("length", tensor.raw_data.len().to_string()),
        ];
        tensor.data_location = 1;
        data.extend_from_slice(&std::mem::take(&mut tensor.raw_data));
    }
    assert!(!data.is_empty());
    fs::write(dir.path().join("weights.bin"), data).unwrap();
    let outside = dir.path().join("model.onnx");
    fs::write(&outside, proto.encode_to_vec()).unwrap();
    let text = tvmc(&["compare", &outside.display().to_string(), "--target", "c", "--inputs", &input]);
    assert!(text.ends_with(" same\n"), "{text}");
}

#[test]
fn accuracy_of_narrow_operands_is_reported() {
    let compare = |options: &[&str]| {
        let model = model();
        let args = [&["compare", &model, "--with", "f32", "--dim", "n=64", "--json"], options].concat();
        let output = tvmc_with(&args, "");
        let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        (output.status.code(), report)
    };
    let (code, report) = compare(&[]);
    assert_eq!((code, &report["outputs"][0]["rms"]), (Some(0), &Json::from(0.0)), "{report}");
    for (precision, most) in [("bf16", 0.02), ("f16", 0.002)] {
        let (code, report) = compare(&["--precision", precision]);
        let output = &report["outputs"][0];
        let rms = output["rms"].as_f64().unwrap();
        assert!(code == Some(0) && rms > 0.0 && rms < most, "{precision}: {report}");
        assert_eq!(output["same_largest"]["rows"], 64, "{report}");
        let same = output["same_largest"]["same"].as_u64().unwrap();
        assert!(same >= 60, "{report}");
    }
    // Beyond the tolerance, the first node is found.
    let (code, report) = compare(&["--precision", "bf16", "--rtol", "1e-6", "--atol", "1e-6"]);
    assert!(code == Some(1) && report["first"]["node"].is_string(), "{report}");
    let (code, err) = refused(&["compare", &model(), "--with", "f32", "--precision", "f8"]);
    assert!(
        code == 2 && err.contains("expected f32, bf16, f16, int8-weights or int4-weights, got `f8`"),
        "{err}"
    );
}
