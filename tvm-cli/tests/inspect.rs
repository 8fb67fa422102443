//! Tests of `tvmc inspect`: what it counts, against counts by hand, and the page that it writes.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::fs;

use prost::Message;
use serde_json::Value as Json;
use support::{model, refused, tvmc, tvmc_with};
use tvm_onnx::proto::{ModelProto, NodeProto};

fn inspect(args: &[&str]) -> Json {
    serde_json::from_str(&tvmc(&[&["inspect", "--json"], args].concat())).unwrap()
}

/// The nodes of an operator, with the expressions of their operations.
fn flops<'a>(found: &'a Json, op: &str) -> Vec<&'a str> {
    let nodes = found["graph"].as_array().unwrap().iter();
    nodes.filter(|it| it["op"] == op).map(|it| it["flops"]["expression"].as_str().unwrap()).collect()
}

#[test]
fn operations_and_bytes_are_those_of_the_formulas() {
    let found = inspect(&[&model()]);
    // Two operations for each product of a 3x3 window, and the bias: outputs * (2 * channels * 9 + 1).
    let convs = [(16 * 64, 1), (32 * 64, 16), (32 * 16, 32)];
    let convs = convs.map(|(outputs, channels)| format!("{} * n", outputs * (2 * channels * 9 + 1)));
    assert_eq!(flops(&found, "Conv"), convs);
    let products = [(64, 512), (10, 64)].map(|(outputs, terms)| format!("{} * n", outputs * (2 * terms + 1)));
    assert_eq!(flops(&found, "Gemm"), products);
    // Each of 4 values is compared with the largest one so far.
    assert_eq!(flops(&found, "MaxPool"), [format!("{} * n", 32 * 16 * 4)]);
    assert_eq!(flops(&found, "Flatten"), ["0"]);
    let of_nodes = |key: &str| -> f64 {
        found["graph"].as_array().unwrap().iter().map(|it| it[key]["value"].as_f64().unwrap()).sum()
    };
    assert_eq!(found["flops"]["value"].as_f64().unwrap(), of_nodes("flops"));
    // What is fused reads and writes less.
    assert!(found["traffic_bytes"]["value"].as_f64().unwrap() < of_nodes("bytes"));
    // The second convolution reads 16 planes and writes 32: by Winograd's algorithm for tiles of 4x4, each with 6 * 6 f32 for each
    // of 4 tiles. The result has 10.
    let transformed = (16 + 32) * 6 * 6 * 4 * 4;
    let one = inspect(&[&model(), "--dim", "n=1"]);
    assert_eq!(one["peak_bytes"]["expression"], format!("{}", transformed + 10 * 4));
    assert_eq!(found["peak_bytes"]["expression"], format!("{} * n", transformed + 10 * 4));
    assert_eq!(found["parameters"]["by_dtype"][0]["dtype"], "f32");
    assert_eq!(found["parameters"]["elements"], 47_658);
    assert_eq!(found["parameters"]["bytes"], 47_658 * 4);
    assert_eq!(found["at_least"], false);

    let fixed = inspect(&[&model(), "--dim", "n=5"]);
    let value = found["flops"]["value"].as_f64().unwrap();
    assert_eq!(fixed["flops"]["expression"], format!("{}", 5.0 * value));
    assert_eq!(fixed["inputs"][0]["type"], "Tensor<f32, 5, 1, 8, 8>");
    let least = inspect(&[&model(), "--dim", "n=3..8"]);
    assert_eq!(least["dims"]["n"], 3);
    assert_eq!(least["flops"]["value"].as_f64().unwrap(), 3.0 * value);
    let (code, err) = refused(&["inspect", &model(), "--dim", "m=2"]);
    assert!(code == 1 && err.contains("no input has a dimension `m`"), "{err}");

    let text = tvmc(&["inspect", &model()]);
    for want in ["operators for n = 1", "f32  14  47658 elements", "992189 * n FLOP: 992.19 kFLOP", "kernels"]
    {
        assert!(text.contains(want), "expected `{want}` in:\n{text}");
    }
}

/// The digits model with `change` applied.
fn changed(change: impl FnOnce(&mut ModelProto)) -> Vec<u8> {
    let mut proto = tvm_onnx::read_model(&fs::read(model()).unwrap()[..]).unwrap();
    change(&mut proto);
    proto.encode_to_vec()
}

#[test]
fn models_that_cannot_be_imported_can_be_looked_at() {
    let strange = changed(|it| it.graph.as_mut().unwrap().node[1].op_type = "Strange".to_string());
    let output = tvmc_with(&["inspect", "-"], &strange);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("Strange"), "{text}");
    assert!(text.contains("not supported") && text.contains("what a run costs is not known: "), "{text}");
    let found: Json =
        serde_json::from_slice(&tvmc_with(&["inspect", "-", "--json"], &strange).stdout).unwrap();
    assert!(found["error"].as_str().unwrap().contains("Strange") && found["flops"].is_null());
    let output = tvmc_with(&["inspect", "-", "--html", "-"], &strange);
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.contains("there is no graph to show: "), "{err}");
    let output = tvmc_with(&["inspect", "-"], "not a model");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_page_shows_every_node_and_needs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("digits.html");
    let text = tvmc(&["inspect", &model(), "--html", &page.display().to_string()]);
    assert!(text.ends_with(&format!("wrote {}\n", page.display())), "{text}");
    let page = fs::read_to_string(page).unwrap();
    // 14 nodes, an input, an output.
    assert_eq!(page.matches("data-text=").count(), 16);
    assert_eq!(page.matches("<path").count(), 16);
    for want in ["<!doctype html>", ">BatchNormalization<", ">f32, n, 32, 8, 8<", ">591.87 kFLOP<"] {
        assert!(page.contains(want), "{want}");
    }
    for outside in ["http:", "https:", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
    let artifact = dir.path().join("digits.tvm").display().to_string();
    tvmc(&["compile", &model(), "--target", "c", "--output", &artifact]);
    let (code, err) = refused(&["inspect", &artifact, "--html", "x.html"]);
    assert!(code == 2 && err.contains("--html shows the graph of a model"), "{err}");
    let found = inspect(&[&artifact]);
    assert_eq!(found["functions"][0]["params"][0]["name"], "image");
}

#[test]
fn names_are_escaped_and_a_thousand_nodes_are_placed() {
    let hostile = "</script><img src=x onerror=alert(1)>";
    let long = changed(|it| {
        let graph = it.graph.as_mut().unwrap();
        graph.name = hostile.to_string();
        let mut last = graph.output[0].name.clone();
        for i in 0..1000 {
            let (output, name) = (format!("long_{i}"), format!("{hostile}_{i}"));
            let input = vec![std::mem::replace(&mut last, output.clone())];
            let op_type = "Relu".to_string();
            graph.node.push(NodeProto { input, output: vec![output], name, op_type, ..NodeProto::default() });
        }
        graph.output[0].name = last;
    });
    let output = tvmc_with(&["inspect", "-", "--html", "-"], &long);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(page.matches("data-text=").count(), 1016);
    assert!(!page.contains("<img") && page.matches("</script>").count() == 2);
}
