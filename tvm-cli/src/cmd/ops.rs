//! The command `tvmc ops`.

use std::process::ExitCode;

use serde_json::json;
use tvm_core::ir::OpRegistry;

use crate::error::Error;
use crate::out;

/// Arguments of `tvmc ops`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Lists only names that contain this text.
    filter: Option<String>,
    /// Writes the list as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let wanted = |name: &str| {
        let filter = args.filter.as_deref().unwrap_or_default().to_lowercase();
        name.to_lowercase().contains(&filter)
    };
    let onnx: Vec<_> = tvm_onnx::supported_ops().into_iter().filter(|(name, _)| wanted(name)).collect();
    let others = tvm_onnx::supported_extension_ops();
    let others: Vec<_> = others.into_iter().filter(|(_, name)| wanted(name)).collect();
    let ops: Vec<_> = OpRegistry::all().into_iter().filter(|op| wanted(op.name)).collect();
    if args.json {
        let onnx = onnx.iter().map(|(name, since)| json!({"domain": "", "name": name, "since": since}));
        let others = others.iter().map(|(domain, name)| json!({"domain": domain, "name": name}));
        let ops = ops.iter().map(|op| json!({"name": op.name, "doc": op.doc}));
        let (onnx, ops): (Vec<_>, Vec<_>) = (onnx.chain(others).collect(), ops.collect());
        out::line(json!({"onnx": onnx, "graph": ops}));
        return Ok(ExitCode::SUCCESS);
    }
    out::line("ONNX operators that can be imported, with the opsets that (re)defined them");
    let since = |it: &[i64]| it.iter().map(|it| format!("{it}")).collect::<Vec<_>>().join(", ");
    let rows = onnx.iter().map(|(name, versions)| vec![name.to_string(), since(versions)]);
    out::table(&rows.collect::<Vec<_>>());
    out::line("\nONNX operators of other domains");
    let rows = others.iter().map(|(domain, name)| vec![name.to_string(), domain.to_string()]);
    out::table(&rows.collect::<Vec<_>>());
    out::line("\ngraph operators");
    out::table(&ops.iter().map(|op| vec![op.name.to_string(), op.doc.to_string()]).collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}
