//! The command `tvmc run`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tvm_runtime::vm::{Profile, ProfileKind};
use tvm_runtime::{Tensor, Value};

use crate::error::Error;
use crate::inputs::Inputs;
use crate::model::{MAIN, Model, Options, Threads, tensors};
use crate::{data, npz, out};

/// Arguments of `tvmc run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An ONNX model or an artifact; `-` is standard input.
    model: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
    /// Writes the outputs by name to a .npz file, or the only one to a .npy file. `-` writes a .npz file to standard output, and
    /// nothing else.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Writes the outputs to output_0.npy, … in this directory.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Runs the model this many times and reports the time of a run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Reports the time spent in each kernel and packed function.
    #[arg(long)]
    profile: bool,
    /// Describes outputs and times as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    check(args)?;
    let start = Instant::now();
    let model = args.options.load(&args.model, args.threads.config())?;
    let compile = start.elapsed();
    let inputs = args.inputs.read(&model, &args.options)?;
    let mut outputs = Vec::new();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..args.repeat {
        let start = Instant::now();
        outputs = model.run(&inputs).map_err(Error::file(&args.model))?;
        times.push(start.elapsed());
    }
    let names = model.output_names(outputs.len());
    let is_text = |it: &(&String, &String)| it.1 == "string";
    let text: HashSet<&str> =
        names.iter().zip(&model.elements).filter(is_text).map(|(name, _)| name.as_str()).collect();
    let named = || names.iter().map(String::as_str).zip(&outputs);
    if let Some(dir) = &args.output_dir {
        for (i, (name, tensor)) in named().enumerate() {
            let path = dir.join(format!("output_{i}.npy"));
            data::write(&path, &npy(name, tensor, text.contains(name))?)?;
        }
    }
    match (&args.output, &outputs[..]) {
        (None, _) => {}
        (Some(path), [only]) if is_npy(path) => {
            data::write(path, &npy(&names[0], only, text.contains(&*names[0]))?)?
        }
        (Some(path), _) if is_npy(path) => {
            let (path, n) = (path.display(), outputs.len());
            let message = format!("{path}: a .npy file holds one array, but the model has {n} outputs");
            return Err(Error::usage(format!("{message}\n  help: write a .npz file")));
        }
        (Some(path), _) => data::write(path, &npz::write(named(), &text)?)?,
    }
    if args.output.as_deref().is_some_and(data::is_standard) {
        return Ok(ExitCode::SUCCESS);
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let profile = if args.profile { Some(profile(&model, &inputs)?) } else { None };
    if args.json {
        let rows = named()
            .map(|(name, tensor)| json_summary(name, tensor, text.contains(name)))
            .collect::<Result<Vec<_>, _>>()?;
        let times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        let mut found = json!({
            "outputs": rows,
            "ready_s": compile.as_secs_f64(),
            "run_s": median.as_secs_f64(),
            "times_s": times,
        });
        if let Some(profile) = &profile {
            found["profile"] = json_profile(profile);
        }
        out::line(found);
        return Ok(ExitCode::SUCCESS);
    }
    for (name, tensor) in named() {
        let is_text = text.contains(name);
        out::line(format_args!("{name}: {}", if is_text { strings(tensor)? } else { summary(tensor)? }));
    }
    out::line(format_args!("ready after {compile:.2?}, run in {median:.2?} (median of {})", times.len()));
    if let Some(profile) = profile {
        out::line(profile);
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that the outputs can be written, before anything is compiled.
fn check(args: &Args) -> Result<(), Error> {
    if let Some(path) = &args.output {
        let known = path.extension().is_some_and(|it| it == "npz" || it == "npy");
        if !known && !data::is_standard(path) {
            let message = format!("{}: outputs are written as .npz or .npy", path.display());
            return Err(Error::usage(message));
        }
        data::check_output(path)?;
    }
    args.output_dir.as_deref().map_or(Ok(()), data::check_output_dir)
}

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "npy")
}

/// The `.npy` file of an output.
fn npy(name: &str, tensor: &Tensor, is_text: bool) -> Result<Vec<u8>, Error> {
    let write = if is_text { tvm_onnx::write_npy_strings } else { tvm_onnx::write_npy };
    write(tensor).map_err(|err| Error::from(err).context(&format!("output `{name}`")))
}

/// The profile of one run.
fn profile(model: &Model, inputs: &[Tensor]) -> Result<Profile, Error> {
    let mut profile = Profile::default();
    let values: Vec<Value> = inputs.iter().map(Value::from).collect();
    tensors(model.vm.invoke_profiled(&mut profile, MAIN, &values)?)?;
    Ok(profile)
}

fn json_profile(profile: &Profile) -> Json {
    let row = |(kind, name, entry): (ProfileKind, &str, tvm_runtime::vm::ProfileEntry)| json!({"kind": kind.to_string(), "name": name, "calls": entry.calls, "time_s": entry.time.as_secs_f64()});
    let rows: Vec<Json> = profile.entries().into_iter().map(row).collect();
    json!({"total_s": profile.total.as_secs_f64(), "instructions": profile.instructions, "entries": rows})
}

/// Describes a tensor of strings: shape and first elements.
fn strings(tensor: &Tensor) -> Result<String, Error> {
    const SHOWN: usize = 8;
    let all = tvm_onnx::decode_strings(tensor)?;
    let shape = &tensor.shape()[..tensor.shape().len().saturating_sub(1)];
    let rest = if all.len() > SHOWN { ", …" } else { "" };
    let shown: Vec<String> = all.iter().take(SHOWN).map(|it| format!("{it:?}")).collect();
    Ok(format!("strings of shape {shape:?}: {}{rest}", shown.join(", ")))
}

/// Describes a tensor: type, first elements, minimum, maximum and mean.
fn summary(tensor: &Tensor) -> Result<String, Error> {
    let values = tensor.to_f64s()?;
    if values.is_empty() {
        return Ok(format!("{tensor:?}"));
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let top = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i);
    Ok(format!("{tensor:?}\n  min {low:.6}, max {high:.6} at {top}, mean {mean:.6}"))
}

/// Describes a tensor as JSON. A number that JSON does not have is null.
fn json_summary(name: &str, tensor: &Tensor, is_text: bool) -> Result<Json, Error> {
    if is_text {
        let shape = &tensor.shape()[..tensor.shape().len().saturating_sub(1)];
        let strings = tvm_onnx::decode_strings(tensor)?;
        return Ok(json!({"name": name, "dtype": "string", "shape": shape, "strings": strings}));
    }
    let values = tensor.to_f64s()?;
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let dtype = tensor.dtype().to_string();
    Ok(json!({"name": name, "dtype": dtype, "shape": tensor.shape(), "min": low, "max": high, "mean": mean}))
}
