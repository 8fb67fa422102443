//! `cargo xtask`: set-up, tests and continuous integration of the workspace. It uses the standard library only, so that
//! it builds in a second on a bare machine.
#![allow(clippy::print_stdout, reason = "progress is what this program is for")]

mod doctor;
mod fuzz;
mod peers;
mod setup;
mod step;
mod tasks;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  doctor   what was found on this machine, and what to run where something is missing
  setup    install LLVM 19 where it is missing
  tidy     the invariants of the sources (tests/tidy), in two seconds
  test     setup, then all tests: with the features llvm and cuda (on a fake driver), some without
  ci       everything CI checks: fmt, tidy, the bare façade, clippy, docs, then `test`
  bless    rewrite expect-test snapshots and trybuild .stderr files from what the tests produce now
  fuzz [--seconds N] [--cases N] [--seed N] [TARGET…]
           random programs against the reference, on the stable toolchain: all targets, or those named; 60 s each
           unless told otherwise. Without --seed, a fresh one, printed
  bench --compare [kernels|models] [--short] [--filter TEXT] [--threads 1,2] [--target TARGET] [--tvmc PROGRAM] [--out FOLDER]
           our kernels or whole models beside the best libraries, in turns, with the goals; --short in less than 10 minutes.
           Peers are installed into the folder PERF_HOME, else into tvm-bench in the user's cache. Writes compare.* or models.*
           into benches/results
  conformance [--real | --frozen] [--filter TEXT] [--target TARGET] [--alone] [--out FILE.md] [--tvmc PROGRAM]
  conformance --cuda [--filter TEXT] [--target TARGET] [--out FILE.md] [--tvmc PROGRAM]
  conformance --models [--filter TEXT] [--minutes N] [--target TARGET] [--out FILE.md] [--tvmc PROGRAM]
  conformance --hostile N [--seed S] [--first I] [--filter TEXT] [--target TARGET] [--tvmc PROGRAM]
           the node tests of the onnx package beside onnxruntime; with --real, models that Python packages ship, each
           compiled once with its own symbolic dimensions; with --frozen, node tests whose inputs that say shapes, axes and the
           like are constants; with --cuda, what NVIDIA's compilers say about the kernels of node tests and networks (their wheels
           are installed beside the peers; no GPU is needed); with --models, the whole models of the comparison beside onnxruntime:
           fixed and symbolic dimensions, int8 and bf16, targets LLVM and C, the same bits at 1, 2 and 7 threads (a filter is for
           `MODEL, VARIANT, TARGET`; after N minutes, the rest is listed as not run); with --hostile, N mutants of the node tests, each of which must be refused or run within
           10 s and 2 GB. Without --seed, a fresh one, printed";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) =
        args.split_first().map_or(("", &[][..]), |(command, rest)| (command.as_str(), rest));
    let res = match (command, rest) {
        ("fuzz", rest) => fuzz::fuzz(rest),
        ("bench", rest) => peers::bench(rest),
        ("conformance", rest) => peers::conformance(rest),
        ("doctor", []) => doctor::doctor(),
        ("setup", []) => setup::setup(),
        ("tidy", []) => tasks::tidy(),
        ("test", []) => tasks::test(),
        ("ci", []) => tasks::ci(),
        ("bless", []) => tasks::bless(),
        ("help" | "--help" | "-h", []) => {
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
