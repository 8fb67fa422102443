//! The command `tvmc worker`: serves a harness over standard input and output, one line per request and per answer.

mod bench;
mod conformance;

use std::io::{self, BufRead};
use std::process::ExitCode;

use tvm_core::target::Target;

use crate::error::Error;

/// Arguments of `tvmc worker`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Harness to serve.
    #[command(subcommand)]
    harness: Harness,
}

#[derive(Debug, clap::Subcommand)]
enum Harness {
    /// Requests are `<test directory>\t<output directory>`; outputs are written as .npy files.
    Conformance(conformance::Args),
    /// Requests are JSON objects: load, run, out, quit.
    Bench {
        /// Target to compile for.
        #[arg(long, default_value = "host")]
        target: Target,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    match &args.harness {
        Harness::Conformance(args) => conformance::serve(args),
        Harness::Bench { target } => bench::serve(target),
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of standard input up to its end.
fn requests() -> impl Iterator<Item = String> {
    io::stdin().lock().lines().map_while(Result::ok)
}
