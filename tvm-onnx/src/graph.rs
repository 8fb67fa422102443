//! Order and consistency of the graph: every value is defined once, every used value is defined, and the nodes can be
//! ordered.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::OnnxError;
use crate::names::show;
use crate::proto::{GraphProto, NodeProto};

/// Path of a node: `graph/name (Op)`, with the number of the node if it has no name.
pub(crate) fn node_path(graph: &str, index: usize, node: &NodeProto) -> String {
    let name = if node.name.is_empty() { format!("#{index}") } else { show(&node.name) };
    format!("{graph}/{name} ({})", show(&node.op_type))
}

/// The nodes that the outputs need, ordered so that each node comes after the nodes it uses. If the order of the model
/// is already such an order, it is kept. `outer` says which values the graphs around this one define.
pub(crate) fn order(
    graph: &GraphProto,
    graph_name: &str,
    outer: &dyn Fn(&str) -> bool,
) -> Result<Vec<usize>, OnnxError> {
    let makers = makers(graph, graph_name)?;
    let given = given(graph);
    let uses = uses(graph, graph_name, &makers, &|name| given.contains(name) || outer(name))?;
    let mut live = vec![false; graph.node.len()];
    let mut pending: Vec<usize> =
        (graph.output.iter()).filter_map(|it| makers.get(&*it.name).copied()).collect();
    while let Some(node) = pending.pop() {
        if !std::mem::replace(&mut live[node], true) {
            pending.extend(&uses[node]);
        }
    }
    topological(graph, graph_name, &uses).map(|order| order.into_iter().filter(|&node| live[node]).collect())
}

fn given(graph: &GraphProto) -> FxHashSet<&str> {
    let inputs = graph.input.iter().map(|it| &*it.name);
    inputs.chain(graph.initializer.iter().map(|it| &*it.name)).collect()
}

/// The graphs in the attributes of a node.
pub(crate) fn graphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|it| it.g.iter().chain(&it.graphs))
}

/// Adds the values that the graphs in the attributes of `node` take from outside to `names`.
fn captured<'g>(node: &'g NodeProto, names: &mut Vec<&'g str>) {
    for graph in graphs(node) {
        let mut used: Vec<&str> = Vec::new();
        let mut defined = given(graph);
        for node in &graph.node {
            used.extend(node.input.iter().map(|it| &**it).filter(|it| !it.is_empty()));
            tvm_core::support::with_stack(|| captured(node, &mut used));
            defined.extend(node.output.iter().map(|it| &**it));
        }
        used.extend(graph.output.iter().map(|it| &*it.name));
        names.extend(used.into_iter().filter(|name| !defined.contains(name)));
    }
}

fn makers<'g>(graph: &'g GraphProto, graph_name: &str) -> Result<FxHashMap<&'g str, usize>, OnnxError> {
    let mut makers = FxHashMap::default();
    let mut given: FxHashSet<&str> = FxHashSet::default();
    for input in &graph.input {
        if !given.insert(&input.name) {
            return Err(OnnxError::malformed(format!("two inputs are named `{}`", show(&input.name))));
        }
    }
    let mut constants: FxHashSet<&str> = FxHashSet::default();
    for tensor in &graph.initializer {
        if !constants.insert(&tensor.name) {
            return Err(OnnxError::malformed(format!("two initializers are named `{}`", show(&tensor.name))));
        }
    }
    for (index, node) in graph.node.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            let taken = given.contains(&**name) || constants.contains(&**name);
            if taken || makers.insert(&**name, index).is_some() {
                let message = format!("value `{}` is made twice", show(name));
                return Err(OnnxError::malformed(message).at(&node_path(graph_name, index, node)));
            }
        }
    }
    Ok(makers)
}

/// For each node, the nodes whose results it uses.
fn uses(
    graph: &GraphProto,
    graph_name: &str,
    makers: &FxHashMap<&str, usize>,
    given: &dyn Fn(&str) -> bool,
) -> Result<Vec<Vec<usize>>, OnnxError> {
    let mut all = Vec::with_capacity(graph.node.len());
    for (index, node) in graph.node.iter().enumerate() {
        let mut used = Vec::new();
        let mut names: Vec<&str> = node.input.iter().map(|it| &**it).filter(|it| !it.is_empty()).collect();
        captured(node, &mut names);
        for name in names {
            match makers.get(name) {
                Some(&maker) => used.push(maker),
                None if given(name) => {}
                None => {
                    let message = format!("nothing makes the value `{}`", show(name));
                    return Err(OnnxError::malformed(message).at(&node_path(graph_name, index, node)));
                }
            }
        }
        used.sort_unstable();
        used.dedup();
        all.push(used);
    }
    Ok(all)
}

fn topological(graph: &GraphProto, graph_name: &str, uses: &[Vec<usize>]) -> Result<Vec<usize>, OnnxError> {
    let n = uses.len();
    if uses.iter().enumerate().all(|(node, used)| used.iter().all(|&it| it < node)) {
        return Ok((0..n).collect());
    }
    let mut users = vec![Vec::new(); n];
    for (node, used) in uses.iter().enumerate() {
        used.iter().for_each(|&it| users[it].push(node));
    }
    let mut waits: Vec<usize> = uses.iter().map(Vec::len).collect();
    let mut ready: std::collections::BTreeSet<usize> = (0..n).filter(|&node| waits[node] == 0).collect();
    let mut order = Vec::with_capacity(n);
    while let Some(node) = ready.pop_first() {
        order.push(node);
        for &user in &users[node] {
            waits[user] -= 1;
            if waits[user] == 0 {
                ready.insert(user);
            }
        }
    }
    match (0..n).find(|&node| waits[node] > 0) {
        None => Ok(order),
        Some(node) => {
            let path = node_path(graph_name, node, &graph.node[node]);
            Err(OnnxError::malformed("the graph has a cycle").at(&path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ValueInfoProto;

    fn graph(nodes: &[(&str, &str)]) -> GraphProto {
        let split = |it: &str| it.split_whitespace().map(String::from).collect::<Vec<_>>();
        let info = |name: &str| ValueInfoProto { name: name.into(), ty: None };
        GraphProto {
            node: (nodes.iter())
                .map(|(input, output)| NodeProto {
                    input: split(input),
                    output: split(output),
                    op_type: "Op".into(),
                    ..NodeProto::default()
                })
                .collect(),
            input: vec![info("x")],
            output: vec![info("y")],
            ..GraphProto::default()
        }
    }

    #[test]
    fn orders_and_refusals() {
        type Nodes = [(&'static str, &'static str)];
        let cases: &[(&Nodes, Result<&[usize], &str>)] = &[
            (&[("x", "a"), ("a", "y")], Ok(&[0, 1])),
            (&[("a", "y"), ("x", "a")], Ok(&[1, 0])),
            (&[("x", "dead"), ("x", "y")], Ok(&[1])),
            (&[("y", "y")], Err("cycle")),
            (&[("b", "a"), ("a", "b"), ("x", "y")], Err("cycle")),
            (&[("nope", "y")], Err("nothing makes the value `nope`")),
            (&[("x", "y"), ("x", "y")], Err("`y` is made twice")),
            (&[("x", "x")], Err("`x` is made twice")),
        ];
        for (nodes, want) in cases {
            match (order(&graph(nodes), "g", &|_| false), want) {
                (Ok(got), Ok(want)) => assert_eq!(&got, want),
                (Err(err), Err(want)) => assert!(err.to_string().contains(want), "{err}"),
                (got, _) => panic!("{nodes:?}: {got:?}, expected {want:?}"),
            }
        }
    }

    #[test]
    fn long_chains_need_no_stack() {
        let names: Vec<(String, String)> =
            (0..200_000).rev().map(|i| (format!("v{i}"), format!("v{}", i + 1))).collect();
        let nodes: Vec<(&str, &str)> = (names.iter())
            .map(|(a, b)| (if a == "v0" { "x" } else { a.as_str() }, if b == "v200000" { "y" } else { b }))
            .collect();
        assert_eq!(order(&graph(&nodes), "g", &|_| false).unwrap().len(), 200_000);
    }
}
