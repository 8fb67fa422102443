//! The protocol of the workers, for programs in Rust: JSON lines on standard input and output.
#![allow(dead_code, reason = "each worker uses a part")]

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use serde_json::{Value, json};

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A loaded case.
pub trait Case {
    /// One call. The result is kept.
    fn run(&mut self) -> Outcome<()>;
    /// Times measured by the case itself, for about so many seconds.
    fn times(&mut self, _seconds: f64) -> Option<Vec<f64>> {
        None
    }
    /// The last result.
    fn output(&mut self) -> Outcome<Vec<f32>>;
}

/// An input of a case.
pub struct Input {
    pub name: String,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
    /// The values instead of `values`, if they are i64.
    pub integers: Option<Vec<i64>>,
}

/// The inputs of a case, which must be f32 or i64.
pub fn inputs(case: &Value) -> Outcome<Vec<Input>> {
    let read = |spec: &Value| -> Outcome<Input> {
        let shape = spec["shape"].as_array().ok_or("no shape")?.iter().map(number).collect();
        let bytes = std::fs::read(spec["file"].as_str().ok_or("no file")?)?;
        let name = spec["name"].as_str().unwrap_or_default().to_string();
        let (mut values, mut integers) = (Vec::new(), None);
        match spec["dtype"].as_str() {
            Some("f32") => values.extend(bytes.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it))),
            Some("i64") => {
                integers = Some(bytes.as_chunks::<8>().0.iter().map(|it| i64::from_le_bytes(*it)).collect());
            }
            _ => return Err(format!("unsupported: {}", spec["dtype"]).into()),
        }
        Ok(Input { name, shape, values, integers })
    };
    case["onnx_inputs"].as_array().ok_or("no inputs")?.iter().map(read).collect()
}

/// A member that is a count.
pub fn number(value: &Value) -> usize {
    value.as_u64().unwrap_or(0) as usize
}

/// Extents of a product `(m, n, k)` of two inputs.
pub fn product(case: &Value) -> Outcome<(usize, usize, usize)> {
    let bare = case["kind"] == "sgemm";
    let extents = (number(&case["m"]), number(&case["n"]), number(&case["k"]));
    if bare { Ok(extents) } else { Err("unsupported: no product of two f32 inputs".into()) }
}

/// The number of threads.
pub fn threads() -> usize {
    std::env::var("BENCH_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Answers requests until the end of the input.
pub fn serve(mut load: impl FnMut(&Value) -> Outcome<Box<dyn Case>>) {
    let mut current: Option<Box<dyn Case>> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap_or_default();
        if request["op"] == "quit" {
            return;
        }
        let answer = catch_unwind(AssertUnwindSafe(|| answer(&request, &mut current, &mut load)));
        let answer = answer.unwrap_or_else(|_| Err("panic".into()));
        println!("{}", answer.unwrap_or_else(|e| json!({"ok": false, "err": e.to_string()})));
        let _ = std::io::stdout().flush();
    }
}

fn answer(
    request: &Value,
    current: &mut Option<Box<dyn Case>>,
    load: &mut impl FnMut(&Value) -> Outcome<Box<dyn Case>>,
) -> Outcome<Value> {
    if request["op"] == "load" {
        *current = None;
        let start = Instant::now();
        *current = Some(load(&request["case"])?);
        return Ok(json!({"ok": true, "load_s": start.elapsed().as_secs_f64()}));
    }
    let case = current.as_mut().ok_or("nothing is loaded")?;
    match request["op"].as_str() {
        Some("run") => Ok(json!({"ok": true, "times": timed(case.as_mut(), request)?})),
        Some("out") => {
            case.run()?;
            let bytes: Vec<u8> = case.output()?.iter().flat_map(|it| it.to_le_bytes()).collect();
            std::fs::write(request["path"].as_str().ok_or("no path")?, bytes)?;
            Ok(json!({"ok": true}))
        }
        _ => Err("unknown op".into()),
    }
}

/// Times of single calls; very short calls are timed in groups.
fn timed(case: &mut dyn Case, request: &Value) -> Outcome<Vec<f64>> {
    let (seconds, min) = (request["secs"].as_f64().unwrap_or(0.2), number(&request["min"]).max(1));
    let max = number(&request["max"]).max(1);
    if let Some(times) = case.times(seconds) {
        return Ok(times);
    }
    let start = Instant::now();
    case.run()?;
    let once = start.elapsed().as_secs_f64();
    if once >= seconds && min <= 1 {
        return Ok(vec![once]);
    }
    let group = if once < 20e-6 { (40e-6 / once.max(20e-9)).ceil() as usize } else { 1 };
    let (mut times, begin) = (Vec::new(), Instant::now());
    while times.len() < min || (begin.elapsed().as_secs_f64() < seconds && times.len() < max) {
        let start = Instant::now();
        for _ in 0..group {
            case.run()?;
        }
        times.push(start.elapsed().as_secs_f64() / group as f64);
    }
    Ok(times)
}
