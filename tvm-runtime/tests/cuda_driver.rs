//! Tests of CUDA devices with fake drivers: one that works on host memory, one without a device, one with missing
//! symbols. Each test runs in a process of its own, whose library path contains the driver.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

use tvm_runtime::{DataType, Device, RuntimeError, Tensor};

/// Environment variable of the child process: number of the defect that its driver has.
const ROLE: &str = "TVM_TEST_FAKE_CUDA";

#[test]
fn fake_drivers() {
    match std::env::var(ROLE).as_deref() {
        Ok("0") => works(),
        Ok(broken) => refuses(if broken == "1" { "CUDA_ERROR_NO_DEVICE" } else { "symbol" }),
        Err(_) => ["0", "1", "2"].into_iter().for_each(run_with),
    }
}

/// Compiles the driver, and runs this test again in a child process that loads it.
fn run_with(broken: &str) {
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_cuda.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", &format!("-DBROKEN={broken}"), "-o"])
        .arg(dir.path().join("libcuda.so"))
        .arg(source);
    assert!(cc.status().expect("`cc` runs").success());
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "fake_drivers", "--nocapture"]);
    let status = test.env(ROLE, broken).env("LD_LIBRARY_PATH", dir.path()).status().unwrap();
    assert!(status.success(), "with driver {broken}");
}

fn works() {
    assert_eq!(Device::all_cuda(), [Device::cuda(0)]);
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
}

fn refuses(expected: &str) {
    assert!(Device::all_cuda().is_empty());
    let err = Device::cuda(0).properties().unwrap_err();
    assert!(matches!(err, RuntimeError::DeviceFailure { .. }));
    assert!(err.to_string().contains(expected), "{err}");
    assert!(Tensor::empty(&[3], DataType::I64, Device::cuda(0)).is_err());
}
