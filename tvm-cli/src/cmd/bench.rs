//! The command `tvmc bench`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tvm_core::pass::Precision;
use tvm_onnx::proto::ModelProto;
use tvm_peers::{
    Comparison, Contestant, ENGINES, Effort, Entry, Given, Group, Home, Limit, Limits, Measured, Pool,
    ROUNDED, Row, Side, Work, contestants, engine,
};
use tvm_runtime::Device;
use tvm_runtime::vm::VmConfig;

use crate::data::{self, Fill};
use crate::error::Error;
use crate::inputs::made_up;
use crate::model::{self, Content, Options};
use crate::out;

const GROUPS: &[Group] = &[Group { title: "Kernels and models", goal: "the best peer", mean: None }];

/// Arguments of `tvmc bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// ONNX models, or kernels: matmul:MxNxK, conv:INxOUTxSIZE, softmax:RxC, layernorm:RxC, transpose:RxC, sum:RxC, chain:N,
    /// attention:HEADSxLENGTHxWIDTH, minilm:BATCHxLENGTH, resnet50. Options follow, as in matmul:16x4096x4096,constant,
    /// resnet50,batch=32 and conv:64x64x56,kernel=1,stride=2.
    #[arg(required = true, value_name = "KERNEL|MODEL", value_hint = clap::ValueHint::FilePath)]
    work: Vec<String>,
    /// Libraries to compare with, as in gemm,onnxruntime. They are installed into the folder PERF_HOME, else into tvm-bench
    /// in the user's cache.
    #[arg(long, value_delimiter = ',', value_name = "LIBRARY")]
    vs: Vec<String>,
    /// Numbers of threads to measure with.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// How many times each program takes its turn.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Writes compare.md and compare.html, with a roofline plot, into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Writes what was measured as JSON; what is installed or built is said on standard error.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let start = Instant::now();
    args.out.as_deref().map_or(Ok(()), data::check_output_dir)?;
    let say = |text: String| if args.json { out::note(text) } else { out::line(text) };
    let engines = args.vs.iter().map(|it| library(it)).collect::<Result<Vec<_>, _>>()?;
    let program = std::env::current_exe().map_err(Error::io(Path::new("tvmc")))?;
    let home = Home::find(program, args.options.target.to_string()).map_err(Error::failed)?;
    let rows = args.work.iter().map(|it| row(it, &engines, args, &home)).collect::<Result<Vec<_>, _>>()?;
    let given = rows.iter().flat_map(|row| &row.contestants).map(|it| &it.given);
    let models = given.clone().any(|it| matches!(it, Given::Spec(_)));
    home.prepare(&engines, models, &say).map_err(Error::failed)?;
    let mut cases = home.cases(&rows).map_err(Error::failed)?;
    cases.values_mut().for_each(|case| with_options(case, &args.options));

    let effort = Effort { rounds: args.rounds as usize, seconds: 0.1, patience: Duration::from_secs(300) };
    let command = format!("tvmc bench {}", std::env::args().skip(2).collect::<Vec<_>>().join(" "));
    let mut report = Comparison::new("compare", command, GROUPS, home.versions(&engines));
    if args.options.target.is_gpu() {
        let gpu = Device::cuda(0).properties()?;
        report.cpu = format!("{}, {} multiprocessors; {}", gpu.name, gpu.units, report.cpu);
    }
    for &threads in &args.threads {
        let threads = threads as usize;
        report.limits.push(Pool::new(&home, threads, effort).limits());
        let mut pool = Pool::new(&home, threads, effort);
        for row in &rows {
            let outcome = pool.measure(row, &cases);
            if !args.json {
                out::line(contestants(&outcome));
                if let Some(host) = &outcome.host {
                    out::line(format_args!("    {host}"));
                }
            }
            report.outcomes.push(outcome);
        }
    }
    let failed = report.outcomes.iter().any(|it| it.best(Side::Ours).is_none());
    let code = if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    report.seconds = start.elapsed().as_secs_f64();
    let mut written = Vec::new();
    if let Some(folder) = &args.out {
        written = report.write(folder).map_err(Error::failed)?.to_vec();
    }
    if args.json {
        out::line(as_json(&report));
        return Ok(code);
    }
    let files: HashSet<_> = cases.values().filter_map(|it| model_of(it)).collect();
    for file in files {
        out::line(format_args!("model: {file}    (tvmc compile MODEL --emit schedule|tir|llvm|c|asm)"));
    }
    for path in written {
        out::line(format_args!("written: {}", path.display()));
    }
    Ok(code)
}

/// What was measured: a row for each work, number of threads and program. Times are in seconds.
fn as_json(report: &Comparison) -> Json {
    let limits = |it: &Limits| json!({"threads": it.threads, "fma_gflops": it.fma, "read_gbs": it.read, "copy_gbs": it.copy});
    let entry = |outcome: &Measured, it: &Entry| {
        let mut row = json!({"work": outcome.row.name, "threads": outcome.threads, "program": it.label});
        if let Some(host) = outcome.host.as_ref().filter(|_| it.side == Side::Ours) {
            row["host_s"] = json!({"call": host.call, "driver": host.driver});
            row["captured"] = match &host.captured {
                Ok(it) => json!({"call_s": it.call, "host_s": it.host}),
                Err(message) => json!({"error": message}),
            };
        }
        match &it.times {
            Ok(times) => {
                row["median_s"] = times.median().into();
                row["p05_s"] = times.p05().into();
                row["p95_s"] = times.p95().into();
                row["noisy"] = times.noisy.into();
                let known = if outcome.row.in_bytes() { outcome.row.bytes } else { outcome.row.flops } > 0.0;
                let rate = if known { Some(outcome.row.rate(times.median())) } else { None };
                row[if outcome.row.in_bytes() { "gbs" } else { "gflops" }] = rate.into();
            }
            Err(message) => row["error"] = message.clone().into(),
        }
        row
    };
    let outcomes = report.outcomes.iter();
    let rows: Vec<Json> = outcomes.flat_map(|it| it.entries.iter().map(move |own| entry(it, own))).collect();
    json!({
        "command": report.command,
        "cpu": report.cpu,
        "versions": report.versions,
        "limits": report.limits.iter().map(limits).collect::<Vec<_>>(),
        "rows": rows,
        "seconds": report.seconds,
    })
}

fn library(name: &str) -> Result<&'static str, Error> {
    engine(name).map(|it| it.name).ok_or_else(|| {
        let known: Vec<&str> = ENGINES.iter().map(|it| it.alias).collect();
        Error::usage(format!("`{name}` is not a library to compare with: {}", known.join(", ")))
    })
}

/// The row of a kernel or of a model in a file.
fn row(work: &str, engines: &[&'static str], args: &Args, home: &Home) -> Result<Row, Error> {
    let path = Path::new(work);
    if path.extension().is_some_and(|it| it == "onnx") || path.is_file() {
        return model_row(path, engines, args, home);
    }
    let kernel: Work = work.parse().map_err(|err| {
        Error::usage(format!("{err}\n  help: a model is a file; there is none of the name `{work}`"))
    })?;
    Ok(kernel.row(0).ours(&kernel).peers(engines, &kernel))
}

/// The row of a model, with inputs that are made up.
fn model_row(path: &Path, engines: &[&'static str], args: &Args, home: &Home) -> Result<Row, Error> {
    let model = args.options.load(path, VmConfig::default())?;
    let stem = path.file_stem().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
    let mut inputs = Vec::new();
    let extents = args.options.least_extents();
    for (i, (name, ty)) in model.params()?.iter().enumerate() {
        let tensor = made_up(Fill::Random, name, ty, &extents)?;
        let file = home.data().join(format!("{stem}_{i}.bin"));
        data::write(&file, tensor.bytes()?)?;
        let dtype = tensor.dtype().to_string();
        inputs.push(json!({"name": name, "dtype": dtype, "shape": tensor.shape(), "file": file}));
    }
    let path = path.canonicalize().map_err(Error::io(path))?;
    let (fast_math, ranges) = (args.options.fast_math, args.options.ranges());
    let case = json!({
        "kind": "model", "onnx": path, "inputs": inputs, "onnx_inputs": inputs, "fast_math": fast_math,
        "symbolic": !ranges.is_empty(), "dims": ranges, "places": args.options.places(),
    });
    let case = case.to_string();
    let contestant = |(side, engine): (Side, &'static str)| Contestant {
        side,
        engine,
        label: engine.to_string(),
        given: Given::Case(case.clone()),
    };
    let peers = engines.iter().map(|it| (Side::Peer, *it));
    let contestants = std::iter::once((Side::Ours, "tvm")).chain(peers).map(contestant).collect();
    let row = Row::new(0, path.display().to_string(), 0.0, 0.0).bound(Limit::Unknown);
    let quantized = match model::read(&path)? {
        Content::Onnx(bytes) => quantizes(&tvm_onnx::read_model(bytes).map_err(Error::file(&path))?),
        Content::Artifact(..) => false,
    };
    let rounded = quantized || args.options.precision != Precision::Full;
    let tolerance = if rounded { Some(ROUNDED) } else { row.tolerance };
    Ok(Row { contestants, tolerance, ..row })
}

/// True if the model rounds values to bytes when it runs.
fn quantizes(model: &ModelProto) -> bool {
    let functions = model.functions.iter().flat_map(|it| &it.node);
    let mut nodes = model.graph.iter().flat_map(|it| &it.node).chain(functions);
    // `QuantizeLinear`, `QLinearConv`, `QAttention`, `DynamicQuantizeLinear`, ..; no other operator has such a name.
    nodes.any(|it| it.op_type.starts_with('Q') || it.op_type.starts_with("DynamicQuantize"))
}

/// Adds the option to a case of work by name.
fn with_options(case: &mut String, options: &Options) {
    if let Ok(Json::Object(mut fields)) = serde_json::from_str(case) {
        if options.fast_math {
            fields.insert("fast_math".to_string(), true.into());
        }
        if options.precision != Precision::Full {
            fields.insert("precision".to_string(), options.precision.to_string().into());
        }
        *case = Json::Object(fields).to_string();
    }
}

/// The file of a case's model.
fn model_of(case: &str) -> Option<String> {
    let case: Json = serde_json::from_str(case).ok()?;
    Some(case["onnx"].as_str()?.to_string())
}

#[cfg(test)]
mod tests {
    use tvm_onnx::proto::{FunctionProto, GraphProto, NodeProto};

    use super::*;

    #[test]
    fn quantized_models_are_known_by_their_nodes() {
        for (op, rounds) in [
            ("QuantizeLinear", true),
            ("DynamicQuantizeLinear", true),
            ("QLinearMatMul", true),
            ("DequantizeLinear", false),
            ("Conv", false),
        ] {
            let node = vec![NodeProto { op_type: op.to_string(), ..NodeProto::default() }];
            let function = FunctionProto { node: node.clone(), ..FunctionProto::default() };
            let graph = Some(GraphProto { node, ..GraphProto::default() });
            assert_eq!(quantizes(&ModelProto { graph, ..ModelProto::default() }), rounds, "{op}");
            let functions = vec![function];
            assert_eq!(quantizes(&ModelProto { functions, ..ModelProto::default() }), rounds, "{op}");
        }
    }
}
