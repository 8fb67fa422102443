//! The command `tvmc doctor`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use tvm_codegen::c::load::{Compiler, cache_dir};
use tvm_codegen::resolve;
use tvm_core::target::Target;

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
    let mut row = |what: &str, found: Result<String, &str>| {
        let key = if found.is_ok() { "found" } else { "help" };
        let (word, text) = match found {
            Ok(text) => (out::coloured("yes", Colour::Green), text),
            Err(help) => (out::coloured("no", Colour::Yellow), help.to_string()),
        };
        entries.push(json!({"what": what, "ok": key == "found", key: text}));
        rows.push(vec![what.to_string(), word, text]);
    };
    let compiler = Compiler::host().map(|it| it.version().to_string());
    row(
        "C compiler",
        compiler.map_err(
            |_| "install gcc or clang, or set CC; kernels are compiled by it where LLVM is not compiled in",
        ),
    );
    let llvm =
        if cfg!(feature = "llvm") { Ok("compiled in".into()) } else { Err("build with --features llvm") };
    row("LLVM", llvm);
    row("CUDA", cuda());
    let cache = match cache_dir() {
        Ok(cache) => cache.ok_or("set TVM_CACHE_DIR; kernels are compiled anew in every run without"),
        Err(_) => Err("others can write to the directory of TVM_CACHE_DIR"),
    };
    row("kernel cache", cache.map(|it| it.display().to_string()));
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

/// Finds the CUDA driver in the directories that the dynamic loader searches.
fn cuda() -> Result<String, &'static str> {
    if !cfg!(feature = "cuda") {
        return Err("build with --features cuda");
    }
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
    ];
    let mut folders = std::env::split_paths(&named).chain(usual.iter().map(PathBuf::from));
    let found = folders.find_map(|dir| Some(dir.join("libcuda.so.1")).filter(|it| it.exists()));
    found
        .map(|it| it.display().to_string())
        .ok_or("compiled in, but there is no libcuda.so.1: install the driver")
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
