//! `cargo xtask doctor`: reports which of the optional tools this machine has.

use std::path::{Path, PathBuf};

use crate::setup;
use crate::step::first_line;

/// Prints one line per tool. Only a missing Rust compiler is an error; each other tool is optional and listed with its
/// purpose.
///
/// # Errors
/// When `rustc` cannot be run.
pub(crate) fn doctor() -> Result<(), String> {
    let rustc = first_line("rustc", &["--version"]).ok_or("rustc cannot be run; see https://rustup.rs")?;
    row("rustc", Some(rustc.as_str()), "everything");
    let cc = c_compiler();
    row("cc", cc.as_deref(), "the `c` target; without it, the host target needs the feature `llvm`");
    let llvm = setup::llvm();
    row("LLVM 19", llvm.as_deref(), "feature `llvm`");
    for (name, files, used_for) in [
        ("libcuda", &["libcuda.so.1"][..], "feature `cuda`: NVIDIA's driver, to run kernels on a GPU"),
        (
            "libnvrtc",
            &["libnvrtc.so.13", "libnvrtc.so.12"],
            "feature `cuda`: compiles kernels for GPUs, needs none",
        ),
    ] {
        let found = files.iter().find_map(|file| library(file));
        row(name, found.map(|p| p.display().to_string()).as_deref(), used_for);
    }

    if cc.is_none() {
        println!(
            "\nto do: install a C compiler (Debian/Ubuntu: apt-get install gcc; macOS: xcode-select --install)"
        );
    }
    match (llvm, setup::install_command()) {
        (None, Ok(_)) => println!("\nto do: cargo xtask setup"),
        (None, Err(help)) => println!("\nto do: {help}"),
        (Some(_), _) if cc.is_some() => println!("\nready: cargo xtask test"),
        _ => {}
    }
    Ok(())
}

fn row(what: &str, found: Option<&str>, used_for: &str) {
    println!("{what:<8}  {:<60}  {used_for}", found.unwrap_or("not found"));
}

/// Version of `$CC`, or of the first of cc, gcc and clang that runs.
fn c_compiler() -> Option<String> {
    let named = std::env::var("CC").ok();
    let candidates = named.as_deref().into_iter().chain(["cc", "gcc", "clang"]);
    candidates.into_iter().find_map(|cc| first_line(cc, &["--version"]))
}

/// A library, found where the dynamic loader would find it.
fn library(file: &str) -> Option<PathBuf> {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
    ];
    let mut folders = std::env::split_paths(&named).chain(usual.iter().map(PathBuf::from));
    folders.find_map(|dir| Some(dir.join(file)).filter(|p| Path::exists(p)))
}
