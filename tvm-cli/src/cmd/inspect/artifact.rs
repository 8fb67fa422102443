//! What `tvmc inspect` shows of an artifact.

use serde_json::{Value as Json, json};
use tvm_runtime::artifact::ArtifactInfo;
use tvm_runtime::vm::{Executable, VmFunction};

use super::section;
use crate::model;
use crate::out;

/// Prints header, functions, kernels and objects of an artifact.
pub(crate) fn print(exe: &Executable, info: &ArtifactInfo, disassemble: bool) {
    out::line(info);
    out::line(format_args!("target {}", exe.target));
    for func in exe.functions.iter().filter(|func| func.public) {
        let rows: Vec<_> = params(exe, func).into_iter().map(|(name, ty)| vec![name, ty]).collect();
        section(&format!("function `{}`", func.name), &rows);
        out::line(format_args!("  -> {}", func.ret));
    }
    section("kernels", &exe.kernels.iter().map(|it| vec![it.to_string()]).collect::<Vec<_>>());
    let objects = exe
        .objects
        .iter()
        .map(|it| vec![it.name.clone(), format!("{:?}", it.kind), out::bytes(it.bytes.len() as u64)]);
    section("objects", &objects.collect::<Vec<_>>());
    let constants = out::bytes(exe.constant_bytes() as u64);
    out::line(format_args!("{} constants, {constants}", exe.constants.len()));
    for (key, value) in &exe.metadata {
        out::line(format_args!("{key} = {value}"));
    }
    if let Some(level) = cpu_level(exe) {
        out::line(format_args!("CPU level on this machine: {level}"));
    }
    if disassemble {
        out::line(exe);
    }
}

/// The same as JSON.
pub(crate) fn json(exe: &Executable, info: &ArtifactInfo) -> Json {
    let function = |func: &VmFunction| {
        let params = params(exe, func).into_iter().map(|(name, ty)| json!({"name": name, "type": ty}));
        let params: Vec<Json> = params.collect();
        json!({"name": &*func.name, "params": params, "result": func.ret.to_string()})
    };
    let functions: Vec<Json> = exe.functions.iter().filter(|func| func.public).map(function).collect();
    let objects = exe
        .objects
        .iter()
        .map(|it| json!({"name": it.name, "kind": format!("{:?}", it.kind), "bytes": it.bytes.len()}));
    let sections = info.sections.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
    let metadata: serde_json::Map<String, Json> =
        exe.metadata.iter().map(|(key, value)| (key.clone(), Json::from(value.as_str()))).collect();
    json!({
        "kind": "artifact",
        "format_version": info.format_version,
        "abi_version": info.abi_version,
        "compiler": info.compiler,
        "sections": sections.collect::<Vec<_>>(),
        "target": exe.target,
        "functions": functions,
        "kernels": exe.kernels.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "objects": objects.collect::<Vec<_>>(),
        "constants": exe.constants.len(),
        "constant_bytes": exe.constant_bytes(),
        "metadata": metadata,
        "cpu_level": cpu_level(exe),
    })
}

/// Name and type of each parameter; those of `main` have the names of the model's inputs.
fn params(exe: &Executable, func: &VmFunction) -> Vec<(String, String)> {
    let names = model::metadata_names(exe, "input");
    let name = |i: usize, own: &str| {
        names.get(i).filter(|_| &*func.name == model::MAIN).cloned().unwrap_or_else(|| own.into())
    };
    func.params.iter().enumerate().map(|(i, it)| (name(i, &it.name), it.ty.to_string())).collect()
}

/// The CPU level of the artifact that this machine takes, or why it has none; `None` if there are no levels.
fn cpu_level(exe: &Executable) -> Option<String> {
    let levels: Vec<&str> = exe.cpu_levels().collect();
    match tvm_runtime::choose_cpu_level(&levels, None) {
        Ok(level) => level.map(String::from),
        Err(err) => Some(err.to_string()),
    }
}
