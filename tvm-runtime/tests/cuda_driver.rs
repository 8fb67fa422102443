//! Tests of CUDA devices with fake drivers: one that works on host memory, one without a device, one with missing
//! symbols. Each test runs in a process of its own, whose library path contains the driver.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tvm_runtime::{
    Argument, CodeFormat, CompiledFn, DataType, Device, DeviceImage, DeviceProgram, DimSig, Kernel,
    KernelSig, LaunchArg, LaunchError, LaunchPlan, Out, ParamKind, ParamSig, RuntimeError, Step, Tensor,
};

/// Environment variable of the child process: what it does.
const ROLE: &str = "TVM_TEST_FAKE_CUDA";

/// Environment variable of the file to which the driver writes what it does.
const LOG: &str = "TVM_FAKE_CUDA_LOG";

/// What each child does, the options of its driver, and whether most functions of the driver are missing.
const ROLES: &[(&str, &str, bool)] = &[
    ("works", "", false),
    ("works", "pools=0", false),
    ("works", "order=1", false),
    ("no device", "init=100", false),
    ("too old", "", true),
    ("launches", "", false),
    ("launches", "pools=0", false),
    ("launches", "order=2", false),
    ("shares", "", false),
    ("page-locked", "pinned=8000", false),
    ("a fault", "fault=2", false),
    ("refused", "launch=701", false),
    ("not for this GPU", "load=209", false),
    ("a new version", "load=222 version=12040", false),
];

#[test]
fn fake_drivers() {
    match std::env::var(ROLE).as_deref() {
        Ok("works") => works(),
        Ok("no device") => refuses("CUDA_ERROR_NO_DEVICE (fake error)\n  help: the driver finds no GPU"),
        Ok("too old") => refuses("the driver is too old"),
        Ok("launches") => launches(),
        Ok("shares") => shares(),
        Ok("page-locked") => page_locked(),
        Ok("a fault") => a_fault(),
        Ok("refused") => refused(
            "`add` cannot be launched: cuda:0: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (fake error): it has [1, 1, 1] blocks of [4, 1, 1] threads and 0 bytes of shared memory that the launch gives\n  help: smaller blocks",
        ),
        Ok("not for this GPU") => refused(
            "cuda:0: it does not load the code for sm_80: CUDA_ERROR_NO_BINARY_FOR_GPU (fake error); the GPU has compute capability 9.0, the driver is for CUDA 13.0\n  help: compile for the architecture of this GPU",
        ),
        Ok("a new version") => {
            refused("the driver is for CUDA 12.4\n  help: update the driver, or compile with an NVRTC")
        }
        Ok(other) => panic!("{other}"),
        Err(_) => ROLES.iter().for_each(|it| run_with(*it)),
    }
}

/// Compiles the driver, and runs this test again in a child process that loads it.
fn run_with((role, options, old): (&str, &str, bool)) {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = vec!["-o", "libcuda.so"];
    flags.extend(old.then_some("-DOLD"));
    compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_cuda.c"), &flags, dir.path());
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "fake_drivers", "--nocapture"]);
    test.env(ROLE, role).env("TVM_FAKE_CUDA", options).env("LD_LIBRARY_PATH", dir.path());
    test.env(LOG, dir.path().join("log"));
    let status = test.status().unwrap();
    assert!(status.success(), "{role} with {options}");
}

/// Compiles a shared library in `dir`.
fn compile(source: &Path, flags: &[&str], dir: &Path) {
    let mut cc = Command::new("cc");
    let always = ["-shared", "-fPIC", "-w", "-O1", "-pthread"];
    cc.args(always).args(flags).arg(source).arg("-ldl").current_dir(dir);
    assert!(cc.status().expect("`cc` runs").success());
}

fn works() {
    assert_eq!(Device::all_cuda(), [Device::cuda(0)]);
    assert_eq!(Device::best(), Device::cuda(0));
    let properties = Device::cuda(0).properties().unwrap();
    assert_eq!((properties.name.as_str(), properties.total_memory), ("Fake GPU", Some(1 << 30)));
    assert_eq!((properties.compute_capability, properties.units), (Some((9, 0)), 132));
    let tensor = Tensor::from_vec((0..1000).collect::<Vec<i32>>(), &[10, 100]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let there = tensor.to_device(Device::cuda(0)).unwrap();
                assert!(matches!(there.bytes(), Err(RuntimeError::NotOnHost { .. })));
                let copy = there.deep_copy(Device::cuda(0)).unwrap();
                drop(there);
                assert_eq!(copy.to_device(Device::cpu()).unwrap(), tensor);
            });
        }
    });
    let zeros = Tensor::empty(&[3], DataType::I64, Device::cuda(0)).unwrap();
    assert_eq!(zeros.to_device(Device::cpu()).unwrap().as_slice::<i64>().unwrap(), [0; 3]);
    let err = Tensor::empty(&[1 << 40], DataType::U8, Device::cuda(0)).unwrap_err();
    assert_eq!(err.to_string(), "out of memory: cannot allocate 1099511627776 bytes on cuda:0");
    Device::cuda(0).synchronize().unwrap();
}

fn refuses(expected: &str) {
    assert!(Device::all_cuda().is_empty());
    assert_eq!(Device::best(), Device::cpu());
    let err = Device::cuda(0).properties().unwrap_err();
    assert!(matches!(err, RuntimeError::DeviceFailure { .. }));
    assert!(err.to_string().contains(expected), "{err}");
    assert!(Tensor::empty(&[3], DataType::I64, Device::cuda(0)).is_err());
    assert!(Tensor::empty_pinned(&[3], DataType::I64, Device::cuda(0)).is_err());
    assert!(!Tensor::empty_pinned(&[3], DataType::I64, Device::best()).unwrap().storage().is_pinned());
    let err = add().call(1.0, &mut [0.0f32; 4]).unwrap_err();
    assert!(err.to_string().contains(expected), "{err}");
}

/// What `add` does: each thread adds a number to one element.
const ADD: &str = "
#include <stdint.h>
const int tvm_emulated_params_add_k0 = 3;
void tvm_emulated_add_k0(void **values, const uint32_t *extents) {
  float *y = *(float **)values[0];
  float *all = *(float **)values[2];
  for (uint32_t i = 0; i < extents[3]; ++i) all[i] = y[i] + *(float *)values[1];
  for (uint32_t i = 0; i < extents[3]; ++i) y[i] = all[i];
}";

/// `y += s`, for up to four elements, through memory of the call.
fn add() -> CompiledFn<(f32, Out<f32, 1>)> {
    add_with(0)
}

/// The same, with so many bytes of shared memory.
fn add_with(shared: u32) -> CompiledFn<(f32, Out<f32, 1>)> {
    let param = |name: &str, kind, shape| ParamSig { name: name.into(), kind, dtype: DataType::F32, shape };
    let params = vec![
        param("s", ParamKind::Scalar, vec![]),
        param("y", ParamKind::Out, vec![DimSig::Var("n".into())]),
    ];
    let sig = KernelSig { name: "add".into(), params };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("add.c"), ADD).unwrap();
    compile(&dir.path().join("add.c"), &["-o", "add.so"], dir.path());
    let code = std::fs::read(dir.path().join("add.so")).unwrap();
    let image = Arc::new(DeviceImage::new(CodeFormat::Cubin, "sm_80", code, vec!["add_k0".into()]));
    let plan = move |args: &[LaunchArg<'_>]| {
        let &[LaunchArg::Float(s), LaunchArg::Tensor { shape: &[n], .. }] = args else {
            return Err(LaunchError::Refused("other arguments".into()));
        };
        if n > 4 {
            return Err(LaunchError::Refused(format!("{n} elements, at most 4")));
        }
        let scalar = Argument::Scalar((s as f32).to_bits().into(), DataType::F32);
        let args = vec![Argument::Memory(1), scalar, Argument::Memory(2)];
        let step = Step::Launch { kernel: 0, grid: [1; 3], block: [n as u32, 1, 1], shared, args };
        let steps = if n == 0 { vec![] } else { vec![step] };
        Ok(LaunchPlan { memories: vec![4 * n as u64], steps })
    };
    let program = DeviceProgram::new(image, vec![0], Arc::new([]), plan);
    // SAFETY: the code does what the signature says, within the extent that it is launched with.
    let kernel = unsafe { Kernel::device(sig, program) };
    CompiledFn::new(kernel).unwrap()
}

fn launches() {
    let add = add();
    let mut y = [1.0f32, 2.0, 3.0, 4.0];
    add.call(0.5, &mut y).unwrap();
    assert_eq!(y, [1.5, 2.5, 3.5, 4.5]);
    // On the device, calls do not wait, and nothing is copied in between.
    let mut there = Tensor::from_slice(&y, &[4]).unwrap().to_device(Device::cuda(0)).unwrap();
    let before = there.clone();
    Device::cuda(0).repeat_launches(3, || add.call(0.0, &mut there)).unwrap();
    for _ in 0..10 {
        add.call(1.0, &mut there).unwrap();
    }
    let back = |it: &Tensor| it.to_device(Device::cpu()).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(back(&there), [11.5, 12.5, 13.5, 14.5]);
    assert_eq!(back(&before), y, "another handle keeps its data");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut y = [0.0f32; 3];
                for _ in 0..50 {
                    add.call(1.0, &mut y).unwrap();
                }
                assert_eq!(y, [50.0; 3]);
            });
        }
    });
    let mut none: [f32; 0] = [];
    add.call(1.0, &mut none).unwrap();
    let err = add.call(1.0, &mut [0.0f32; 5]).unwrap_err();
    assert_eq!(err.to_string(), "`add` cannot be launched: 5 elements, at most 4");
    let mut elsewhere = Tensor::from_slice(&y, &[4]).unwrap().to_device(Device::virtual_cpu(1)).unwrap();
    let err = add.call(1.0, &mut elsewhere).unwrap_err();
    assert!(matches!(err, RuntimeError::ArgDevice { .. }), "{err}");
}

/// Shared memory whose size the launch gives: more than 48 KiB are asked for, and no more than the GPU has.
fn shares() {
    for shared in [1 << 10, 200 << 10, 227 << 10] {
        let add = add_with(shared);
        let mut y = [1.0f32; 4];
        for _ in 0..2 {
            add.call(0.5, &mut y).unwrap();
        }
        assert_eq!(y, [2.0; 4]);
    }
    let err = add_with(228 << 10).call(0.5, &mut [1.0f32; 4]).unwrap_err();
    let expected = "`add` cannot be launched: cuda:0: CUDA_ERROR_INVALID_VALUE (fake error): it has [1, 1, 1] blocks of [4, 1, 1] threads";
    assert!(err.to_string().contains(expected), "{err}");
    assert!(err.to_string().contains("and 233472 bytes of shared memory that the launch gives"), "{err}");
}

/// Page-locked memory of the host: that of a tensor as any other.
fn page_locked() {
    let lines = |what: &str| {
        let text = std::fs::read_to_string(std::env::var(LOG).unwrap()).unwrap_or_default();
        text.lines().filter(|line| line.split(' ').next() == Some(what)).count()
    };
    let gpu = Device::cuda(0);
    let mut x = Tensor::empty_pinned(&[10, 100], DataType::F32, gpu).unwrap();
    assert!(x.storage().is_pinned() && x.device() == Device::cpu());
    assert_eq!(x.as_slice::<f32>().unwrap(), [0.0; 1000]);
    let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    x.as_mut_slice::<f32>().unwrap().copy_from_slice(&data);
    let (before, there) = (x.data_ptr(), x.to_device(gpu).unwrap());
    assert_eq!(x.data_ptr(), before, "writing made no copy");
    assert_eq!(there.to_device(Device::cpu()).unwrap(), x);
    // A kernel reads it and writes to it as to other memory of the host.
    let mut y = Tensor::empty_pinned(&[4], DataType::F32, gpu).unwrap();
    add().call(1.5, &mut y).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [1.5; 4]);
    assert!(y.storage().is_pinned());
    // Views keep it, and it is freed once.
    let view = x.reshape(&[1000]).unwrap();
    drop(x);
    assert_eq!((view.as_slice::<f32>().unwrap(), lines("pin"), lines("unpin")), (&data[..], 2, 0));
    // To other frameworks it is a device of its own, and back it is the host.
    let managed = view.to_dlpack();
    // SAFETY: the struct was just exported, and is imported once.
    let back = unsafe {
        assert_eq!((*managed.as_ptr()).dl_tensor.device.kind, 3);
        Tensor::from_dlpack(managed).unwrap()
    };
    assert_eq!((back.device(), back.as_slice::<f32>().unwrap()), (Device::cpu(), &data[..]));
    assert_eq!(lines("unpin"), 0);
    let err = Tensor::empty_pinned(&[2000], DataType::F32, gpu).unwrap_err();
    assert_eq!(err.to_string(), "out of memory: cannot allocate 8000 bytes on cpu:0");
    assert!(matches!(err, RuntimeError::OutOfMemory { bytes: 8000, device } if device == Device::cpu()));
    drop((back, y));
    assert_eq!(lines("unpin"), 2);
    Tensor::empty_pinned(&[2000], DataType::F32, gpu).unwrap();
    // Nothing is locked for no elements, nor for the host.
    for (shape, device) in [([0, 3], gpu), ([2, 3], Device::cpu()), ([2, 3], Device::virtual_cpu(1))] {
        let tensor = Tensor::empty_pinned(&shape, DataType::F32, device).unwrap();
        assert!(!tensor.storage().is_pinned() && tensor.device() == Device::cpu());
    }
    assert_eq!((lines("pin"), lines("unpin")), (3, 3));
    assert!(matches!(Tensor::empty_pinned(&[-1], DataType::F32, gpu), Err(RuntimeError::BadShape { .. })));
    let err = Tensor::empty_pinned(&[1], DataType::F32, Device::cuda(7)).unwrap_err();
    assert!(matches!(err, RuntimeError::DeviceFailure { .. }), "{err}");
}

fn a_fault() {
    let add = add();
    let mut y = Tensor::from_slice(&[1.0f32], &[1]).unwrap().to_device(Device::cuda(0)).unwrap();
    add.call(1.0, &mut y).unwrap();
    Device::cuda(0).synchronize().unwrap();
    add.call(1.0, &mut y).unwrap();
    let expected = "cuda:0: CUDA_ERROR_ILLEGAL_ADDRESS (fake error) in the kernel `add`; this process cannot use the device any more\n  help: start it again";
    let check = |err: RuntimeError| {
        assert!(matches!(err, RuntimeError::DeviceFault { .. }), "{err}");
        assert!(err.to_string().contains(expected), "{err}");
    };
    check(y.to_device(Device::cpu()).unwrap_err());
    // The error stays.
    check(add.call(1.0, &mut y).unwrap_err());
    check(add.call(1.0, &mut [1.0f32]).unwrap_err());
    check(Device::cuda(0).properties().unwrap_err());
    check(Tensor::empty(&[3], DataType::I64, Device::cuda(0)).unwrap_err());
    assert!(!Device::cuda(0).exists());
}

fn refused(expected: &str) {
    let err = add().call(1.0, &mut [0.0f32; 4]).unwrap_err().to_string();
    assert!(err.contains(expected), "{err}");
}
