//! The command `tvmc run`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tvm_runtime::vm::{Profile, ValueType};
use tvm_runtime::{DataType, Tensor, Value};

use crate::data::{self, Fill};
use crate::error::Error;
use crate::model::{MAIN, Model, Options, tensors};
use crate::out;

/// Arguments of `tvmc run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An ONNX model or an artifact.
    model: PathBuf,
    /// Reads an input from a .npy or .pb file; files without a name are assigned to the inputs in order.
    #[arg(long = "input", value_name = "[NAME=]FILE")]
    inputs: Vec<String>,
    /// Content of the inputs that are not given.
    #[arg(long)]
    fill: Option<Fill>,
    /// Writes the outputs to output_0.npy, … in this directory.
    #[arg(long)]
    output_dir: Option<PathBuf>,
    /// Runs the model this many times and reports the time of a run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Reports the time spent in each kernel and packed function.
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let start = Instant::now();
    let model = Model::load(&args.model, &args.options)?;
    let compile = start.elapsed();
    let inputs = inputs(args, &model)?;
    let mut outputs = Vec::new();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..args.repeat {
        let start = Instant::now();
        outputs = model.run(&inputs)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    for (i, tensor) in outputs.iter().enumerate() {
        let name = model.outputs.get(i).cloned().unwrap_or_else(|| format!("output_{i}"));
        out::line(format_args!("{name}: {}", summary(tensor)?));
        if let Some(dir) = &args.output_dir {
            std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
            data::write(&dir.join(format!("output_{i}.npy")), &tvm_onnx::write_npy(tensor)?)?;
        }
    }
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    out::line(format_args!("ready after {compile:.2?}, run in {median:.2?} (median of {})", times.len()));
    if args.profile {
        let mut profile = Profile::default();
        let values: Vec<Value> = inputs.iter().map(Value::from).collect();
        tensors(model.vm.invoke_profiled(&mut profile, MAIN, &values)?)?;
        out::line(profile);
    }
    Ok(ExitCode::SUCCESS)
}

/// The inputs, read from files or generated.
fn inputs(args: &Args, model: &Model) -> Result<Vec<Tensor>, Error> {
    let params = model.params()?;
    let mut given: Vec<Option<Tensor>> = vec![None; params.len()];
    for spec in &args.inputs {
        let named = spec
            .split_once('=')
            .and_then(|(name, file)| Some((params.iter().position(|(param, _)| param == name)?, file)));
        let next = given.iter().position(Option::is_none);
        let (i, file) = match (named, next) {
            (Some(named), _) => named,
            (None, Some(next)) if !spec.contains('=') => (next, spec.as_str()),
            _ => {
                let names: Vec<&str> = params.iter().map(|(name, _)| &**name).collect();
                let message = format!("`{spec}` names no input; the inputs are {}", names.join(", "));
                return Err(Error::usage(message));
            }
        };
        given[i] = Some(data::read(file.as_ref())?);
    }
    let missing = |((name, ty), given): (&(String, ValueType), Option<Tensor>)| match (given, args.fill) {
        (Some(tensor), _) => Ok(tensor),
        (None, Some(fill)) => made_up(fill, name, ty),
        (None, None) => {
            let help = format!("give --input {name}=FILE, or --fill");
            Err(Error::usage(format!("input `{name}`: {ty} is missing\n  help: {help}")))
        }
    };
    params.iter().zip(given).map(missing).collect()
}

/// Generates an input; symbolic dimensions become 1.
pub(crate) fn made_up(fill: Fill, name: &str, ty: &ValueType) -> Result<Tensor, Error> {
    let ValueType::Tensor { dtype, shape: Some(shape) } = ty else {
        return Err(Error::usage(format!("input `{name}`: {ty} cannot be made up; give it with --input")));
    };
    let extents: Vec<i64> = shape.iter().map(|dim| dim.as_const().unwrap_or(1)).collect();
    data::filled(fill, &extents, dtype.unwrap_or(DataType::F32))
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
