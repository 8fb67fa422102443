//! Tests of `tvmc profile`: what it counts, against `tvmc inspect`, and the files that it writes.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::fs;

use serde_json::Value as Json;
use support::{model, refused, tvmc};

#[test]
fn a_profile_says_what_each_kernel_does() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let profile =
        ["profile", &model(), "--target", "c", "--dim", "n=1..8", "--threads", "1", "--repeat", "3"];
    let files = [at("trace.json"), at("page.html")];
    let args = [&profile[..], &["--json", "--trace", &files[0], "--html", &files[1]]].concat();
    let found: Json = serde_json::from_str(&tvmc(&args)).unwrap();
    let kernels = found["kernels"].as_array().unwrap();
    let sum = |key: &str| -> f64 { kernels.iter().filter_map(|it| it[key].as_f64()).sum() };
    // The operations are those that `inspect` counts, of the kernels as they are called.
    // Constants of the batch normalisation are folded, so its kernel does a little less.
    let inspected: Json = serde_json::from_str(&tvmc(&["inspect", "--json", &model()])).unwrap();
    // The second convolution, by Winograd's algorithm, takes fewer than the formula says.
    let is_winograd = |it: &&Json| it["name"].as_str().unwrap().contains("winograd");
    let flops = |it: &Json| it["flops"].as_f64().unwrap();
    let by_winograd: f64 = kernels.iter().filter(is_winograd).map(flops).sum();
    let convolution =
        inspected["graph"].as_array().unwrap().iter().filter(|it| it["op"] == "Conv").nth(1).unwrap();
    let formula = |it: &Json| it["flops"]["value"].as_f64().unwrap();
    let others = formula(&inspected) - formula(convolution);
    assert!(((sum("flops") - by_winograd) / others - 1.0).abs() < 0.05, "{found}");
    assert!(by_winograd > 0.0 && by_winograd < 0.5 * formula(convolution), "{found}");
    assert!(sum("seconds") <= 1.5 * found["seconds"].as_f64().unwrap() && sum("seconds") > 0.0);
    assert!(kernels.iter().all(|it| it["limit_seconds"].as_f64().unwrap() > 0.0 && it["calls"] == 1));
    assert!(found["machine"]["flops_per_second"].as_f64().unwrap() > 1e8);
    let trace: Json = serde_json::from_slice(&fs::read(&files[0]).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.len(), kernels.len());
    assert_eq!(events[0]["args"]["arguments"][0], "f32[1, 1, 8, 8]");
    let page = fs::read_to_string(&files[1]).unwrap();
    assert!(page.contains(kernels[0]["name"].as_str().unwrap()) && !page.contains("{{"));

    let text = tvmc(&[&profile[..], &["--top", "2"]].concat());
    for want in ["GFLOP/s of f32", "compute ", "other kernels)", "(between kernels)"] {
        assert!(text.contains(want), "expected `{want}` in:\n{text}");
    }
    // Of an artifact, only the times are known.
    let artifact = at("digits.tvm");
    tvmc(&["compile", &model(), "--target", "c", "-o", &artifact]);
    let found: Json =
        serde_json::from_str(&tvmc(&["profile", &artifact, "--json", "--repeat", "1"])).unwrap();
    assert!(found["machine"].is_null() && found["kernels"][0]["flops"].is_null(), "{found}");
    let nowhere = at("no/page.html");
    let (code, err) = refused(&["profile", "nope.onnx", "--html", &nowhere]);
    assert!(code == 1 && err.contains("there is no directory"), "{err}");
}
