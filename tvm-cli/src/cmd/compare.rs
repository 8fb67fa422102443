//! The command `tvmc compare`: runs a model here, and in another program or in another precision, and compares the results.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Value as Json, json};
use tvm_core::pass::Precision;
use tvm_onnx::proto::GraphProto;
use tvm_runtime::Tensor;

use crate::compare::{Absolute, Difference};
use crate::data;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::model::{self, Content, Options, Threads};
use crate::out::{self, Colour};
use crate::progress::Progress;
use crate::reference::{OnnxRuntime, Own, Reference};
use crate::search::{Finding, Found, Probe, Search};

/// Arguments of `tvmc compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An ONNX model; `-` is standard input.
    model: PathBuf,
    /// What to compare with.
    #[arg(long, value_name = "REFERENCE", default_value = "onnxruntime")]
    with: Peer,
    /// A Python that has the program's package; by default the first one in PATH that has it, else that of the peers of `tvmc bench`.
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    #[command(flatten)]
    inputs: Inputs,
    /// Relative difference allowed; by default 0.001, and 0.05 with f32.
    #[arg(long)]
    rtol: Option<f64>,
    /// Absolute difference allowed; by default a hundredth of --rtol, of the largest element of the output; all of it with f32.
    #[arg(long)]
    atol: Option<f64>,
    /// Does not look for the first node that differs.
    #[arg(long)]
    outputs_only: bool,
    /// Writes what is found as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    options: Options,
}

/// What to compare with.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Peer {
    /// The Python package onnxruntime.
    #[value(alias = "ort")]
    Onnxruntime,
    /// The same model in f32, for what --precision costs in accuracy.
    F32,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let Content::Onnx(bytes) = model::read(&args.model)? else {
        let message = "is compiled already; the model itself is compared";
        return Err(Error::usage(format!("{} {message}", data::show(&args.model))));
    };
    let folder = model::directory(&args.model);
    let proto = tvm_onnx::read_model(bytes.clone()).map_err(Error::file(&args.model))?;
    let graph = proto.graph.as_ref().ok_or_else(|| Error::failed("the model has no graph"))?;
    let (mut runtime, mut full);
    let progress;
    let own = |options: Options, progress| Own {
        proto: proto.clone(),
        file: args.model.clone(),
        folder: folder.clone(),
        options,
        config: args.threads.config(),
        progress,
    };
    let (program, rtol, reference): (String, f64, &mut dyn Reference) = match args.with {
        Peer::Onnxruntime => {
            let python = args.python.as_deref();
            runtime = OnnxRuntime::start(python, bytes, &folder, args.threads.number())?;
            progress = Progress::importing(&args.model);
            (format!("onnxruntime {}", runtime.version()), 1e-3, &mut runtime)
        }
        Peer::F32 => {
            progress = Progress::importing(&args.model);
            full = own(Options { precision: Precision::Full, ..args.options.clone() }, &progress);
            // bf16 has 8 significant bits, and each layer rounds.
            ("the same model in f32".to_string(), 5e-2, &mut full)
        }
    };
    let rtol = args.rtol.unwrap_or(rtol);
    let own = own(args.options.clone(), &progress);
    let mut pair = Pair { args, rtol, own, reference, inputs: Vec::new() };
    let names: Vec<String> = graph.output.iter().map(|it| it.name.clone()).collect();
    let differences = pair.differences(&names)?;
    let first = names.iter().zip(&differences).find(|(_, it)| it.differs());
    let found = match first {
        Some((name, difference)) if !args.outputs_only => {
            Search::new(graph, &mut pair).first(name, difference.clone())?
        }
        _ => None,
    };
    drop(progress);
    if args.json {
        let rows: Vec<Json> = names.iter().zip(&differences).map(|(name, it)| as_json(name, it)).collect();
        let found = found.as_ref().map(|it| json_finding(graph, it));
        out::line(json!({"with": program, "outputs": rows, "same": first.is_none(), "first": found}));
    } else {
        print(&program, &names, &differences);
        found.iter().for_each(|it| print_finding(graph, it));
    }
    Ok(if first.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A model that is run here, and by what it is compared with.
struct Pair<'a> {
    args: &'a Args,
    rtol: f64,
    own: Own<'a>,
    reference: &'a mut dyn Reference,
    /// The inputs, once they are known.
    inputs: Vec<(String, Tensor)>,
}

impl Probe for Pair<'_> {
    fn differences(&mut self, names: &[String]) -> Result<Vec<Difference>, Error> {
        self.own.progress.say(format!("comparing {} values", names.len()));
        let ours = self.ours(names)?;
        let theirs = self.reference.run(names, &self.inputs)?;
        if ours.len() != theirs.len() {
            return Err(Error::failed(format!("{} outputs, expected {}", ours.len(), theirs.len())));
        }
        let pairs = ours.iter().zip(&theirs);
        let atol = match (self.args.atol, self.args.with) {
            (Some(atol), _) => Absolute::Of(atol),
            (None, Peer::Onnxruntime) => Absolute::OfLargest(self.rtol / 100.0),
            (None, Peer::F32) => Absolute::OfLargest(self.rtol),
        };
        pairs.map(|(ours, theirs)| Difference::of(ours, theirs, self.rtol, atol)).collect()
    }
}

impl Pair<'_> {
    /// Our values of these names.
    fn ours(&mut self, names: &[String]) -> Result<Vec<Tensor>, Error> {
        let model = self.own.compile(names)?;
        if self.inputs.is_empty() {
            let tensors = self.args.inputs.read_or_random(&model, &self.args.options)?;
            self.inputs = model.params()?.into_iter().map(|(name, _)| name).zip(tensors).collect();
        }
        let inputs: Vec<Tensor> = self.inputs.iter().map(|(_, it)| it.clone()).collect();
        self.own.progress.say(format!("comparing {} values", names.len()));
        model.run(&inputs).map_err(Error::file(&self.args.model))
    }
}

/// Prints a table of the outputs.
fn print(program: &str, names: &[String], differences: &[Difference]) {
    out::line(format_args!("compared with {program}\n"));
    let mut rows = vec![
        [
            "output",
            "largest difference",
            "relative",
            "root mean square",
            "same largest",
            "elements that differ",
            "",
        ]
        .map(String::from)
        .to_vec(),
    ];
    for (name, it) in names.iter().zip(differences) {
        let verdict = match it.differs() {
            true => out::coloured("differs", Colour::Red),
            false => out::coloured("same", Colour::Green),
        };
        let mut row = vec![name.escape_debug().to_string()];
        match &it.kind {
            Some(kind) => row.extend([kind.as_str(), "", "", "", ""].map(String::from)),
            None => row.extend([
                format!("{:.3e}", it.absolute),
                format!("{:.3e}", it.relative),
                format!("{:.3e}", it.rms),
                it.largest.map_or_else(String::new, |(same, rows)| format!("{same} of {rows}")),
                format!("{} of {}", it.wrong, it.total),
            ]),
        }
        row.push(verdict);
        rows.push(row);
    }
    out::table(&rows);
}

/// Name and operator of a node.
fn node(graph: &GraphProto, found: &Found) -> String {
    let node = &graph.node[found.node];
    let name =
        if node.name.is_empty() { format!("#{}", found.node) } else { node.name.escape_debug().to_string() };
    format!("{name} ({})", node.op_type.escape_debug())
}

fn print_finding(graph: &GraphProto, finding: &Finding) {
    let (found, note) = match finding {
        Finding::Node(found) => (found, "the first node that differs"),
        Finding::Together(found) => (
            found,
            "where a difference is first seen; computed apart from the nodes before it, the node gives the same values",
        ),
    };
    let show = |it: &Difference| {
        it.kind.clone().unwrap_or_else(|| {
            format!("differs by {:.3e} in {} of {} elements", it.absolute, it.wrong, it.total)
        })
    };
    out::line(format_args!("\n{note}: {}", node(graph, found)));
    let mut rows = vec![vec![format!("gives {}", found.value.escape_debug()), show(&found.difference)]];
    for (name, read) in &found.reads {
        let text = match read {
            None => "cannot be compared".to_string(),
            Some(it) if it.differs() => show(it),
            Some(_) => "same".to_string(),
        };
        rows.push(vec![format!("reads {}", name.escape_debug()), text]);
    }
    out::table(&rows);
}

fn as_json(name: &str, it: &Difference) -> Json {
    // JSON has no infinity.
    let number = |it: f64| if it.is_finite() { Json::from(it) } else { Json::from("inf") };
    let mut row = json!({
        "name": name, "differs": it.differs(), "absolute": number(it.absolute), "relative": number(it.relative),
        "rms": number(it.rms), "wrong": it.wrong, "elements": it.total,
    });
    if let Some((same, rows)) = it.largest {
        row["same_largest"] = json!({"rows": rows, "same": same});
    }
    if let Some(kind) = &it.kind {
        row["kind"] = kind.clone().into();
    }
    row
}

fn json_finding(graph: &GraphProto, finding: &Finding) -> Json {
    let (found, alone) = match finding {
        Finding::Node(found) => (found, true),
        Finding::Together(found) => (found, false),
    };
    let node = &graph.node[found.node];
    let read = |(name, it): &(String, Option<Difference>)| {
        it.as_ref().map_or_else(|| json!({"name": name}), |it| as_json(name, it))
    };
    json!({
        "index": found.node, "node": node.name, "op": node.op_type, "differs_alone": alone,
        "value": as_json(&found.value, &found.difference),
        "reads": found.reads.iter().map(read).collect::<Vec<_>>(), "runs": found.runs,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tvm_onnx::proto::{
        DimensionProto, ElemType, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
        TensorTypeProto, TypeProto, ValueInfoProto,
    };
    use tvm_runtime::vm::VmConfig;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// A chain of `n` nodes that add to, or multiply, four elements by weights that are `1`.
    fn chain(n: usize) -> ModelProto {
        let floats =
            |values: Vec<f32>| values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into();
        let ty = |dims: &[i64]| TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: ElemType::Float as i32,
                shape: Some(TensorShapeProto {
                    dim: dims
                        .iter()
                        .map(|&it| DimensionProto { dim_value: Some(it), dim_param: None })
                        .collect(),
                }),
            }),
            ..TypeProto::default()
        };
        let value = |name: String| ValueInfoProto { name, ty: Some(ty(&[4])) };
        let node = |i: usize| NodeProto {
            input: vec![if i == 0 { "x".to_string() } else { format!("v{}", i - 1) }, format!("w{i}")],
            output: vec![format!("v{i}")],
            op_type: if i.is_multiple_of(2) { "Add" } else { "Mul" }.to_string(),
            ..NodeProto::default()
        };
        let weight = |i: usize| TensorProto {
            dims: vec![4],
            data_type: ElemType::Float as i32,
            name: format!("w{i}"),
            raw_data: floats(vec![1.0; 4]),
            ..TensorProto::default()
        };
        let graph = GraphProto {
            node: (0..n).map(node).collect(),
            initializer: (0..n).map(weight).collect(),
            input: vec![value("x".to_string())],
            output: vec![value(format!("v{}", n - 1))],
            ..GraphProto::default()
        };
        let opset_import = vec![OperatorSetIdProto { version: 17, ..OperatorSetIdProto::default() }];
        ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() }
    }

    #[test]
    fn a_changed_weight_is_found() {
        let args = Line::parse_from(["compare", "model.onnx", "--target", "interpreter"]).args;
        let progress = Progress::importing(&args.model);
        let own = |proto| Own {
            proto,
            file: args.model.clone(),
            folder: PathBuf::from("."),
            options: args.options.clone(),
            config: VmConfig::default(),
            progress: &progress,
        };
        let proto = chain(40);
        let graph = proto.graph.clone().unwrap();
        for index in [0, 17, 38, 39] {
            let mut other = proto.clone();
            let weights = &mut other.graph.as_mut().unwrap().initializer[index];
            weights.raw_data = [1.0f32, 1.0, 1.5, 1.0].map(f32::to_le_bytes).concat().into();
            let mut reference = own(other);
            let own = own(proto.clone());
            let mut pair =
                Pair { args: &args, rtol: 1e-3, own, reference: &mut reference, inputs: Vec::new() };
            let output = graph.output[0].name.clone();
            let difference = pair.differences(std::slice::from_ref(&output)).unwrap().remove(0);
            assert_eq!(difference.wrong, 1, "{index}");
            let found = Search::new(&graph, &mut pair).first(&output, difference).unwrap().unwrap();
            let Finding::Node(found) = found else { panic!("{found:?}") };
            assert_eq!((found.node, found.value), (index, format!("v{index}")));
        }
    }
}
