//! The command `tvmc inspect`.

use std::path::PathBuf;
use std::process::ExitCode;

use indexmap::IndexMap;
use tvm_onnx::proto::{GraphProto, ModelProto, TypeProto, ValueInfoProto};
use tvm_onnx::{dtype_from_onnx, is_standard, supported_extension_ops, supported_ops};
use tvm_runtime::artifact::ArtifactInfo;
use tvm_runtime::vm::Executable;

use crate::error::Error;
use crate::model::{self, Content};
use crate::out;

/// Arguments of `tvmc inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An ONNX model or an artifact.
    file: PathBuf,
    /// Shows the bytecode of an artifact.
    #[arg(long)]
    disassemble: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    match model::read(&args.file)? {
        Content::Onnx(bytes) => onnx(&tvm_onnx::read_model(bytes).map_err(Error::file(&args.file))?),
        Content::Artifact(exe, info) => artifact(&exe, &info, args.disassemble),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn onnx(model: &ModelProto) -> Result<(), Error> {
    let graph = model.graph.as_ref().ok_or_else(|| Error::failed("the model has no graph"))?;
    let sets: Vec<String> = (model.opset_import.iter())
        .map(|it| format!("{} {}", if it.domain.is_empty() { "ai.onnx" } else { &it.domain }, it.version))
        .collect();
    out::line(format_args!(
        "ONNX model `{}`, IR version {}, opsets {}, made by {} {}",
        graph.name.escape_debug(),
        model.ir_version,
        sets.join(", "),
        model.producer_name.escape_debug(),
        model.producer_version.escape_debug()
    ));
    let is_constant = |name: &str| graph.initializer.iter().any(|it| it.name == name);
    let inputs: Vec<&ValueInfoProto> = graph.input.iter().filter(|it| !is_constant(&it.name)).collect();
    section("inputs", inputs.into_iter().map(port).collect());
    section("outputs", graph.output.iter().map(port).collect());
    section("operators", operators(graph));
    let elements = |dims: &[i64]| dims.iter().fold(1i64, |n, &it| n.saturating_mul(it.max(0)));
    let parameters = graph.initializer.iter().fold(0i64, |n, it| n.saturating_add(elements(&it.dims)));
    out::line(format_args!(
        "{} nodes, {} initializers with {parameters} elements",
        graph.node.len(),
        graph.initializer.len()
    ));
    Ok(())
}

/// The operators by descending count; operators that cannot be imported are marked.
fn operators(graph: &GraphProto) -> Vec<Vec<String>> {
    let mut counts: IndexMap<(&str, &str), usize> = IndexMap::new();
    for node in &graph.node {
        // The standard domain has two names.
        let domain = if is_standard(&node.domain) { "" } else { &node.domain };
        *counts.entry((domain, &node.op_type)).or_default() += 1;
    }
    counts.sort_by(|a, n, b, m| m.cmp(n).then(a.cmp(b)));
    let (supported, extensions) = (supported_ops(), supported_extension_ops());
    let row = |(&(domain, name), n): (&(&str, &str), &usize)| {
        let standard = domain.is_empty() && supported.iter().any(|(it, _)| *it == name);
        let known = standard || extensions.contains(&(domain, name));
        let note = if known { String::new() } else { out::coloured("not supported", out::Colour::Yellow) };
        vec![format!("{domain}{}{name}", if domain.is_empty() { "" } else { "::" }), n.to_string(), note]
    };
    counts.iter().map(row).collect()
}

fn port(info: &ValueInfoProto) -> Vec<String> {
    vec![info.name.escape_debug().to_string(), info.ty.as_ref().map_or_else(|| "?".into(), show_type)]
}

fn show_type(ty: &TypeProto) -> String {
    let Some(tensor) = &ty.tensor_type else { return "not a tensor".into() };
    let dtype = dtype_from_onnx(tensor.elem_type.into());
    let dtype = dtype.map_or_else(|_| format!("type {}", tensor.elem_type), |it| it.to_string());
    let Some(shape) = &tensor.shape else { return format!("TensorDyn<{dtype}>") };
    let dims = shape.dim.iter().map(|dim| match (&dim.dim_value, &dim.dim_param) {
        (Some(value), _) => value.to_string(),
        (None, Some(name)) if !name.is_empty() => name.escape_debug().to_string(),
        (None, _) => "?".into(),
    });
    format!("Tensor<{}>", std::iter::once(dtype).chain(dims).collect::<Vec<_>>().join(", "))
}

fn section(title: &str, rows: Vec<Vec<String>>) {
    out::line(format_args!("\n{title}"));
    out::table(&rows);
}

fn artifact(exe: &Executable, info: &ArtifactInfo, disassemble: bool) -> Result<(), Error> {
    out::line(info);
    out::line(format_args!("target {}", exe.target));
    let names = model::metadata_names(exe, "input");
    for func in exe.functions.iter().filter(|func| func.public) {
        let name = |i: usize, own: &str| {
            names.get(i).filter(|_| &*func.name == model::MAIN).cloned().unwrap_or(own.into())
        };
        let params = func.params.iter().enumerate();
        let rows = params.map(|(i, it)| vec![name(i, &it.name), it.ty.to_string()]).collect();
        section(&format!("function `{}`", func.name), rows);
        out::line(format_args!("  -> {}", func.ret));
    }
    section("kernels", exe.kernels.iter().map(|it| vec![it.to_string()]).collect());
    let objects = exe
        .objects
        .iter()
        .map(|it| vec![it.name.clone(), format!("{:?}", it.kind), out::bytes(it.bytes.len() as u64)]);
    section("objects", objects.collect());
    let constants = out::bytes(exe.constant_bytes() as u64);
    out::line(format_args!("{} constants, {constants}", exe.constants.len()));
    for (key, value) in &exe.metadata {
        out::line(format_args!("{key} = {value}"));
    }
    let levels: Vec<&str> = exe.cpu_levels().collect();
    match tvm_runtime::choose_cpu_level(&levels, None) {
        Ok(None) => {}
        Ok(Some(level)) => out::line(format_args!("CPU level on this machine: {level}")),
        Err(err) => out::line(format_args!("CPU level on this machine: {err}")),
    }
    if disassemble {
        out::line(exe);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tvm_onnx::proto::NodeProto;

    use super::*;

    #[test]
    fn both_names_of_the_standard_domain_are_known() {
        let node = |domain: &str, op_type: &str| NodeProto {
            domain: domain.into(),
            op_type: op_type.into(),
            ..NodeProto::default()
        };
        let nodes =
            vec![node("", "Relu"), node("ai.onnx", "Relu"), node("ai.onnx", "Nope"), node("a.b", "Relu")];
        let rows = operators(&GraphProto { node: nodes, ..GraphProto::default() });
        let shown: Vec<(&str, &str, bool)> =
            rows.iter().map(|row| (&*row[0], &*row[1], row[2].contains("not supported"))).collect();
        assert_eq!(shown, [("Relu", "2", false), ("Nope", "1", true), ("a.b::Relu", "1", true)]);
    }
}
