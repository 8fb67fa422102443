//! `cargo xtask bench --compare` and `cargo xtask conformance`: build `tvmc`, and run the programs of `tvm-peers` that
//! put it beside other libraries.

use std::path::PathBuf;
use std::process::Command;

use crate::setup;
use crate::step::{target_dir, workspace_root};

/// Runs the comparison of speed (`peers/src/main.rs`); what it does not know itself are the options to build with.
///
/// # Errors
/// When something cannot be built, or the comparison fails.
pub(crate) fn bench(args: &[String]) -> Result<(), String> {
    let needs_tvmc = args.iter().any(|it| it == "--compare");
    peers("compare", "the comparison", args, needs_tvmc)
}

/// Runs the ONNX tests (`peers/src/conformance.rs`).
///
/// # Errors
/// When something cannot be built, or a result is wrong.
pub(crate) fn conformance(args: &[String]) -> Result<(), String> {
    peers("conformance", "the conformance tests", args, true)
}

fn peers(program: &str, shown: &str, args: &[String], needs_tvmc: bool) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let mut command = Command::new(&cargo);
    command.args(["run", "--quiet", "--release", "-p", "tvm-peers", "--bin", program, "--"]).args(args);
    if needs_tvmc && !args.iter().any(|it| it == "--tvmc") {
        command.arg("--tvmc").arg(tvmc(&cargo)?);
    }
    run(command.current_dir(workspace_root()), shown)
}

/// Builds our program.
fn tvmc(cargo: &str) -> Result<PathBuf, String> {
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "-p", "tvm-cli"]).current_dir(workspace_root());
    if setup::llvm().is_some() {
        build.args(["--features", "llvm"]);
    } else {
        println!(
            "SKIPPED: LLVM 19 is not installed; our side is compiled by the C compiler (`cargo xtask setup`)"
        );
    }
    run(&mut build, "cargo build --release -p tvm-cli")?;
    Ok(target_dir().join("release").join(format!("tvmc{}", std::env::consts::EXE_SUFFIX)))
}

fn run(command: &mut Command, shown: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown} ended with {status}")),
        Err(e) => Err(format!("cannot start {shown}: {e}")),
    }
}
