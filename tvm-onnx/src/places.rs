//! Places of nodes: which device a node computes on, by its name or its operator.

use std::collections::BTreeSet;

use tvm_runtime::Device;

use crate::error::OnnxError;
use crate::graph::graphs;
use crate::names::show;
use crate::options::ImportOptions;
use crate::proto::{GraphProto, NodeProto};

/// Number of nodes that an error lists.
const SHOWN: usize = 20;

impl ImportOptions {
    /// The place of `node`, if it has one of its own.
    pub(crate) fn place_of(&self, node: &NodeProto) -> Option<Device> {
        self.places.get(&node.name).or_else(|| self.places.get(&node.op_type)).copied()
    }
}

/// Rejects places of nodes and operators that the model does not have.
pub(crate) fn check_places(graph: &GraphProto, options: &ImportOptions) -> Result<(), OnnxError> {
    if options.places.is_empty() {
        return Ok(());
    }
    let (mut operators, mut nodes) = (BTreeSet::new(), Vec::new());
    names(graph, &mut operators, &mut nodes);
    let unknown = |name: &&String| {
        name.is_empty() || !operators.contains(name.as_str()) && !nodes.contains(&name.as_str())
    };
    let Some(name) = options.places.keys().find(unknown) else { return Ok(()) };
    let operators: Vec<String> = operators.into_iter().map(show).collect();
    let mut shown: Vec<String> = nodes.iter().take(SHOWN).map(|it| show(it)).collect();
    if nodes.len() > SHOWN {
        shown.push(format!("and {} more", nodes.len() - SHOWN));
    }
    let message = format!(
        "there is no node and no operator `{}` to place; there are the operators [{}] and the nodes [{}]",
        show(name),
        operators.join(", "),
        shown.join(", ")
    );
    Err(OnnxError::malformed(message))
}

/// The operators and the names of the nodes of `graph` and the graphs in it.
fn names<'g>(graph: &'g GraphProto, operators: &mut BTreeSet<&'g str>, nodes: &mut Vec<&'g str>) {
    for node in &graph.node {
        operators.insert(&node.op_type);
        if !node.name.is_empty() {
            nodes.push(&node.name);
        }
        for graph in graphs(node) {
            tvm_core::support::with_stack(|| names(graph, operators, nodes));
        }
    }
}
