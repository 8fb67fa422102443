//! Tests of models and kernels that the build script compiled for the CPU and for GPUs. Each runs in a process of its own, on a GPU
//! whose driver and kernels run on the CPU, or on a machine without a driver. Results are compared with those of models that were
//! compiled for the CPU alone, and with the same arithmetic in Rust.
#![cfg(all(feature = "cuda", target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use ndarray::Array2;
use tvm_runtime::vm::{Profile, ProfileEntry, VmConfig};
use tvm_runtime::{Backend, DataType, Device, EmbeddedGpu, EmbeddedModel, KernelTable, LinkedModel};
use tvm_runtime::{RuntimeError, Tensor, abi::ABI_VERSION};
use tvm_testing::fake_gpu;

tvm_runtime::include_model!("digits_c");
tvm_runtime::include_model!("digits_gpu");
tvm_runtime::include_model!("digits_placed");
tvm_runtime::include_kernel!("blend_c");
tvm_runtime::include_kernel!("blend_gpu");

const GPU: Device = Device::cuda(0);
/// Environment variable of the child: the name of the test that it runs.
const ROLE: &str = "TVM_TEST_BUILT_FOR_GPU";

/// Runs `body` for the test `name` with the fake driver that has these options, or on a machine without one.
fn child(name: &str, options: Option<&str>, body: impl FnOnce()) {
    if std::env::var(ROLE).is_ok_and(|it| it == name) {
        return body();
    }
    let dir = std::env::temp_dir().join(format!("tvm-test-built-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    match options {
        Some(_) => fake_gpu::write_driver(&dir).unwrap(),
        // The loader finds these before a driver of the machine, and does not load them.
        None => ["libcuda.so", "libcuda.so.1"]
            .iter()
            .for_each(|file| std::fs::write(dir.join(file), "no library").unwrap()),
    }
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", name, "--nocapture"]).env(ROLE, name).env("LD_LIBRARY_PATH", &dir);
    test.env(fake_gpu::OPTIONS, options.unwrap_or_default()).env(fake_gpu::LOG, dir.join("log"));
    let output = test.output().unwrap();
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    let ran = text.contains("1 passed");
    assert!(output.status.success() && ran, "{name} with {options:?}: {}\n{text}", output.status);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Number of lines that the driver has written whose first word is `what`.
fn log(what: &str) -> usize {
    let text = std::fs::read_to_string(std::env::var(fake_gpu::LOG).unwrap()).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').next() == Some(what)).count()
}

fn images(batch: usize) -> Vec<f32> {
    (0..batch * 64).map(|i| (i * 37 % 101) as f32 / 101.0).collect()
}

/// The results of a model that was compiled for the CPU alone.
fn expected(batch: usize) -> Vec<f32> {
    DigitsC::new().unwrap().run(images(batch)).unwrap().probabilities.as_slice().to_vec()
}

fn assert_close(got: &[f32], batch: usize) {
    let expected = expected(batch);
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(&expected) {
        assert!((got - expected).abs() <= 1e-5, "{got} instead of {expected}");
    }
}

#[test]
fn models_run_on_the_gpu() {
    child("models_run_on_the_gpu", Some("major=9"), || {
        let model = DigitsGpu::new().unwrap();
        assert_eq!((model.model().device(), model.model().vm().backend()), (GPU, Backend::Device));
        assert!(model.model().no_gpu().is_none());
        assert_eq!(DigitsGpu::GPU_ARCHS, ["sm_80", "sm_90", "PTX for sm_90"]);
        for batch in [1, 3, 17] {
            let before = log("launch");
            assert_close(model.run(images(batch)).unwrap().probabilities.as_slice(), batch);
            assert!(log("launch") > before);
        }
        // From tensors on the GPU.
        let image = Tensor::from_vec(images(2), &[2, 1, 8, 8]).unwrap().to_device(GPU).unwrap();
        assert_close(model.run(&image).unwrap().probabilities.as_slice(), 2);
        // What does not fit is the same error on both.
        let cpu = DigitsGpu::on(Device::cpu()).unwrap();
        for shape in [[0, 1, 8, 8], [361, 1, 8, 8], [1, 1, 8, 9]] {
            let image = Tensor::zeros(&shape, DataType::F32).unwrap();
            let [got, want] = [&model, &cpu].map(|it| it.run(&image).unwrap_err().to_string());
            assert_eq!(got, want);
        }
    });
}

#[test]
fn the_cpu_can_be_asked_for() {
    child("the_cpu_can_be_asked_for", Some("major=9"), || {
        let level = || VmConfig { cpu_level: Some("x86-64".into()), ..VmConfig::default() };
        for model in [DigitsPlaced::on(Device::cpu()), DigitsPlaced::with_config(level())] {
            let model = model.unwrap();
            assert_eq!(
                (model.model().device(), model.model().vm().backend()),
                (Device::cpu(), Backend::Native)
            );
            assert!(model.model().no_gpu().is_none(), "it was asked for");
            assert_close(model.run(images(3)).unwrap().probabilities.as_slice(), 3);
        }
        assert_eq!((log("context"), log("load"), log("launch")), (0, 0, 0));
        let err = DigitsPlaced::on_with_config(GPU, level()).unwrap_err();
        assert!(matches!(&err, RuntimeError::CpuLevel { level, .. } if level == "x86-64"), "{err}");
        let model = DigitsPlaced::on_with_config(GPU, VmConfig::default()).unwrap();
        assert_eq!(model.model().device(), GPU);
    });
}

#[test]
fn other_devices_have_no_code() {
    child("other_devices_have_no_code", Some("major=9 devices=2"), || {
        for device in [Device::cuda(1), Device::cuda(-1), Device::virtual_cpu(1)] {
            let err = DigitsGpu::on(device).unwrap_err();
            let start = format!("the application has no code for {device}, only for cpu:0, cuda:0\n  help: ");
            assert!(err.to_string().starts_with(&start), "{err}");
        }
        let err = DigitsC::on(GPU).unwrap_err();
        assert!(
            matches!(&err, RuntimeError::NoCode { device: GPU, has } if *has == [Device::cpu()]),
            "{err}"
        );
        assert!(matches!(BlendC::on(GPU), Err(RuntimeError::NoCode { .. })));
        assert_eq!(DigitsC::new().unwrap().model().device(), Device::cpu());
        assert!(DigitsC::GPU_ARCHS.is_empty() && BlendC::GPU_ARCHS.is_empty());
    });
}

#[test]
fn nodes_on_the_host_are_linked() {
    child("nodes_on_the_host_are_linked", Some("major=9"), || {
        let model = DigitsPlaced::new().unwrap();
        assert_eq!(model.model().device(), GPU);
        assert_close(model.run(images(3)).unwrap().probabilities.as_slice(), 3);
        let mut profile = Profile::default();
        let image = Tensor::from_vec(images(3), &[3, 1, 8, 8]).unwrap();
        model.model().vm().invoke_profiled(&mut profile, "main", &[image.into()]).unwrap();
        let entries = profile.entries();
        let place = |softmax| move |it: &&(_, &str, ProfileEntry)| it.1.contains("softmax") == softmax;
        let on = |softmax| entries.iter().filter(place(softmax)).map(|it| it.2.device).collect::<Vec<_>>();
        assert_eq!(on(true), [Some(Device::cpu())], "{entries:?}");
        assert!(!on(false).is_empty() && on(false).iter().all(|it| *it == Some(GPU)), "{entries:?}");
    });
}

#[test]
fn without_a_driver_it_is_the_cpu() {
    child("without_a_driver_it_is_the_cpu", None, || {
        let model = DigitsGpu::new().unwrap();
        assert_eq!(model.model().device(), Device::cpu());
        let reason = model.model().no_gpu().unwrap().to_string();
        assert!(reason.starts_with("cuda:0: libcuda.so.1 was not found"), "{reason}");
        for batch in [1, 3] {
            assert_close(model.run(images(batch)).unwrap().probabilities.as_slice(), batch);
        }
        assert_eq!(DigitsGpu::on(GPU).unwrap_err().to_string(), reason);
        let kernel = BlendGpu::new().unwrap();
        assert_eq!((kernel.device(), kernel.no_gpu().unwrap().to_string()), (Device::cpu(), reason));
        assert!(kernel.cpu_level().is_some());
        check(|a, weight, b, y| kernel.call(a, weight, b, y).unwrap());
    });
}

/// What a machine lacks, in the driver's options, and the error of it.
fn falls_back(name: &str, options: &str, model_is: impl Fn(&RuntimeError) -> bool) {
    child(name, Some(options), || {
        let model = DigitsGpu::new().unwrap();
        assert_eq!(model.model().device(), Device::cpu());
        let reason = model.model().no_gpu().unwrap();
        assert!(model_is(reason), "{reason}");
        assert_close(model.run(images(3)).unwrap().probabilities.as_slice(), 3);
        assert_eq!(DigitsGpu::on(GPU).unwrap_err().to_string(), reason.to_string());
        let kernel = BlendGpu::new().unwrap();
        assert!(kernel.device() == Device::cpu() && model_is(kernel.no_gpu().unwrap()));
        assert!(BlendGpu::on(GPU).is_err_and(|err| model_is(&err)));
        check(|a, weight, b, y| kernel.call(a, weight, b, y).unwrap());
        assert_eq!(log("launch"), 0);
    });
}

#[test]
fn an_older_gpu() {
    falls_back(
        "an_older_gpu",
        "major=7 minor=5",
        |err| matches!(err, RuntimeError::GpuArch { own, .. } if own == "sm_75"),
    );
}

/// A model runs on the first GPU, whatever the others are.
#[test]
fn a_newer_gpu_beside_an_older_one() {
    let is = |err: &RuntimeError| matches!(err, RuntimeError::GpuArch { device: GPU, .. });
    falls_back("a_newer_gpu_beside_an_older_one", "devices=2 major=7 major1=9", is);
}

#[test]
fn a_driver_that_refuses_the_code() {
    let is = |err: &RuntimeError| matches!(err, RuntimeError::DeviceFailure { .. });
    falls_back("a_driver_that_refuses_the_code", "major=9 load=218", is);
}

#[test]
fn a_driver_without_a_gpu() {
    let is = |err: &RuntimeError| matches!(err, RuntimeError::DeviceFailure { .. });
    falls_back("a_driver_without_a_gpu", "devices=0", is);
}

/// What NVIDIA's driver does if it finds no GPU, or `CUDA_VISIBLE_DEVICES` hides all.
#[test]
fn a_driver_that_does_not_begin() {
    let is = |err: &RuntimeError| matches!(err, RuntimeError::DeviceFailure { .. });
    falls_back("a_driver_that_does_not_begin", "init=100", is);
}

#[test]
fn newer_gpus_run_the_ptx() {
    child("newer_gpus_run_the_ptx", Some("major=12"), || {
        let model = DigitsGpu::new().unwrap();
        assert_eq!(model.model().device(), GPU);
        assert_close(model.run(images(3)).unwrap().probabilities.as_slice(), 3);
        assert!(log("launch") > 0);
        // Machine code for one GPU alone comes without PTX.
        let placed = DigitsPlaced::new().unwrap();
        assert_eq!(DigitsPlaced::GPU_ARCHS, ["sm_90a"]);
        assert!(matches!(placed.model().no_gpu(), Some(RuntimeError::GpuArch { .. })));
        assert_close(placed.run(images(3)).unwrap().probabilities.as_slice(), 3);
    });
}

/// Checks a kernel of `a * weight + b` on rows of 4.
fn check(call: impl Fn(&Array2<f32>, f32, &Array2<f32>, &mut Array2<f32>)) {
    for rows in [0, 1, 3, 65] {
        let value = |seed: usize| move |(i, j): (usize, usize)| ((i * 31 + j * 7) * seed % 101) as f32 / 8.0;
        let (a, b) = (Array2::from_shape_fn((rows, 4), value(3)), Array2::from_shape_fn((rows, 4), value(5)));
        let mut y = Array2::from_elem((rows, 4), f32::NAN);
        call(&a, 0.25, &b, &mut y);
        // The values are small multiples of powers of two: there is no rounding.
        assert_eq!(y, a * 0.25 + b);
    }
}

#[test]
fn kernels_run_on_the_gpu() {
    child("kernels_run_on_the_gpu", Some(""), || {
        let kernel = BlendGpu::new().unwrap();
        assert_eq!((kernel.device(), kernel.cpu_level()), (GPU, None));
        assert_eq!(BlendGpu::GPU_ARCHS, ["sm_80", "PTX for sm_80"]);
        check(|a, weight, b, y| kernel.call(a, weight, b, y).unwrap());
        let launches = log("launch");
        assert!(launches > 0);
        for kernel in [BlendGpu::on(Device::cpu()), BlendGpu::with_cpu_level(Some("x86-64"))] {
            let kernel = kernel.unwrap();
            assert!(kernel.device() == Device::cpu() && kernel.no_gpu().is_none());
            assert!(kernel.cpu_level().is_some());
            check(|a, weight, b, y| kernel.call(a, weight, b, y).unwrap());
        }
        assert_eq!(log("launch"), launches);
        let (a, mut y) = (Array2::<f32>::zeros((3, 4)), Array2::<f32>::zeros((3, 4)));
        let err = kernel.call(&a, 1.0, &Array2::zeros((2, 4)), &mut y).unwrap_err();
        assert!(matches!(&err, RuntimeError::ArgExtent { arg, .. } if &**arg == "b"), "{err}");
    });
}

const NO_KERNELS: KernelTable = KernelTable { abi_version: ABI_VERSION, entries: &[] };

fn load(
    artifact: &'static [u8],
    gpu: &'static [u8],
    device: Option<Device>,
) -> Result<LinkedModel, RuntimeError> {
    let gpu = Some(EmbeddedGpu { artifact: gpu, on_host: NO_KERNELS });
    let model = EmbeddedModel { artifact, tables: &[(None, NO_KERNELS)], gpu };
    // SAFETY: the build script of this package compiled the code for GPUs, and there is no other.
    #[allow(unsafe_code, reason = "see SAFETY")]
    unsafe {
        LinkedModel::load_on(&model, device, VmConfig::default())
    }
}

/// What the application embeds is checked as artifacts are, wherever it is read.
#[test]
fn damaged_bytes_are_errors() {
    child("damaged_bytes_are_errors", Some("major=9"), || {
        let gpu = include_bytes!(concat!(env!("OUT_DIR"), "/digits_gpu.gpu.tvm"));
        let cpu = include_bytes!(concat!(env!("OUT_DIR"), "/digits_gpu.tvm"));
        assert_eq!(load(cpu, gpu, None).unwrap().device(), GPU);
        let mut flipped = 0;
        for (bytes, device) in [(&gpu[..], None), (gpu, Some(GPU)), (cpu, Some(Device::cpu()))] {
            for at in (0..bytes.len()).step_by(bytes.len() / 50) {
                let mut other = bytes.to_vec();
                other[at] ^= 1 << (at % 8);
                let other: &'static [u8] = other.leak();
                let res = if device == Some(Device::cpu()) {
                    load(other, gpu, device)
                } else {
                    load(cpu, other, device)
                };
                assert!(matches!(res, Err(RuntimeError::Artifact(_))), "byte {at} for {device:?}");
                flipped += 1;
            }
        }
        assert!(flipped > 150, "{flipped}");
    });
}
