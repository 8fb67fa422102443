//! A GPU for machines that have none: a driver whose device is host memory, and kernels that run on the CPU.
//!
//! Requires a C and a C++ compiler (`cc`, `c++`). The driver is for a child process, whose dynamic loader finds it; its source says
//! which failures it can be told to have.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

const DRIVER: &str = include_str!("../../tvm-runtime/tests/fake_cuda.c");
const EMULATOR: &str = include_str!("../../tvm-codegen/tests/executors/emulator.h");

/// Environment variable with the options of the driver.
pub const OPTIONS: &str = "TVM_FAKE_CUDA";
/// Environment variable with the file to which the driver writes what it does.
pub const LOG: &str = "TVM_FAKE_CUDA_LOG";

/// Writes the driver into the folder `dir`, for the `LD_LIBRARY_PATH` of a child process.
///
/// # Errors
/// When it cannot be compiled.
pub fn write_driver(dir: &Path) -> Result<(), String> {
    let source = dir.join("fake_cuda.c");
    std::fs::write(&source, DRIVER).map_err(|err| err.to_string())?;
    let flags = ["-shared", "-fPIC", "-w", "-O1", "-pthread"];
    run(Command::new("cc").args(flags).arg("-o").arg(dir.join("libcuda.so")).arg(source).arg("-ldl"))
}

/// Compiles CUDA C to a module of the driver, whose kernels the CPU runs. `kernels` are their names, and whether threads of a
/// block wait for each other in them.
///
/// # Errors
/// When the source cannot be compiled.
pub fn compile(source: &str, kernels: &[(String, bool)]) -> Result<Vec<u8>, String> {
    let table = kernels.iter().map(|(name, barriers)| format!("TVM_EMULATED_KERNEL({name}, {barriers})\n"));
    let text = format!("{EMULATOR}\n{source}\n{}", table.collect::<String>());
    let dir = Folder::new().map_err(|err| err.to_string())?;
    let (input, output) = (dir.0.join("module.cc"), dir.0.join("module.so"));
    std::fs::write(&input, text).map_err(|err| err.to_string())?;
    let flags = [
        "-std=gnu++17",
        "-O1",
        "-w",
        "-U_FORTIFY_SOURCE",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-Wl,-Bsymbolic",
    ];
    let floats = ["-ffp-contract=off", "-fno-strict-aliasing"];
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    run(Command::new(compiler).args(flags).args(floats).arg("-o").arg(&output).arg(&input))?;
    std::fs::read(&output).map_err(|err| err.to_string())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|err| format!("{command:?}: {err}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tvm-fake-gpu-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
