//! Tests of the command line as a process, on the digits model.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::process::Command;

use support::{digits, model, refused, root, tvmc, tvmc_with};

#[test]
fn onnx_test_counts_and_exits() {
    let out = tvmc(&["onnx-test", &digits(), "--target", "c"]);
    assert!(out.ends_with("1 passed, 0 failed\n") && out.contains("digits_cnn ok"), "{out}");
    let out = tvmc(&["onnx-test", &digits(), "--skip-unsupported"]);
    assert!(out.ends_with("1 passed, 0 failed, 0 skipped\n"), "{out}");
    let output = tvmc_with(&["onnx-test", &digits(), "--rtol", "0", "--atol", "0"], "");
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        out.contains("FAIL test_data_set_0: output `probabilities`: ")
            && out.ends_with("0 passed, 1 failed\n")
    );
    let (code, err) = refused(&["onnx-test", &root().join("tvm-cli/src").display().to_string()]);
    assert!(code == 1 && err.contains("holds no test"), "{err}");
}

#[test]
fn an_artifact_gives_what_the_model_gives() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let model = model();
    let input = format!("image={}/test_data_set_0/input_0.pb", digits());
    let out = tvmc(&["compile", &model, "-o", &at("digits.tvm"), "--target", "c"]);
    assert!(out.starts_with("wrote "), "{out}");
    let portable = tvmc(&["compile", &model, "-o", &at("portable.tvm"), "--target", "c -mcpu=x86-64-v2"]);
    assert!(!cfg!(target_arch = "x86_64") || portable.ends_with(", for x86-64-v2\n"), "{portable}");
    let artifact = at("digits.tvm");
    for args in [vec!["run", &model, "--target", "c"], vec!["run", &artifact]] {
        let dir = at(if args.len() > 2 { "a" } else { "b" });
        let out = tvmc(&[&args[..], &["--input", &input, "--output-dir", &dir]].concat());
        assert!(out.starts_with("probabilities: Tensor<f32>["), "{out}");
    }
    assert_eq!(fs::read(at("a/output_0.npy")).unwrap(), fs::read(at("b/output_0.npy")).unwrap());
    let out = tvmc(&["inspect", &at("digits.tvm"), "--disassemble"]);
    for want in ["tvm artifact", "image  Tensor<f32, n, 1, 8, 8>", "-> Tensor<f32, n, 10>", "invoke_kernel"] {
        assert!(out.contains(want), "expected `{want}` in:\n{out}");
    }
    fs::write(at("cut.tvm"), &fs::read(at("digits.tvm")).unwrap()[..1000]).unwrap();
    let (code, err) = refused(&["run", &at("cut.tvm"), "--fill", "ones"]);
    assert!(code == 1 && err.contains("cut.tvm: artifact of"), "{err}");
    let (_, err) = refused(&["run", &artifact, "--fill", "ones", "--dim", "n=3"]);
    assert!(
        err.contains(
            "is compiled already: --dim, --shape, --sequence, --absent, --place, --precision and --fast-math are for models"
        ),
        "{err}"
    );
}

#[test]
fn places_of_nodes() {
    let model = model();
    let run = |place: &[&str]| {
        let args = ["run", &model, "--target", "c", "--fill", "ones", "--dim", "n=1"];
        let out = tvmc(&[&args[..], place].concat());
        out.split("ready after").next().unwrap().to_string()
    };
    assert_eq!(run(&["--place", "Softmax=cpu", "--place", "fc2=cpu"]), run(&[]));
    let (_, err) = refused(&["run", &model, "--fill", "ones", "--place", "TopK=cpu"]);
    let there = ["no node and no operator `TopK` to place", "BatchNormalization", "fc1, relu4, fc2, softmax"];
    assert!(there.iter().all(|it| err.contains(it)), "{err}");
    let (_, err) = refused(&["run", &model, "--fill", "ones", "--place", "Softmax=tpu"]);
    assert!(err.contains("`tpu` is not a device"), "{err}");
    let (_, err) = refused(&["run", &model, "--fill", "ones", "--place", "Softmax"]);
    assert!(err.contains("`Softmax` is not NODE=DEVICE"), "{err}");
}

/// An artifact for GPUs where there is a compiler of their code, otherwise an error that says what to install or to build.
#[test]
fn artifacts_for_gpus() {
    let dir = tempfile::tempdir().unwrap();
    let artifact = dir.path().join("digits.tvm").display().to_string();
    let output = tvmc_with(
        &["compile", &model(), "-o", &artifact, "--target", "cuda -arch=sm_90,sm_80", "--dim", "n=1"],
        "",
    );
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    if !output.status.success() {
        let installs = err.contains("pip install nvidia-cuda-nvrtc") || err.contains("feature `cuda`");
        assert!(installs && !fs::exists(&artifact).unwrap(), "{err}");
        eprintln!("SKIPPED: there is no NVRTC");
        return;
    }
    assert!(out.ends_with(", for sm_80, sm_90, PTX for sm_90\n"), "{out}");
    let out = tvmc(&["inspect", &artifact]);
    for want in ["target cuda -arch=sm_80,sm_90", "kernels.sm_80.cubin.0", "kernels.sm_90.ptx.0"] {
        assert!(out.contains(want), "expected `{want}` in:\n{out}");
    }
    let output = tvmc_with(&["run", &artifact, "--fill", "ones"], "");
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() || err.contains("cuda:0"), "{err}");
}

#[test]
fn every_stage_can_be_seen() {
    let model = model();
    for (emit, want) in [
        ("relax", "conv2d(image"),
        ("tir", "#[prim_func"),
        ("schedule", "contraction (tile"),
        ("c", "void"),
        ("asm", ".text"),
    ] {
        let out = tvmc(&["compile", &model, "--emit", emit, "--target", "c"]);
        assert!(out.contains(want), "expected `{want}` in what --emit {emit} gives");
    }
    let gpu = ["compile", &model, "--target", "cuda -arch=sm_90", "--emit"];
    let out = tvmc(&[&gpu[..], &["cuda"]].concat());
    assert!(out.contains("extern \"C\" __global__ void") && !out.contains("#include"), "{out}");
    let out = tvmc(&[&gpu[..], &["schedule"]].concat());
    assert!(out.contains("fallback (") && out.contains("#[bind(\"threadIdx.x\")]"), "{out}");
    let (_, err) = refused(&["compile", &model, "--target", "c", "--emit", "cuda"]);
    assert!(err.contains("target of kind `cuda`"), "{err}");
    let (_, err) = refused(&["compile", &model, "--target", "cuda -arch=sm_1", "--emit", "cuda"]);
    assert!(err.contains("`sm_1` is no GPU architecture"), "{err}");
    let (_, err) = refused(&[&gpu[..], &["obj", "-o", "digits.o"]].concat());
    assert!(err.contains("applications load an artifact"), "{err}");
    let (_, err) = refused(&["compile", &model, "--target", "cuda -arch=sm_80,sm_90", "--emit", "cuda"]);
    assert!(err.contains("a unit is for one GPU architecture") && err.contains("write an artifact"), "{err}");
    let dir = tempfile::tempdir().unwrap();
    let artifact = dir.path().join("digits.tvm").display().to_string();
    let out = tvmc(&["compile", &model, "--explain", "--target", "c", "-o", &artifact]);
    for want in
        ["convolution of n×1×8×8 by ", "layout NCHW", "one kernel for ", ": contraction (tile ", "wrote "]
    {
        assert!(out.contains(want), "expected `{want}` in:\n{out}");
    }
    let (_, err) = refused(&["compile", &model, "--explain", "-o", "-"]);
    assert!(err.contains("--explain is about a file"), "{err}");
    let out = tvmc(&["inspect", &model]);
    for want in ["opsets ai.onnx 17", "image  Tensor<f32, n, 1, 8, 8>", "Relu                4", "14 nodes"] {
        assert!(out.contains(want), "expected `{want}` in:\n{out}");
    }
    let out = tvmc(&["ops", "softmax"]);
    assert!(out.contains(" Softmax                  1, 13") && out.contains("nn.softmax"), "{out}");
    assert!(tvmc(&["doctor"]).contains("default target"));
}

#[test]
fn wrong_requests_are_explained() {
    let model = model();
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("no/out.npz").display().to_string();
    let here = dir.path().display().to_string();
    // 1: an error; 2: a command line that is invalid.
    let cases: &[(&[&str], i32, &str)] = &[
        (&["run", "nope.onnx"], 1, "nope.onnx"),
        (&["run", &model], 2, "give --input image=FILE, or --fill"),
        (&["run", &model, "--input", "x=1"], 2, "the inputs are image"),
        (&["run", &model, "--input", "image=nope.npy"], 1, "input `image`: nope.npy: No such file"),
        (&["run", &model, "--fill", "ones", "--dim", "m=2"], 1, "no input has a dimension `m`"),
        (
            &["run", &model, "--fill", "ones", "--shape", "x=2"],
            1,
            "model.onnx: malformed model: there is no input `x`",
        ),
        (&["run", &model, "--fill", "ones", "--repeat", "0"], 2, "0 is not in 1..=4294967295"),
        (&["run", &model, "--fill", "ones", "--threads", "0"], 2, "0 is not in 1..=1024"),
        (&["run", &model, "--fill", "ones", "--target", "z80"], 2, "`z80` is not a target"),
        // Outputs are checked before the model is read.
        (&["run", "nope.onnx", "--output", &nowhere], 1, "no/out.npz: there is no directory"),
        (&["run", "nope.onnx", "--output", "out.txt"], 2, "out.txt: outputs are written as .npz or .npy"),
        (&["compile", "nope.onnx", "--output", &nowhere], 1, "no/out.npz: there is no directory"),
        (&["compile", "nope.onnx", "--output", &here], 1, "is a directory, expected a file to write"),
        (&["compile", "-"], 2, "a model from standard input needs --output"),
        (&["compile", &model, "--emit", "c", "--json"], 2, "--json describes a file that is written"),
        (&["compile", &model, "--dim", "n"], 2, "NAME=NUMBER"),
        (&["compile", &here], 1, "is a directory, expected a model or artifact"),
        (&["run", "-", "--input", "-"], 1, "error: standard input: "),
        (&["bench", "matmul:2x3"], 2, "has 2 extents, expected `matmul:mxnxk`"),
        (
            &["bench", "matmul:2x3x4", "--vs", "gemm,nope"],
            2,
            "`nope` is not a library to compare with: gemm, faer",
        ),
        (&["bench", &model, "--dim", "m=2"], 1, "no input has a dimension `m`"),
    ];
    for (args, status, want) in cases {
        let (code, err) = refused(args);
        assert!(code == *status && err.contains(want), "{args:?}: {code}, {err}");
    }
}

#[test]
fn what_is_lost_or_slow_is_said() {
    let model = model();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tvmc"));
    let command = command.args(["run", &model, "--fill", "ones", "--dim", "n=1"]);
    let run = command.env("CC", "/nonexistent/cc").output().unwrap();
    let err = String::from_utf8(run.stderr).unwrap();
    // With LLVM no C compiler is needed. Without LLVM and a C compiler, nothing is interpreted unless the user asks for it.
    let refused = !run.status.success()
        && err.starts_with("error: no C compiler: tried /nonexistent/cc\n")
        && err.contains("help: install gcc or clang");
    assert!(if cfg!(feature = "llvm") { run.status.success() } else { refused }, "{err}");
    if let Ok(full) = fs::File::options().write(true).open("/dev/full") {
        let run = Command::new(env!("CARGO_BIN_EXE_tvmc")).arg("ops").stdout(full).output().unwrap();
        let err = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(1) && err.starts_with("error: standard output: "), "{err}");
    }
}

#[test]
fn the_conformance_worker_answers_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display();
    let requests = format!("{}\t{out}\nno tab\n{}\t{out}/none\n", digits(), root().display());
    let output = tvmc_with(&["worker", "conformance", "--target", "c"], &requests);
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<serde_json::Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let status: Vec<&str> = answers.iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["ok", "error", "error"], "{text}");
    assert_eq!(answers[2]["phase"], "load");
    for set in 0..3 {
        assert_eq!(fs::read_to_string(dir.path().join(format!("{set}/n.json"))).unwrap(), "1");
        assert!(dir.path().join(format!("{set}/output_0.npy")).is_file());
    }
}

#[test]
fn the_bench_worker_loads_runs_and_gives_outputs() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.bin"), dir.path().join("out.bin"));
    fs::write(&input, vec![0u8; 2 * 64 * 4]).unwrap();
    let case = serde_json::json!({
        "onnx": model(),
        "onnx_inputs": [{"name": "image", "dtype": "f32", "shape": [2, 1, 8, 8], "file": input}],
    });
    let mut artifact = case.clone();
    artifact["artifact"] = true.into();
    let requests = [
        serde_json::json!({"op": "run"}),
        serde_json::json!({"op": "load", "case": case}),
        serde_json::json!({"op": "run", "secs": 0.01, "min": 2, "max": 5}),
        serde_json::json!({"op": "out", "path": output}),
        serde_json::json!({"op": "load", "case": artifact}),
        serde_json::json!({"op": "run", "secs": 0.01, "min": 2, "max": 5}),
        serde_json::json!({"op": "quit"}),
    ];
    let requests: String = requests.iter().map(|it| format!("{it}\n")).collect();
    let text = String::from_utf8(tvmc_with(&["worker", "bench", "--target", "c"], &requests).stdout).unwrap();
    let answers: Vec<serde_json::Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!((answers.len(), &answers[0]["ok"]), (6, &false.into()), "{text}");
    assert!(answers[1..].iter().all(|it| it["ok"] == true), "{text}");
    assert!(answers[1]["ready_s"].is_null() && answers[4]["ready_s"].as_f64().unwrap() > 0.0, "{text}");
    assert!(answers[2]["times"].as_array().unwrap().len() >= 2, "{text}");
    assert_eq!(answers[3]["shape"], serde_json::json!([2, 10]));
    assert_eq!(fs::read(&output).unwrap().len(), 2 * 10 * 4);
}

#[test]
fn shells_get_completions() {
    for (shell, wants) in [
        ("bash", ["complete -F _tvmc", "--fast-math"]),
        ("zsh", ["#compdef tvmc", "--fast-math"]),
        ("fish", ["complete -c tvmc", "fast-math"]),
    ] {
        let script = tvmc(&["completions", shell]);
        assert!(wants.iter().all(|want| script.contains(want)), "{shell}: {script}");
    }
    assert_eq!(refused(&["completions", "dos"]).0, 2);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for args in [&["ops"][..], &["completions", "bash"], &["--help"]] {
        let writer = writer.try_clone().unwrap();
        let run = Command::new(env!("CARGO_BIN_EXE_tvmc")).args(args).stdout(writer).output().unwrap();
        assert!(run.status.success() && run.stderr.is_empty(), "{args:?}: {run:?}");
    }
}

#[test]
fn every_command_explains_its_options() {
    for command in ["run", "compile", "bench", "inspect", "compare", "ops", "onnx-test", "doctor"] {
        let help = tvmc(&[command, "--help"]);
        assert!(help.contains("--json"), "{command}: {help}");
        let has_options = !["ops", "doctor"].contains(&command);
        assert_eq!(help.contains("--dim <NAME=N>"), has_options, "{command}: {help}");
    }
}
