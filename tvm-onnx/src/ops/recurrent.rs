//! Recurrent layers. A few steps become a part of the graph, one after the other; more steps, or a number that only a run
//! knows, a loop.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::fused_quant::dynamic_product;
use super::index::reversed_sequences;
use super::{Row, With, row};
use crate::error::OnnxError;
use crate::iterate::{Finished, Loop, Step, iterate, row_at};
use crate::node::Node;
use crate::proto::AttributeType;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("GRU", 7, With(|node| recurrent(node, Kind::Gru))),
    row("LSTM", 7, With(|node| recurrent(node, Kind::Lstm))),
    row("RNN", 7, With(|node| recurrent(node, Kind::Rnn))),
];

/// Of the domain `com.microsoft`.
pub(super) static QUANTISED: &[Row] =
    &[row("DynamicQuantizeLSTM", 1, With(|node| recurrent(node, Kind::QuantisedLstm)))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Number of steps up to which every step becomes a part of the graph.
const MAX_UNROLLED: i64 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rnn,
    Gru,
    Lstm,
    /// Weights are bytes; what they are multiplied with is quantised by its range.
    QuantisedLstm,
}

impl Kind {
    fn gates(self) -> i64 {
        match self {
            Kind::Rnn => 1,
            Kind::Gru => 3,
            Kind::Lstm | Kind::QuantisedLstm => 4,
        }
    }

    /// Number of states: that of the cell, which is shown, and the one that an LSTM keeps beside it.
    fn states(self) -> usize {
        match self {
            Kind::Rnn | Kind::Gru => 1,
            Kind::Lstm | Kind::QuantisedLstm => 2,
        }
    }

    /// Default activations of one direction.
    fn activations(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["Tanh"],
            Kind::Gru => &["Sigmoid", "Tanh"],
            Kind::Lstm | Kind::QuantisedLstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// Weights of one direction, a matrix that inputs or states are multiplied with.
struct Weights {
    matrix: Arg,
    /// Scale and zero point of quantised weights, each one number or one for each column.
    scale: Option<(Arg, Option<Arg>)>,
}

impl Weights {
    /// Input `i` in direction `d`.
    fn new(node: &mut Node<'_, '_>, kind: Kind, i: usize, d: i64) -> Result<Weights> {
        let required = |node: &mut Node<'_, '_>, i: usize| {
            let it = pick(node, i, d, false)?;
            it.ok_or_else(|| node.malformed(format!("input {i} is missing")))
        };
        let matrix = required(node, i)?;
        if kind != Kind::QuantisedLstm {
            return Ok(Weights { matrix: transposed(node, &matrix)?, scale: None });
        }
        // After the inputs of an LSTM come the scale and the zero point for input 1, then those for input 2.
        let at = 6 + 2 * i;
        let scale = (required(node, at)?, pick(node, at + 1, d, false)?);
        Ok(Weights { matrix, scale: Some(scale) })
    }

    /// `x` times the weights.
    fn product(&self, node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg> {
        match &self.scale {
            None => node.apply("matmul", x, &self.matrix),
            Some((scale, zero)) => {
                dynamic_product(node, x.clone(), (&self.matrix, scale, zero.clone()), None)
            }
        }
    }
}

/// One direction of a layer.
struct Cell {
    kind: Kind,
    hidden: PrimExpr,
    dtype: DataType,
    /// Names of the graph operators for the activations.
    activations: Vec<&'static str>,
    /// Weights of the state (recurrence weights).
    weights: Weights,
    /// Bias that is added to the contribution of the state.
    bias: Option<Arg>,
    /// Peephole weights, which add the cell state to the gates, (3 · hidden).
    peephole: Option<Arg>,
    /// Limit of the absolute value of gate sums; `None` for no limit.
    clip: Option<f64>,
    linear_before_reset: bool,
}

/// `x` with its two axes exchanged; a constant at import, so that the products that use it know it.
fn transposed(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg> {
    let Some(tensor) = x.as_const() else { return node.permuted(x, &[1, 0]) };
    let [rows, columns] = tensor.shape()[..] else {
        return Err(node.malformed("weights of one direction have two axes"));
    };
    let (size, bytes) = (tensor.dtype().bytes(), tensor.bytes()?);
    let mut turned = Vec::with_capacity(bytes.len());
    for column in 0..columns as usize {
        for row in 0..rows as usize {
            let at = (row * columns as usize + column) * size;
            turned.extend_from_slice(&bytes[at..at + size]);
        }
    }
    node.constant(Tensor::from_bytes(&turned, &[columns, rows], tensor.dtype())?)
}

/// Direction `d` of input `i`, whose first axis is the direction.
fn pick(node: &mut Node<'_, '_>, i: usize, d: i64, by_batch: bool) -> Result<Option<Arg>> {
    let Some(mut x) = node.opt_arg(i)? else { return Ok(None) };
    if by_batch {
        x = node.permuted(&x, &[1, 0, 2])?;
    }
    let shape = node.shape(&x)?;
    let Some((directions, rest)) = shape.split_first() else {
        return Err(node.malformed("an input is a scalar"));
    };
    if directions.as_int().is_some_and(|it| it <= d) {
        return Err(node.malformed(format!("input {i} has no direction {d}")));
    }
    // One direction of a constant is a constant, too.
    if let Some(tensor) = x.as_const() {
        let own: Vec<i64> = tensor.shape()[1..].to_vec();
        let bytes = tensor.bytes()?;
        let size = bytes.len() / tensor.shape()[0].max(1) as usize;
        let part = &bytes[d as usize * size..][..size];
        return node.constant(Tensor::from_bytes(part, &own, tensor.dtype())?).map(Some);
    }
    let x = node.part(&x, 0, d, d + 1)?;
    node.reshape(&x, rest).map(Some)
}

impl Cell {
    /// Parts `from..to` of the last axis; each is as wide as the state.
    fn parts(&self, node: &mut Node<'_, '_>, x: &Arg, from: i64, to: i64) -> Result<Arg> {
        let axis = node.rank(x)? as i64 - 1;
        let at = |it: i64| [simplify_dim(&(&self.hidden * it))];
        super::index::sliced(node, x.clone(), &[axis], &at(from), &at(to), &[1])
    }

    /// Applies activation `i` to the sum of a gate.
    fn activated(&self, node: &mut Node<'_, '_>, i: usize, sum: Arg) -> Result<Arg> {
        let mut sum = sum;
        if let Some(clip) = self.clip {
            for (op, limit) in [("minimum", clip), ("maximum", -clip)] {
                let limit = node.scalar(limit, self.dtype)?;
                sum = node.call(op, &[sum, limit])?;
            }
        }
        node.call(self.activations[i], &[sum])
    }

    /// The contribution of the state to the gates `from..to`.
    fn recur(&self, node: &mut Node<'_, '_>, state: &Arg, from: i64, to: i64) -> Result<Arg> {
        let product = if to - from == self.kind.gates() {
            self.weights.product(node, state)?
        } else {
            // Only a GRU, whose weights are real numbers, computes some gates before others.
            let weights = self.parts(node, &self.weights.matrix, from, to)?;
            node.call("matmul", &[state.clone(), weights])?
        };
        match &self.bias {
            Some(bias) => {
                let bias = self.parts(node, bias, from, to)?;
                node.apply("add", &product, &bias)
            }
            None => Ok(product),
        }
    }

    /// The states after one step, computed from the previous ones; `x` is the contribution of the input to the gates.
    fn step(&self, node: &mut Node<'_, '_>, x: &Arg, [h, c]: [Arg; 2]) -> Result<[Arg; 2]> {
        match self.kind {
            Kind::Rnn => {
                let recurrent = self.recur(node, &h, 0, 1)?;
                let sum = node.apply("add", x, &recurrent)?;
                Ok([self.activated(node, 0, sum)?, c])
            }
            Kind::Gru => Ok([self.gru(node, x, &h)?, c]),
            Kind::Lstm | Kind::QuantisedLstm => self.lstm(node, x, &h, &c),
        }
    }

    fn gru(&self, node: &mut Node<'_, '_>, x: &Arg, h: &Arg) -> Result<Arg> {
        let (recurrent, input) = (self.recur(node, h, 0, 2)?, self.parts(node, x, 0, 2)?);
        let gates = node.apply("add", &input, &recurrent)?;
        let gates = self.activated(node, 0, gates)?;
        let (update, reset) = (self.parts(node, &gates, 0, 1)?, self.parts(node, &gates, 1, 2)?);
        let recurrent = if self.linear_before_reset {
            let recurrent = self.recur(node, h, 2, 3)?;
            node.apply("multiply", &reset, &recurrent)?
        } else {
            let kept = node.apply("multiply", &reset, h)?;
            self.recur(node, &kept, 2, 3)?
        };
        let input = self.parts(node, x, 2, 3)?;
        let sum = node.apply("add", &input, &recurrent)?;
        let new = self.activated(node, 1, sum)?;
        // new + update · (h - new)
        let change = node.call("subtract", &[h.clone(), new.clone()])?;
        let change = node.apply("multiply", &update, &change)?;
        node.apply("add", &new, &change)
    }

    /// The gates are input, output, forget and content, in this order.
    fn lstm(&self, node: &mut Node<'_, '_>, x: &Arg, h: &Arg, c: &Arg) -> Result<[Arg; 2]> {
        let recurrent = self.recur(node, h, 0, 4)?;
        let sums = node.apply("add", x, &recurrent)?;
        let gate = |node: &mut Node<'_, '_>, i: i64, peephole: i64, c: &Arg, f: usize| {
            let mut sum = self.parts(node, &sums, i, i + 1)?;
            if let Some(weights) = self.peephole.as_ref().filter(|_| peephole >= 0) {
                let weights = self.parts(node, weights, peephole, peephole + 1)?;
                let seen = node.apply("multiply", &weights, c)?;
                sum = node.apply("add", &sum, &seen)?;
            }
            self.activated(node, f, sum)
        };
        let (input, forget, content) =
            (gate(node, 0, 0, c, 0)?, gate(node, 2, 2, c, 0)?, gate(node, 3, -1, c, 1)?);
        let (kept, new) = (node.apply("multiply", &forget, c)?, node.apply("multiply", &input, &content)?);
        let c = node.apply("add", &kept, &new)?;
        let output = gate(node, 1, 1, &c, 0)?;
        let shown = node.call(self.activations[2], std::slice::from_ref(&c))?;
        Ok([node.apply("multiply", &output, &shown)?, c])
    }
}

fn activations(node: &Node<'_, '_>, kind: Kind, d: usize) -> Result<Vec<&'static str>> {
    const KNOWN: [(&str, &str); 4] =
        [("Sigmoid", "sigmoid"), ("Tanh", "tanh"), ("Relu", "nn.relu"), ("Softplus", "nn.softplus")];
    if node.has_attr("activation_alpha") || node.has_attr("activation_beta") {
        return Err(node.unsupported("functions with parameters"));
    }
    let defaults = kind.activations();
    let given = match node.attr_type("activations") {
        Some(AttributeType::Strings) => node.attr_strings("activations")?,
        _ => Vec::new(),
    };
    let names = match &given[..] {
        [] => defaults.to_vec(),
        names => names.iter().copied().skip(d * defaults.len()).take(defaults.len()).collect(),
    };
    if names.len() != defaults.len() {
        return Err(node.malformed(format!("there are {} functions per direction", defaults.len())));
    }
    let find = |name: &&str| KNOWN.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, op)| *op);
    let found: Option<Vec<_>> = names.iter().map(find).collect();
    found.ok_or_else(|| {
        node.unsupported(format!("one of the functions {}", crate::names::show(&names.join(", "))))
    })
}

fn recurrent(node: &mut Node<'_, '_>, kind: Kind) -> Result<Vec<Value>> {
    let by_batch = node.flag("layout", false)?;
    if node.flag("input_forget", false)? {
        return Err(node.unsupported("attribute `input_forget`"));
    }
    let mut x = node.arg(0)?;
    if by_batch {
        x = node.permuted(&x, &[1, 0, 2])?;
    }
    let [steps, batch, _] = &node.shape(&x)?[..] else {
        return Err(node.malformed("the input has three axes"));
    };
    let directions: &[bool] = match node.str_or("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => {
            return Err(node.malformed(format!("attribute `direction` is `{}`", crate::names::show(other))));
        }
    };
    let (mut all, mut last) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (d, &reverse) in directions.iter().enumerate() {
        let (states, end) = direction(node, kind, &x, d, reverse, (steps, batch), by_batch)?;
        all.push(states);
        for (last, state) in last.iter_mut().zip(end) {
            let shape = node.shape(&state)?;
            last.push(node.reshape(&state, &[&[PrimExpr::index(1)], &shape[..]].concat())?);
        }
    }
    let mut res = vec![node.joined(all, 1)?];
    for states in last {
        res.push(node.joined(states, 0)?);
    }
    if by_batch {
        res = vec![
            node.permuted(&res[0], &[2, 0, 1, 3])?,
            node.permuted(&res[1], &[1, 0, 2])?,
            node.permuted(&res[2], &[1, 0, 2])?,
        ];
    }
    res.truncate(1 + kind.states());
    Ok(res.into_iter().map(Value::from).collect())
}

/// The input of all steps, 0 after the end of the longest sequence.
fn before_longest(node: &mut Node<'_, '_>, x: &Arg, lengths: &Arg) -> Result<Arg> {
    let (steps, dtype) = (node.extent(x, 0)?, node.dtype(x)?);
    let (at, lengths) = (node.count(&steps, DataType::I64)?, node.cast(lengths, DataType::I64)?);
    let at = node.along(&at, 0, 3)?;
    let longest = node.call("max", &[lengths])?;
    let (inside, zero) = (node.apply("less", &at, &longest)?, node.scalar(0.0, dtype)?);
    node.choice(&inside, x, &zero)
}

/// Runs one direction: returns the states after all steps as (steps, 1, batch, hidden), and the final states.
fn direction(
    node: &mut Node<'_, '_>,
    kind: Kind,
    x: &Arg,
    d: usize,
    reverse: bool,
    (steps, batch): (&PrimExpr, &PrimExpr),
    by_batch: bool,
) -> Result<(Arg, [Arg; 2])> {
    let at = d as i64;
    let dtype = node.dtype(x)?;
    let (input_weights, weights) = (Weights::new(node, kind, 1, at)?, Weights::new(node, kind, 2, at)?);
    let hidden = node.extent(&weights.matrix, 0)?;
    let lengths = node.opt_arg(4)?;
    let (quantised, mut x, mut reverse) = (weights.scale.is_some(), x.clone(), reverse);
    let backwards = lengths.clone().filter(|_| quantised && reverse);
    if let Some(lengths) = lengths.as_ref().filter(|_| quantised) {
        x = before_longest(node, &x, lengths)?;
    }
    if let Some(lengths) = &backwards {
        // All sequences begin in the first step, so that the ranges of the states are those that steps have.
        x = reversed_sequences(node, x, lengths, [1, 0])?;
        reverse = false;
    }
    let mut cell = Cell {
        kind,
        hidden: hidden.clone(),
        dtype,
        activations: activations(node, kind, d)?,
        weights,
        bias: None,
        peephole: if kind.states() == 2 { pick(node, 7, at, false)? } else { None },
        clip: node.attr_float("clip")?,
        linear_before_reset: node.flag("linear_before_reset", false)?,
    };
    // The inputs of all steps are the rows of one matrix.
    let (width, gates) = (node.extent(&x, 2)?, node.extent(&input_weights.matrix, 1)?);
    let all = node.reshape(&x, &[simplify_dim(&(steps * batch)), width])?;
    let projected = input_weights.product(node, &all)?;
    let mut projected = node.reshape(&projected, &[steps.clone(), batch.clone(), gates])?;
    if let Some(bias) = pick(node, 3, at, false)? {
        let (own, state) = (
            cell.parts(node, &bias, 0, kind.gates())?,
            cell.parts(node, &bias, kind.gates(), 2 * kind.gates())?,
        );
        projected = node.apply("add", &projected, &own)?;
        cell.bias = Some(state);
    }
    let state_shape = [batch.clone(), hidden.clone()];
    let zero = node.scalar(0.0, dtype)?;
    let zeros = Attrs::new().with("dtype", dtype);
    let zeros = node.op("full", &[Arg::Shape(state_shape.to_vec().into()), zero.clone()], zeros)?;
    let mut states = [zeros.clone(), zeros];
    for (i, state) in [5, 6].into_iter().zip(&mut states).take(kind.states()) {
        if let Some(given) = pick(node, i, at, by_batch)? {
            *state = given;
        }
    }
    let lengths = match lengths {
        Some(lengths) => {
            let lengths = node.cast(&lengths, DataType::I64)?;
            Some(node.reshape(&lengths, &[batch.clone(), PrimExpr::index(1)])?)
        }
        None => None,
    };
    let step = |node: &mut Node<'_, '_>, at: &PrimExpr, states: [Arg; 2]| -> Result<(Arg, [Arg; 2])> {
        let row = row_at(node, &projected, at.clone())?;
        let inside = match &lengths {
            Some(lengths) => Some(node.call("greater", &[lengths.clone(), Arg::Prim(at.clone())])?),
            None => None,
        };
        let mut given = states.clone();
        if let Some(lengths) = lengths.as_ref().filter(|_| quantised) {
            // States of sequences that have ended are not in the range of the others, as in onnxruntime from the second step
            // after the end on.
            let counts = node.with_dim("greater_equal", lengths, at.clone())?;
            given[0] = node.choice(&counts, &given[0], &zero)?;
        }
        let mut next = cell.step(node, &row, given)?;
        let mut shown = next[0].clone();
        if let Some(inside) = inside {
            // After its end, a sequence outputs 0 and keeps its state.
            shown = node.call("where", &[inside.clone(), shown, zero.clone()])?;
            for (next, state) in next.iter_mut().zip(states) {
                *next = node.call("where", &[inside.clone(), next.clone(), state])?;
            }
        }
        Ok((shown, next))
    };
    let turned_back = |node: &mut Node<'_, '_>, outputs: Arg| match &backwards {
        Some(lengths) => reversed_sequences(node, outputs, lengths, [2, 0]),
        None => Ok(outputs),
    };
    let one = PrimExpr::index(1);
    if let Some(steps) = steps.as_int().filter(|it| (1..=MAX_UNROLLED).contains(it)) {
        let mut outputs = Vec::new();
        for t in 0..steps {
            let at = PrimExpr::index(if reverse { steps - 1 - t } else { t });
            let shown;
            (shown, states) = step(node, &at, states)?;
            outputs.push(node.reshape(&shown, &[one.clone(), one.clone(), batch.clone(), hidden.clone()])?);
        }
        if reverse {
            outputs.reverse();
        }
        let outputs = node.joined(outputs, 0)?;
        return Ok((turned_back(node, outputs)?, states));
    }
    let count = kind.states();
    let unused = states[1].clone();
    let it = Loop {
        trip: Some(steps.clone()),
        cond: None,
        carried: states[..count].to_vec(),
        reversed: vec![reverse],
    };
    let Finished { carried, rows } = iterate(node, it, &mut |node, t, _, carried| {
        let at = if reverse { steps.clone() - 1i64 - t } else { t.clone() };
        let second = carried.get(1).unwrap_or(&unused).clone();
        let (shown, next) = step(node, &at, [carried[0].clone(), second])?;
        Ok(Step { cond: None, carried: next[..count].to_vec(), rows: vec![shown] })
    })?;
    let rows = node.reshape(&rows[0], &[steps.clone(), one, batch.clone(), hidden])?;
    Ok((turned_back(node, rows)?, [carried[0].clone(), carried.get(1).unwrap_or(&unused).clone()]))
}
