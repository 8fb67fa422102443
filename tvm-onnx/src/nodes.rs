//! Conversion of the nodes of a graph: those of the model itself, and those of graphs that are attributes of nodes.
//!
//! A nested graph sees the values of the graphs around it; the values that it defines end with it. Where a condition
//! decides the rank of a value (arms of an `If`, `Squeeze` of every axis of extent 1), no value can stand for both, so
//! the rest of the graph is converted for each value of the condition. If the rest contradicts one of them, no valid run has
//! it: the condition becomes a check.

use tvm_core::ir::{Attrs, ShapeType, Span, Type};
use tvm_core::relax::{Arg, Body, Expr, If};
use tvm_core::tir::PrimExpr;

use crate::error::OnnxError;
use crate::graph::{node_path, order};
use crate::importer::Importer;
use crate::narrow::Narrow;
use crate::node::Node;
use crate::ops;
use crate::proto::{GraphProto, NodeProto};
use crate::value::{Form, Value};

/// Number of node conversions that a model may take beyond those of its own nodes: nested graphs may be converted more
/// than once.
const MAX_CONVERSIONS: usize = 20_000;

/// Number of scopes that may be open at once: graphs in graphs, and choices that only a run makes, within each of which the
/// rest of the graph is converted.
const MAX_SCOPES: usize = 256;

type Values = Result<Vec<Value>, OnnxError>;

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
struct Sequence<'m, 'p> {
    graph: &'m GraphProto,
    order: Vec<usize>,
    path: &'p str,
}

/// A node whose results have another rank where a condition holds than where it does not.
pub(crate) struct Split<'m> {
    /// The condition: a scalar or a tensor of rank 0.
    pub(crate) cond: Arg,
    /// The graphs of the arms of an `If`, the one for true first. Other nodes are converted again, with the condition known.
    pub(crate) arms: Option<[&'m GraphProto; 2]>,
}

impl<'m> Importer<'m> {
    /// Converts all nodes of `graph`, whose inputs and initializers are defined; returns its outputs.
    pub(crate) fn graph(&mut self, graph: &'m GraphProto, path: &str) -> Values {
        let outer = |name: &str| self.values.contains_key(name);
        let order = order(graph, path, &outer)?;
        self.sequence(&Sequence { graph, order, path }, 0)
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

    /// Defines `name` in the innermost scope.
    pub(crate) fn define(&mut self, name: &'m str, value: Value, narrow: Option<Narrow>) {
        let value = self.values.insert(name, value);
        let narrow = match narrow {
            Some(narrow) => self.narrow.insert(name, narrow),
            None => self.narrow.remove(name),
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.shadowed.push(Shadowed(name, value, narrow));
        }
    }

    /// Converts the nodes from position `from` on; returns the outputs of the graph.
    fn sequence(&mut self, it: &Sequence<'m, '_>, from: usize) -> Values {
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
        it.graph.output.iter().map(|output| self.output(&output.name)).collect()
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
        let mut node = Node::new(self, proto, Span::model(path));
        let results = tvm_core::support::with_stack(|| ops::convert(&mut node));
        let (narrow, split) = (node.gives, node.split.take());
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

    /// Continues at the node at position `at`, a split. Returns the outputs of the graph; or, if the condition can have one
    /// value only, the position to continue at as usual.
    fn split(
        &mut self,
        it: &Sequence<'m, '_>,
        at: usize,
        path: &str,
        split: &Split<'m>,
    ) -> Result<Result<Vec<Value>, usize>, OnnxError> {
        let proto = &it.graph.node[it.order[at]];
        let arm = |this: &mut Self, truth: bool| -> Result<usize, OnnxError> {
            this.assume(&split.cond, truth);
            let Some(arms) = split.arms else { return Ok(at) };
            let name = if truth { "then_branch" } else { "else_branch" };
            let values = this.nested(arms[usize::from(!truth)], &format!("{path}/{name}"), Vec::new())?;
            this.bind(proto, values, None)?;
            Ok(at + 1)
        };
        let span = Span::model(path);
        let mut tried = Vec::new();
        let mut forms = Vec::new();
        for truth in [true, false] {
            tried.push(self.tried(|this| {
                let next = arm(this, truth)?;
                let outputs = this.sequence(it, next)?;
                let (args, form) = this.tensors(outputs, &span)?;
                forms.push(form);
                Ok(args)
            })?);
        }
        match (tried.remove(0), tried.remove(0)) {
            (Ok(_), Ok(_)) if forms[0] != forms[1] => {
                let what =
                    "outputs that are tensors, sequences of a length, or empty, depending on a condition";
                Err(OnnxError::unsupported(what).at(path))
            }
            (Ok(yes), Ok(no)) => self.choose(&split.cond, yes, no, &forms[0], &span).map(Ok),
            (Err(err), Err(_)) => Err(err),
            (yes, _) => {
                let truth = yes.is_ok();
                self.check_condition(&split.cond, truth, &span)?;
                arm(self, truth).map(Err)
            }
        }
    }

    /// Runs `convert` in a scope of its own. The inner result is an error if the model contradicts itself there.
    pub(crate) fn tried(
        &mut self,
        convert: impl FnOnce(&mut Self) -> Result<Vec<Arg>, OnnxError>,
    ) -> Result<Result<Body, OnnxError>, OnnxError> {
        if self.scopes.len() >= MAX_SCOPES {
            let what = format!("more than {MAX_SCOPES} choices that only a run makes, each after the other");
            return Err(OnnxError::unsupported(what));
        }
        self.enter();
        self.builder.begin_scope();
        let res = tvm_core::support::with_stack(|| convert(self));
        let ret = res.as_ref().map_or_else(|_| Vec::new(), Clone::clone);
        let ret = if ret.len() == 1 { ret[0].clone() } else { Arg::Tuple(ret.into()) };
        self.builder.end_block(true);
        let body = self.builder.end_scope(ret);
        self.leave();
        match res {
            Ok(_) => Ok(Ok(body)),
            Err(err @ (OnnxError::Malformed { .. } | OnnxError::Ir(_))) => Ok(Err(err)),
            Err(err) => Err(err),
        }
    }

    /// Binds a choice between two bodies that give values of the same forms; returns the values.
    pub(crate) fn choose(&mut self, cond: &Arg, yes: Body, no: Body, forms: &[Form], span: &Span) -> Values {
        let values = if let Arg::Tuple(fields) = &yes.ret { Some(fields.len()) } else { None };
        self.builder.end_block(true);
        let it = If { cond: cond.clone(), then_branch: yes, else_branch: no, span: span.clone() };
        let var = self.builder.emit("chosen", Expr::If(it.into()), span)?;
        self.builder.end_block(false);
        let mut tensors = self.fields(&Arg::Var(var), values, span)?.into_iter();
        Ok(forms.iter().map(|form| form.value(&mut tensors)).collect())
    }

    /// The fields of a tuple, or the value itself if `count` is `None`; unknown extents become dimensions.
    pub(crate) fn fields(&mut self, arg: &Arg, count: Option<usize>, span: &Span) -> Values {
        let Some(count) = count else { return Ok(vec![self.named(arg.clone(), span).into()]) };
        (0..count).map(|i| self.field(arg, i, span).map(|field| self.named(field, span).into())).collect()
    }

    /// Notes for the rest of the scope that `cond` has the value `truth`.
    pub(crate) fn assume(&mut self, cond: &Arg, truth: bool) {
        if let Arg::Prim(cond) = cond {
            self.facts.push((cond.clone(), truth));
        }
    }

    /// Emits a check that `cond` has the value `truth`.
    pub(crate) fn check_condition(&mut self, cond: &Arg, truth: bool, span: &Span) -> Result<(), OnnxError> {
        let (is, must) = match cond {
            Arg::Prim(PrimExpr::Binary(it)) if truth && it.op == tvm_core::tir::BinaryOp::Eq => {
                (Arg::Shape([it.a.clone()].into()), it.b.clone())
            }
            Arg::Prim(cond) => {
                let value = cond.clone().select(PrimExpr::index(1), PrimExpr::index(0));
                (Arg::Shape([value].into()), PrimExpr::index(truth.into()))
            }
            cond => {
                let attrs = Attrs::new().with("dtype", tvm_runtime::DataType::I64);
                let number = self.emit("astype", std::slice::from_ref(cond), attrs, span)?;
                let one = Arg::Shape([PrimExpr::index(1)].into());
                let number = self.emit("reshape", &[number, one], Attrs::new(), span)?;
                (self.emit("tensor_to_shape", &[number], Attrs::new(), span)?, PrimExpr::index(truth.into()))
            }
        };
        let ty = Type::Shape(ShapeType { values: Some([must].into()), ndim: Some(1) });
        self.builder.emit_match_cast("the_only_valid_choice", is, ty, span);
        Ok(())
    }

    /// `value` as a constant, if it is a condition that is known in this scope.
    pub(crate) fn decided(&self, value: &PrimExpr) -> PrimExpr {
        let PrimExpr::Select(it) = value else { return value.clone() };
        match self.holds(&it.condition) {
            Some(true) => it.true_value.clone(),
            Some(false) => it.false_value.clone(),
            None => value.clone(),
        }
    }

    /// Whether `cond` holds, if that is known in this scope.
    pub(crate) fn holds(&self, cond: &PrimExpr) -> Option<bool> {
        if let Some(known) = cond.as_int() {
            return Some(known != 0);
        }
        let same = |a: &PrimExpr, b: &PrimExpr| tvm_core::arith::same(a, b);
        self.facts.iter().rev().find_map(|(fact, truth)| match (fact, cond) {
            (fact, cond) if same(fact, cond) => Some(*truth),
            (PrimExpr::Not(fact), cond) if same(&fact.value, cond) => Some(!truth),
            (fact, PrimExpr::Not(cond)) if same(fact, &cond.value) => Some(!truth),
            _ => None,
        })
    }
}

/// Limit of conversions for a model.
pub(crate) fn max_conversions(graph: &GraphProto) -> usize {
    MAX_CONVERSIONS + 2 * graph.node.len()
}
