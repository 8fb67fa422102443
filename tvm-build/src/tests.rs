//! Tests of the written files and of rejected input. `examples/build_rs_app` compiles, links and runs a wrapper.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tvm_core::pass::{PassContext, Pipelines, module_pass};
use tvm_core::target::Target;
use tvm_runtime::vm::{Executable, Instruction, Reg, ValueType, VmFunction, VmParam};
use tvm_runtime::{DataType, DimBound, DimSig, KernelSig};

use crate::gpu::EmbeddedGpu;
use crate::wrapper::Wrapper;
use crate::{BuildError, Codegen, Model};

fn digits() -> Model {
    Model::onnx(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits_cnn/model.onnx")).name("digits")
}

#[test]
fn files_of_a_model() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let compile = |dir: &Path| digits().dim("n", 1..=64).out_dir(dir).compile().unwrap();
    let compiled = compile(dirs[0].path());
    assert!(std::fs::metadata(&compiled.library).unwrap().len() > 1000);
    let exe = Executable::load_file(&compiled.artifact).unwrap();
    assert_eq!((exe.kernels.len(), exe.objects.len()), (compiled.kernels, 0));
    assert_eq!(exe.metadata("input.0"), Some("image"));
    assert_eq!(exe.target, compiled.target);
    let wrapper = std::fs::read_to_string(&compiled.wrapper).unwrap();
    for expected in [
        "pub struct Digits(::tvm_runtime::LinkedModel);",
        "pub const N: std::ops::RangeInclusive<i64> = 1..=64;",
        "pub const IMAGE_SHAPE: [Option<i64>; 4] = [None, Some(1), Some(8), Some(8)];",
        "pub fn run(&self, image: impl ::tvm_runtime::ModelInput<f32, 4>) -> Result<DigitsOutput,",
        "pub probabilities: ::tvm_runtime::TypedTensor<f32, 2>,",
        "artifact: \"digits.tvm\",",
    ] {
        assert!(wrapper.contains(expected), "{expected} is not in\n{wrapper}");
    }
    let facade = std::fs::read_to_string(dirs[0].path().join("digits.facade.rs")).unwrap();
    assert_eq!(facade.replace("::tvm::runtime", "::tvm_runtime"), wrapper);
    let again = compile(dirs[1].path());
    for (first, second) in [(&compiled.wrapper, &again.wrapper), (&compiled.artifact, &again.artifact)] {
        assert!(std::fs::read(first).unwrap() == std::fs::read(second).unwrap(), "two compilations differ");
    }
}

#[test]
fn what_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Model::onnx(path).out_dir(dir.path())
    };
    let text = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits_cnn/model.onnx"));
    let mut other = text.unwrap();
    for (from, to) in [(b"Softmax", b"Softmix"), (b"MaxPool", b"MaxPuul")] {
        let places: Vec<usize> =
            other.windows(from.len()).enumerate().filter(|(_, it)| it == from).map(|(at, _)| at).collect();
        places.iter().for_each(|&at| other[at..at + to.len()].copy_from_slice(to));
    }
    let models: Vec<(Model, &[&str])> = vec![
        (digits().name("no-name"), &["`no-name` cannot name a model", ".name("]),
        (
            Model::onnx("nowhere/model.onnx").out_dir(dir.path()),
            &["cannot import nowhere/model.onnx", "cannot read"],
        ),
        (file("empty.onnx", b""), &["cannot import"]),
        (file("junk.onnx", b"\xff\xff\xff"), &["junk.onnx: not a valid ONNX model"]),
        (file("other.onnx", &other), &["operator Softmix", "operator MaxPuul", "-->"]),
        (digits().dim("m", 4).out_dir(dir.path()), &["no input has a dimension `m`; there are [n]"]),
        (
            digits().codegen(crate::Codegen::C).target("mips-none-nowhere").out_dir(dir.path()),
            &["model `digits` for mips-none-nowhere: ", "cc"],
        ),
    ];
    for (model, expected) in models {
        let err = model.compile().unwrap_err();
        let message = err.to_string();
        assert_eq!(format!("{err:?}"), message, "a build script shows `Debug`");
        for expected in expected {
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        }
    }
    if std::env::var_os("OUT_DIR").is_none() {
        let err = digits().compile().unwrap_err();
        assert!(matches!(&err, BuildError::NoOutDir { item } if item.to_string() == "model `digits`"));
        assert!(err.to_string().contains("OUT_DIR"), "{err}");
    }
}

#[test]
fn pipelines_of_the_context_run() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let logs = |name| {
        let log = log.clone();
        module_pass(name, move |module, _| {
            log.lock().unwrap().push(name);
            Ok(module)
        })
    };
    let default = Pipelines::for_target(&Target::c());
    let graph = default.graph.insert_after("FuseTIR", logs("test.Graph")).unwrap();
    let tir = default.tir.insert_before("VerifySource", logs("test.Tir")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let compile = |pipelines: Pipelines| {
        let context = PassContext::new().pipelines(pipelines);
        context.scope(|| digits().codegen(Codegen::C).out_dir(dir.path()).compile())
    };
    compile(Pipelines { graph: graph.clone(), tir }).unwrap();
    assert_eq!(*log.lock().unwrap(), ["test.Graph", "test.Tir"]);
    let err = compile(Pipelines { graph: graph.without("LegalizeOps").unwrap(), ..default }).unwrap_err();
    assert!(matches!(err, BuildError::Pass { .. }), "{err}");
}

#[test]
fn wrappers_are_short_and_hold_no_foreign_code() {
    let evil = "x`\"\n*/ } fn evil() { \\";
    let n = 1000;
    let ty = || ValueType::Tensor {
        dtype: Some(DataType::F16),
        shape: Some(vec![DimSig::Var(evil.into()), DimSig::Const(3)]),
    };
    let params = (0..n).map(|i| VmParam { name: format!("{evil}{i}"), ty: ty() }).collect();
    let function = |name: &str, params, ret| VmFunction {
        name: name.into(),
        params,
        ret,
        num_regs: 1,
        public: true,
        code: vec![Instruction::Ret { src: Reg(0) }],
    };
    let exe = Executable {
        functions: vec![
            function("main", params, ValueType::Tuple((0..n).map(|_| ty()).collect())),
            function(evil, Vec::new(), ValueType::Object),
        ],
        kernels: (0..n).map(|i| KernelSig { name: format!("{evil}{i}"), params: Vec::new() }).collect(),
        ..Executable::default()
    };
    // Dimensions with the names of constants that each wrapper has.
    let bounds = ["target", "gpu_archs"].map(|name| (name.into(), DimBound::between(1, 8).unwrap()));
    let io = tvm_codegen::Io { bounds: bounds.into(), ..tvm_codegen::Io::default() };
    let on_host = (0..n).map(|i| (format!("{evil}{i}"), format!("big_1_gpu_{i}"))).collect();
    let gpu = EmbeddedGpu { file: "big.gpu.tvm".into(), archs: vec!["sm_80".into()], on_host };
    let (target, library) = (Target::c(), "tvm_big_1");
    let units = [(None, "big_1".to_string())];
    let wrapper = Wrapper {
        name: "big",
        units: &units,
        gpu: Some(&gpu),
        library,
        target: &target,
        exe: &exe,
        origin: Some(evil),
        io: &io,
    };
    let text = wrapper.text("::tvm_runtime");
    assert!(text.lines().count() < 300, "{} lines", text.lines().count());
    assert!(!text.lines().any(|line| line.trim_start().starts_with("*/ } fn evil")), "{text}");
    assert!(text.contains("impl ::tvm_runtime::ModelInput<::tvm_runtime::half::f16, 2>"));
    assert!(text.contains("const TARGET_2: ") && text.contains("const GPU_ARCHS_2: "), "{text}");
    assert!(text.contains("-> Result<BigXFnEvilOutput, ::tvm_runtime::RuntimeError>"), "{text}");
}
