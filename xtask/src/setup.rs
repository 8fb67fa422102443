//! `cargo xtask setup`: installs LLVM 19, which only the feature `llvm` needs, and what runs kernels for 64-bit ARM in tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{first_line, run};

/// Compiler and emulator of the tests that run kernels for 64-bit ARM, each with its package.
const ARM_TOOLS: [(&str, &str); 2] =
    [("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"), ("qemu-aarch64-static", "qemu-user-static")];

/// Installs LLVM 19 and the tools for 64-bit ARM if they are missing.
///
/// # Errors
/// On a system with an unknown package manager (the message names the command to run), or when the installation fails.
/// Where the tools for 64-bit ARM cannot be installed, this is no error: their tests say that they did not run.
pub(crate) fn setup() -> Result<(), String> {
    install_llvm()?;
    let found = |tool: &str| first_line(tool, &["--version"]).is_some();
    if ARM_TOOLS.iter().all(|(tool, _)| found(tool)) {
        println!("tools for 64-bit ARM: found");
    } else if cfg!(target_os = "linux") && Path::new(APT).exists() {
        let packages = [&ARM_TOOLS.map(|(_, package)| package)[..], &["libc6-dev-arm64-cross"]].concat();
        install(&apt_commands(&packages))?;
    } else {
        println!("tools for 64-bit ARM: not installed here; the tests that need them will say so");
    }
    Ok(())
}

fn install_llvm() -> Result<(), String> {
    if let Some(found) = llvm() {
        println!("LLVM 19: {found}");
        return Ok(());
    }
    install(&install_command()?)?;
    let found = llvm().ok_or_else(|| {
        format!("installed, yet {} (LLVM_SYS_191_PREFIX) has no LLVM 19", prefix().display())
    })?;
    println!("LLVM 19: {found}");
    Ok(())
}

/// Version and location of LLVM 19, if it is where the build looks for it.
pub(crate) fn llvm() -> Option<String> {
    let prefix = prefix();
    let version =
        first_line(prefix.join("bin/llvm-config"), &["--version"]).filter(|v| v.starts_with("19."))?;
    Some(format!("{version} in {}", prefix.display()))
}

/// Value of `LLVM_SYS_191_PREFIX`, which cargo takes from the environment or else from `.cargo/config.toml`.
fn prefix() -> PathBuf {
    std::env::var_os("LLVM_SYS_191_PREFIX").map_or_else(|| PathBuf::from("/usr/lib/llvm-19"), PathBuf::from)
}

/// The commands that install LLVM 19 on this system.
///
/// # Errors
/// On systems where this tool does not install it: the command that the user should run.
pub(crate) fn install_command() -> Result<Vec<Vec<String>>, String> {
    if cfg!(target_os = "macos") {
        return Err("brew install llvm@19; export LLVM_SYS_191_PREFIX=$(brew --prefix llvm@19)".to_string());
    }
    if !Path::new(APT).exists() {
        return Err("install LLVM 19 with its headers (Fedora: dnf install llvm19-devel) and export \
                    LLVM_SYS_191_PREFIX=<the folder that holds bin/llvm-config>"
            .to_string());
    }
    Ok(apt_commands(&["llvm-19-dev", "libpolly-19-dev", "zlib1g-dev", "libzstd-dev"]))
}

const APT: &str = "/usr/bin/apt-get";

fn apt_commands(packages: &[&str]) -> Vec<Vec<String>> {
    let root = first_line("id", &["-u"]).is_some_and(|uid| uid == "0");
    let sudo: &[&str] = if root { &[] } else { &["sudo"] };
    let words = |tail: &[&str]| sudo.iter().chain(tail).map(ToString::to_string).collect();
    vec![words(&["apt-get", "update"]), words(&[&["apt-get", "install", "-y"], packages].concat())]
}

fn install(commands: &[Vec<String>]) -> Result<(), String> {
    for command in commands {
        println!("$ {}", command.join(" "));
        let mut process = Command::new(&command[0]);
        run(process.args(&command[1..]).env("DEBIAN_FRONTEND", "noninteractive"), &command.join(" "))?;
    }
    Ok(())
}
