//! The command `tvmc doctor`.

use std::process::ExitCode;

use serde_json::json;
use tvm_codegen::c::load::{Compiler, cache_dir};
use tvm_codegen::cuda::image_compiler;
use tvm_codegen::resolve;
use tvm_core::target::Target;
use tvm_runtime::Device;

use crate::error::Error;
use crate::out::{self, Colour};

/// Arguments of `tvmc doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Writes what is found as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut rows = Vec::new();
    let mut entries = Vec::new();
    let mut row = |what: &str, found: Result<String, String>| {
        let key = if found.is_ok() { "found" } else { "help" };
        let (word, text) = match found {
            Ok(text) => (out::coloured("yes", Colour::Green), text),
            Err(help) => (out::coloured("no", Colour::Yellow), help),
        };
        entries.push(json!({"what": what, "ok": key == "found", key: text}));
        rows.push(vec![what.to_string(), word, text]);
    };
    let compiler = Compiler::host().map(|it| it.version().to_string());
    row(
        "C compiler",
        compiler.map_err(|_| {
            "install gcc or clang, or set CC; kernels are compiled by it where LLVM is not compiled in"
                .to_string()
        }),
    );
    let llvm = if cfg!(feature = "llvm") {
        Ok("compiled in".into())
    } else {
        Err("build with --features llvm".into())
    };
    row("LLVM", llvm);
    row("GPU", gpus());
    row("NVRTC", nvrtc());
    let cache = match cache_dir() {
        Ok(cache) => cache.ok_or("set TVM_CACHE_DIR; kernels are compiled anew in every run without"),
        Err(_) => Err("others can write to the directory of TVM_CACHE_DIR"),
    };
    row("kernel cache", cache.map(|it| it.display().to_string()).map_err(String::from));
    row("CPU", Ok(cpu()));
    let threads = tvm_runtime::thread_pool().num_threads();
    row("threads", Ok(format!("{threads} (TVM_NUM_THREADS changes it)")));
    let host = resolve(&Target::host());
    row("default target", Ok(host.to_string()));
    if args.json {
        out::line(json!({"version": env!("CARGO_PKG_VERSION"), "entries": entries}));
        return Ok(ExitCode::SUCCESS);
    }
    out::line(format_args!("tvmc {}", env!("CARGO_PKG_VERSION")));
    out::table(&rows);
    Ok(ExitCode::SUCCESS)
}

/// The GPUs that this build can use.
fn gpus() -> Result<String, String> {
    let gpu = |device: &Device| {
        let it = device.properties().map_err(|err| help(&err))?;
        let memory = it.total_memory.map_or(String::new(), |bytes| format!(", {}", out::bytes(bytes as u64)));
        let capability = it
            .compute_capability
            .map_or(String::new(), |(major, minor)| format!(", compute capability {major}.{minor}"));
        Ok(format!("{device}: {}{memory}{capability}", it.name))
    };
    let all = Device::all_cuda();
    // Without a GPU, the error of the first one says what is missing.
    let first = [Device::cuda(0)];
    let all = if all.is_empty() { &first[..] } else { &all[..] };
    Ok(all.iter().map(gpu).collect::<Result<Vec<_>, String>>()?.join("; "))
}

/// The compiler of kernels for GPUs.
fn nvrtc() -> Result<String, String> {
    image_compiler().and_then(|it| it.version()).map_err(|err| help(&err))
}

/// What is missing for GPUs, and what to do, as one line.
fn help(err: &dyn std::fmt::Display) -> String {
    if !cfg!(feature = "cuda") {
        return "build with --features cuda".to_string();
    }
    err.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Describes architecture, vector width and features of this CPU.
fn cpu() -> String {
    let machine = Target::host().machine;
    let mut features = tvm_runtime::cpu_features();
    if features.is_empty() {
        features.push("baseline");
    }
    let (bits, cores) = (machine.vector_bits, machine.cores);
    let caches = [machine.l1_bytes, machine.l2_bytes, machine.l3_bytes].map(crate::out::bytes).join(" + ");
    let arch = std::env::consts::ARCH;
    format!("{arch}, {cores} cores, {bits}-bit vectors, caches of {caches}, {}", features.join(" "))
}
