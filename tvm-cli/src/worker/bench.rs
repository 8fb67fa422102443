//! The worker of the benchmark harness. Requests, one JSON object per line:
//!
//! - `{"op":"load","case":{"onnx":…,"onnx_inputs":[{"name","dtype","shape","file"}…]}}` → `{"ok":true,"load_s":…}`
//! - `{"op":"run","secs":0.2,"min":2,"max":9999}` → `{"ok":true,"times":[s, …]}`
//! - `{"op":"host"}` → `{"ok":true,"call_s":…,"driver_s":…}`: for a GPU, what a call costs the host, and its launches by the driver alone
//! - `{"op":"captured"}` → `{"ok":true,"call_s":…,"host_s":…}`: for a GPU, the time of a captured call, and what it costs the host
//! - `{"op":"out","path":"o.bin"}` → `{"ok":true,"shape":[…]}`, raw little-endian `f32`
//! - `{"op":"quit"}`
//!
//! The answer to `load` also has `compile_s`, the time from the imported module to a virtual machine that can run it. With
//! `"artifact":true` it has `ready_s`, the time from an artifact of the model in a file to the first result. A case
//! with `"symbolic":true` is compiled for the shapes of its model, with bounds `"dims":["n=1..64", …]` and places `"places":["TopK=cpu", …]` if given, any other for
//! those of its inputs; one with `"fast_math":true` or `"precision":"bf16"` with that option. A failure is answered
//! with `{"ok":false,"err":"…"}`. On a GPU, inputs are there before, and times are those of the GPU, of calls that follow each other.
//! `BENCH_THREADS` sets the number of threads for a run (default 1).

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value as Json, json};
use tvm_core::pass::{PassContext, Precision};
use tvm_core::target::Target;
use tvm_onnx::ImportOptions;
use tvm_runtime::vm::{VmConfig, Workspace};
use tvm_runtime::{DataType, Device, RuntimeError, Tensor, Value, WorkerPool, set_thread_pool};

use crate::error::Error;
use crate::model::{self, Dim, MAIN, Model, Place};
use crate::{data, out};

/// A loaded case.
struct Case {
    model: Model,
    device: Device,
    args: Vec<Value>,
    workspace: Workspace,
    result: Option<Value>,
    compile_seconds: f64,
    /// From an artifact to the first result.
    ready_seconds: Option<f64>,
}

pub(crate) fn serve(target: &Target) {
    let threads = std::env::var("BENCH_THREADS").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    set_thread_pool(Arc::new(WorkerPool::new(threads)));
    let mut case: Option<Case> = None;
    for line in super::requests() {
        let request: Json = serde_json::from_str(&line).unwrap_or_default();
        let op = request["op"].as_str().unwrap_or_default();
        if op == "quit" {
            return;
        }
        let answer = match op {
            "load" => {
                case = None;
                let start = Instant::now();
                load(target, &request["case"]).map(|loaded| {
                    let loaded = case.insert(loaded);
                    json!({
                        "ok": true,
                        "load_s": start.elapsed().as_secs_f64(),
                        "compile_s": loaded.compile_seconds,
                        "ready_s": loaded.ready_seconds,
                    })
                })
            }
            "run" => loaded(&mut case).and_then(|case| time(case, &request)),
            "host" => loaded(&mut case).and_then(host),
            "captured" => loaded(&mut case).and_then(captured),
            "out" => loaded(&mut case).and_then(|case| output(case, &request)),
            _ => Err(Error::failed(format!("unknown op `{op}`"))),
        };
        out::line(answer.unwrap_or_else(|err| json!({"ok": false, "err": err.to_string()})));
    }
}

fn loaded(case: &mut Option<Case>) -> Result<&mut Case, Error> {
    case.as_mut().ok_or_else(|| Error::failed("nothing is loaded"))
}

fn load(target: &Target, case: &Json) -> Result<Case, Error> {
    let path =
        case["onnx"].as_str().ok_or_else(|| Error::failed("unsupported: the case has no ONNX model"))?;
    let given = case["onnx_inputs"].as_array().ok_or_else(|| Error::failed("the case has no inputs"))?;
    let inputs = given.iter().map(input).collect::<Result<Vec<_>, _>>()?;
    let shapes: &[_] = if case["symbolic"] == true { &[] } else { &inputs };
    if case["artifact"] == true {
        let file = std::env::temp_dir().join(format!("tvmc_bench_{}.tvm", std::process::id()));
        compile_apart(target, case, path, shapes, &file)?;
        let case = from_artifact(target, &file, &inputs);
        std::fs::remove_file(&file).map_err(Error::io(&file))?;
        return case;
    }
    let mut options = ImportOptions::default();
    for (name, tensor) in shapes {
        options = options.shape(name, tensor.shape());
    }
    for dim in texts(case, "dims") {
        let Dim { name, spec } = dim.parse().map_err(|err: String| Error::failed(err))?;
        options = options.dim(&name, spec);
    }
    for place in texts(case, "places") {
        let Place { name, device } = place.parse().map_err(|err: String| Error::failed(err))?;
        options = options.place(&name, device);
    }
    let module = model::import(Path::new(path), &options)?;
    let start = Instant::now();
    let mut context = PassContext::default();
    context.config.fast_math = case["fast_math"] == true;
    context.config.precision = precision(case)?;
    let model = context.scope(|| Model::compile(module, target, VmConfig::default()))?;
    let device = if target.is_gpu() { Device::cuda(0) } else { Device::cpu() };
    Case::new(model, &inputs, start, device)
}

/// The type of operands, as the option `--precision` has it.
fn precision(case: &Json) -> Result<Precision, Error> {
    case["precision"]
        .as_str()
        .map_or(Ok(Precision::Full), |it| it.parse().map_err(|err: String| Error::failed(err)))
}

/// The values of the option `--dim` (`dims`) or `--place` (`places`).
fn texts<'a>(case: &'a Json, key: &str) -> impl Iterator<Item = &'a str> {
    case[key].as_array().into_iter().flatten().filter_map(Json::as_str)
}

/// Compiles a model in a process of its own, so that this one's memory is that of the artifact.
fn compile_apart(
    target: &Target,
    case: &Json,
    path: &str,
    shapes: &[(String, Tensor)],
    file: &Path,
) -> Result<(), Error> {
    let program = std::env::current_exe().map_err(Error::io(Path::new("tvmc")))?;
    let mut command = Command::new(&program);
    command.args(["compile", path, "--target", &target.to_string(), "-o"]).arg(file);
    for (name, tensor) in shapes {
        let extents: Vec<String> = tensor.shape().iter().map(i64::to_string).collect();
        command.arg("--shape").arg(format!("{name}={}", extents.join("x")));
    }
    for (option, key) in [("--dim", "dims"), ("--place", "places")] {
        texts(case, key).for_each(|it| _ = command.args([option, it]));
    }
    command.args((case["fast_math"] == true).then_some("--fast-math"));
    command.args(["--precision", &precision(case)?.to_string()]);
    let output = command.output().map_err(Error::io(&program))?;
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(Error::failed(error.trim())) }
}

/// The case of an artifact, with the time to its first result.
fn from_artifact(target: &Target, file: &Path, inputs: &[(String, Tensor)]) -> Result<Case, Error> {
    let start = Instant::now();
    let model = model::Options::for_artifact(target).load(file, VmConfig::default())?;
    let mut case = Case::new(model, inputs, start, Device::cpu())?;
    case.run()?;
    case.ready_seconds = Some(start.elapsed().as_secs_f64());
    Ok(case)
}

fn input(spec: &Json) -> Result<(String, Tensor), Error> {
    let text = |key: &str| {
        let value = spec[key].as_str();
        value.ok_or_else(|| Error::failed(format!("an input has no {key}")))
    };
    let extents = spec["shape"].as_array().ok_or_else(|| Error::failed("an input has no shape"))?;
    let shape: Option<Vec<i64>> = extents.iter().map(Json::as_i64).collect();
    let shape = shape.ok_or_else(|| Error::failed("a shape is not numbers"))?;
    let dtype: DataType = (spec["dtype"].as_str().unwrap_or("f32").parse())
        .map_err(|err: tvm_runtime::ParseDataTypeError| Error::failed(err.to_string()))?;
    let path = Path::new(text("file")?);
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    Ok((spec["name"].as_str().unwrap_or_default().to_string(), Tensor::from_bytes(&bytes, &shape, dtype)?))
}

impl Case {
    /// The case of a model that was made since `start`, with its inputs on `device`.
    fn new(model: Model, inputs: &[(String, Tensor)], start: Instant, device: Device) -> Result<Case, Error> {
        let compile_seconds = start.elapsed().as_secs_f64();
        let mut args = Vec::new();
        for (i, (name, _)) in model.params()?.iter().enumerate() {
            let found = inputs.iter().find(|(it, _)| it == name).or(inputs.get(i));
            let (_, tensor) = found.ok_or_else(|| Error::failed(format!("input `{name}` is missing")))?;
            args.push(Value::from(tensor.to_device(device)?));
        }
        let workspace = Workspace::default();
        Ok(Case { model, device, args, workspace, result: None, compile_seconds, ready_seconds: None })
    }

    /// One call, which may reuse the memory of the last result. A GPU may still be at work after it.
    fn run(&mut self) -> Result<(), RuntimeError> {
        if let Some(last) = self.result.take() {
            self.workspace.recycle(last);
        }
        let result = self.model.vm.invoke_in(&mut self.workspace, MAIN, &self.args)?;
        self.result = Some(result);
        Ok(())
    }

    /// Seconds of a call, by the clock of the device, of so many calls.
    fn time(&mut self, calls: usize) -> Result<f64, Error> {
        let time = self.device.timed(|| (0..calls).try_for_each(|_| self.run()))?;
        Ok(time.as_secs_f64() / calls as f64)
    }
}

fn time(case: &mut Case, request: &Json) -> Result<Json, Error> {
    let count = |key: &str| request[key].as_u64().unwrap_or(0).max(1) as usize;
    let (secs, min, max) = (request["secs"].as_f64().unwrap_or(0.2), count("min"), count("max"));
    // One call to calibrate; very short calls are timed in groups.
    let once = case.time(1)?;
    // The calls of a group on a GPU hide what a call costs the host.
    let [short, long] = if case.device == Device::cpu() { [20e-6, 40e-6] } else { [1e-3, 2e-3] };
    let group = if once < short { (long / once.max(20e-9)).ceil() as usize } else { 1 };
    if once >= secs && min <= 1 {
        return Ok(json!({"ok": true, "times": [once]}));
    }
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < min || begin.elapsed().as_secs_f64() < secs && times.len() < max {
        times.push(case.time(group)?);
    }
    Ok(json!({"ok": true, "times": times}))
}

/// How often the launches of a call are repeated: with those of a network, fewer than a GPU keeps.
const REPEATS: u32 = 9;

/// What a call costs the host, which does not wait for the GPU; and how much of it are the driver's calls for the same kernels.
fn host(case: &mut Case) -> Result<Json, Error> {
    if case.device == Device::cpu() {
        return Err(Error::failed("calls on the CPU have no other cost than their time"));
    }
    let device = case.device;
    let mut seconds = |times: u32| of_host(device, 1, || device.repeat_launches(times, || case.run()));
    seconds(1)?;
    let (once, often) = (seconds(1)?, seconds(REPEATS)?);
    let driver = (often - once) / f64::from(REPEATS - 1);
    // Calls that follow each other, as many as a GPU keeps.
    let call = of_host(device, REPEATS, || case.run())?;
    Ok(json!({"ok": true, "call_s": call, "driver_s": driver}))
}

/// The time of the host for one of so many calls that follow each other, while the device has nothing else to do.
fn of_host(
    device: Device,
    calls: u32,
    mut call: impl FnMut() -> Result<(), RuntimeError>,
) -> Result<f64, Error> {
    let mut all = Vec::new();
    for _ in 0..100 {
        device.synchronize()?;
        let start = Instant::now();
        (0..calls).try_for_each(|_| call())?;
        all.push(start.elapsed().as_secs_f64() / f64::from(calls));
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}

/// The time of a captured call by the clock of the GPU, of calls that follow each other, and what it costs the host.
fn captured(case: &mut Case) -> Result<Json, Error> {
    if case.device == Device::cpu() {
        return Err(Error::failed("calls on the CPU are not captured"));
    }
    let (device, args) = (case.device, &case.args);
    let mut call = case.model.vm.capture(MAIN, args)?;
    let mut run = || call.run(args).map(drop);
    run()?;
    let mut times = Vec::new();
    for _ in 0..21 {
        let group = device.timed(|| (0..CAPTURED).try_for_each(|_| run()))?;
        times.push(group.as_secs_f64() / f64::from(CAPTURED));
    }
    times.sort_by(f64::total_cmp);
    let host = of_host(device, REPEATS, run)?;
    Ok(json!({"ok": true, "call_s": times[times.len() / 2], "host_s": host}))
}

/// How many captured calls follow each other.
const CAPTURED: u32 = 50;

fn output(case: &mut Case, request: &Json) -> Result<Json, Error> {
    case.run()?;
    let path = request["path"].as_str().ok_or_else(|| Error::failed("no path is given"))?;
    let result = case.result.clone().ok_or_else(|| Error::failed("there is no result"))?;
    let first = model::tensors(result)?.into_iter().next();
    let tensor = first.ok_or_else(|| Error::failed("there is no output"))?;
    let values = tensor.to_f64s()?;
    let bytes: Vec<u8> = values.iter().flat_map(|&it| (it as f32).to_le_bytes()).collect();
    data::write(Path::new(path), &bytes)?;
    Ok(json!({"ok": true, "shape": tensor.shape()}))
}
