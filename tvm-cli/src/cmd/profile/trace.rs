//! The calls of a run as a trace that `chrome://tracing` and Perfetto show.
//!
//! Source: Trace Event Format, complete events (`"ph": "X"`), times in microseconds.

use serde_json::{Value as Json, json};
use tvm_runtime::vm::{Profile, ProfileArg, ProfileCall};

/// The trace of one run.
pub(crate) fn trace(run: &Profile) -> Json {
    let begin = run.calls().first().map(|it| it.start).unwrap_or_default();
    let event = |it: &ProfileCall| {
        let args: Vec<String> = it.args.iter().map(show).collect();
        json!({
            "name": &*it.name,
            "cat": it.kind.to_string(),
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "ts": micros(it.start.saturating_sub(begin)),
            "dur": micros(it.time),
            "args": {"arguments": args},
        })
    };
    let events: Vec<Json> = run.calls().iter().map(event).collect();
    json!({"displayTimeUnit": "ms", "traceEvents": events})
}

fn micros(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn show(arg: &ProfileArg) -> String {
    match arg {
        ProfileArg::Tensor(shape, dtype) => format!("{dtype}{shape:?}"),
        ProfileArg::Int(value) => value.to_string(),
        ProfileArg::Other => "?".to_string(),
    }
}
