//! `Scan`: a loop over the elements of sequences. Up to opset 8 it has a batch of sequences, whose lengths may differ.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::control::{Body, args};
use super::{Row, With, row};
use crate::error::OnnxError;
use crate::iterate::{Finished, Loop, Step, iterate, row_at};
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("Scan", 8, With(scan))];

type Result<T> = std::result::Result<T, OnnxError>;

/// What a scan reads, or what it makes: its axis, and whether from the end.
type Along = (i64, bool);

/// The integers of an attribute, or zeros.
fn list(node: &Node<'_, '_>, name: &str, count: usize) -> Result<Vec<i64>> {
    let values = node.attr_ints(name)?.map_or_else(|| vec![0; count], <[i64]>::to_vec);
    if values.len() == count {
        return Ok(values);
    }
    Err(node.malformed(format!("attribute `{name}` has {} numbers, expected {count}", values.len())))
}

fn along(node: &Node<'_, '_>, what: &str, count: usize) -> Result<Vec<Along>> {
    let axes = list(node, &format!("scan_{what}_axes"), count)?;
    let directions = list(node, &format!("scan_{what}_directions"), count)?;
    Ok(axes.into_iter().zip(directions.into_iter().map(|it| it != 0)).collect())
}

fn scan(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let graph = node.graph("body")?;
    let scanned = node.attr_int("num_scan_inputs")?;
    let scanned = usize::try_from(node.required("num_scan_inputs", scanned)?).unwrap_or(usize::MAX);
    // The first input of a batch is the lengths of its sequences.
    let batched = node.opset < 9;
    let given = node.num_inputs().saturating_sub(batched.into());
    let states = given.checked_sub(scanned).filter(|it| *it <= graph.output.len());
    let states = states.filter(|_| graph.input.len() == given && scanned > 0);
    let states = states
        .ok_or_else(|| node.malformed("the numbers of inputs, outputs and scanned inputs contradict"))?;
    let made = graph.output.len() - states;
    let body = Body { graph, states };
    let results = if batched {
        let reads = list(node, "directions", scanned)?.into_iter().map(|it| (0, it != 0)).collect();
        Scan { body, reads, makes: vec![(0, false); made] }.batch(node)?
    } else {
        let (reads, makes) = (along(node, "input", scanned)?, along(node, "output", made)?);
        let inputs = node.args()?;
        let (states, sequences) = inputs.split_at(states);
        Scan { body, reads, makes }.run(node, states, sequences, None)?
    };
    Ok(results.into_iter().map(Value::from).collect())
}

struct Scan<'m> {
    body: Body<'m>,
    reads: Vec<Along>,
    makes: Vec<Along>,
}

impl<'m> Scan<'m> {
    /// The states after the last step, and the sequences that are made. After the end of sequences of the given length,
    /// states stay as they are, and what is made is 0.
    fn run(
        &self,
        node: &mut Node<'_, 'm>,
        states: &[Arg],
        sequences: &[Arg],
        length: Option<&Arg>,
    ) -> Result<Vec<Arg>> {
        let mut rows = Vec::new();
        for (sequence, (axis, _)) in sequences.iter().zip(&self.reads) {
            let axis = node.axis(*axis, node.rank(sequence)?)?;
            rows.push(moved(node, sequence.clone(), axis, 0)?);
        }
        let steps = node.extent(&rows[0], 0)?;
        let end = match length {
            Some(length) => length_of(node, length, &steps)?,
            None => steps.clone(),
        };
        let it = Loop {
            trip: Some(steps),
            cond: None,
            carried: states.to_vec(),
            reversed: self.makes.iter().map(|(_, reversed)| *reversed).collect(),
        };
        let Finished { mut carried, rows } = iterate(node, it, &mut |node, at, _, carried| {
            let mut inputs: Vec<Value> = carried.iter().cloned().map(Value::from).collect();
            for (sequence, (_, reversed)) in rows.iter().zip(&self.reads) {
                let mut place = if *reversed { end.clone() - 1i64 - at } else { at.clone() };
                if *reversed && length.is_some() {
                    place = place.max(0);
                }
                inputs.push(row_at(node, sequence, place)?.into());
            }
            let [_, states, rows] = self.body.run(node, inputs, 0)?;
            let (mut states, mut rows) = (args(node, states)?, args(node, rows)?);
            if let Some(length) = length {
                let inside = node.with_dim("greater", length, at.clone())?;
                for (state, before) in states.iter_mut().zip(carried) {
                    *state = node.choice(&inside, state, before)?;
                }
                for row in &mut rows {
                    let zero = node.scalar(0.0, node.dtype(row)?)?;
                    *row = node.choice(&inside, row, &zero)?;
                }
            }
            Ok(Step { cond: None, carried: states, rows })
        })?;
        for (rows, (axis, _)) in rows.into_iter().zip(&self.makes) {
            let axis = node.axis(*axis, node.rank(&rows)?)?;
            carried.push(moved(node, rows, 0, axis)?);
        }
        Ok(carried)
    }

    /// Scans each sequence of a batch; all inputs and results have the axis of the batch first.
    fn batch(&self, node: &mut Node<'_, 'm>) -> Result<Vec<Arg>> {
        let lengths = match node.opt_arg(0)? {
            Some(lengths) => Some(node.cast(&lengths, DataType::I64)?),
            None => None,
        };
        let inputs = (1..node.num_inputs()).map(|i| node.arg(i)).collect::<Result<Vec<_>>>()?;
        let batch = node.extent(&inputs[self.body.states], 0)?;
        let results = self.body.states + self.makes.len();
        let it = Loop { trip: Some(batch), cond: None, carried: Vec::new(), reversed: vec![false; results] };
        let finished = iterate(node, it, &mut |node, at, _, _| {
            let own = inputs.iter().map(|x| row_at(node, x, at.clone())).collect::<Result<Vec<_>>>()?;
            let (states, sequences) = own.split_at(self.body.states);
            let length = match &lengths {
                Some(lengths) => Some(row_at(node, lengths, at.clone())?),
                None => None,
            };
            let rows = self.run(node, states, sequences, length.as_ref())?;
            Ok(Step { cond: None, carried: Vec::new(), rows })
        })?;
        Ok(finished.rows)
    }
}

/// The length of a sequence as an extent, checked to be at most `steps`.
fn length_of(node: &mut Node<'_, '_>, length: &Arg, steps: &PrimExpr) -> Result<PrimExpr> {
    let [length] = &node.read(length)?[..] else { return Err(node.malformed("a length is one number")) };
    let inside = length.clone().greater_equal(0).and(length.clone().less_equal(steps.clone()));
    let span = node.span().clone();
    node.importer().check_condition(&Arg::Prim(inside), true, &span)?;
    Ok(length.clone())
}

/// `x` with its axis `from` moved to position `to`.
fn moved(node: &mut Node<'_, '_>, x: Arg, from: usize, to: usize) -> Result<Arg> {
    let mut axes: Vec<i64> = (0..node.rank(&x)? as i64).collect();
    let axis = axes.remove(from);
    axes.insert(to, axis);
    if from == to {
        return Ok(x);
    }
    node.op("permute_dims", &[x], Attrs::new().with("axes", axes))
}
