//! The command `tvmc ops`.

use std::process::ExitCode;

use tvm_core::ir::OpRegistry;

use crate::error::Error;
use crate::out;

/// Arguments of `tvmc ops`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Lists only names that contain this text.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let wanted = |name: &str| {
        let filter = args.filter.as_deref().unwrap_or_default().to_lowercase();
        name.to_lowercase().contains(&filter)
    };
    out::line("ONNX operators that can be imported, with the opsets that (re)defined them");
    let onnx = tvm_onnx::supported_ops().into_iter().filter(|(name, _)| wanted(name));
    let since = |it: &[i64]| it.iter().map(|it| format!("{it}")).collect::<Vec<_>>().join(", ");
    out::table(&onnx.map(|(name, versions)| vec![name.to_string(), since(&versions)]).collect::<Vec<_>>());
    out::line("\nONNX operators of other domains");
    let others = tvm_onnx::supported_extension_ops().into_iter().filter(|(_, name)| wanted(name));
    out::table(&others.map(|(domain, name)| vec![name.into(), domain.into()]).collect::<Vec<_>>());
    out::line("\ngraph operators");
    let ops = OpRegistry::all().into_iter().filter(|op| wanted(op.name));
    out::table(&ops.map(|op| vec![op.name.to_string(), op.doc.to_string()]).collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}
