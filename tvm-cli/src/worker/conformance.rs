//! The worker of the conformance and fault harness.
//!
//! A request names a test directory and an output directory. The answer is one JSON line. Its status is `ok` if outputs
//! were written; otherwise it is `unsupported` or `error`, with the phase (`load`, `compile`, `run`, `save`) and a
//! message. Models are untrusted here: tensors beyond the limits are refused before memory is allocated.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tvm_core::target::Target;
use tvm_onnx::ImportOptions;
use tvm_runtime::vm::VmConfig;
use tvm_runtime::{DataType, Tensor};

use crate::cmd::onnx_test::data_sets;
use crate::data;
use crate::error::Error;
use crate::model::{self, Model};
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
    let module = model::import(&dir.join("model.onnx"), &options)?;
    *phase = "compile";
    let config = VmConfig {
        max_bytes: usize::try_from(limit.saturating_mul(2)).unwrap_or(usize::MAX),
        max_steps: Some(10_000_000),
        ..VmConfig::default()
    };
    let model = Model::compile(module, &args.target, config)?;
    for (i, set) in data_sets(dir).iter().enumerate() {
        *phase = "load";
        let inputs = inputs(set)?;
        *phase = "run";
        let outputs = model.run(&inputs)?;
        *phase = "save";
        save(&output.join(i.to_string()), &outputs, &model.elements)?;
    }
    Ok(())
}

/// The inputs of a data set. The protobuf form is preferred, because NumPy has no bfloat16.
fn inputs(set: &Path) -> Result<Vec<Tensor>, Error> {
    let paths: Vec<PathBuf> = data::numbered(set, "input");
    paths.iter().map(|path| data::read(path)).collect()
}

/// Writes `output_<j>.npy`, and the number of outputs to `n.json`. Elements of a type that NumPy lacks are written as
/// raw bits, with the name of the type in a file next to them.
fn save(dir: &Path, outputs: &[Tensor], elements: &[String]) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    for (j, tensor) in outputs.iter().enumerate() {
        let path = dir.join(format!("output_{j}.npy"));
        if tensor.dtype() == DataType::BF16 {
            let raw = Tensor::from_bytes(tensor.bytes()?, tensor.shape(), DataType::U16)?;
            data::write(&path, &tvm_onnx::write_npy(&raw)?)?;
            data::write(&dir.join(format!("output_{j}.dtype")), b"bfloat16")?;
        } else {
            data::write(&path, &tvm_onnx::write_npy(tensor)?)?;
        }
        if let Some(name) = elements.get(j).filter(|it| !it.is_empty()) {
            data::write(&dir.join(format!("output_{j}.dtype")), name.as_bytes())?;
        }
    }
    data::write(&dir.join("n.json"), outputs.len().to_string().as_bytes())
}
