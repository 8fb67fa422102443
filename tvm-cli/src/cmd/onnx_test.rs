//! The command `tvmc onnx-test`: runs directories in the layout of ONNX backend tests.
//!
//! A test is a directory with a `model.onnx` and either `test_data_set_*` directories (`input_i` and `output_j`, `.pb` or
//! `.npy`) or `output_j` files next to the model. In the second case, element `i` of an input of `n` elements is `i / n`, as
//! the light models of the onnx package require. A directory without a model stands for all tests directly inside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use tvm_runtime::vm::ValueType;
use tvm_runtime::{DataType, Tensor};

use crate::cases::{Case, data_sets};
use crate::compare::{Tolerance, mismatch};
use crate::data::{self, Fill};
use crate::error::Error;
use crate::model::{Model, Options, Threads};
use crate::out::{self, Colour};
use crate::progress::Progress;

/// Arguments of `tvmc onnx-test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tests, or directories of tests.
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Relative difference allowed.
    #[arg(long, default_value_t = 1e-3)]
    rtol: f64,
    /// Absolute difference allowed.
    #[arg(long, default_value_t = 1e-5)]
    atol: f64,
    /// Skips tests of unsupported features; without this option they fail.
    #[arg(long)]
    skip_unsupported: bool,
    /// Reports the tests as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    options: Options,
}

enum Outcome {
    Passed,
    Failed(String),
    Unsupported(String),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut tests = Vec::new();
    for dir in &args.dirs {
        tests.extend(tests_in(dir)?);
    }
    let tolerance = Tolerance { rtol: args.rtol, atol: args.atol };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut rows = Vec::new();
    for dir in &tests {
        let outcome = match test(dir, tolerance, args) {
            Ok(outcome) => outcome,
            Err(err) if err.is_unsupported() => Outcome::Unsupported(err.to_string()),
            Err(err) => Outcome::Failed(err.to_string()),
        };
        let (word, colour, reason) = match outcome {
            Outcome::Passed => ("ok", Colour::Green, String::new()),
            Outcome::Failed(reason) => ("FAIL", Colour::Red, reason),
            Outcome::Unsupported(reason) => ("unsupported", Colour::Yellow, reason),
        };
        match word {
            "ok" => passed += 1,
            "unsupported" if args.skip_unsupported => skipped += 1,
            _ => failed += 1,
        }
        if args.json {
            rows.push(json!({"test": dir, "result": word.to_lowercase(), "reason": reason}));
            continue;
        }
        let reason = reason.replace('\n', "\n      ");
        let word = out::coloured(word, colour);
        out::line(format_args!("{} {word} {reason}", dir.display()).to_string().trim_end());
    }
    if args.json {
        out::line(json!({"passed": passed, "failed": failed, "skipped": skipped, "tests": rows}));
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let skipped = if args.skip_unsupported { format!(", {skipped} skipped") } else { String::new() };
    out::line(format_args!("{passed} passed, {failed} failed{skipped}"));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tests that `dir` stands for.
fn tests_in(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    if dir.join("model.onnx").is_file() {
        return Ok(vec![dir.to_path_buf()]);
    }
    let entries = fs::read_dir(dir).map_err(Error::io(dir))?;
    let mut tests: Vec<PathBuf> = (entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.join("model.onnx").is_file())
        .collect();
    tests.sort();
    if tests.is_empty() {
        return Err(Error::failed(format!(
            "{} holds no test (a directory with a model.onnx)",
            dir.display()
        )));
    }
    Ok(tests)
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Tensor>, Error> {
    paths.iter().map(|path| data::read(path)).collect()
}

fn test(dir: &Path, tolerance: Tolerance, args: &Args) -> Result<Outcome, Error> {
    let path = dir.join("model.onnx");
    let sets = data_sets(dir);
    if sets.is_empty() {
        let model = args.options.load(&path, args.threads.config())?;
        let inputs =
            (model.params()?.iter()).map(|(name, ty)| arange(name, ty)).collect::<Result<Vec<_>, _>>()?;
        let want = read_all(&data::numbered(dir, "output"))?;
        return Ok(check(&model, &inputs, &want, tolerance)?.map_or(Outcome::Passed, Outcome::Failed));
    }
    let progress = Progress::importing(&path);
    let target = args.options.target.clone();
    let mut case = Case::read(path, args.options.import(), target, args.threads.config())?;
    for set in sets {
        let (inputs, want) = (case.inputs(&set)?, case.expected(&set)?);
        let model = args.options.scope(&progress, || case.compile(&inputs, &mut ""))?;
        if let Some(reason) = check(model, &inputs.tensors, &want.tensors, tolerance)? {
            let set = set.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Outcome::Failed(format!("{set}: {reason}")));
        }
    }
    Ok(Outcome::Passed)
}

fn arange(name: &str, ty: &ValueType) -> Result<Tensor, Error> {
    let extents = match ty {
        ValueType::Tensor { shape: Some(shape), .. } => shape.iter().map(|dim| dim.as_const()).collect(),
        _ => None,
    };
    let extents: Option<Vec<i64>> = extents;
    match (extents, ty) {
        (Some(extents), ValueType::Tensor { dtype, .. }) => {
            data::filled(Fill::Arange, &extents, dtype.unwrap_or(DataType::F32))
        }
        _ => Err(Error::failed(format!("there is no data set, and input `{name}`: {ty} has no fixed shape"))),
    }
}

fn check(
    model: &Model,
    inputs: &[Tensor],
    want: &[Tensor],
    tolerance: Tolerance,
) -> Result<Option<String>, Error> {
    if want.is_empty() {
        return Ok(Some("there is no expected output".into()));
    }
    let got = model.run(inputs)?;
    if got.len() != want.len() {
        return Ok(Some(format!("{} outputs, expected {}", got.len(), want.len())));
    }
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        if model.elements.get(i).is_some_and(|it| it == "string") {
            let (got, want) = (tvm_onnx::decode_strings(got)?, tvm_onnx::decode_strings(want)?);
            if got != want {
                return Ok(Some(format!("output `{}`: {got:?}, expected {want:?}", model.outputs[i])));
            }
            continue;
        }
        if let Some(reason) = mismatch(got, want, tolerance)? {
            let name = model.outputs.get(i).cloned().unwrap_or_else(|| i.to_string());
            return Ok(Some(format!("output `{name}`: {reason}")));
        }
    }
    Ok(None)
}
