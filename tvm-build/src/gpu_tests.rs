//! Tests of the files that are written for GPUs, and of what is missing or refused. `examples/build_rs_app` runs such models and
//! kernels on a GPU that the CPU stands in for.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tvm::prelude::*;
use tvm_codegen::CodegenError;
use tvm_codegen::cuda::{CudaSource, ImageCompiler, ImageOptions, set_image_compiler};
use tvm_core::pass::{PassContext, Pipelines};
use tvm_runtime::RuntimeError;
use tvm_runtime::vm::{Executable, ObjectKind};

use crate::{BuildError, BuildItem, Codegen, Device, Kernel, Model};

#[prim_func]
fn scale(x: &Tensor<f32, n>, factor: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * factor;
    }
}

/// As `scale`, for GPUs.
#[prim_func]
fn scale_twice(x: &Tensor<f32, n>, factor: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * factor * 2.0;
    }
}

/// Another parameter than `scale`.
#[prim_func]
fn scale_wide(x: &Tensor<f64, n>, factor: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] as f32 * factor;
    }
}

/// Takes the source for the code, if there is a compiler.
struct Copies(bool);

impl ImageCompiler for Copies {
    fn version(&self) -> Result<String, CodegenError> {
        let message = "libnvrtc is not found\n  help: install it".into();
        self.0.then(|| "copies".into()).ok_or(CodegenError::Target { target: "cuda".into(), message })
    }

    fn compile(&self, source: &CudaSource, _: &ImageOptions) -> Result<Vec<u8>, CodegenError> {
        self.version().map(|_| source.text.clone().into_bytes())
    }
}

/// Sets the compiler of the process for one test; with `false`, it is missing.
fn with_compiler(there: bool) -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    set_image_compiler(Some(Arc::new(Copies(there))));
    guard
}

fn digits(dir: &Path) -> Model {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits_cnn/model.onnx");
    Model::onnx(path).name("digits").dim("n", 1..=64).codegen(Codegen::C).out_dir(dir)
}

fn kernel(dir: &Path) -> Kernel {
    Kernel::of::<scale>().codegen(Codegen::C).out_dir(dir)
}

#[test]
fn files_of_a_model_for_gpus() {
    let _guard = with_compiler(true);
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let compile = |dir: &Path| {
        let model = digits(dir).gpu(["sm_90", "sm_80"]).place("Softmax", Device::cpu());
        model.compile().unwrap()
    };
    let compiled = compile(dirs[0].path());
    let bytes = std::fs::read(compiled.gpu_artifact.as_ref().unwrap()).unwrap();
    let exe = Executable::load(&bytes).unwrap();
    assert_eq!(exe.gpu_archs(), ["sm_80", "sm_90", "PTX for sm_90"]);
    let gpu = |kind: &ObjectKind| matches!(kind, ObjectKind::GpuKernels { .. });
    assert!(exe.objects.iter().all(|it| gpu(&it.kind)), "what runs on the host is in the library");
    assert_eq!((exe.metadata("model"), exe.metadata("source")), (Some("digits"), Some("model.onnx")));
    assert!(exe.target.starts_with("cuda -arch=sm_80,sm_90 -triple="), "{}", exe.target);
    let cpu = Executable::load_file(&compiled.artifact).unwrap();
    assert!(cpu.gpu_archs().is_empty());
    let wrapper = std::fs::read_to_string(&compiled.wrapper).unwrap();
    for expected in [
        "pub const GPU_ARCHS: &'static [&'static str] = &[\"sm_80\", \"sm_90\", \"PTX for sm_90\"];",
        "pub fn on(device: ::tvm_runtime::Device) -> Result<Digits, ::tvm_runtime::RuntimeError> {",
        "gpu: [\"digits.gpu.tvm\", [\n                (\"",
    ] {
        assert!(wrapper.contains(expected), "{expected} is not in\n{wrapper}");
    }
    assert_eq!(wrapper.matches("_gpu_").count(), 1, "softmax alone runs on the host:\n{wrapper}");
    // A flipped bit is noticed, and two compilations give the same bytes.
    for at in (0..bytes.len()).step_by(997) {
        let mut other = bytes.clone();
        other[at] ^= 1 << (at % 8);
        assert!(matches!(Executable::load(&other), Err(RuntimeError::Artifact(_))), "{at}");
    }
    let again = compile(dirs[1].path());
    assert!(std::fs::read(again.gpu_artifact.unwrap()).unwrap() == bytes, "two compilations differ");
    assert!(std::fs::read_to_string(again.wrapper).unwrap() == wrapper, "two compilations differ");
    // Code for GPUs changes nothing of the program for the CPU.
    let alone = digits(dirs[1].path()).compile().unwrap();
    let [with, without] = [&compiled.artifact, &alone.artifact].map(|it| std::fs::read(it).unwrap());
    assert!(with == without && alone.gpu_artifact.is_none() && alone.kernels == compiled.kernels);
}

#[test]
fn files_of_a_kernel_for_gpus() {
    let _guard = with_compiler(true);
    let dir = tempfile::tempdir().unwrap();
    let source = |exe: &Executable| {
        let texts = exe.objects.iter().map(|it| String::from_utf8_lossy(&it.bytes).into_owned());
        texts.collect::<String>()
    };
    let compile = |kernel: Kernel| {
        let files = kernel.gpu(["sm_80"]).compile().unwrap();
        let exe = Executable::load_file(files.gpu_artifact.unwrap()).unwrap();
        let wrapper = std::fs::read_to_string(files.wrapper).unwrap();
        assert!(wrapper.contains("gpu: [\"scale.gpu.tvm\", []],"), "{wrapper}");
        assert_eq!((exe.kernels.len(), exe.kernels[0].name.as_str()), (1, "scale"));
        assert_eq!(exe.gpu_archs(), ["sm_80", "PTX for sm_80"]);
        exe
    };
    let plain = compile(kernel(dir.path()));
    assert!(source(&plain).contains("__global__") && !source(&plain).contains("2.0"), "{}", source(&plain));
    let other = compile(kernel(dir.path()).gpu_schedule::<scale_twice>());
    assert!(source(&other).contains("2.0") && other.kernels == plain.kernels, "{}", source(&other));
}

#[test]
fn what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    {
        let _guard = with_compiler(false);
        let errors = [
            (digits(dir.path()).gpu(["sm_80"]).compile().map(drop), "model `digits`"),
            (kernel(dir.path()).gpu(["sm_80"]).compile().map(drop), "kernel `scale`"),
        ];
        for (res, item) in errors {
            let err = res.unwrap_err();
            assert!(matches!(err, BuildError::GpuCompiler { .. }), "{err}");
            let expected = "for GPUs: target `cuda`: libnvrtc is not found\n  help: install it";
            assert_eq!(err.to_string(), format!("cannot compile {item} {expected}"));
        }
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is written");
        // For the CPU alone, with the same functions.
        let model = digits(dir.path()).gpu_if_available(["sm_80"]).compile().unwrap();
        let kernel = kernel(dir.path()).gpu_if_available(["sm_80"]).compile().unwrap();
        assert!(model.gpu_artifact.is_none() && kernel.gpu_artifact.is_none());
        for wrapper in [model.wrapper, kernel.wrapper] {
            let text = std::fs::read_to_string(wrapper).unwrap();
            assert!(text.contains("gpu: [],") && text.contains("GPU_ARCHS: &'static [&'static str] = &[];"));
            assert!(text.contains("pub fn on(device: "), "{text}");
        }
    }
    let source = CodegenError::Unsupported { target: "NVRTC", feature: "cuda", help: "" };
    let item = BuildItem::Kernel("scale".into());
    let message = BuildError::GpuCompiler { item, source: source.into() }.to_string();
    let expected = "cannot compile kernel `scale` for GPUs: tvm-build lacks the feature `cuda`\n  help: turn it on in \
                    [build-dependencies]";
    assert_eq!(message, expected);
}

#[test]
fn what_is_refused_for_gpus() {
    let _guard = with_compiler(true);
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        (
            kernel(dir.path()).gpu(["sm_80", "90"]),
            "kernel `scale`: `90` is no GPU architecture; expected one of ",
        ),
        (
            kernel(dir.path()).gpu(["sm_80", "sm_80"]),
            "kernel `scale`: the list of GPU architectures (-arch) names sm_80 twice",
        ),
        (kernel(dir.path()).gpu([""; 0]), "kernel `scale`: `` is no GPU architecture; expected one of "),
        (kernel(dir.path()).gpu_if_available(["sm_1"]), "kernel `scale`: `sm_1` is no GPU architecture"),
        (
            kernel(dir.path()).gpu_schedule::<scale_wide>().gpu(["sm_80"]),
            "kernel `scale`: the kernel for GPUs is `fn scale(x: &Tensor<f64, n>, factor: f32, y: &mut Tensor<f32, n>)`, expected \
             the parameters of `fn scale(x: &Tensor<f32, n>, ",
        ),
    ];
    for (kernel, expected) in cases {
        let err = kernel.compile().unwrap_err().to_string();
        assert!(err.starts_with(expected), "{err}");
    }
    // Without `gpu`, there is no kernel for GPUs to be wrong.
    let files = kernel(dir.path()).gpu_schedule::<scale_wide>().compile().unwrap();
    assert!(files.gpu_artifact.is_none());
}

/// The pipelines of the context are for the CPU: a program for GPUs gets its own.
#[test]
fn pipelines_of_the_context_are_those_of_the_cpu() {
    let _guard = with_compiler(true);
    let [own, plain] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let compile = |dir: &Path| kernel(dir).gpu(["sm_80"]).compile().unwrap().gpu_artifact.unwrap();
    let context = PassContext::new().pipelines(Pipelines::for_target(&Target::c()));
    let files = [context.scope(|| compile(own.path())), compile(plain.path())];
    let [own, plain] = files.map(|it| std::fs::read(it).unwrap());
    assert!(own == plain, "the pipelines of the CPU were taken for the GPU");
}
