//! Runs a test in a child process whose dynamic loader finds the fake driver.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use tvm::Device;
use tvm::codegen::cuda::set_image_compiler;
use tvm_testing::fake_gpu;

use super::emulated::Emulated;

/// Environment variable of the child: the name of the test that it runs.
const ROLE: &str = "TVM_TEST_ON_FAKE_GPU";

/// Environment variable: tests run on the GPU of the machine, as far as they do not ask the fake driver.
const MACHINE: &str = "TVM_TEST_MACHINE_GPU";

/// A folder of the test `name`, which is removed when the test ends well.
fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tvm-test-cuda-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The folder with the driver.
fn driver() -> &'static PathBuf {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fake_gpu");
        std::fs::create_dir_all(&dir).unwrap();
        fake_gpu::write_driver(&dir).unwrap();
        dir
    })
}

/// Runs `body` for the test `name` on the fake GPU, whose driver has these options.
pub(crate) fn on_gpu(name: &str, options: &str, body: impl FnOnce()) {
    run(name, &[(fake_gpu::OPTIONS, options)], true, body);
}

/// As [`on_gpu`], with other variables in the environment.
pub(crate) fn on_gpu_with(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    run(name, variables, true, body);
}

/// As [`on_gpu`], for a test that does not ask what the driver did: under `TVM_TEST_MACHINE_GPU`, it runs on the GPU of the machine.
pub(crate) fn on_any_gpu(name: &str, options: &str, body: impl FnOnce()) {
    if std::env::var(MACHINE).is_ok() {
        let gpu = Device::cuda(0);
        assert!(gpu.exists(), "{MACHINE} is set: {:?}", gpu.properties());
        return body();
    }
    on_gpu(name, options, body);
}

/// Runs `body` for the test `name` on a machine without a driver.
pub(crate) fn without_gpu(name: &str, body: impl FnOnce()) {
    run(name, &[], false, body);
}

/// Runs `body` for the test `name` with these variables in the environment, with the driver or on a machine without one.
pub(crate) fn run(name: &str, variables: &[(&str, &str)], with_driver: bool, body: impl FnOnce()) {
    if std::env::var(MACHINE).is_ok() {
        return println!("SKIPPED: {name} is about the fake driver ({MACHINE} is set)");
    }
    if std::env::var(ROLE).is_ok_and(|it| it == name) {
        set_image_compiler(Some(Arc::new(Emulated)));
        return body();
    }
    let dir = folder(&name.replace(':', "-"));
    if !with_driver {
        // The loader finds these before a driver of the machine, and does not load them.
        for file in ["libcuda.so", "libcuda.so.1"] {
            std::fs::write(dir.join(file), "no library").unwrap();
        }
    }
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", name, "--nocapture"]).env(ROLE, name);
    test.env("TVM_CACHE_DIR", dir.join("cache"));
    test.env(fake_gpu::LOG, dir.join("log")).envs(variables.iter().copied());
    test.env("LD_LIBRARY_PATH", if with_driver { driver() } else { &dir });
    let output = test.output().unwrap();
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    let ran = text.contains("1 passed");
    assert!(output.status.success() && ran, "{name} with {variables:?}: {}\n{text}", output.status);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The lines that the driver has written so far whose first word is `what`.
pub(crate) fn log(what: &str) -> Vec<String> {
    let text = std::fs::read_to_string(std::env::var(fake_gpu::LOG).unwrap()).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').next() == Some(what)).map(String::from).collect()
}
