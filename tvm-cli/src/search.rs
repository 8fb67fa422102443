//! Search for the first node of a model whose values differ between two programs.
//!
//! Requires a value that differs. Values are made outputs and compared, some at a time, between nodes that agree and one that
//! differs; then the inputs of the node that was found are compared, and if one of them differs, the search goes on before it.
//! So the node that is reported differs, though all that it reads agrees, as far as it can be compared.
//!
//! TVM counterpart: none.

use std::collections::{HashMap, HashSet};

use tvm_core::support::with_stack;
use tvm_onnx::proto::{GraphProto, NodeProto};

use crate::compare::Difference;
use crate::error::Error;

/// How many values are compared at a time.
const PROBES: usize = 24;

/// Compares values of a model between two programs.
pub(crate) trait Probe {
    /// The differences of these values, in order.
    fn differences(&mut self, names: &[String]) -> Result<Vec<Difference>, Error>;
}

/// What was found.
#[derive(Debug, PartialEq)]
pub(crate) enum Finding {
    /// A node differs although what it reads agrees.
    Node(Found),
    /// A node differs, but agrees where its inputs are outputs of the model as well: how it is computed together with others
    /// makes the difference.
    Together(Found),
}

/// A node that differs.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    /// Its index in the graph.
    pub(crate) node: usize,
    /// The value that differs.
    pub(crate) value: String,
    /// How.
    pub(crate) difference: Difference,
    /// The values that it reads and how they differ; `None` for those that could not be compared.
    pub(crate) reads: Vec<(String, Option<Difference>)>,
    /// How many times the programs ran.
    pub(crate) runs: usize,
}

/// A search in a graph.
pub(crate) struct Search<'a> {
    graph: &'a GraphProto,
    /// Which node makes a value.
    makers: HashMap<&'a str, usize>,
    /// The nodes, each after those that it reads.
    order: Vec<usize>,
    probe: &'a mut dyn Probe,
    /// What is known about values.
    known: HashMap<String, Option<Difference>>,
    runs: usize,
}

impl<'a> Search<'a> {
    /// A search in `graph`.
    pub(crate) fn new(graph: &'a GraphProto, probe: &'a mut dyn Probe) -> Search<'a> {
        let mut makers = HashMap::new();
        for (i, node) in graph.node.iter().enumerate() {
            makers.extend(node.output.iter().filter(|it| !it.is_empty()).map(|it| (&**it, i)));
        }
        let order = order(graph, &makers);
        Search { graph, makers, order, probe, known: HashMap::new(), runs: 0 }
    }

    /// Finds the first node on the way to `value`, whose difference is given.
    pub(crate) fn first(mut self, value: &str, difference: Difference) -> Result<Option<Finding>, Error> {
        let mut value = value.to_string();
        let Some(&maker) = self.makers.get(&*value) else { return Ok(None) };
        let mut bad = maker;
        self.known.insert(value.clone(), Some(difference));
        loop {
            bad = self.earlier(bad)?;
            if let Some(output) = self.differing(bad) {
                value = output;
            }
            let reads = self.reads(bad);
            let made: Vec<String> =
                reads.iter().filter(|it| self.makers.contains_key(&***it)).cloned().collect();
            self.look(&made)?;
            let before = made.iter().find(|it| self.differs(it));
            if let Some(&maker) = before.and_then(|it| self.makers.get(&**it)) {
                bad = maker;
                continue;
            }
            // Once more, with the inputs of the node as outputs.
            let difference = self.known.get(&value).cloned().flatten().unwrap_or_default();
            let together = [std::slice::from_ref(&value), &made[..]].concat();
            self.runs += 1;
            let alone = self.probe.differences(&together).ok().and_then(|it| it.into_iter().next());
            let known = |name: String| {
                let agrees = Some(Difference::default());
                let found = if self.makers.contains_key(&*name) {
                    self.known.get(&name).cloned().flatten()
                } else {
                    agrees
                };
                (name, found)
            };
            let reads = reads.into_iter().map(known).collect();
            let vanishes = alone.as_ref().is_some_and(|it| !it.differs());
            let found = Found { node: bad, value, difference, reads, runs: self.runs };
            return Ok(Some(if vanishes { Finding::Together(found) } else { Finding::Node(found) }));
        }
    }

    /// The first node on the way to `bad`, which differs, that differs as well: values are compared, some at a time.
    fn earlier(&mut self, bad: usize) -> Result<usize, Error> {
        let way = self.way(bad);
        // All nodes before `low` count as equal; the node at `high` differs.
        let (mut low, mut high) = (0, way.len() - 1);
        while low < high {
            let n = (high - low).min(PROBES);
            let places: Vec<usize> =
                (0..n).map(|i| low + (i * (high - low) + (high - low) / 2) / n).collect();
            let names: Vec<String> = places.iter().flat_map(|&it| self.outputs(way[it])).collect();
            self.look(&names)?;
            match places.iter().find(|&&it| self.differing(way[it]).is_some()) {
                Some(&first) => {
                    high = first;
                    low = places.iter().filter(|&&it| it < first).max().map_or(low, |it| it + 1);
                }
                None => low = places.last().map_or(high, |it| it + 1),
            }
        }
        Ok(way[high])
    }

    /// The nodes that `node` needs, and itself, in order.
    fn way(&self, node: usize) -> Vec<usize> {
        let mut needed = HashSet::from([node]);
        let mut pending = vec![node];
        while let Some(node) = pending.pop() {
            for name in self.reads(node) {
                if let Some(&maker) = self.makers.get(&*name)
                    && needed.insert(maker)
                {
                    pending.push(maker);
                }
            }
        }
        self.order.iter().copied().filter(|it| needed.contains(it)).collect()
    }

    fn outputs(&self, node: usize) -> Vec<String> {
        self.graph.node[node].output.iter().filter(|it| !it.is_empty()).cloned().collect()
    }

    fn reads(&self, node: usize) -> Vec<String> {
        let mut names = Vec::new();
        reads(&self.graph.node[node], &mut names);
        let mut seen = HashSet::new();
        names.into_iter().filter(|it| seen.insert(*it)).map(String::from).collect()
    }

    fn differs(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|it| it.as_ref().is_some_and(Difference::differs))
    }

    /// An output of a node that is known to differ.
    fn differing(&self, node: usize) -> Option<String> {
        self.outputs(node).into_iter().find(|it| self.differs(it))
    }

    /// Compares values that are not known yet. What cannot be compared, alone or with others, is skipped.
    fn look(&mut self, names: &[String]) -> Result<(), Error> {
        let names: Vec<String> = names.iter().filter(|it| !self.known.contains_key(*it)).cloned().collect();
        if names.is_empty() {
            return Ok(());
        }
        self.runs += 1;
        match self.probe.differences(&names) {
            Ok(found) => self.known.extend(names.into_iter().zip(found.into_iter().map(Some))),
            Err(_) if names.len() > 1 => {
                let (left, right) = names.split_at(names.len() / 2);
                self.look(left)?;
                self.look(right)?;
            }
            Err(_) => self.known.extend(names.into_iter().map(|it| (it, None))),
        }
        Ok(())
    }
}

/// The values that a node reads, also in the graphs in its attributes.
fn reads<'a>(node: &'a NodeProto, names: &mut Vec<&'a str>) {
    names.extend(node.input.iter().filter(|it| !it.is_empty()).map(|it| &**it));
    for graph in node.attribute.iter().flat_map(|it| it.g.iter().chain(&it.graphs)) {
        let mut inner = Vec::new();
        graph.node.iter().for_each(|node| with_stack(|| reads(node, &mut inner)));
        inner.extend(graph.output.iter().map(|it| &*it.name));
        let mut own: HashSet<&str> = graph.node.iter().flat_map(|it| &it.output).map(|it| &**it).collect();
        own.extend(graph.input.iter().map(|it| &*it.name));
        own.extend(graph.initializer.iter().map(|it| &*it.name));
        names.extend(inner.into_iter().filter(|it| !own.contains(it)));
    }
}

/// The nodes of a graph, each after those that it reads.
fn order(graph: &GraphProto, makers: &HashMap<&str, usize>) -> Vec<usize> {
    let mut order = Vec::with_capacity(graph.node.len());
    let mut seen = vec![false; graph.node.len()];
    // Nodes to visit, and nodes whose inputs were visited.
    let mut pending: Vec<(usize, bool)> = (0..graph.node.len()).rev().map(|it| (it, false)).collect();
    while let Some((node, ready)) = pending.pop() {
        if ready {
            order.push(node);
            continue;
        }
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        pending.push((node, true));
        let mut names = Vec::new();
        reads(&graph.node[node], &mut names);
        pending.extend(names.into_iter().rev().filter_map(|it| makers.get(it)).map(|&it| (it, false)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that the nodes `wrong`, and all that reads them, differ. `vanishes`: only where no input of theirs is an output.
    struct Oracle<'a> {
        graph: &'a GraphProto,
        wrong: Vec<usize>,
        vanishes: bool,
        /// Values that cannot be outputs.
        odd: Vec<String>,
    }

    impl Probe for Oracle<'_> {
        fn differences(&mut self, names: &[String]) -> Result<Vec<Difference>, Error> {
            if names.iter().any(|it| self.odd.contains(it)) {
                return Err(Error::failed("no tensor"));
            }
            let mut bad: HashSet<&str> = HashSet::new();
            for (i, node) in self.graph.node.iter().enumerate() {
                let apart = self.vanishes && node.input.iter().any(|it| names.contains(it));
                if self.wrong.contains(&i) && !apart || node.input.iter().any(|it| bad.contains(&**it)) {
                    bad.extend(node.output.iter().map(|it| &**it));
                }
            }
            let difference =
                |it: &String| Difference { wrong: bad.contains(&**it).into(), ..Difference::default() };
            Ok(names.iter().map(difference).collect())
        }
    }

    /// A graph of `n` nodes: `v0` reads `x`, `v<i>` reads `v<i-1>` and, if `skip(i)`, `v<i-5>`.
    fn graph(n: usize, skip: impl Fn(usize) -> bool) -> GraphProto {
        let node = |i: usize| {
            let mut input = vec![if i == 0 { "x".to_string() } else { format!("v{}", i - 1) }];
            if i >= 5 && skip(i) {
                input.push(format!("v{}", i - 5));
            }
            NodeProto { input, output: vec![format!("v{i}")], ..NodeProto::default() }
        };
        GraphProto { node: (0..n).map(node).collect(), ..GraphProto::default() }
    }

    fn search(oracle: &mut Oracle<'_>, value: usize) -> Finding {
        let graph = oracle.graph;
        let difference = Difference { wrong: 1, ..Difference::default() };
        Search::new(graph, oracle).first(&format!("v{value}"), difference).unwrap().unwrap()
    }

    #[test]
    fn the_first_node_is_found_wherever_it_is() {
        let chain = graph(200, |i| i % 3 == 0);
        for wrong in [0, 1, 57, 150, 198, 199] {
            let mut oracle =
                Oracle { graph: &chain, wrong: vec![wrong, 199], vanishes: false, odd: Vec::new() };
            let Finding::Node(found) = search(&mut oracle, 199) else { panic!("{wrong}") };
            assert_eq!((found.node, found.value), (wrong, format!("v{wrong}")));
            assert!(found.reads.iter().all(|(_, it)| it.as_ref().is_some_and(|it| !it.differs())));
            assert!(found.runs < 10, "{} runs", found.runs);
        }
    }

    #[test]
    fn branches_and_values_that_cannot_be_compared_are_passed() {
        // v9 reads v4, which is on one of two ways to it: v4 differs, the nodes between do not.
        let mut branch = graph(10, |i| i == 9);
        branch.node[5].input = vec!["x".to_string()];
        let mut oracle = Oracle { graph: &branch, wrong: vec![3], vanishes: false, odd: Vec::new() };
        let Finding::Node(found) = search(&mut oracle, 9) else { panic!() };
        assert_eq!(found.node, 3);
        let chain = graph(40, |_| false);
        let odd = ["v7", "v8", "v20"].map(String::from).to_vec();
        let mut oracle = Oracle { graph: &chain, wrong: vec![9], vanishes: false, odd };
        let Finding::Node(found) = search(&mut oracle, 39) else { panic!() };
        assert_eq!((found.node, found.reads), (9, vec![("v8".to_string(), None)]));
    }

    #[test]
    fn a_difference_that_needs_fusion_is_reported_as_such() {
        let chain = graph(30, |_| false);
        let mut oracle = Oracle { graph: &chain, wrong: vec![29], vanishes: true, odd: Vec::new() };
        let Finding::Together(found) = search(&mut oracle, 29) else { panic!() };
        assert_eq!(found.node, 29);
    }

    #[test]
    fn nodes_are_ordered_by_what_they_read() {
        let mut shuffled = graph(20, |i| i % 4 == 0);
        shuffled.node.reverse();
        let oracle = &mut Oracle { graph: &shuffled, wrong: vec![], vanishes: false, odd: Vec::new() };
        let order = Search::new(&shuffled, oracle).order;
        assert_eq!(order, (0..20).rev().collect::<Vec<_>>());
    }
}
