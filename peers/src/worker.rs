//! Workers: child processes that hold one case each and time it on request. The protocol is one JSON object per line;
//! `tvm-cli/src/worker/bench.rs` describes it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::measure::{Captured, HostCost};

/// A worker that runs. It is ended when this is dropped.
pub(crate) struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    patience: Duration,
}

impl Worker {
    /// Starts a worker for a number of threads. What it writes to standard error goes to the file `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(
        mut command: Command,
        threads: usize,
        log: &Path,
        patience: Duration,
    ) -> Result<Self, String> {
        let count = threads.to_string();
        for library in ["OMP", "OPENBLAS", "MKL", "RAYON", "CANDLE", "RTEN", "MATMUL", "TVM"] {
            command.env(format!("{library}_NUM_THREADS"), &count);
        }
        let errors = File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
        command.env("BENCH_THREADS", &count).stderr(errors).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("cannot start {command:?}: {e}"))?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker without standard input and output".to_string());
        };
        let (send, answers) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines.filter(|line| line.starts_with('{')) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, requests, answers, patience })
    }

    /// The identifier of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has ended.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Loads a case, which is a JSON object. Answers what the worker says about it, such as times in seconds.
    ///
    /// # Errors
    /// What the worker says, or that it died or took too long.
    pub(crate) fn load(&mut self, case: &str) -> Result<Value, String> {
        self.ask(&format!(r#"{{"op":"load","case":{case}}}"#))
    }

    /// Waits until the worker answers, whatever it says.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub(crate) fn ready(&mut self) -> Result<(), String> {
        self.answer(r#"{"op":"ready"}"#).map(drop)
    }

    /// Memory of the process in bytes, under the name that the system has for it.
    ///
    /// # Errors
    /// Where the system does not say it.
    pub(crate) fn memory(&self, what: &str) -> Result<f64, String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let line = status.lines().find_map(|it| it.strip_prefix(what)?.strip_prefix(':'));
        let kib = line.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        kib.map(|it| 1024.0 * it).ok_or_else(|| format!("the system does not say `{what}` of a process"))
    }

    /// Times the case for about `seconds`; at least one call. Answers seconds per call.
    ///
    /// # Errors
    /// As `load`.
    pub(crate) fn run(&mut self, seconds: f64) -> Result<Vec<f64>, String> {
        let answer = self.ask(&format!(r#"{{"op":"run","secs":{seconds},"min":1,"max":100000}}"#))?;
        let times: Vec<f64> =
            answer["times"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        if times.is_empty() { Err("the worker measured nothing".to_string()) } else { Ok(times) }
    }

    /// What a call on a GPU costs the host, and how much of it the driver takes for its launches, in seconds.
    ///
    /// # Errors
    /// As `load`.
    pub(crate) fn host(&mut self) -> Result<HostCost, String> {
        let seconds = |answer: &Value, key: &str| {
            answer[key].as_f64().ok_or_else(|| format!("the worker does not tell `{key}`"))
        };
        let answer = self.ask(r#"{"op":"host"}"#)?;
        let (call, driver) = (seconds(&answer, "call_s")?, seconds(&answer, "driver_s")?);
        let captured = self.ask(r#"{"op":"captured"}"#).and_then(|answer| {
            Ok(Captured { call: seconds(&answer, "call_s")?, host: seconds(&answer, "host_s")? })
        });
        Ok(HostCost { call, driver, captured })
    }

    /// The result of the case, as f32, by way of a file.
    ///
    /// # Errors
    /// As `load`, or of the file.
    pub(crate) fn output(&mut self, path: &Path) -> Result<Vec<f32>, String> {
        self.ask(&json!({"op": "out", "path": path}).to_string())?;
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        std::fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)).collect())
    }

    fn ask(&mut self, request: &str) -> Result<Value, String> {
        let answer = self.answer(request)?;
        if answer["ok"] == true {
            return Ok(answer);
        }
        let reason = answer["err"].as_str().unwrap_or("no reason given");
        Err(reason.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn answer(&mut self, request: &str) -> Result<Value, String> {
        let died = |_| "the worker died".to_string();
        writeln!(self.requests, "{request}").map_err(died)?;
        self.requests.flush().map_err(died)?;
        let line = match self.answers.recv_timeout(self.patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Err("the worker died".to_string()),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                return Err(format!("no answer in {} s", self.patience.as_secs()));
            }
        };
        serde_json::from_str(&line).map_err(|e| format!("the worker's answer: {e}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = writeln!(self.requests, r#"{{"op":"quit"}}"#);
        let _ = self.requests.flush();
        for _ in 0..20 {
            if self.ended() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
