//! The graph of an imported model: a node for each node of the model that a run computes, with its operators, its shape and
//! what it costs.
//!
//! Requires a module as the importer makes it: `main`, whose calls carry the paths of their nodes.
//!
//! TVM counterpart: `relay.analysis.get_total_mac_number`, for graphs of all operators.

use std::collections::HashMap;

use indexmap::IndexMap;
use tvm_core::ir::{AttrValue, BaseFunc, IRModule, Type, VarId};
use tvm_core::pass::{PassContext, PassError};
use tvm_core::relax::analysis::{show_type, type_of_arg};
use tvm_core::relax::transform::legalize_ops;
use tvm_core::relax::visitor::walk_arg;
use tvm_core::relax::{Arg, Body, Call, Callee, Expr, ExprVisitor, Function};
use tvm_core::support::with_stack;

use super::poly::Extents;
use super::program::{self, Cost};

/// An input or output.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    /// Name in the model.
    pub(crate) name: String,
    /// Type, as text.
    pub(crate) ty: String,
    /// Where an output comes from.
    pub(crate) sources: Vec<Source>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Source {
    /// An input, by number.
    Input(usize),
    /// A node, by number.
    Node(usize),
}

/// A node of the model.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its name, or its number.
    pub(crate) name: String,
    /// Its operator.
    pub(crate) op: String,
    /// The graph operators that compute it, in order.
    pub(crate) operators: Vec<String>,
    /// Type of its result.
    pub(crate) ty: String,
    /// What it reads.
    pub(crate) inputs: Vec<Source>,
    /// What it costs.
    pub(crate) cost: Cost,
}

/// A graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Inputs.
    pub(crate) inputs: Vec<Port>,
    /// Outputs.
    pub(crate) outputs: Vec<Port>,
    /// Nodes, each after the nodes that it reads.
    pub(crate) nodes: Vec<Node>,
}

impl Graph {
    /// The graph of the function `main`. `extents` say which of two symbolic sizes is the smaller one.
    pub(crate) fn of(module: &IRModule, extents: &Extents) -> Result<Graph, PassError> {
        let Some(main) = main_of(module) else { return Ok(Graph::default()) };
        let names = |attr: &str| match main.attrs.get(attr) {
            Some(AttrValue::List(items)) => {
                let text =
                    |it: &AttrValue| if let AttrValue::Str(it) = it { it.to_string() } else { String::new() };
                items.iter().map(text).collect()
            }
            _ => Vec::new(),
        };
        let mut build = Build { prefix: format!("{}/", main.span.text()), ..Build::default() };
        let input_names: Vec<String> = names("input_names");
        for (i, param) in main.params.iter().enumerate() {
            build.sources.insert(param.id(), vec![Source::Input(i)]);
            let name = input_names.get(i).cloned().unwrap_or_else(|| param.name().to_string());
            build.graph.inputs.push(Port { name, ty: show_type(param.ty()), sources: Vec::new() });
        }
        build.body(&main.body);
        let rets: Vec<Arg> = match &main.body.ret {
            Arg::Tuple(items) => items.to_vec(),
            Arg::Var(var) => {
                build.tuples.get(&var.id()).cloned().unwrap_or_else(|| vec![main.body.ret.clone()])
            }
            other => vec![other.clone()],
        };
        let output_names: Vec<String> = names("output_names");
        for (i, ret) in rets.iter().enumerate() {
            let name = output_names.get(i).cloned().unwrap_or_else(|| format!("output_{i}"));
            let sources = build.of_arg(ret);
            build.graph.outputs.push(Port { name, ty: show_type(&type_of_arg(ret, module)), sources });
        }
        let legal = legalize_ops().apply_in(module.clone(), &PassContext::current())?;
        if let Some(main) = main_of(&legal) {
            let mut counter = Counter { module: &legal, extents, running: Vec::new(), found: Vec::new() };
            counter.body(&main.body, "");
            for (path, cost) in counter.found {
                if let Some(&node) = build.by_path.get(&path) {
                    build.graph.nodes[node].cost.add(&cost);
                }
            }
        }
        Ok(build.graph)
    }

    /// What all nodes cost.
    pub(crate) fn total(&self) -> Cost {
        let mut total = Cost::default();
        self.nodes.iter().for_each(|node| total.add(&node.cost));
        total
    }
}

fn main_of(module: &IRModule) -> Option<&Function> {
    match module.lookup("main") {
        Some(BaseFunc::Relax(func)) => Some(func),
        Some(BaseFunc::Prim(_) | BaseFunc::Extern(_)) | None => None,
    }
}

/// Finds the nodes and what they read.
#[derive(Default)]
struct Build {
    graph: Graph,
    /// What the paths of all nodes begin with.
    prefix: String,
    by_path: IndexMap<String, usize>,
    sources: HashMap<VarId, Vec<Source>>,
    tuples: HashMap<VarId, Vec<Arg>>,
}

impl Build {
    fn body(&mut self, body: &Body) {
        for binding in body.blocks.iter().flat_map(|block| block.bindings.iter()) {
            let mut used = Used { build: self, found: Vec::new() };
            used.visit_expr(&binding.value);
            let mut inputs = used.found;
            inputs.sort_unstable();
            inputs.dedup();
            let (operator, span) = match &binding.value {
                Expr::Call(call) => (operator(call), call.span.text()),
                Expr::If(it) => ("if".to_string(), it.span.text()),
                Expr::Match(it) => ("match".to_string(), it.span.text()),
                Expr::Arg(arg) => {
                    if let Arg::Tuple(items) = arg {
                        self.tuples.insert(binding.var.id(), items.to_vec());
                    }
                    self.sources.insert(binding.var.id(), inputs);
                    continue;
                }
                Expr::TupleGetItem(arg, index) => {
                    let field = match arg {
                        Arg::Tuple(items) => items.get(*index).cloned(),
                        Arg::Var(var) => self.tuples.get(&var.id()).and_then(|it| it.get(*index).cloned()),
                        _ => None,
                    };
                    let inputs = field.map_or(inputs, |field| self.of_arg(&field));
                    self.sources.insert(binding.var.id(), inputs);
                    continue;
                }
                Expr::Function(_) | Expr::RefCreate(_) | Expr::RefRead(_) | Expr::RefWrite(..) => {
                    self.sources.insert(binding.var.id(), inputs);
                    continue;
                }
            };
            let node = self.node(&span, &operator);
            let ty = show_type(binding.var.ty());
            let this = &mut self.graph.nodes[node];
            this.operators.push(operator);
            this.ty = ty;
            for input in inputs {
                if input != Source::Node(node) && !this.inputs.contains(&input) {
                    this.inputs.push(input);
                }
            }
            self.sources.insert(binding.var.id(), vec![Source::Node(node)]);
        }
    }

    fn of_arg(&self, arg: &Arg) -> Vec<Source> {
        let mut used = Used { build: self, found: Vec::new() };
        used.visit_arg(arg);
        used.found
    }

    /// The node of a path, which is added if it is new.
    fn node(&mut self, path: &str, operator: &str) -> usize {
        let next = self.graph.nodes.len();
        let key = if path.is_empty() { format!("#{next} ({operator})") } else { path.to_string() };
        let node = *self.by_path.entry(key.clone()).or_insert(next);
        if node == next {
            let own = key.strip_prefix(&self.prefix).unwrap_or(&key);
            let split = own.strip_suffix(')').and_then(|it| it.rsplit_once(" ("));
            let (name, op) = split.unwrap_or((own, operator));
            self.graph.nodes.push(Node {
                name: name.to_string(),
                op: op.to_string(),
                operators: Vec::new(),
                ty: String::new(),
                inputs: Vec::new(),
                cost: Cost::default(),
            });
        }
        node
    }
}

/// Collects where the variables of an expression come from.
struct Used<'a> {
    build: &'a Build,
    found: Vec<Source>,
}

impl ExprVisitor for Used<'_> {
    fn visit_arg(&mut self, arg: &Arg) {
        if let Arg::Var(var) = arg {
            self.found.extend(self.build.sources.get(&var.id()).into_iter().flatten());
        }
        walk_arg(self, arg);
    }
}

/// What a call calls.
fn operator(call: &Call) -> String {
    match &call.callee {
        Callee::Op(op) => op.name.to_string(),
        Callee::Global(gv) | Callee::Tir(gv) | Callee::TirInplace(gv) => gv.name().to_string(),
        Callee::Var(var) => var.name().to_string(),
        Callee::DpsPacked(name) | Callee::Packed(name) => name.to_string(),
        Callee::Constructor(it) => it.name.to_string(),
    }
}

/// Counts what the calls of tensor programs cost, by the paths of their nodes.
struct Counter<'a> {
    module: &'a IRModule,
    extents: &'a Extents,
    /// Functions around the current one.
    running: Vec<String>,
    found: Vec<(String, Cost)>,
}

impl Counter<'_> {
    fn body(&mut self, body: &Body, outer: &str) {
        for binding in body.blocks.iter().flat_map(|block| block.bindings.iter()) {
            match &binding.value {
                Expr::Call(call) => self.call(call, outer),
                Expr::If(it) => {
                    let path = named(&it.span.text(), outer);
                    let arms = [&it.then_branch, &it.else_branch].map(|arm| self.apart(arm, &path));
                    let [then, other] = arms;
                    self.found.push((path, then.or(other)));
                }
                Expr::Match(it) => {
                    let path = named(&it.span.text(), outer);
                    let arms: Vec<Cost> = it.clauses.iter().map(|arm| self.apart(&arm.body, &path)).collect();
                    let cost = arms.into_iter().fold(Cost::default(), Cost::or);
                    self.found.push((path, Cost { at_least: true, ..cost }));
                }
                Expr::Function(func) => {
                    let path = named(&func.span.text(), outer);
                    let cost = self.apart(&func.body, &path);
                    self.found.push((path, Cost { at_least: true, ..cost }));
                }
                Expr::Arg(_)
                | Expr::TupleGetItem(..)
                | Expr::RefCreate(_)
                | Expr::RefRead(_)
                | Expr::RefWrite(..) => {}
            }
        }
    }

    /// What a body costs that is counted for one node.
    fn apart(&mut self, body: &Body, path: &str) -> Cost {
        let outer = std::mem::take(&mut self.found);
        with_stack(|| self.body(body, path));
        let mut cost = Cost::default();
        std::mem::replace(&mut self.found, outer).iter().for_each(|(_, it)| cost.add(it));
        cost
    }

    fn call(&mut self, call: &Call, outer: &str) {
        let path = named(&call.span.text(), outer);
        let cost = match &call.callee {
            Callee::Tir(gv) | Callee::TirInplace(gv) => match self.module.prim_func(gv) {
                Some(func) => {
                    let outputs = match &call.ret {
                        Some(Type::Tuple(fields)) => fields.to_vec(),
                        ret => ret.iter().cloned().collect(),
                    };
                    program::cost(func, &call.args, &outputs, self.module, self.extents)
                }
                None => return,
            },
            Callee::Global(gv) => {
                let name = gv.name().to_string();
                let func = self.module.relax_func(gv).filter(|_| !self.running.contains(&name)).cloned();
                self.running.push(name);
                let cost = func.map(|func| self.apart(&func.body, &path));
                self.running.pop();
                // A function that calls itself is a loop.
                cost.unwrap_or(Cost { at_least: true, ..Cost::default() })
            }
            Callee::Var(_) | Callee::DpsPacked(_) | Callee::Packed(_) => {
                Cost { at_least: true, ..Cost::default() }
            }
            Callee::Op(_) | Callee::Constructor(_) => return,
        };
        self.found.push((path, cost));
    }
}

/// The path of a node, or of what is around it.
fn named(path: &str, outer: &str) -> String {
    if path.is_empty() || !outer.is_empty() { outer.to_string() } else { path.to_string() }
}
