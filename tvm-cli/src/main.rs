//! `tvmc`: compiles, runs, inspects and tests models from the command line.
//!
//! TVM counterpart: `tvmc`.
#![deny(unsafe_code)]

mod cases;
mod cmd;
mod compare;
mod cost;
mod data;
mod error;
mod inputs;
mod model;
mod npz;
mod out;
mod page;
mod progress;
mod reference;
mod search;
mod worker;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// What the exit status says.
const EXIT_CODES: &str = "Exit status: 0 if all went well, 1 after an error or a failed comparison, 2 if the command line is invalid.";

/// Compiles, runs, inspects and tests models.
#[derive(Debug, Parser)]
#[command(name = "tvmc", version, about, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a model once and shows its outputs.
    Run(cmd::run::Args),
    /// Compiles a model to an artifact, or prints the output of an earlier stage of the compiler.
    Compile(cmd::compile::Args),
    /// Times kernels and models, alone or beside other libraries in turns.
    Bench(cmd::bench::Args),
    /// Shows where the time of a model goes: a line for each kernel, with what it has to do and how near the machine's limit it is.
    Profile(cmd::profile::Args),
    /// Shows inputs, outputs and content of a model or artifact.
    Inspect(cmd::inspect::Args),
    /// Runs a model here and in another program, and shows where the results differ first.
    Compare(cmd::compare::Args),
    /// Lists the supported operators.
    Ops(cmd::ops::Args),
    /// Runs tests in the layout of ONNX backend tests and compares the outputs.
    OnnxTest(cmd::onnx_test::Args),
    /// Reports what this machine has, and how to install what is missing.
    Doctor(cmd::doctor::Args),
    /// Writes a script that completes commands and options in a shell.
    ///
    /// bash: `tvmc completions bash > ~/.local/share/bash-completion/completions/tvmc`; zsh: into a file `_tvmc` in a folder of `$fpath`;
    /// fish: `tvmc completions fish > ~/.config/fish/completions/tvmc.fish`.
    Completions(cmd::completions::Args),
    /// Serves a test or benchmark harness over standard input and output.
    Worker(worker::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => cmd::run::run(&args),
        Command::Compile(args) => cmd::compile::run(&args),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Profile(args) => cmd::profile::run(&args),
        Command::Inspect(args) => cmd::inspect::run(&args),
        Command::Compare(args) => cmd::compare::run(&args),
        Command::Ops(args) => cmd::ops::run(&args),
        Command::OnnxTest(args) => cmd::onnx_test::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Completions(args) => cmd::completions::run(&args, Cli::command()),
        Command::Worker(args) => worker::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(err) => {
            out::error(&err);
            ExitCode::from(err.exit())
        }
    }
}
