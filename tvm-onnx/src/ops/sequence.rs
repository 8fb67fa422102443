//! Sequences and optional values. The number of elements of a sequence is known at import; its elements are values like
//! others, and the graph function knows nothing of the sequence. For a place in a sequence that only a run knows, the rest of
//! the graph is converted for each place.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;

use super::shape::parts;
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::{Ints, Value};

pub(super) static ROWS: &[Row] = &[
    row("ConcatFromSequence", 11, With(concat)),
    row("Optional", 15, With(optional)),
    row("OptionalGetElement", 15, With(element)),
    row("OptionalHasElement", 15, With(has_element)),
    row("SequenceAt", 11, With(at)),
    row("SequenceConstruct", 11, With(construct)),
    row("SequenceEmpty", 11, With(|_| Ok(vec![Value::Sequence(Vec::new())]))),
    row("SequenceErase", 11, With(erase)),
    row("SequenceInsert", 11, With(insert)),
    row("SequenceLength", 11, With(length)),
    row("SequenceMap", 17, With(map)),
    row("SplitToSequence", 11, With(split)),
];

type Results = Result<Vec<Value>, OnnxError>;

/// The elements of input `i`, a sequence.
fn sequence(node: &Node<'_, '_>, i: usize) -> Result<Vec<Value>, OnnxError> {
    match node.value(i)? {
        Value::Sequence(elements) => Ok(elements.clone()),
        Value::Arg(_) | Value::Ints(_) | Value::Strings(_) | Value::Absent | Value::Unknown => {
            Err(node.malformed(format!("input {i} is a sequence, got a tensor")))
        }
    }
}

/// The place that input `i` gives in a sequence of `n` elements: below `n`, or below `end`. It is `default` if the input is
/// omitted.
fn place(node: &mut Node<'_, '_>, i: usize, n: usize, end: usize, default: i64) -> Result<usize, OnnxError> {
    let (n, end) = (n as i64, end as i64);
    let at = if node.has(i) { node.dim(i)? } else { PrimExpr::index(default) };
    let at = node.one_of(&at, n, end)?;
    if (-n..end).contains(&at) {
        return Ok(if at < 0 { at + n } else { at } as usize);
    }
    Err(node.malformed(format!("position {at} is outside of a sequence of {n} elements")))
}

fn construct(node: &mut Node<'_, '_>) -> Results {
    let elements: Result<_, _> = (0..node.num_inputs()).map(|i| node.value(i).cloned()).collect();
    Ok(vec![Value::Sequence(elements?)])
}

fn insert(node: &mut Node<'_, '_>) -> Results {
    let mut elements = sequence(node, 0)?;
    let n = elements.len();
    // The place after the last element is allowed, too.
    let place = place(node, 2, n, n + 1, n as i64)?;
    elements.insert(place, node.value(1)?.clone());
    Ok(vec![Value::Sequence(elements)])
}

fn erase(node: &mut Node<'_, '_>) -> Results {
    let mut elements = sequence(node, 0)?;
    let n = elements.len();
    elements.remove(place(node, 1, n, n, -1)?);
    Ok(vec![Value::Sequence(elements)])
}

fn at(node: &mut Node<'_, '_>) -> Results {
    let mut elements = sequence(node, 0)?;
    let n = elements.len();
    Ok(vec![elements.swap_remove(place(node, 1, n, n, 0)?)])
}

fn length(node: &mut Node<'_, '_>) -> Results {
    Ok(vec![Ints::scalar(PrimExpr::index(sequence(node, 0)?.len() as i64)).into()])
}

fn concat(node: &mut Node<'_, '_>) -> Results {
    let elements = sequence(node, 0)?;
    let args: Result<Vec<Arg>, _> = elements.into_iter().map(|it| node.materialise(it)).collect();
    let mut args = args?;
    let Some(first) = args.first() else { return Err(node.malformed("the sequence is empty")) };
    let (new, rank) = (node.flag("new_axis", false)?, node.rank(first)?);
    let axis = node.attr_int("axis")?;
    let axis = node.axis(node.required("axis", axis)?, rank + usize::from(new))?;
    if new {
        for arg in &mut args {
            let mut shape = node.shape(arg)?;
            shape.insert(axis.min(shape.len()), PrimExpr::index(1));
            *arg = node.reshape(arg, &shape)?;
        }
    }
    if args.len() == 1 {
        return Ok(vec![args.remove(0).into()]);
    }
    one(node.op("concat", &[Arg::Tuple(args.into())], Attrs::new().with("axis", axis)))
}

/// Parts of the extents that input 1 lists, of one extent that it gives, or of one element.
fn split(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axis = node.axis(node.int_or("axis", 0)?, shape.len())?;
    let listed = match node.known(1) {
        Some(sizes) => !sizes.dims.is_empty(),
        None => node.has(1) && node.arg(1).and_then(|sizes| node.rank(&sizes))? > 0,
    };
    let sizes = match (listed, node.has(1)) {
        (true, _) => node.dims(1)?,
        (false, true) => {
            let size = node.dim(1)?;
            pieces(node, &shape[axis], &size)?
        }
        (false, false) => pieces(node, &shape[axis], &PrimExpr::index(1))?,
    };
    let mut res = parts(node, &x, axis, &sizes)?;
    if !node.has(1) && !node.flag("keepdims", true)? {
        let mut shape = shape;
        shape.remove(axis);
        for part in &mut res {
            *part = node.reshape(part, &shape)?;
        }
    }
    Ok(vec![Value::Sequence(res.into_iter().map(Value::from).collect())])
}

/// The extents of the parts of an axis that have the given size, but for the last one, which has what is left. For a number of
/// parts that only a run knows, the rest of the graph is converted for each.
fn pieces(node: &mut Node<'_, '_>, extent: &PrimExpr, size: &PrimExpr) -> Result<Vec<PrimExpr>, OnnxError> {
    let Some(known) = extent.as_int() else {
        return Err(node.unsupported("a sequence whose length only a run knows"));
    };
    if size.as_int().is_some_and(|it| it <= 0) {
        return Err(node.malformed(format!("parts of the size {size}")));
    }
    if known == 0 {
        return Ok(Vec::new());
    }
    // For a size that is not positive, this is no number of parts.
    let others = (extent - 1i64).floordiv(size.clone().max(1));
    let others = size.clone().greater(0).select(others, PrimExpr::index(-1));
    let others = node.one_of(&simplify_dim(&others), 0, known)?;
    let last = simplify_dim(&(extent - size * others));
    Ok((0..others).map(|_| size.clone()).chain([last]).collect())
}

/// The graph in attribute `body` for each element; an input that is no sequence is the same for all of them.
fn map(node: &mut Node<'_, '_>) -> Results {
    let body = node.graph("body")?;
    let n = sequence(node, 0)?.len();
    let mut results = vec![Vec::new(); node.num_outputs()];
    for i in 0..n {
        let mut inputs = Vec::new();
        for input in 0..node.num_inputs() {
            inputs.push(match node.value(input)? {
                Value::Sequence(elements) => elements.get(i).cloned().ok_or_else(|| {
                    node.malformed(format!("input {input} has {} elements, input 0 has {n}", elements.len()))
                })?,
                other => other.clone(),
            });
        }
        let made = node.nested("body", body, inputs)?;
        if made.len() != results.len() {
            return Err(node.malformed("the body has another number of outputs than the node"));
        }
        results.iter_mut().zip(made).for_each(|(all, value)| all.push(value));
    }
    Ok(results.into_iter().map(Value::Sequence).collect())
}

fn optional(node: &mut Node<'_, '_>) -> Results {
    Ok(vec![node.opt_value(0).cloned().unwrap_or(Value::Absent)])
}

fn has_element(node: &mut Node<'_, '_>) -> Results {
    let has = node.opt_value(0).is_some_and(|it| !matches!(it, Value::Absent));
    Ok(vec![tvm_runtime::Tensor::scalar(has).into()])
}

fn element(node: &mut Node<'_, '_>) -> Results {
    match node.value(0)? {
        Value::Absent => Err(node.malformed("the optional value is empty")),
        value => Ok(vec![value.clone()]),
    }
}
