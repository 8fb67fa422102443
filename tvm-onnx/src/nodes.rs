//! Conversion of the nodes of a graph: those of the model itself, and those of graphs that are attributes of nodes.
//!
//! A nested graph sees the values of the graphs around it; the values that it defines end with it. Where a condition
//! decides the rank of a value (arms of an `If`, `Squeeze` of every axis of extent 1), no value can stand for both, so
//! the rest of the graph is converted for each value of the condition. If the rest contradicts one of them, no valid run has
//! it: the condition becomes a check. If outputs of an arm of an `If` still differ in rank at its end, so does the rest of the
//! graph around it.

use tvm_core::ir::Span;

use crate::error::OnnxError;
use crate::graph::{node_path, order};
use crate::importer::Importer;
use crate::narrow::Narrow;
use crate::node::Node;
use crate::ops;
use crate::proto::{GraphProto, NodeProto};
use crate::split::Split;
use crate::value::Value;

/// Number of node conversions that a model may take beyond those of its own nodes: nested graphs may be converted more
/// than once.
const MAX_CONVERSIONS: usize = 20_000;

pub(crate) type Values = Result<Vec<Value>, OnnxError>;

/// What is known of a name before a nested graph defines it anew.
struct Shadowed<'m>(&'m str, Option<Value>, Option<Narrow>);

/// A scope of names, and of what is known while it is open.
pub(crate) struct Scope<'m> {
    shadowed: Vec<Shadowed<'m>>,
    /// Number of facts, and of values read, before it was opened.
    facts: usize,
    read: usize,
}

/// A graph whose nodes are being converted.
pub(crate) struct Sequence<'m, 'p> {
    pub(crate) graph: &'m GraphProto,
    pub(crate) order: Vec<usize>,
    path: &'p str,
    /// Of an arm of an `If`, if its nodes are converted as if they were nodes of the graph around it.
    pub(crate) outer: Option<Outer<'m, 'p>>,
}

/// The graph around an arm, and the position of the `If` in it.
pub(crate) struct Outer<'m, 'p> {
    sequence: &'p Sequence<'m, 'p>,
    at: usize,
    /// Number of scopes outside of the arm.
    depth: usize,
}

/// Results of the nodes of a graph.
pub(crate) enum Outputs {
    /// The outputs of the graph.
    Own(Vec<Value>),
    /// The outputs of the innermost graph around it that is no arm; its nodes are converted, too.
    Outermost(Vec<Value>),
}

impl<'m> Importer<'m> {
    /// Converts all nodes of `graph`, whose inputs and initializers are defined; returns its outputs.
    pub(crate) fn graph(&mut self, graph: &'m GraphProto, path: &str) -> Values {
        let outer = |name: &str| self.values.contains_key(name);
        let order = order(graph, path, &outer)?;
        match self.sequence(&Sequence { graph, order, path, outer: None }, 0)? {
            Outputs::Own(values) | Outputs::Outermost(values) => Ok(values),
        }
    }

    /// Converts the arm `graph` of the `If` at position `at` as a part of the graph around it. Returns the outputs of the
    /// outermost graph, or the position to continue at.
    pub(crate) fn inlined(
        &mut self,
        it: &Sequence<'m, '_>,
        at: usize,
        path: &str,
        graph: &'m GraphProto,
    ) -> Result<Result<Outputs, usize>, OnnxError> {
        let depth = self.scopes.len();
        self.enter();
        let res = self.define_inputs(graph, path, Vec::new()).and_then(|()| {
            let order = order(graph, path, &|name| self.values.contains_key(name))?;
            let outer = Some(Outer { sequence: it, at, depth });
            tvm_core::support::with_stack(|| self.sequence(&Sequence { graph, order, path, outer }, 0))
        });
        self.leave();
        match res? {
            Outputs::Own(values) => {
                self.bind(&it.graph.node[it.order[at]], values, None).map(|()| Err(at + 1))
            }
            outermost @ Outputs::Outermost(_) => Ok(Ok(outermost)),
        }
    }

    /// Converts the nodes from position `from` on, and then those of the graphs around this one.
    pub(crate) fn through(&mut self, it: &Sequence<'m, '_>, from: usize) -> Values {
        let (values, outer) = match (self.sequence(it, from)?, &it.outer) {
            (Outputs::Own(values), Some(outer)) => (values, outer),
            (Outputs::Own(values) | Outputs::Outermost(values), _) => return Ok(values),
        };
        self.hide(outer.depth);
        let around = outer.sequence;
        self.bind(&around.graph.node[around.order[outer.at]], values, None)?;
        tvm_core::support::with_stack(|| self.through(around, outer.at + 1))
    }

    /// Converts a graph that is an attribute of a node, with the given inputs.
    pub(crate) fn nested(&mut self, graph: &'m GraphProto, path: &str, inputs: Vec<Value>) -> Values {
        self.enter();
        let res = self.define_inputs(graph, path, inputs).and_then(|()| self.graph(graph, path));
        self.leave();
        res
    }

    fn define_inputs(
        &mut self,
        graph: &'m GraphProto,
        path: &str,
        inputs: Vec<Value>,
    ) -> Result<(), OnnxError> {
        if graph.input.len() != inputs.len() {
            let (expected, got) = (inputs.len(), graph.input.len());
            let message = format!("the graph has {got} inputs, the node gives it {expected}");
            return Err(OnnxError::malformed(message).at(path));
        }
        self.initializers(graph)?;
        for (info, value) in graph.input.iter().zip(inputs) {
            self.define(&info.name, value, None);
        }
        Ok(())
    }

    /// Opens a scope of names and of what is known of conditions.
    pub(crate) fn enter(&mut self) {
        self.scopes.push(Scope { shadowed: Vec::new(), facts: self.facts.len(), read: self.read.len() });
    }

    /// Closes the innermost scope: names mean again what they meant before it.
    pub(crate) fn leave(&mut self) {
        let Some(Scope { shadowed, facts, read }) = self.scopes.pop() else { return };
        self.facts.truncate(facts);
        self.read.truncate(read);
        for Shadowed(name, value, narrow) in shadowed.into_iter().rev() {
            match value {
                Some(value) => self.values.insert(name, value),
                None => self.values.remove(name),
            };
            match narrow {
                Some(narrow) => self.narrow.insert(name, narrow),
                None => self.narrow.remove(name),
            };
        }
    }

    /// Makes all names mean what they meant when there were only `depth` scopes, until the innermost scope is closed.
    fn hide(&mut self, depth: usize) {
        let mut before = Vec::new();
        for scope in self.scopes[depth..].iter().rev() {
            for Shadowed(name, value, narrow) in scope.shadowed.iter().rev() {
                before.push((*name, value.clone(), *narrow));
            }
        }
        before.into_iter().for_each(|(name, value, narrow)| self.set(name, value, narrow));
    }

    /// Defines `name` in the innermost scope.
    pub(crate) fn define(&mut self, name: &'m str, value: Value, narrow: Option<Narrow>) {
        self.set(name, Some(value), narrow);
    }

    fn set(&mut self, name: &'m str, value: Option<Value>, narrow: Option<Narrow>) {
        let value = match value {
            Some(value) => self.values.insert(name, value),
            None => self.values.remove(name),
        };
        // What was read of another value of this name is not of this one.
        if self.read.iter().any(|(read, _)| *read == name) {
            self.read.push((name, None));
        }
        let narrow = match narrow {
            Some(narrow) => self.narrow.insert(name, narrow),
            None => self.narrow.remove(name),
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.shadowed.push(Shadowed(name, value, narrow));
        }
    }

    /// Converts the nodes from position `from` on.
    pub(crate) fn sequence(&mut self, it: &Sequence<'m, '_>, from: usize) -> Result<Outputs, OnnxError> {
        let mut at = from;
        while let Some(&index) = it.order.get(at) {
            let proto = &it.graph.node[index];
            let path = node_path(it.path, index, proto);
            match self.node(proto, &path)? {
                None => at += 1,
                Some(split) => match self.split(it, at, &path, &split)? {
                    Ok(outputs) => return Ok(outputs),
                    Err(next) => at = next,
                },
            }
        }
        let outputs = it.graph.output.iter().map(|output| self.output(&output.name));
        outputs.collect::<Values>().map(Outputs::Own)
    }

    fn output(&self, name: &str) -> Result<Value, OnnxError> {
        let undefined =
            || OnnxError::malformed(format!("nothing makes the output `{}`", crate::names::show(name)));
        self.values.get(name).cloned().ok_or_else(undefined)
    }

    /// Converts a node and defines its outputs. A node that cannot be converted is noted, and its outputs and what
    /// depends on them are unknown.
    fn node(&mut self, proto: &'m NodeProto, path: &str) -> Result<Option<Split<'m>>, OnnxError> {
        self.conversions += 1;
        if self.conversions > self.max_conversions {
            let what =
                "loops and branches that are nested so deeply that their nodes are converted too often";
            return Err(OnnxError::unsupported(what).at(path));
        }
        let unknown = |name: &String| matches!(self.values.get(&**name), Some(Value::Unknown));
        if proto.input.iter().any(unknown) {
            self.bind(proto, vec![Value::Unknown; proto.output.len()], None)?;
            return Ok(None);
        }
        let outer = self.place;
        self.place = self.options.place_of(proto).or(outer);
        let mut node = Node::new(self, proto, Span::model(path));
        let results = tvm_core::support::with_stack(|| ops::convert(&mut node));
        let (narrow, split) = (node.gives, node.split.take());
        self.place = outer;
        match results {
            // A converter that cannot go on without the condition gives up with an error.
            _ if split.is_some() => return Ok(split),
            Ok(results) => self.bind(proto, results, narrow).map_err(|err| err.at(path))?,
            Err(OnnxError::Unsupported(mut report)) => {
                for item in report.items.iter_mut().filter(|item| item.nodes.is_empty()) {
                    item.nodes.push(path.to_string());
                }
                self.unsupported.extend(report);
                self.bind(proto, vec![Value::Unknown; proto.output.len()], None)?;
            }
            Err(err) => return Err(err.at(path)),
        }
        Ok(None)
    }

    fn bind(
        &mut self,
        proto: &'m NodeProto,
        results: Vec<Value>,
        narrow: Option<Narrow>,
    ) -> Result<(), OnnxError> {
        for (i, name) in proto.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let value = results.get(i).cloned().ok_or_else(|| {
                let op = crate::names::show(&proto.op_type);
                OnnxError::unsupported(format!("output {i} of operator {op}"))
            })?;
            self.define(name, value, narrow);
        }
        Ok(())
    }
}

/// Limit of conversions for a model.
pub(crate) fn max_conversions(graph: &GraphProto) -> usize {
    MAX_CONVERSIONS + 2 * graph.node.len()
}
