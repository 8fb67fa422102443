//! The page of `tvmc profile --html`: kernels, calls of a run over time, and a roofline plot, which the page draws from data.

use serde_json::{Value as Json, json};
use tvm_runtime::vm::ProfileCall;

use super::Found;
use crate::page::{self, escape};

/// The page, in which `{{NAME}}` stands for a part.
const PAGE: &str = include_str!("page.html");

/// Calls in the picture; a run with more is cut.
const MOST_CALLS: usize = 20_000;

/// Makes the page.
pub(crate) fn page(found: &Found) -> String {
    let calls = found.last.calls();
    let begin = calls.first().map(|it| it.start).unwrap_or_default();
    let place = |call: &ProfileCall| found.rows.iter().position(|row| row.name == *call.name);
    let call = |it: &ProfileCall| {
        let start = it.start.saturating_sub(begin).as_secs_f64();
        json!([place(it), start, it.time.as_secs_f64()])
    };
    let mut data = found.json();
    data["calls"] = calls.iter().take(MOST_CALLS).map(call).collect::<Vec<Json>>().into();
    data["cut"] = calls.len().saturating_sub(MOST_CALLS).into();
    let parts = [("TITLE", escape(&found.title)), ("DATA", page::data(&data))];
    page::fill(PAGE, &parts)
}
