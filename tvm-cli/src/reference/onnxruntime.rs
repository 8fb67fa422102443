//! onnxruntime, in a Python process.
//!
//! The model reaches it as it is; values that are no outputs are made outputs by appending a message, because the fields of
//! concatenated messages are merged. So nothing of a model is lost that our own reader does not know.

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use prost::Message;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tvm_onnx::Bytes;
use tvm_onnx::proto::{GraphProto, ModelProto, ValueInfoProto};
use tvm_runtime::Tensor;

use super::Reference;
use crate::error::Error;
use crate::{data, npz};

/// The program that the process runs.
const SCRIPT: &str = include_str!("onnxruntime.py");

/// A process with onnxruntime, and a model. It ends when this is dropped.
pub(crate) struct OnnxRuntime {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    version: String,
    model: Bytes,
    /// Names of the model's outputs.
    outputs: Vec<String>,
    /// Where external data lies.
    folder: PathBuf,
    threads: Option<u32>,
    files: TempDir,
}

impl OnnxRuntime {
    /// Starts `python`, or the first Python with onnxruntime: of those in `PATH`, then that of the peers of `tvmc bench`.
    pub(crate) fn start(
        python: Option<&Path>,
        model: Bytes,
        folder: &Path,
        threads: Option<u32>,
    ) -> Result<OnnxRuntime, Error> {
        let candidates = python.map_or_else(pythons, |it| vec![it.to_path_buf()]);
        let mut tried = Vec::new();
        for candidate in candidates {
            match process(&candidate) {
                Ok((child, requests, answers, version)) => {
                    let proto = tvm_onnx::read_model(model.clone())?;
                    let outputs =
                        proto.graph.into_iter().flat_map(|it| it.output).map(|it| it.name).collect();
                    let files = tempfile::tempdir().map_err(Error::io(&env::temp_dir()))?;
                    let folder = folder.canonicalize().map_err(Error::io(folder))?;
                    let res = OnnxRuntime {
                        child,
                        requests,
                        answers,
                        version,
                        model,
                        outputs,
                        folder,
                        threads,
                        files,
                    };
                    return Ok(res);
                }
                Err(reason) => tried.push(format!("{} ({reason})", candidate.display())),
            }
        }
        Err(Error::NoPeer { package: "onnxruntime", tried })
    }

    /// Its version.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    fn ask(&mut self, request: &Json) -> Result<(), Error> {
        let failed = |message: String| Error::failed(format!("onnxruntime: {message}"));
        let sent = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
        sent.map_err(|err| failed(format!("the process has ended: {err}")))?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|err| failed(err.to_string()))?;
        let answer: Json = serde_json::from_str(&line).unwrap_or_default();
        match (answer["ok"].as_bool(), answer["error"].as_str()) {
            (Some(true), _) => Ok(()),
            (_, Some(message)) => Err(failed(message.to_string())),
            (_, None) => Err(failed("the process ended without an answer".to_string())),
        }
    }
}

impl Reference for OnnxRuntime {
    fn run(&mut self, names: &[String], inputs: &[(String, Tensor)]) -> Result<Vec<Tensor>, Error> {
        let [model, given, results] =
            ["model.onnx", "inputs.npz", "results.npz"].map(|it| self.files.path().join(it));
        let mut bytes = self.model.to_vec();
        bytes.extend(more_outputs(names.iter().filter(|it| !self.outputs.contains(it))));
        data::write(&model, &bytes)?;
        let arrays: Vec<(String, &Tensor)> =
            inputs.iter().enumerate().map(|(i, (_, it))| (format!("input_{i}"), it)).collect();
        data::write(&given, &npz::write(arrays.iter().map(|(name, it)| (&**name, *it)), &HashSet::new())?)?;
        let input_names: Vec<&str> = inputs.iter().map(|(name, _)| &**name).collect();
        self.ask(&json!({
            "model": model, "inputs": given, "results": results, "folder": self.folder, "threads": self.threads,
            "input_names": input_names, "output_names": names,
        }))?;
        let arrays = npz::read(&fs::read(&results).map_err(Error::io(&results))?)?;
        let output = |i: usize| {
            let found = arrays.iter().find(|it| it.0 == format!("output_{i}"));
            found
                .map(|it| it.1.clone())
                .ok_or_else(|| Error::failed(format!("onnxruntime gives no `{}`", names[i])))
        };
        (0..names.len()).map(output).collect()
    }
}

impl Drop for OnnxRuntime {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes that add outputs to a serialised model.
fn more_outputs<'a>(names: impl Iterator<Item = &'a String>) -> Vec<u8> {
    let output: Vec<ValueInfoProto> =
        names.map(|name| ValueInfoProto { name: name.clone(), ..ValueInfoProto::default() }).collect();
    if output.is_empty() {
        return Vec::new();
    }
    let graph = Some(GraphProto { output, ..GraphProto::default() });
    ModelProto { graph, ..ModelProto::default() }.encode_to_vec()
}

type Process = (Child, ChildStdin, BufReader<ChildStdout>, String);

/// Starts the program in `python`; returns the process and the version of onnxruntime.
fn process(python: &Path) -> Result<Process, String> {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|err| err.to_string())?;
    let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("it has no standard input and output".to_string());
    };
    let mut answers = BufReader::new(output);
    let mut line = String::new();
    let read = answers.read_line(&mut line).map_err(|err| err.to_string());
    let answer: Json = serde_json::from_str(&line).unwrap_or_default();
    if let (Ok(_), Some(version)) = (&read, answer["version"].as_str()) {
        return Ok((child, requests, answers, version.to_string()));
    }
    let _ = child.kill();
    let _ = child.wait();
    let reason = answer["error"].as_str().map(String::from);
    Err(reason.or(read.err()).unwrap_or_else(|| "it cannot run a program".to_string()))
}

/// The Python interpreters of this machine: those in `PATH`, then that of the peers of `tvmc bench`.
fn pythons() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let names = ["python3", "python"].map(|it| format!("{it}{}", env::consts::EXE_SUFFIX));
    let folders = env::split_paths(&path).collect::<Vec<_>>();
    let in_path = folders.iter().flat_map(|dir| names.iter().map(move |name| dir.join(name)));
    let peers = peers()
        .map(|it| it.join("venv").join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" }));
    let mut found: Vec<PathBuf> = Vec::new();
    for candidate in in_path.chain(peers).filter(|it| it.is_file()) {
        if !found.contains(&candidate) {
            found.push(candidate);
        }
    }
    found
}

/// The folder of the peers, as `tvm_peers` finds it; here it is not created.
fn peers() -> Option<PathBuf> {
    let var = |name: &str| env::var_os(name).filter(|it: &OsString| !it.is_empty()).map(PathBuf::from);
    var("PERF_HOME")
        .or_else(|| Some(var("XDG_CACHE_HOME")?.join("tvm-bench")))
        .or_else(|| Some(var("HOME")?.join(".cache").join("tvm-bench")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_added_to_what_is_there() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits_cnn/model.onnx");
        let mut bytes = fs::read(file).unwrap();
        let before = tvm_onnx::read_model(&bytes[..]).unwrap();
        bytes.extend(more_outputs(["a", "b"].map(String::from).iter()));
        let mut after = tvm_onnx::read_model(&bytes[..]).unwrap();
        let outputs = &mut after.graph.as_mut().unwrap().output;
        let added: Vec<String> = outputs.drain(1..).map(|it| it.name).collect();
        assert_eq!(added, ["a", "b"]);
        assert!(after == before, "nothing else changes");
        assert!(more_outputs([].iter()).is_empty());
    }

    #[test]
    fn programs_that_are_no_python_are_refused() {
        assert!(process(Path::new("/nonexistent/python")).is_err());
        let model = Bytes::new();
        let none = OnnxRuntime::start(Some(Path::new("/nonexistent/python")), model, Path::new("."), None);
        let message = none.err().unwrap().to_string();
        assert!(message.starts_with("no Python with onnxruntime: tried /nonexistent/python ("), "{message}");
    }
}
