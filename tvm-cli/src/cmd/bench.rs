//! The command `tvmc bench`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use tvm_peers::{
    Comparison, Contestant, ENGINES, Effort, Given, Group, Home, Limit, Pool, Row, Side, Work, contestants,
    engine,
};
use tvm_runtime::vm::VmConfig;

use crate::data::{self, Fill};
use crate::error::Error;
use crate::model::{self, Model, Options};
use crate::out;

const GROUPS: &[Group] = &[Group { title: "Kernels and models", goal: "the best peer", mean: None }];

/// Arguments of `tvmc bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// ONNX models, or kernels: matmul:MxNxK, conv:INxOUTxSIZE, softmax:RxC, layernorm:RxC, transpose:RxC, sum:RxC, chain:N,
    /// attention:HEADSxLENGTHxWIDTH, resnet50. Options follow, as in matmul:16x4096x4096,constant and
    /// conv:64x64x56,kernel=1,stride=2.
    #[arg(required = true, value_name = "KERNEL|MODEL")]
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
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let start = Instant::now();
    let engines = args.vs.iter().map(|it| library(it)).collect::<Result<Vec<_>, _>>()?;
    let program = std::env::current_exe().map_err(Error::io(Path::new("tvmc")))?;
    let home = Home::find(program, args.options.target.to_string()).map_err(Error::usage)?;
    let rows = args.work.iter().map(|it| row(it, &engines, args, &home)).collect::<Result<Vec<_>, _>>()?;
    let given = rows.iter().flat_map(|row| &row.contestants).map(|it| &it.given);
    let models = given.clone().any(|it| matches!(it, Given::Spec(_)));
    home.prepare(&engines, models, &out::line).map_err(Error::usage)?;
    let cases = home.cases(&rows).map_err(Error::usage)?;

    let effort = Effort { rounds: args.rounds as usize, seconds: 0.1, patience: Duration::from_secs(300) };
    let command = format!("tvmc bench {}", std::env::args().skip(2).collect::<Vec<_>>().join(" "));
    let mut report = Comparison::new(command, GROUPS, home.versions(&engines));
    for &threads in &args.threads {
        let threads = threads as usize;
        report.limits.push(Pool::new(&home, threads, effort).limits());
        let mut pool = Pool::new(&home, threads, effort);
        for row in &rows {
            let outcome = pool.measure(row, &cases);
            out::line(contestants(&outcome));
            report.outcomes.push(outcome);
        }
    }
    let files: HashSet<_> = cases.values().filter_map(|it| model_of(it)).collect();
    for file in files {
        out::line(format_args!("model: {file}    (tvmc compile MODEL --emit schedule|tir|llvm|c|asm)"));
    }
    report.seconds = start.elapsed().as_secs_f64();
    if let Some(folder) = &args.out {
        for path in report.write(folder).map_err(Error::usage)? {
            out::line(format_args!("written: {}", path.display()));
        }
    }
    let failed = report.outcomes.iter().any(|it| it.best(Side::Ours).is_none());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
    let module = model::import(path, &args.options.import())?;
    let model = Model::compile(module, &args.options.target, VmConfig::default())?;
    let stem = path.file_stem().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
    let mut inputs = Vec::new();
    for (i, (name, ty)) in model.params()?.iter().enumerate() {
        let tensor = super::run::made_up(Fill::Random, name, ty)?;
        let file = home.data().join(format!("{stem}_{i}.bin"));
        data::write(&file, tensor.bytes()?)?;
        let dtype = tensor.dtype().to_string();
        inputs.push(json!({"name": name, "dtype": dtype, "shape": tensor.shape(), "file": file}));
    }
    let path = path.canonicalize().map_err(Error::io(path))?;
    let case = json!({"kind": "model", "onnx": path, "inputs": inputs, "onnx_inputs": inputs}).to_string();
    let contestant = |(side, engine): (Side, &'static str)| Contestant {
        side,
        engine,
        label: engine.to_string(),
        given: Given::Case(case.clone()),
    };
    let peers = engines.iter().map(|it| (Side::Peer, *it));
    let contestants = std::iter::once((Side::Ours, "tvm")).chain(peers).map(contestant).collect();
    Ok(Row { contestants, ..Row::new(0, path.display().to_string(), 0.0, 0.0).bound(Limit::Unknown) })
}

/// The file of a case's model.
fn model_of(case: &str) -> Option<String> {
    let case: serde_json::Value = serde_json::from_str(case).ok()?;
    Some(case["onnx"].as_str()?.to_string())
}
