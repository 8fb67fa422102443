//! Artifacts with kernels for GPUs: saved in one process, which has the compiler, and loaded in another one, which has none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tvm::codegen::cuda::{CudaSource, ImageCompiler, ImageOptions, set_image_compiler};
use tvm::codegen::{CodegenError, compile_module, export_module};
use tvm::prelude::*;
use tvm::runtime::artifact::{GpuProgram, GpuUnit};
use tvm::runtime::vm::{CodeObject, Executable, Vm};
use tvm::runtime::{Backend, CodeFormat, HostInstr, LaunchArg};
use tvm::{In, Out};
use tvm_testing::fake_gpu;

use super::child::{log, on_gpu, run};
use super::emulated::Emulated;
use super::models::{assert_close, floats, tensor};

/// Environment variable of the process that loads: the artifact.
const FILE: &str = "TVM_TEST_ARTIFACT";

#[relax::func(name = "main")]
fn dense(x: Tensor<f32, n, 3>) -> Tensor<f32, n, 2> {
    let w = constant::<f32, 3, 2>([1.0, -1.0, 0.5, 2.0, 3.0, 0.25]);
    let h = relu(matmul(x, w)) + constant::<f32, 2>([0.5, -0.5]);
    softmax(h, axis = 1)
}

#[prim_func]
fn gather(x: &Tensor<f32, n>, at: &Tensor<i64, m>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        y[[i]] = x[[at[[i]] as usize]];
    }
}

#[relax::func(name = "main")]
fn gathers(x: Tensor<f32, n>, at: Tensor<i64, m>) -> Tensor<f32, m> {
    call_tir(gather, (x, at), Tensor::<f32, m>)
}

/// A machine without NVRTC.
struct Nothing;

impl ImageCompiler for Nothing {
    fn version(&self) -> Result<String, CodegenError> {
        Err(CodegenError::Target { target: "cuda".into(), message: "there is no compiler".into() })
    }

    fn compile(&self, _: &CudaSource, _: &ImageOptions) -> Result<Vec<u8>, CodegenError> {
        self.version().map(String::into_bytes)
    }
}

/// Runs `save` for the test `name` in a process without a GPU, and then `load` in one with the driver's `options` and without a compiler.
pub(crate) fn in_two_processes(name: &str, options: &[&str], save: impl FnOnce(&Path), load: impl Fn(&Path)) {
    let role = std::env::var("TVM_TEST_PHASE").unwrap_or_default();
    let path = std::env::var_os(FILE).map(PathBuf::from).unwrap_or_else(|| {
        let file = format!("tvm-test-{}-{}.tvm", std::process::id(), name.replace(':', "-"));
        std::env::temp_dir().join(file)
    });
    let text = path.to_str().unwrap();
    let phase = |phase| [("TVM_TEST_PHASE", phase), (FILE, text)];
    match role.as_str() {
        "save" => run(name, &[], false, || save(&path)),
        "load" => run(name, &[], true, || {
            set_image_compiler(Some(Arc::new(Nothing)));
            load(&path);
        }),
        _ => {
            run(name, &phase("save"), false, || ());
            for options in options {
                let [phase, file] = phase("load");
                run(name, &[phase, file, (fake_gpu::OPTIONS, options)], true, || ());
            }
            // None was written if tests run on the GPU of the machine.
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn export(module: &IRModule, target: &str) -> Executable {
    export_module(module, &target.parse().unwrap()).unwrap()
}

/// Loads an artifact that this test wrote.
pub(crate) fn linked(path: &Path) -> Result<Vm, RuntimeError> {
    // SAFETY: the test wrote it.
    #[allow(unsafe_code, reason = "see SAFETY")]
    unsafe {
        Vm::linked(Executable::load_file(path).unwrap())
    }
}

#[test]
fn a_saved_program_runs_in_another_process() {
    let save = |path: &Path| {
        let exe = export(&dense::module().unwrap(), "cuda -arch=sm_90,sm_80");
        assert_eq!(exe.gpu_archs(), ["sm_80", "sm_90", "PTX for sm_90"]);
        let bytes = exe.save().unwrap();
        assert_eq!(Executable::load(&bytes).unwrap(), exe);
        let again = export(&dense::module().unwrap(), "cuda -arch=sm_90,sm_80");
        assert_eq!(bytes, again.save().unwrap(), "saving twice gives the same bytes");
        std::fs::write(path, bytes).unwrap();
    };
    // Of the same architecture, of an older one with the same major number, and newer.
    let options = ["major=9", "major=8 minor=9", "major=12"];
    in_two_processes("artifacts::a_saved_program_runs_in_another_process", &options, save, |path| {
        let capability = Device::cuda(0).properties().unwrap().compute_capability;
        let exe = Executable::load_file(path).unwrap();
        // SAFETY: the test wrote it.
        #[allow(unsafe_code, reason = "see SAFETY")]
        let module = unsafe { exe.link().unwrap() };
        let want = match capability {
            Some((8, 9)) => ("sm_80", CodeFormat::Cubin),
            Some((9, 0)) => ("sm_90", CodeFormat::Cubin),
            _ => ("sm_90", CodeFormat::Ptx),
        };
        for kernel in module.iter() {
            let image = kernel.device_program().unwrap().image();
            assert_eq!((image.arch(), image.format()), want, "{capability:?}");
        }
        let (there, here) =
            (linked(path).unwrap(), compile_module(&dense::module().unwrap(), &Target::host()));
        assert_eq!(there.backend(), Backend::Device);
        assert!(log("load").is_empty(), "code is loaded when it is called");
        for n in [1i64, 4, 0, 7] {
            let data: Vec<f32> = (0..3 * n).map(|i| i as f32 * 0.25 - 1.0).collect();
            let x = tensor(&data, &[n, 3]);
            let run = |vm: &Vm| floats(&vm.invoke("main", std::slice::from_ref(&x)).unwrap());
            assert_close(&run(&there), &run(here.as_ref().unwrap()));
        }
        assert!(!log("launch").is_empty());
        let err = there.invoke("main", &[tensor(&[1.0; 4], &[2, 2])]).unwrap_err().to_string();
        assert!(err.contains("axis 1 is 2, expected 3"), "{err}");
    });
}

#[test]
fn a_saved_model_runs_in_another_process() {
    let file = "examples/data/digits_cnn/model.onnx";
    let save = |path: &Path| {
        let target = "cuda -arch=sm_90a".parse().unwrap();
        Model::onnx(file).unwrap().target(target).compile().unwrap().save(path).unwrap();
    };
    in_two_processes("artifacts::a_saved_model_runs_in_another_process", &[""], save, |path| {
        // SAFETY: the test wrote it.
        #[allow(unsafe_code, reason = "see SAFETY")]
        let there = unsafe { CompiledModel::load(path).unwrap() };
        let here = Model::onnx(file).unwrap().compile().unwrap();
        for batch in [1usize, 3] {
            let data = (0..batch * 64).map(|i| (i * 7 % 17) as f32 / 16.0).collect();
            let x = Tensor::from_vec::<f32>(data, &[batch as i64, 1, 8, 8]).unwrap();
            let [got, want] = [&there, &here].map(|model| model.run([&x]).unwrap());
            assert_close(&got[0].to_vec::<f32>().unwrap(), &want[0].to_vec::<f32>().unwrap());
        }
        assert!(!log("launch").is_empty());
    });
}

#[test]
fn failures_keep_their_names() {
    let save = |path: &Path| export(&gathers::module().unwrap(), "cuda").save_file(path).unwrap();
    in_two_processes("artifacts::failures_keep_their_names", &[""], save, |path| {
        let vm = linked(path).unwrap();
        let run = |index: i64| {
            let at = Tensor::from_slice(&[0, index], &[2]).unwrap();
            vm.invoke("main", &[tensor(&[1., 2., 3.], &[3]), at.into()])
        };
        assert_eq!(floats(&run(2).unwrap()), [1., 3.]);
        for index in [3, -1] {
            let err = run(index).unwrap_err().to_string();
            let what =
                format!("index {index} is outside of axis 0 of `x`, whose extent is 3 (at tests/cuda/");
            assert!(err.contains(&what), "{err}");
        }
    });
}

#[test]
fn another_architecture_is_named() {
    let save = |path: &Path| {
        export(&dense::module().unwrap(), "cuda -arch=sm_80,sm_90").save_file(path).unwrap();
    };
    in_two_processes("artifacts::another_architecture_is_named", &["major=7 minor=5"], save, |path| {
        let err = linked(path).unwrap_err();
        assert!(matches!(err, RuntimeError::GpuArch { .. }), "{err}");
        assert_eq!(
            err.to_string(),
            "cuda:0 is of the architecture sm_75, the program has kernels for sm_80, sm_90, PTX for sm_90\n  help: compile \
             it for this one as well: `tvmc compile MODEL --target \"cuda -arch=sm_75,sm_80,sm_90\"`; in a build script, add it to `.gpu([..])`"
        );
    });
}

/// Each GPU of a machine takes the code that suits it.
#[test]
fn gpus_of_several_architectures() {
    let save = |path: &Path| {
        export(&gathers::module().unwrap(), "cuda -arch=sm_80,sm_90a").save_file(path).unwrap();
    };
    let options = ["devices=2 major1=8", "devices=2 major1=7", "devices=2 major=7 major1=8"];
    in_two_processes("artifacts::gpus_of_several_architectures", &options, save, |path| {
        let exe = Executable::load_file(path).unwrap();
        // SAFETY: the test wrote it.
        #[allow(unsafe_code, reason = "see SAFETY")]
        let module = unsafe { exe.link().unwrap() };
        assert!(log("context").is_empty(), "no GPU is opened before it is used");
        let devices = Device::all_cuda();
        let kernel = module.iter().next().unwrap();
        let program = kernel.device_program().unwrap();
        let call = CompiledFn::<(In<f32, 1>, In<i64, 1>, Out<f32, 1>)>::new(kernel.clone()).unwrap();
        for device in devices {
            let own = device.properties().unwrap().compute_capability.unwrap();
            let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap().to_device(device).unwrap();
            let at = Tensor::from_slice(&[2i64, 0], &[2]).unwrap().to_device(device).unwrap();
            let mut y = Tensor::empty(&[2], DataType::F32, device).unwrap();
            let loads = log("load").len();
            if own.0 == 7 {
                let expected =
                    format!("{device} is of the architecture sm_70, the program has kernels for sm_80");
                let err = call.call(&x, &at, &mut y).unwrap_err().to_string();
                assert!(err.starts_with(&expected), "{err}");
                assert!(matches!(program.image_on(device), Err(RuntimeError::GpuArch { .. })));
                assert_eq!(log("load").len(), loads);
                continue;
            }
            let want = if own.0 == 9 { "sm_90a" } else { "sm_80" };
            assert_eq!(program.image_on(device).unwrap().arch(), want);
            call.call(&x, &at, &mut y).unwrap();
            assert_eq!(y.to_device(Device::cpu()).unwrap().to_vec::<f32>().unwrap(), [3.0, 1.0]);
            assert_eq!(log("load").len(), loads + 1);
        }
        // Tensors on the host are for the first GPU that there is code for.
        let (loads, mut y) = (log("load").len(), [0.0f32; 2]);
        call.call(&[1.0, 2.0, 3.0], &[2i64, 0], &mut y).unwrap();
        assert_eq!((y, log("load").len()), ([3.0, 1.0], loads));
    });
}

#[test]
fn no_gpu_and_no_compiler() {
    run("artifacts::no_gpu_and_no_compiler", &[], false, || {
        let exe = export(&dense::module().unwrap(), "cuda -arch=sm_90a");
        assert_eq!(exe.gpu_archs(), ["sm_90a"], "code for one GPU alone has no PTX for others");
        // SAFETY: the kernels were compiled above.
        #[allow(unsafe_code, reason = "see SAFETY")]
        let err = unsafe { Vm::linked(exe).unwrap_err().to_string() };
        assert_eq!(err, "cuda:0: libcuda.so.1 was not found\n  help: install NVIDIA's driver");
        set_image_compiler(Some(Arc::new(Nothing)));
        let err = export_module(&dense::module().unwrap(), &Target::cuda()).unwrap_err().to_string();
        assert!(err.contains("there is no compiler"), "{err}");
        set_image_compiler(Some(Arc::new(Emulated)));
        export(&dense::module().unwrap(), "cuda");
    });
}

/// A target with several architectures runs in the process that compiles as well, with those of its GPU.
#[test]
fn one_of_several_architectures_is_compiled_to_run() {
    on_gpu("artifacts::one_of_several_architectures_is_compiled_to_run", "major=9", || {
        let target: Target = "cuda -arch=sm_75,sm_80,sm_90".parse().unwrap();
        let kernel = gather::compile(&target).unwrap();
        let mut y = [0.0f32; 2];
        kernel.call(&[1.0, 2.0, 3.0], &[2i64, 0], &mut y).unwrap();
        assert_eq!(y, [3.0, 1.0]);
        let module = tvm::codegen::build(&gather::module().unwrap(), &target).unwrap();
        let image = module.iter().next().unwrap().device_program().unwrap().image().clone();
        assert_eq!((image.arch(), image.format()), ("sm_90", CodeFormat::Cubin));
    });
}

/// Whether a jump goes back.
fn loops(program: &GpuProgram) -> bool {
    program.host.code.iter().enumerate().any(|(at, instr)| match *instr {
        HostInstr::Jump { to } | HostInstr::JumpIfZero { to, .. } | HostInstr::JumpUnlessLess { to, .. } => {
            to as usize <= at
        }
        _ => false,
    })
}

/// Bytes that are damaged are errors, and the host's part of a damaged program plans something or nothing, but does not panic.
#[test]
fn damaged_bytes_are_errors() {
    on_gpu("artifacts::damaged_bytes_are_errors", "", || {
        let exe = export(&gathers::module().unwrap(), "cuda");
        let bytes = exe.save().unwrap();
        for at in (0..bytes.len()).step_by(37) {
            let mut other = bytes.clone();
            other[at] ^= 1 << (at % 8);
            assert!(matches!(Executable::load(&other), Err(RuntimeError::Artifact(_))), "{at}");
            assert!(matches!(Executable::load(&bytes[..at]), Err(RuntimeError::Artifact(_))), "{at}");
        }
        let object = &exe.objects[0];
        let code = GpuUnit::of_object(object).unwrap().unwrap().code.len();
        let x = LaunchArg::Tensor { shape: &[3], dtype: DataType::F32 };
        let args = [x, LaunchArg::Tensor { shape: &[2], dtype: DataType::I64 }, x];
        let (mut refused, mut planned) = (0, 0);
        for at in 0..object.bytes.len() - code {
            for bit in [at % 8, 7] {
                let mut other = object.bytes.to_vec();
                other[at] ^= 1 << bit;
                let other = CodeObject { bytes: other.into(), ..object.clone() };
                match GpuUnit::of_object(&other) {
                    Ok(unit) => {
                        for program in unit.unwrap().programs {
                            // A loop that does not end takes as many steps as a plan may take: too long for this test.
                            if loops(&program) {
                                continue;
                            }
                            // Any error will do.
                            let _ = program.host.plan(&args);
                            planned += 1;
                        }
                    }
                    Err(err) => {
                        assert!(matches!(err, RuntimeError::Artifact(_)), "{err}");
                        refused += 1;
                    }
                }
            }
            let cut = CodeObject { bytes: object.bytes[..at].into(), ..object.clone() };
            assert!(GpuUnit::of_object(&cut).is_err(), "{at}");
        }
        assert!(refused > 1000 && planned > 100, "{refused} refused, {planned} planned");
    });
}
