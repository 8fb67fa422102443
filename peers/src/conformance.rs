//! The program `conformance`: the node tests of the onnx package, and models that Python packages ship, compiled by us and
//! beside onnxruntime; the whole models of the comparison at several precisions, targets and numbers of threads; mutants of the node tests, compiled by us alone; and what NVIDIA's compilers say about the kernels that we
//! write for GPUs. The work is done by `python/conformance.py`, in
//! the Python environment of the peers.
#![allow(clippy::print_stdout, reason = "progress is what this program is for")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;
use tvm_peers::{Home, models};

struct Options {
    real: bool,
    /// What NVIDIA's compilers say about the kernels of the models.
    cuda: bool,
    /// The whole models of the comparison.
    models: bool,
    /// After how many minutes no further model is begun.
    minutes: Option<u32>,
    /// Node tests with inputs such as shapes as constants.
    frozen: bool,
    /// Options of the script for hostile models: `--count N`, and more.
    hostile: Vec<String>,
    alone: bool,
    filter: String,
    target: String,
    tvmc: PathBuf,
    out: Option<PathBuf>,
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut res = Options {
        real: false,
        cuda: false,
        models: false,
        minutes: None,
        frozen: false,
        hostile: Vec::new(),
        alone: false,
        filter: String::new(),
        target: "host".to_string(),
        tvmc: PathBuf::from("tvmc"),
        out: None,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--real" => res.real = true,
            "--cuda" => res.cuda = true,
            "--models" => res.models = true,
            "--minutes" => {
                let text = value()?;
                res.minutes =
                    Some(text.parse().map_err(|_| format!("--minutes needs a number, not `{text}`"))?);
            }
            "--frozen" => res.frozen = true,
            "--hostile" => res.hostile.extend(["--count".to_string(), value()?]),
            "--seed" | "--first" => res.hostile.extend([arg.clone(), value()?]),
            "--alone" => res.alone = true,
            "--filter" => res.filter = value()?,
            "--target" => res.target = value()?,
            // Workers run in folders of their own.
            "--tvmc" => {
                let path = PathBuf::from(value()?);
                res.tvmc = path.canonicalize().map_err(|e| format!("--tvmc {}: {e}", path.display()))?;
            }
            "--out" => res.out = Some(value()?.into()),
            other => return Err(format!("unknown option {other}")),
        }
    }
    if !res.hostile.is_empty() && !res.hostile.iter().any(|it| it == "--count") {
        return Err("--seed and --first need --hostile N".to_string());
    }
    if !res.hostile.is_empty() && (res.real || res.out.is_some()) {
        return Err("--hostile goes neither with --real nor with --out".to_string());
    }
    if res.cuda && (res.real || res.frozen || !res.hostile.is_empty()) {
        return Err("--cuda goes with none of --real, --frozen and --hostile".to_string());
    }
    if res.models && (res.real || res.frozen || res.cuda || !res.hostile.is_empty()) {
        return Err("--models goes with none of --real, --frozen, --cuda and --hostile".to_string());
    }
    if res.minutes.is_some() && !res.models {
        return Err("--minutes needs --models".to_string());
    }
    if res.cuda && res.target == "host" {
        res.target = "cuda -arch=sm_90".to_string();
    }
    if res.frozen && (res.real || !res.hostile.is_empty()) {
        return Err("--frozen goes neither with --real nor with --hostile".to_string());
    }
    Ok(res)
}

fn run(args: &[String]) -> Result<bool, String> {
    let options = parse(args)?;
    let home = Home::find(options.tvmc.clone(), options.target.clone())?;
    let hostile = !options.hostile.is_empty();
    home.prepare_python(if hostile { &[] } else { &["ort"] }, &|line| println!("{line}"))?;
    let mut python = Command::new(home.python());
    let kinds =
        [(hostile, "hostile"), (options.real, "real"), (options.cuda, "cuda"), (options.models, "models")];
    let what = kinds.iter().find(|it| it.0).map_or("nodes", |it| it.1);
    python.arg(home.script("conformance.py")).arg(what).args(&options.hostile);
    python.arg("--data").arg(home.data()).args(["--filter", &options.filter]);
    if let Some(minutes) = options.minutes {
        python.args(["--minutes", &minutes.to_string()]);
    }
    if let Some(out) = &options.out {
        python.arg("--out").arg(out);
    }
    for (chosen, option) in [(options.alone, "--alone"), (options.frozen, "--frozen")] {
        if chosen {
            python.arg(option);
        }
    }
    python.arg("--").arg(&options.tvmc);
    if matches!(what, "nodes" | "hostile") {
        python.args(["worker", "conformance"]);
    }
    python.args(["--target", &options.target]);
    let failed = |e: std::io::Error| format!("{}: {e}", home.python().display());
    if !options.models {
        return Ok(python.status().map_err(failed)?.success());
    }
    let mut child = python.stdin(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut specs) = child.stdin.take() {
        specs.write_all(Value::Array(models::plain()).to_string().as_bytes()).map_err(failed)?;
    }
    Ok(child.wait().map_err(failed)?.success())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            println!("conformance: {message}");
            ExitCode::FAILURE
        }
    }
}
