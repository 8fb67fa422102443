//! What `tvmc inspect` shows of an ONNX model: what the file says, and, if the model can be imported, what a run costs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};
use tvm_onnx::proto::{
    AttributeType, ElemType, GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto,
};
use tvm_onnx::{dtype_from_onnx, is_standard, supported_extension_ops, supported_ops};

use super::section;
use crate::cost::{Extents, Graph, Plan, Poly, Source};
use crate::error::Error;
use crate::model::{self, Options};
use crate::out::{self, amount};
use crate::progress::Progress;

/// What is known about a model.
pub(crate) struct Summary {
    model: ModelProto,
    inputs: Vec<Row>,
    outputs: Vec<Row>,
    operators: Vec<Operator>,
    parameters: Vec<Parameters>,
    /// The least extents of symbolic dimensions, for which symbolic numbers are evaluated as well.
    pub(crate) extents: Extents,
    cost: Result<(Graph, Plan), Error>,
}

/// Name and type.
type Row = (String, String);

/// An operator of the model.
struct Operator {
    domain: String,
    name: String,
    count: usize,
    supported: bool,
    /// Operations of its nodes, if they are known.
    flops: Poly,
}

/// Parameters of one element type.
#[derive(Clone, Debug, Default)]
struct Parameters {
    dtype: String,
    tensors: u64,
    elements: u128,
    bits: u128,
}

impl Summary {
    /// Reads a model, imports and plans it.
    pub(crate) fn of(
        bytes: tvm_onnx::Bytes,
        path: &Path,
        options: &Options,
        progress: &Progress,
    ) -> Result<Summary, Error> {
        let model = tvm_onnx::read_model(bytes).map_err(Error::file(path))?;
        let graph = model.graph.as_ref().ok_or_else(|| Error::failed("the model has no graph"))?;
        let extents = options.least_extents();
        let cost = options.scope(progress, || {
            let module = tvm_onnx::import_proto(&model, Some(&model::directory(path)), &options.import())?;
            let graph = Graph::of(&module, &extents)?;
            let plan = Plan::of(&module, &options.target, &extents)?;
            Ok((graph, plan))
        });
        // Wrong dimensions are errors; a model that cannot be imported can be looked at all the same.
        let cost = match cost {
            Err(err) if options.for_import() => {
                return Err(Error::context(err, &crate::data::show(path)));
            }
            other => other,
        };
        let (mut inputs, mut outputs) = ports(graph);
        let mut operators = operators(graph);
        if let Ok((graph, _)) = &cost {
            let rows = |ports: &[crate::cost::Port]| {
                ports.iter().map(|it| (it.name.clone(), it.ty.clone())).collect()
            };
            (inputs, outputs) = (rows(&graph.inputs), rows(&graph.outputs));
            for node in &graph.nodes {
                if let Some(operator) = operators.iter_mut().find(|it| it.name == node.op) {
                    operator.flops.add(&node.cost.flops);
                }
            }
        }
        let parameters = parameters(graph);
        Ok(Summary { inputs, outputs, operators, parameters, extents, cost, model })
    }

    /// The graph, or why there is none.
    pub(crate) fn graph(&self) -> Result<&Graph, String> {
        self.cost.as_ref().map(|(graph, _)| graph).map_err(ToString::to_string)
    }

    /// What the model is, and who made it.
    pub(crate) fn title(&self) -> String {
        let name = self.model.graph.as_ref().map_or("", |it| &it.name);
        let sets: Vec<String> = (self.model.opset_import.iter())
            .map(|it| format!("{} {}", domain_name(&it.domain), it.version))
            .collect();
        let (version, sets) = (self.model.ir_version, sets.join(", "));
        let title = format!("ONNX model `{}`, IR version {version}, opsets {sets}", name.escape_debug());
        match self.producer() {
            producer if producer.is_empty() => title,
            producer => format!("{title}, made by {}", producer.escape_debug()),
        }
    }

    fn producer(&self) -> String {
        format!("{} {}", self.model.producer_name, self.model.producer_version).trim().to_string()
    }

    /// Prints everything.
    pub(crate) fn print(&self) {
        out::line(self.title());
        let rows =
            |rows: &[Row]| rows.iter().map(|(name, ty)| vec![name.clone(), ty.clone()]).collect::<Vec<_>>();
        section("inputs", &rows(&self.inputs));
        section("outputs", &rows(&self.outputs));
        let dims = self.operators.iter().flat_map(|it| it.flops.dims()).collect();
        section(&format!("operators{}", self.values(&dims)), &self.operator_rows());
        section("parameters", &self.parameter_rows());
        let graph = self.model.graph.as_ref();
        let (nodes, tensors) = graph.map_or((0, 0), |it| (it.node.len(), it.initializer.len()));
        let elements = self.parameters.iter().fold(0, |sum: u128, it| sum.saturating_add(it.elements));
        out::line(format_args!("{nodes} nodes, {tensors} initializers with {elements} elements"));
        section("a run", &self.cost_rows());
        if let Err(err) = &self.cost {
            out::line(format_args!("  what a run costs is not known: {err}"));
        }
    }

    /// The operators by descending count; operators that cannot be imported are marked.
    fn operator_rows(&self) -> Vec<Vec<String>> {
        let total = self.cost.as_ref().map_or(0.0, |(graph, _)| graph.total().flops.at(&self.extents));
        let row = |it: &Operator| {
            let name =
                if it.domain.is_empty() { it.name.clone() } else { format!("{}::{}", it.domain, it.name) };
            let flops = it.flops.at(&self.extents);
            let note = match () {
                () if !it.supported => out::coloured("not supported", out::Colour::Yellow),
                () if flops > 0.0 => {
                    format!("{:>5.1} %  {}", 100.0 * flops / total, amount(flops, "FLOP"))
                }
                () => String::new(),
            };
            vec![name, it.count.to_string(), note]
        };
        self.operators.iter().map(row).collect()
    }

    fn parameter_rows(&self) -> Vec<Vec<String>> {
        let row = |it: &Parameters| {
            let bytes = out::bytes(u64::try_from(it.bits.div_ceil(8)).unwrap_or(u64::MAX));
            vec![it.dtype.clone(), it.tensors.to_string(), format!("{} elements", it.elements), bytes]
        };
        self.parameters.iter().map(row).collect()
    }

    /// What a run costs: name and amount.
    pub(crate) fn cost_rows(&self) -> Vec<Vec<String>> {
        let Ok((graph, plan)) = &self.cost else { return Vec::new() };
        let total = graph.total();
        let least = |at_least: bool| if at_least { "at least " } else { "" };
        let constants = out::bytes(plan.constant_bytes);
        let rows = [
            ("operations", format!("{}{}", least(total.at_least), self.amount(&total.flops, "FLOP"))),
            (
                "memory traffic",
                format!("{}{}", least(plan.cost.at_least), self.amount(&plan.cost.bytes, "B")),
            ),
            ("peak of values", self.amount(&plan.peak, "B")),
            ("constants", constants),
            ("kernels", plan.kernels.to_string()),
        ];
        let mut rows: Vec<Vec<String>> =
            rows.into_iter().map(|(name, amount)| vec![name.to_string(), amount]).collect();
        let (flops, bytes) = (total.flops.at(&self.extents), plan.cost.bytes.at(&self.extents));
        if bytes > 0.0 && flops >= 0.0 {
            rows.insert(2, vec!["operations per byte".to_string(), format!("{:.1}", flops / bytes)]);
        }
        rows
    }

    /// An amount for reading. A symbolic one is followed by its value for the least extents, unless the model means larger ones.
    pub(crate) fn amount(&self, poly: &Poly, unit: &str) -> String {
        let value = poly.at(&self.extents);
        if poly.constant().is_some() {
            return amount(value, unit);
        }
        let dims = self.values(&poly.dims());
        let value = if value > 0.0 { amount(value, unit) } else { "nothing".to_string() };
        let expression = poly.to_string();
        if expression.len() > LONGEST {
            return format!("{value}{dims}");
        }
        format!("{expression} {unit}: {value}{dims}")
    }

    /// The least extents of these dimensions: ` for n = 1`.
    fn values(&self, dims: &BTreeSet<String>) -> String {
        let value = |name: &String| format!("{name} = {}", self.extents.get(name).copied().unwrap_or(1));
        let values: Vec<String> = dims.iter().map(value).collect();
        if values.is_empty() { String::new() } else { format!(" for {}", values.join(", ")) }
    }

    /// Everything as JSON. A number that may be symbolic is an object with an expression, and its value for `dims`.
    pub(crate) fn json(&self) -> Json {
        let ports = |rows: &[Row]| -> Vec<Json> {
            rows.iter().map(|(name, ty)| json!({"name": name, "type": ty})).collect()
        };
        let number = |poly: &Poly| json!({"expression": poly.to_string(), "value": poly.at(&self.extents)});
        let operators: Vec<Json> = (self.operators.iter())
            .map(|it| {
                let mut row =
                    json!({"domain": it.domain, "name": it.name, "count": it.count, "supported": it.supported});
                if self.cost.is_ok() {
                    row["flops"] = number(&it.flops);
                }
                row
            })
            .collect();
        let bytes = |it: &Parameters| u64::try_from(it.bits.div_ceil(8)).unwrap_or(u64::MAX);
        let elements = |it: &Parameters| u64::try_from(it.elements).unwrap_or(u64::MAX);
        let by_dtype: Vec<Json> = (self.parameters.iter())
            .map(|it| {
                json!({"dtype": it.dtype, "tensors": it.tensors, "elements": elements(it), "bytes": bytes(it)})
            })
            .collect();
        let sum =
            |of: &dyn Fn(&Parameters) -> u64| self.parameters.iter().map(of).fold(0, u64::saturating_add);
        let mut found = json!({
            "kind": "onnx",
            "name": self.model.graph.as_ref().map_or("", |it| &it.name),
            "ir_version": self.model.ir_version,
            "opsets": self.model.opset_import.iter()
                .map(|it| json!({"domain": domain_name(&it.domain), "version": it.version}))
                .collect::<Vec<_>>(),
            "producer": self.producer(),
            "inputs": ports(&self.inputs),
            "outputs": ports(&self.outputs),
            "nodes": self.model.graph.as_ref().map_or(0, |it| it.node.len()),
            "operators": operators,
            "parameters": {
                "tensors": sum(&|it| it.tensors),
                "elements": sum(&elements),
                "bytes": sum(&bytes),
                "by_dtype": by_dtype,
            },
        });
        match &self.cost {
            Err(err) => found["error"] = err.to_string().into(),
            Ok((graph, plan)) => {
                let total = graph.total();
                let polys = [&total.flops, &plan.cost.bytes, &plan.peak];
                let names: BTreeSet<String> = polys.iter().flat_map(|it| it.dims()).collect();
                let dims: Map<String, Json> = names
                    .into_iter()
                    .map(|name| (name.clone(), self.extents.get(&name).copied().unwrap_or(1).into()))
                    .collect();
                found["dims"] = dims.into();
                found["flops"] = number(&total.flops);
                found["traffic_bytes"] = number(&plan.cost.bytes);
                found["at_least"] = (total.at_least || plan.cost.at_least).into();
                found["peak_bytes"] = number(&plan.peak);
                found["constant_bytes"] = plan.constant_bytes.into();
                found["kernels"] = plan.kernels.into();
                found["graph"] = json_graph(graph, &number);
            }
        }
        found
    }
}

fn json_graph(graph: &Graph, number: &dyn Fn(&Poly) -> Json) -> Json {
    let source = |it: &Source| match it {
        Source::Input(i) => json!({"input": i}),
        Source::Node(i) => json!({"node": i}),
    };
    let nodes: Vec<Json> = (graph.nodes.iter())
        .map(|it| {
            json!({
                "name": it.name,
                "op": it.op,
                "operators": it.operators,
                "type": it.ty,
                "reads": it.inputs.iter().map(source).collect::<Vec<_>>(),
                "flops": number(&it.cost.flops),
                "bytes": number(&it.cost.bytes),
                "at_least": it.cost.at_least,
            })
        })
        .collect();
    nodes.into()
}

/// The longest expression that is shown.
const LONGEST: usize = 120;

fn domain_name(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// Inputs without initializer, and outputs, as the file describes them.
fn ports(graph: &GraphProto) -> (Vec<Row>, Vec<Row>) {
    let constants: HashSet<&str> = graph.initializer.iter().map(|it| &*it.name).collect();
    let port = |info: &ValueInfoProto| {
        (info.name.escape_debug().to_string(), info.ty.as_ref().map_or_else(|| "?".into(), show_type))
    };
    let inputs = graph.input.iter().filter(|it| !constants.contains(&*it.name));
    (inputs.map(port).collect(), graph.output.iter().map(port).collect())
}

/// The operators by descending count.
fn operators(graph: &GraphProto) -> Vec<Operator> {
    let mut counts: IndexMap<(&str, &str), usize> = IndexMap::new();
    for node in &graph.node {
        // The standard domain has two names.
        let domain = if is_standard(&node.domain) { "" } else { &node.domain };
        *counts.entry((domain, &node.op_type)).or_default() += 1;
    }
    counts.sort_by(|a, n, b, m| m.cmp(n).then(a.cmp(b)));
    let (standard, extensions) = (supported_ops(), supported_extension_ops());
    let operator = |(&(domain, name), &count): (&(&str, &str), &usize)| {
        let supported = domain.is_empty() && standard.iter().any(|(it, _)| *it == name)
            || extensions.contains(&(domain, name));
        Operator { domain: domain.into(), name: name.into(), count, supported, flops: Poly::default() }
    };
    counts.iter().map(operator).collect()
}

/// The parameters by element type: initializers, and the tensors of `Constant` nodes.
fn parameters(graph: &GraphProto) -> Vec<Parameters> {
    let constant =
        graph.node.iter().filter(|node| node.op_type == "Constant").flat_map(|node| &node.attribute);
    let tensors = constant.filter(|it| it.ty == AttributeType::Tensor as i32).filter_map(|it| it.t.as_ref());
    let mut found: BTreeMap<i32, Parameters> = BTreeMap::new();
    for tensor in graph.initializer.iter().chain(tensors) {
        let elements =
            tensor.dims.iter().fold(1u128, |n, &it| n.saturating_mul(it.max(0).unsigned_abs().into()));
        let (dtype, bits) = element(tensor);
        let row =
            found.entry(tensor.data_type).or_insert_with(|| Parameters { dtype, ..Parameters::default() });
        row.tensors += 1;
        row.elements = row.elements.saturating_add(elements);
        row.bits = row.bits.saturating_add(elements.saturating_mul(bits));
    }
    let mut rows: Vec<Parameters> = found.into_values().collect();
    rows.sort_by_key(|it| std::cmp::Reverse(it.bits));
    rows
}

/// Name and bits of a tensor's elements.
fn element(tensor: &TensorProto) -> (String, u128) {
    use ElemType as E;
    let ty = E::try_from(tensor.data_type).unwrap_or(E::Undefined);
    match ty {
        E::Uint4 | E::Int4 | E::Float4E2m1 => (format!("{ty:?}").to_lowercase(), 4),
        E::Uint2 | E::Int2 => (format!("{ty:?}").to_lowercase(), 2),
        E::Float8E4m3fn | E::Float8E4m3fnuz | E::Float8E5m2 | E::Float8E5m2fnuz | E::Float8E8m0 => {
            (format!("{ty:?}").to_lowercase(), 8)
        }
        _ => dtype_from_onnx(tensor.data_type.into()).map_or_else(
            |_| (format!("{ty:?}").to_lowercase(), 0),
            |it| (it.to_string(), 8 * (it.bytes() as u128).max(1)),
        ),
    }
}

fn show_type(ty: &TypeProto) -> String {
    let Some(tensor) = &ty.tensor_type else { return "not a tensor".into() };
    let dtype = dtype_from_onnx(tensor.elem_type.into());
    let dtype = dtype.map_or_else(|_| format!("type {}", tensor.elem_type), |it| it.to_string());
    let Some(shape) = &tensor.shape else { return format!("TensorDyn<{dtype}>") };
    let dims = shape.dim.iter().map(|dim| match (&dim.dim_value, &dim.dim_param) {
        (Some(value), _) => value.to_string(),
        (None, Some(name)) if !name.is_empty() => name.escape_debug().to_string(),
        (None, _) => "?".into(),
    });
    format!("Tensor<{}>", std::iter::once(dtype).chain(dims).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use tvm_onnx::proto::NodeProto;

    use super::*;

    #[test]
    fn both_names_of_the_standard_domain_are_known() {
        let node = |domain: &str, op_type: &str| NodeProto {
            domain: domain.into(),
            op_type: op_type.into(),
            ..NodeProto::default()
        };
        let nodes =
            vec![node("", "Relu"), node("ai.onnx", "Relu"), node("ai.onnx", "Nope"), node("a.b", "Relu")];
        let rows = operators(&GraphProto { node: nodes, ..GraphProto::default() });
        let shown: Vec<(&str, &str, usize, bool)> =
            rows.iter().map(|row| (&*row.domain, &*row.name, row.count, row.supported)).collect();
        assert_eq!(shown, [("", "Relu", 2, true), ("", "Nope", 1, false), ("a.b", "Relu", 1, false)]);
    }

    #[test]
    fn parameters_are_counted_by_element_type() {
        let tensor = |ty: ElemType, dims: &[i64]| TensorProto {
            data_type: ty as i32,
            dims: dims.into(),
            ..TensorProto::default()
        };
        let initializer = vec![
            tensor(ElemType::Float, &[2, 3]),
            tensor(ElemType::Float, &[]),
            tensor(ElemType::Int4, &[5]),
            tensor(ElemType::Int64, &[i64::MAX, i64::MAX]),
        ];
        let rows = parameters(&GraphProto { initializer, ..GraphProto::default() });
        let shown: Vec<(&str, u64, u128)> =
            rows.iter().map(|row| (&*row.dtype, row.tensors, row.bits.div_ceil(8))).collect();
        assert_eq!(shown[1..], [("f32", 2, 28), ("int4", 1, 3)]);
        assert_eq!((shown[0].0, shown[0].1), ("i64", 1));
    }
}
