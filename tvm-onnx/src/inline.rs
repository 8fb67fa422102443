//! Functions that a model defines: the nodes that call them are replaced by the nodes of their bodies.
//!
//! Values inside a body get names that no other value has. An attribute of a body's node that refers to an attribute of
//! the function takes its value from the call, or the default.

use prost::Message;
use rustc_hash::FxHashMap;

use crate::error::OnnxError;
use crate::importer::is_standard;
use crate::names::show;
use crate::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};

/// Number of nodes, calls of functions among them, that a graph may become, beyond [`MAX_GROWTH`] times those of the model.
const MAX_NODES: usize = 1 << 14;

/// Size in bytes of the messages of these nodes, beyond [`MAX_GROWTH`] times that of the functions.
const MAX_BYTES: usize = 1 << 26;

/// How often a node of the model may become a node of the graph, on average.
const MAX_GROWTH: usize = 8;

/// Length up to which the names of nested calls are put together.
const MAX_PREFIX: usize = 512;

/// Depth to which functions may call each other.
const MAX_DEPTH: usize = 64;

type Result<T> = std::result::Result<T, OnnxError>;

/// Functions by domain, name and overload.
type Functions<'m> = FxHashMap<(&'m str, &'m str, &'m str), &'m FunctionProto>;

/// The graph without calls of functions that the model defines; `None` if it defines none.
///
/// # Errors
/// When functions are defined twice, call each other without end, or become too many nodes.
pub(crate) fn inlined(model: &ModelProto, graph: &GraphProto, opset: i64) -> Result<Option<GraphProto>> {
    if model.functions.is_empty() {
        return Ok(None);
    }
    let mut functions = Functions::default();
    for function in &model.functions {
        let name = show(&function.name);
        let key = (&*function.domain, &*function.name, &*function.overload);
        if functions.insert(key, function).is_some() {
            return Err(OnnxError::malformed(format!("function {name} is defined twice")));
        }
        let standard = function.opset_import.iter().find(|it| is_standard(&it.domain));
        if let Some(set) = standard.filter(|it| it.version != opset) {
            let what = format!("function {name} of operator set {} in a model of {opset}", set.version);
            return Err(OnnxError::unsupported(what));
        }
    }
    let written = graph.node.len() + model.functions.iter().map(|it| it.node.len()).sum::<usize>();
    let size = model.functions.iter().map(Message::encoded_len).sum::<usize>();
    let mut inliner = Inliner {
        functions,
        calls: 0,
        nodes: Budget::new(MAX_NODES, written, "nodes"),
        bytes: Budget::new(MAX_BYTES, size, "bytes"),
    };
    let node = inliner.nodes(&graph.node, &Names::default(), 0)?;
    Ok(Some(GraphProto { node, ..graph.clone() }))
}

/// What the names and attributes in a body stand for.
#[derive(Clone, Default)]
struct Names<'a> {
    /// Prefix of names and of node names; empty outside of functions.
    prefix: String,
    values: FxHashMap<String, String>,
    attributes: FxHashMap<&'a str, &'a AttributeProto>,
}

impl Names<'_> {
    fn value(&mut self, name: &str) -> String {
        if self.prefix.is_empty() || name.is_empty() {
            return name.to_string();
        }
        let new = || format!("{}{name}", self.prefix);
        self.values.entry(name.to_string()).or_insert_with(new).clone()
    }
}

struct Inliner<'m> {
    functions: Functions<'m>,
    calls: usize,
    nodes: Budget,
    bytes: Budget,
}

/// What functions may become: a small file must not become a large graph.
struct Budget {
    left: usize,
    most: usize,
    what: &'static str,
}

impl Budget {
    fn new(least: usize, written: usize, what: &'static str) -> Budget {
        let most = least.saturating_add(written.saturating_mul(MAX_GROWTH));
        Budget { left: most, most, what }
    }

    fn spend(&mut self, amount: usize) -> Result<()> {
        let left = self.left.checked_sub(amount);
        self.left = left.ok_or_else(|| {
            OnnxError::unsupported(format!("functions that become more than {} {}", self.most, self.what))
        })?;
        Ok(())
    }
}

impl Inliner<'_> {
    fn nodes(&mut self, nodes: &[NodeProto], names: &Names<'_>, depth: usize) -> Result<Vec<NodeProto>> {
        let mut names = names.clone();
        let mut res = Vec::new();
        for node in nodes {
            // Calls count as well: bodies without other nodes must not multiply without end.
            self.nodes.spend(1)?;
            if depth > 0 {
                self.bytes.spend(
                    node.encoded_len() + names.prefix.len() * (1 + node.input.len() + node.output.len()),
                )?;
            }
            let attribute = self.attributes(&node.attribute, &names, depth)?;
            let node = NodeProto {
                input: node.input.iter().map(|it| names.value(it)).collect(),
                output: node.output.iter().map(|it| names.value(it)).collect(),
                name: if node.name.is_empty() {
                    String::new()
                } else {
                    format!("{}{}", names.prefix, node.name)
                },
                attribute,
                op_type: node.op_type.clone(),
                domain: node.domain.clone(),
                overload: node.overload.clone(),
            };
            let key = (&*node.domain, &*node.op_type, &*node.overload);
            match self.functions.get(&key).copied() {
                Some(function) => res.extend(self.body(function, &node, depth)?),
                None => res.push(node),
            }
        }
        Ok(res)
    }

    fn attributes(
        &mut self,
        given: &[AttributeProto],
        names: &Names<'_>,
        depth: usize,
    ) -> Result<Vec<AttributeProto>> {
        let mut res = Vec::new();
        for attribute in given {
            if !attribute.ref_attr_name.is_empty() {
                // An attribute that neither the call nor the function gives is omitted.
                if let Some(value) = names.attributes.get(&*attribute.ref_attr_name) {
                    res.push(AttributeProto { name: attribute.name.clone(), ..(*value).clone() });
                }
                continue;
            }
            let mut attribute = attribute.clone();
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                *graph = tvm_core::support::with_stack(|| self.graph(graph, names, depth))?;
            }
            res.push(attribute);
        }
        Ok(res)
    }

    /// A graph in an attribute: its own names stay, unless it is in a function.
    fn graph(&mut self, graph: &GraphProto, names: &Names<'_>, depth: usize) -> Result<GraphProto> {
        let mut names = names.clone();
        let mut graph = graph.clone();
        graph.initializer.iter_mut().for_each(|it| it.name = names.value(&it.name));
        for info in graph.input.iter_mut().chain(&mut graph.value_info) {
            info.name = names.value(&info.name);
        }
        graph.node = self.nodes(&graph.node, &names, depth)?;
        graph.output.iter_mut().for_each(|it| it.name = names.value(&it.name));
        Ok(graph)
    }

    fn body(&mut self, function: &FunctionProto, call: &NodeProto, depth: usize) -> Result<Vec<NodeProto>> {
        let name = show(&function.name);
        if depth >= MAX_DEPTH {
            let message = format!("function {name} calls itself, or calls are more than {MAX_DEPTH} deep");
            return Err(OnnxError::malformed(message));
        }
        if call.input.len() > function.input.len() || call.output.len() > function.output.len() {
            let message = format!("a call of function {name} has too many inputs or outputs");
            return Err(OnnxError::malformed(message));
        }
        self.calls += 1;
        let mut prefix = format!("{}{}/{}/", call.name, call.op_type, self.calls);
        if prefix.len() > MAX_PREFIX {
            prefix = format!("{}/", self.calls);
        }
        let mut names = Names { prefix, ..Names::default() };
        let given = |list: &[String], i: usize| list.get(i).cloned().unwrap_or_default();
        for (i, name) in function.input.iter().enumerate() {
            names.values.insert(name.clone(), given(&call.input, i));
        }
        for (i, name) in function.output.iter().enumerate() {
            let outside = given(&call.output, i);
            // An output may be an input that is passed through; then the body has no node for it.
            if !outside.is_empty() && !names.values.contains_key(name) {
                names.values.insert(name.clone(), outside);
            }
        }
        for attribute in function.attribute_proto.iter().chain(&call.attribute) {
            names.attributes.insert(&attribute.name, attribute);
        }
        let mut nodes = tvm_core::support::with_stack(|| self.nodes(&function.node, &names, depth + 1))?;
        for (i, name) in function.output.iter().enumerate().filter(|(_, name)| function.input.contains(name))
        {
            nodes.push(NodeProto {
                op_type: "Identity".to_string(),
                input: vec![names.value(name)],
                output: vec![given(&call.output, i)],
                ..NodeProto::default()
            });
        }
        Ok(nodes)
    }
}
