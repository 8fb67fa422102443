//! The command `tvmc inspect`.

mod artifact;
mod html;
mod layout;
mod onnx;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::Error;
use crate::model::{self, Content, Options};
use crate::progress::Progress;
use crate::{data, out};

/// Arguments of `tvmc inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An ONNX model or an artifact; `-` is standard input.
    file: PathBuf,
    /// Shows the bytecode of an artifact.
    #[arg(long)]
    disassemble: bool,
    /// Writes what is found as JSON.
    #[arg(long)]
    json: bool,
    /// Writes a page with the graph of a model to this file; it needs no other files.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    args.html.as_deref().map_or(Ok(()), data::check_output)?;
    match model::read(&args.file)? {
        Content::Onnx(bytes) => {
            let progress = Progress::importing(&args.file);
            let summary = onnx::Summary::of(bytes, &args.file, &args.options, &progress)?;
            drop(progress);
            if let Some(path) = &args.html {
                let graph = summary
                    .graph()
                    .map_err(|err| Error::failed(format!("there is no graph to show: {err}")))?;
                data::write(path, html::graph_page(&summary, graph).as_bytes())?;
                if data::is_standard(path) {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            if args.json {
                out::line(summary.json());
            } else {
                summary.print();
            }
            if let Some(path) = args.html.as_deref().filter(|_| !args.json) {
                out::line(format_args!("wrote {}", path.display()));
            }
        }
        Content::Artifact(..) if args.html.is_some() => {
            let message = "is an artifact; --html shows the graph of a model";
            return Err(Error::usage(format!("{} {message}", data::show(&args.file))));
        }
        Content::Artifact(exe, info) if args.json => out::line(artifact::json(&exe, &info)),
        Content::Artifact(exe, info) => artifact::print(&exe, &info, args.disassemble),
    }
    Ok(ExitCode::SUCCESS)
}

fn section(title: &str, rows: &[Vec<String>]) {
    out::line(format_args!("\n{title}"));
    out::table(rows);
}
