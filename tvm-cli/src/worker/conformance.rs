//! The worker of the conformance and fault harness.
//!
//! A request names a test directory and an output directory. The answer is one JSON line. Its status is `ok` if outputs
//! were written; otherwise it is `unsupported` or `error`, with the phase (`load`, `compile`, `run`, `save`) and a
//! message. Models are untrusted here: tensors beyond the limits are refused before memory is allocated, and a run that takes too
//! long is cancelled.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use tvm_core::target::Target;
use tvm_onnx::ImportOptions;
use tvm_onnx::proto::TypeProto;
use tvm_runtime::vm::{CallOptions, CancelToken, VmConfig};
use tvm_runtime::{DataType, Tensor};

use crate::cases::{self, Case};
use crate::data;
use crate::error::Error;
use crate::out;

/// Arguments of `tvmc worker conformance`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Target to compile for.
    #[arg(long, default_value = "host")]
    target: Target,
    /// Largest tensor in MiB; all tensors together may have twice that size.
    #[arg(long, default_value_t = 256)]
    limit_mib: u64,
    /// Longest run of a model in seconds; then it is cancelled, though a kernel of machine code that runs is finished.
    #[arg(long, default_value_t = 6)]
    limit_seconds: u64,
}

/// Longest message in an answer.
const MAX_MESSAGE: usize = 600;

pub(crate) fn serve(args: &Args) {
    for line in super::requests() {
        let Some((dir, output)) = line.split_once('\t') else {
            out::line(json!({"status": "error", "phase": "request", "msg": "expected <test>\\t<output>"}));
            continue;
        };
        let mut phase = "load";
        let answer = match run(args, Path::new(dir), Path::new(output), &mut phase) {
            Ok(()) => json!({"status": "ok"}),
            Err(err) => {
                let status = if err.is_unsupported() { "unsupported" } else { "error" };
                let message: String = err.to_string().chars().take(MAX_MESSAGE).collect();
                json!({"status": status, "phase": phase, "etype": "Error", "msg": message})
            }
        };
        out::line(answer);
    }
}

fn run(args: &Args, dir: &Path, output: &Path, phase: &mut &'static str) -> Result<(), Error> {
    let limit = args.limit_mib.saturating_mul(1 << 20);
    let options = ImportOptions {
        max_tensor_bytes: limit,
        max_total_bytes: limit.saturating_mul(2),
        ..ImportOptions::default()
    };
    let config = VmConfig {
        max_bytes: usize::try_from(limit.saturating_mul(2)).unwrap_or(usize::MAX),
        max_steps: Some(10_000_000),
        ..VmConfig::default()
    };
    let mut case = Case::read(dir.join("model.onnx"), options, args.target.clone(), config)?;
    for (i, set) in cases::data_sets(dir).iter().enumerate() {
        *phase = "load";
        let values = case.inputs(set)?;
        let model = case.compile(&values, phase)?;
        *phase = "run";
        let limit = Duration::from_secs(args.limit_seconds);
        let results = cancelled_after(limit, |token| {
            model.run_with(CallOptions { cancel: Some(token), ..CallOptions::default() }, &values.tensors)
        })?;
        *phase = "save";
        let (names, elements) = (model.outputs.clone(), model.elements.clone());
        save(&output.join(i.to_string()), &case.outputs(), &results, &names, &elements)?;
    }
    Ok(())
}

/// Runs `f`, whose token is cancelled if it takes longer than `limit`.
fn cancelled_after<T>(limit: Duration, f: impl FnOnce(&CancelToken) -> T) -> T {
    let token = CancelToken::new();
    let (done, waits) = mpsc::channel::<()>();
    let late = token.clone();
    std::thread::spawn(move || {
        // The other end is dropped when `f` has returned.
        if waits.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            late.cancel();
        }
    });
    let res = f(&token);
    drop(done);
    res
}

/// A tensor that the model gave: its name, and the name of its element type if that is a narrow one.
type Made<'a> = (&'a str, &'a Tensor, &'a str);

/// Writes the outputs, and their number to `n.json`.
fn save(
    dir: &Path,
    outputs: &[(&str, TypeProto)],
    results: &[Tensor],
    names: &[String],
    elements: &[String],
) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let elements = elements.iter().map(String::as_str).chain(std::iter::repeat(""));
    let made: Vec<Made<'_>> = names
        .iter()
        .zip(results)
        .zip(elements)
        .map(|((name, it), element)| (name.as_str(), it, element))
        .collect();
    for (j, (name, ty)) in outputs.iter().enumerate() {
        save_value(&dir.join(format!("output_{j}")), name, ty, &made)?;
    }
    data::write(&dir.join("n.json"), outputs.len().to_string().as_bytes())
}

/// Writes the value `name`: a tensor as `<path>.npy`, a sequence as a directory of its elements, an absent value as an empty
/// file `<path>.none`.
fn save_value(path: &Path, name: &str, ty: &TypeProto, made: &[Made<'_>]) -> Result<(), Error> {
    if let Some((_, tensor, element)) = made.iter().find(|(it, _, _)| *it == name) {
        return save_tensor(path, tensor, element);
    }
    let inside = |it: &str| it.strip_prefix(name).is_some_and(|rest| rest.starts_with('['));
    if ty.optional_type.is_some() && !made.iter().any(|(it, _, _)| inside(it)) {
        return data::write(&path.with_extension("none"), b"");
    }
    fs::create_dir_all(path).map_err(Error::io(path))?;
    let of = ty.sequence_type.as_ref().and_then(|it| it.elem_type.as_deref().cloned()).unwrap_or_default();
    for k in 0.. {
        let element = format!("{name}[{k}]");
        let within = |it: &str| {
            it.strip_prefix(&*element).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        };
        if !made.iter().any(|(it, _, _)| within(it)) {
            break;
        }
        save_value(&path.join(k.to_string()), &element, &of, made)?;
    }
    Ok(())
}

/// Writes `<path>.npy`, or `<path>.json` with shape and data for strings. Elements of a type that NumPy lacks are written as raw bits, with the name of the type in a file
/// next to them.
fn save_tensor(path: &Path, tensor: &Tensor, element: &str) -> Result<(), Error> {
    if element == "string" {
        let shape = &tensor.shape()[..tensor.shape().len().saturating_sub(1)];
        let text = json!({"shape": shape, "data": tvm_onnx::decode_strings(tensor)?}).to_string();
        return data::write(&path.with_extension("json"), text.as_bytes());
    }
    let (file, dtype) = (path.with_extension("npy"), path.with_extension("dtype"));
    if tensor.dtype() == DataType::BF16 {
        let raw = Tensor::from_bytes(tensor.bytes()?, tensor.shape(), DataType::U16)?;
        data::write(&file, &tvm_onnx::write_npy(&raw)?)?;
        return data::write(&dtype, b"bfloat16");
    }
    data::write(&file, &tvm_onnx::write_npy(tensor)?)?;
    if !element.is_empty() {
        data::write(&dtype, element.as_bytes())?;
    }
    Ok(())
}
