//! `cargo xtask`: set-up, tests and continuous integration of the workspace. Standard library only, so that it builds in
//! a second on a bare machine.
#![allow(clippy::print_stdout, reason = "progress is what this program is for")]

mod doctor;
mod setup;
mod step;
mod tasks;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  doctor   what was found on this machine, and what to run where something is missing
  setup    install LLVM 19 where it is missing
  tidy     the invariants of the sources (tests/tidy), in two seconds
  test     setup, then all tests: default features, feature cuda (check only), feature llvm
  ci       everything CI checks: fmt, tidy, the bare façade, clippy, docs, then `test`
  bless    rewrite expect-test snapshots and trybuild .stderr files from what the tests produce now";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let res = match (args.next().as_deref(), args.next()) {
        (Some("doctor"), None) => doctor::doctor(),
        (Some("setup"), None) => setup::setup(),
        (Some("tidy"), None) => tasks::tidy(),
        (Some("test"), None) => tasks::test(),
        (Some("ci"), None) => tasks::ci(),
        (Some("bless"), None) => tasks::bless(),
        (Some("help" | "--help" | "-h"), None) => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(format!("unknown command line\n\n{HELP}")),
    };
    match res {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
