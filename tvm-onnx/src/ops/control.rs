//! Control flow: `If`, `Loop`.
//!
//! A branch whose condition is known at import costs nothing: its arm becomes a part of the graph around it. The same
//! holds for short loops of a known number of iterations. Other branches and loops run when the program runs.

use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::{Row, With, row};
use crate::error::OnnxError;
use crate::iterate::{Loop, Step, iterate};
use crate::node::Node;
use crate::proto::GraphProto;
use crate::split::{Split, alike};
use crate::value::{Form, Ints, Value};

pub(super) static ROWS: &[Row] = &[row("If", 1, With(branch)), row("Loop", 1, With(repeat))];

type Results = Result<Vec<Value>, OnnxError>;

/// Number of nodes up to which a loop of a known number of iterations becomes a part of the graph.
const MAX_UNROLLED: i64 = 256;

/// The same for loops whose iterations change the length of a sequence.
const MAX_GROWN: i64 = 4096;

/// Number of iterations from which on a trip count is no limit: models write the largest integer for "no limit".
const NO_LIMIT: i64 = 1 << 31;

fn branch(node: &mut Node<'_, '_>) -> Results {
    let arms = [node.graph("then_branch")?, node.graph("else_branch")?];
    let outputs = arms.map(|arm| arm.output.len());
    if outputs != [node.num_outputs(); 2] {
        let message = format!(
            "the arms have {} and {} outputs, the node {}",
            outputs[0],
            outputs[1],
            node.num_outputs()
        );
        return Err(node.malformed(message));
    }
    let name = |truth: bool| if truth { "then_branch" } else { "else_branch" };
    let cond = match node.known(0) {
        Some(Ints { values, .. }) if values.len() == 1 => match &values[0] {
            value if value.as_int().is_some() => {
                let cond = Arg::Const(Tensor::scalar(!value.is_const(0)));
                node.split = Some(Split { cond, arms: Some(arms) });
                return Ok(Vec::new());
            }
            PrimExpr::Select(it) if it.true_value.is_const(1) && it.false_value.is_const(0) => {
                Arg::Prim(it.condition.clone())
            }
            value => Arg::Prim(value.clone().not_equal(0)),
        },
        _ => {
            let cond = node.arg(0)?;
            let cond = node.reshape(&cond, &[])?;
            node.cast(&cond, DataType::BOOL)?
        }
    };
    let mut bodies = Vec::new();
    for truth in [true, false] {
        let graph = arms[usize::from(!truth)];
        bodies.push(node.arm(name(truth), graph, (&cond, truth))?);
    }
    let same = match (&bodies[0], &bodies[1]) {
        (Ok(yes), Ok(no)) => {
            yes.forms == no.forms && yes.types.iter().zip(&no.types).all(|(yes, no)| alike(yes, no))
        }
        _ => false,
    };
    match (bodies.remove(0), bodies.remove(0)) {
        (Ok(yes), Ok(no)) if same => node.choose(&cond, yes.body, no.body, &yes.forms),
        (Err(err), Err(_)) => Err(err),
        _ => {
            node.split = Some(Split { cond, arms: Some(arms) });
            Ok(Vec::new())
        }
    }
}

/// The iterations of a loop whose body is a graph: the values that they get besides those that are handed on, and how many
/// of its outputs are handed on.
pub(super) struct Body<'m> {
    pub(super) graph: &'m GraphProto,
    pub(super) states: usize,
}

impl<'m> Body<'m> {
    /// Converts the body with the given inputs; the first `skipped` outputs, the states, and the rows.
    pub(super) fn run(
        &self,
        node: &mut Node<'_, 'm>,
        inputs: Vec<Value>,
        skipped: usize,
    ) -> Result<[Vec<Value>; 3], OnnxError> {
        let mut first = node.nested("body", self.graph, inputs)?;
        let mut states = first.split_off(skipped);
        let rows = states.split_off(self.states);
        Ok([first, states, rows])
    }
}

pub(super) fn args(node: &mut Node<'_, '_>, values: Vec<Value>) -> Result<Vec<Arg>, OnnxError> {
    values.into_iter().map(|value| node.materialise(value)).collect()
}

/// A value that the body gets for a condition that always holds.
fn yes() -> Value {
    Tensor::scalar(true).into()
}

fn repeat(node: &mut Node<'_, '_>) -> Results {
    let graph = node.graph("body")?;
    let states = node.num_inputs().saturating_sub(2);
    let (inputs, outputs) = (states + 2, graph.output.len());
    if graph.input.len() != inputs || outputs < states + 1 || node.num_outputs() > outputs - 1 {
        let message = format!(
            "the body has {} inputs and {outputs} outputs, for a loop with {states} values",
            graph.input.len()
        );
        return Err(node.malformed(message));
    }
    let body = Body { graph, states };
    let trip = if node.has(0) { Some(simplify_dim(&node.dim(0)?.max(0))) } else { None };
    let mut trip = trip.filter(|it| it.as_int().is_none_or(|it| it < NO_LIMIT));
    let begins = match node.known(1) {
        None if !node.has(1) => Some(true),
        Some(ints) => ints.as_const().and_then(|it| it.first().map(|it| *it != 0)),
        None => None,
    };
    let mut initial = Vec::new();
    for i in 2..inputs {
        initial.push(node.value(i)?.clone());
    }
    if let (Some(trip), Some(begins)) = (trip.as_ref().and_then(PrimExpr::as_int), begins)
        && trip.saturating_mul(graph.node.len() as i64) <= MAX_UNROLLED
        && let Some(results) = unrolled(node, &body, if begins { trip } else { 0 }, initial.clone())?
    {
        return Ok(results);
    }
    let (mut carried, mut forms) = node.tensors(initial.clone())?;
    // A condition that holds after each iteration needs no check.
    let mut always = begins == Some(true);
    let mut begins = begins.map(|it| Tensor::scalar(it).into());
    let mut done = 0;
    if always || forms.iter().any(|it| *it != Form::Tensor) {
        let params = [Ints::scalar(PrimExpr::from(&tvm_core::ir::Var::index("iteration"))).into(), yes()];
        let inputs = params.into_iter().chain(values(&forms, &carried)).collect();
        let (again, next, types) = node.rehearsed(|node| {
            let [first, states, _] = body.run(node, inputs, 1)?;
            let (next, forms) = node.tensors(states)?;
            Ok((holds(&first[0]), forms, types_of(node, &next)?))
        })?;
        let other_types = types != types_of(node, &carried)?;
        let known_trip = trip.as_ref().and_then(PrimExpr::as_int);
        if next == forms
            && other_types
            && always
            && outputs == states + 1
            && (trip.is_none() || known_trip > Some(0))
        {
            // The first iteration replaces a value by one of another rank or element type.
            let first = [Ints::scalar(PrimExpr::index(0)).into(), yes()];
            let [again, states, _] = body.run(node, first.into_iter().chain(initial).collect(), 1)?;
            (carried, forms) = node.tensors(states)?;
            (begins, done) = (again.into_iter().next(), 1);
            trip = trip.map(|it| simplify_dim(&(it - 1i64)));
        } else if next != forms {
            let trip = known_trip.filter(|_| always);
            let trip = trip.filter(|it| it.saturating_mul(graph.node.len() as i64) <= MAX_GROWN);
            let results = match trip {
                Some(trip) => unrolled(node, &body, trip, initial)?,
                None => None,
            };
            return results.ok_or_else(|| changed_form(node));
        }
        always &= again == Some(true);
    }
    let cond = match begins {
        _ if always => None,
        Some(begins) => Some(condition(node, begins)?),
        None => Some(condition(node, node.value(1)?.clone())?),
    };
    let it = Loop { trip, cond, carried, reversed: vec![false; outputs - 1 - states] };
    let finished = iterate(node, it, &mut |node, at, cond, carried| {
        let at = simplify_dim(&(at + done));
        let first = [Ints::scalar(at).into(), cond.map_or_else(yes, |it| it.clone().into())];
        let inputs = first.into_iter().chain(values(&forms, carried)).collect();
        let [first, states, rows] = body.run(node, inputs, 1)?;
        let again = match (cond, first.into_iter().next()) {
            (Some(_), Some(again)) => {
                let again = node.materialise(again)?;
                Some(node.reshape(&again, &[])?)
            }
            _ => None,
        };
        let (carried, next) = node.tensors(states)?;
        if next != forms {
            return Err(changed_form(node));
        }
        Ok(Step { cond: again, carried, rows: args(node, rows)? })
    })?;
    let rows = finished.rows.into_iter().map(Value::from);
    Ok(values(&forms, &finished.carried).into_iter().chain(rows).collect())
}

/// A condition as a scalar tensor of one bool.
fn condition(node: &mut Node<'_, '_>, cond: Value) -> Result<Arg, OnnxError> {
    let cond = node.materialise(cond)?;
    let cond = node.reshape(&cond, &[])?;
    node.cast(&cond, DataType::BOOL)
}

/// Element types and ranks.
fn types_of(node: &Node<'_, '_>, tensors: &[Arg]) -> Result<Vec<(DataType, usize)>, OnnxError> {
    tensors.iter().map(|it| Ok((node.dtype(it)?, node.rank(it)?))).collect()
}

/// The values of these forms that are made up of the tensors.
fn values(forms: &[Form], tensors: &[Arg]) -> Vec<Value> {
    let mut tensors = tensors.iter().cloned().map(Value::from);
    forms.iter().map(|form| form.value(&mut tensors)).collect()
}

fn changed_form(node: &Node<'_, '_>) -> OnnxError {
    node.unsupported(
        "iterations that change the length of a sequence, or whether an optional value is empty: their number is large, or only a run knows it",
    )
}

/// Whether the condition holds, if it is known.
fn holds(cond: &Value) -> Option<bool> {
    Some(cond.ints()?.as_const()?.first()? != &0)
}

/// All iterations one after the other; `None` if only a run knows whether the loop ends early.
fn unrolled<'m>(
    node: &mut Node<'_, 'm>,
    body: &Body<'m>,
    trip: i64,
    mut states: Vec<Value>,
) -> Result<Option<Vec<Value>>, OnnxError> {
    let count = body.graph.output.len() - 1 - body.states;
    let mut all: Vec<Vec<Value>> = vec![Vec::new(); count];
    for at in 0..trip {
        let first = [Ints::scalar(PrimExpr::index(at)).into(), yes()];
        let [again, next, rows] = body.run(node, first.into_iter().chain(states).collect(), 1)?;
        states = next;
        all.iter_mut().zip(rows).for_each(|(all, row)| all.push(row));
        match holds(&again[0]) {
            Some(true) => {}
            Some(false) => break,
            None => return Ok(None),
        }
    }
    if all.iter().any(Vec::is_empty) {
        return Ok(None);
    }
    for rows in all {
        let rows = args(node, rows)?;
        states.push(stacked(node, rows)?.into());
    }
    Ok(Some(states))
}

/// The rows along a new first axis.
fn stacked(node: &mut Node<'_, '_>, rows: Vec<Arg>) -> Result<Arg, OnnxError> {
    let mut parts = Vec::new();
    for row in rows {
        let shape = node.shape(&row)?;
        parts.push(node.reshape(&row, &[&[PrimExpr::index(1)], &shape[..]].concat())?);
    }
    if parts.len() == 1 {
        return Ok(parts.remove(0));
    }
    node.op("concat", &[Arg::Tuple(parts.into())], tvm_core::ir::Attrs::new().with("axis", 0i64))
}
