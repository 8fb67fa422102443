//! The command `tvmc completions`.

use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::error::Error;
use crate::out;

/// Arguments of `tvmc completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// Writes the script for `tvmc`, whose commands and options are those of `command`.
pub(crate) fn run(args: &Args, mut command: Command) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tvmc", &mut script);
    out::raw(&script);
    Ok(ExitCode::SUCCESS)
}
