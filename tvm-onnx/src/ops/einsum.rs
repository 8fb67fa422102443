//! The operator `Einsum`: sums of products, specified by index labels.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::product;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("Einsum", 12, With(einsum))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Label of an axis; the axes under `...` are numbered from the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Letter(char),
    Unnamed(usize),
}

/// A tensor with labelled axes; before `diagonal`, a label may occur twice.
struct Term {
    x: Arg,
    labels: Vec<Label>,
}

/// The labels in one part of the equation; `...` stands for `unnamed` axes.
fn labels(node: &Node<'_, '_>, text: &str, unnamed: usize) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            labels.extend((0..unnamed).rev().map(Label::Unnamed));
            rest = after;
        } else if next.is_ascii_alphabetic() {
            labels.push(Label::Letter(next));
            rest = &rest[1..];
        } else {
            return Err(node.malformed(format!("attribute `equation` has {next:?} in it")));
        }
    }
    Ok(labels)
}

fn einsum(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let equation: String = node.str_or("equation", "")?.split_whitespace().collect();
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (&equation[..], None),
    };
    let parts: Vec<&str> = inputs.split(',').collect();
    if parts.len() != node.num_inputs() {
        return Err(node.malformed(format!(
            "the equation is of {} inputs, the node has {}",
            parts.len(),
            node.num_inputs()
        )));
    }
    let (mut terms, mut most) = (Vec::new(), 0);
    for (i, text) in parts.iter().enumerate() {
        let x = node.arg(i)?;
        let (rank, named) = (node.rank(&x)?, labels(node, text, 0)?.len());
        let unnamed = rank.checked_sub(named).filter(|&it| it == 0 || text.contains("..."));
        let unnamed = unnamed.ok_or_else(|| {
            node.malformed(format!("input {i} has rank {rank}, the equation `{}`", crate::names::show(text)))
        })?;
        most = most.max(unnamed);
        let labels = labels(node, text, unnamed)?;
        terms.push(diagonal(node, Term { x, labels })?);
    }
    let output = match output {
        Some(text) => labels(node, text, most)?,
        None => implied(&parts, most),
    };
    if (1..output.len()).any(|i| output[i..].contains(&output[i - 1])) {
        return Err(node.malformed("the result of the equation names an axis twice"));
    }
    let mut rest = terms.into_iter();
    let mut sum = rest.next().ok_or_else(|| node.malformed("there is no input"))?;
    let later: Vec<Term> = rest.collect();
    for (i, term) in later.iter().enumerate() {
        let needed = |label: &Label| {
            output.contains(label) || later[i + 1..].iter().any(|term| term.labels.contains(label))
        };
        sum = combined(node, sum, term, &needed)?;
    }
    let sum = summed(node, sum, &|label| output.contains(label))?;
    let order: Option<Vec<i64>> =
        output.iter().map(|label| sum.labels.iter().position(|it| it == label).map(|it| it as i64)).collect();
    let order =
        order.ok_or_else(|| node.malformed("the result of the equation names an axis that no input has"))?;
    one(permuted(node, sum.x, order))
}

/// The labels of the result if the equation does not give them: the unnamed axes, then the letters that occur once, in
/// alphabetical order.
fn implied(parts: &[&str], unnamed: usize) -> Vec<Label> {
    let mut letters: Vec<char> =
        parts.iter().flat_map(|it| it.chars()).filter(char::is_ascii_alphabetic).collect();
    letters.sort_unstable();
    let alone = |letter: &&char| letters.iter().filter(|it| it == letter).count() == 1;
    let named = letters.iter().filter(alone).map(|&it| Label::Letter(it));
    (0..unnamed).rev().map(Label::Unnamed).chain(named).collect()
}

fn permuted(node: &mut Node<'_, '_>, x: Arg, axes: Vec<i64>) -> Result<Arg> {
    if axes.iter().enumerate().all(|(i, &axis)| i as i64 == axis) {
        return Ok(x);
    }
    node.op("permute_dims", &[x], Attrs::new().with("axes", axes))
}

fn sum_over(node: &mut Node<'_, '_>, x: Arg, axes: Vec<i64>) -> Result<Arg> {
    if axes.is_empty() { Ok(x) } else { node.op("sum", &[x], Attrs::new().with("axis", axes)) }
}

/// Merges axes with the same label into one, keeping the elements whose indices on both are equal.
fn diagonal(node: &mut Node<'_, '_>, mut term: Term) -> Result<Term> {
    while let Some((first, second)) = (0..term.labels.len()).find_map(|second| {
        term.labels[..second].iter().position(|it| *it == term.labels[second]).map(|first| (first, second))
    }) {
        let (shape, dtype) = (node.shape(&term.x)?, node.dtype(&term.x)?);
        let extent = shape[first].clone();
        let args = [extent.clone(), extent.clone(), PrimExpr::index(0)].map(Arg::Prim);
        let mask = node.op("eye", &args, Attrs::new().with("dtype", DataType::BOOL))?;
        let mut extents = vec![PrimExpr::index(1); shape.len()];
        (extents[first], extents[second]) = (extent.clone(), extent);
        let mask = node.reshape(&mask, &extents)?;
        let zero = node.scalar(0.0, dtype)?;
        let masked = node.call("where", &[mask, term.x, zero])?;
        term.x = sum_over(node, masked, vec![second as i64])?;
        term.labels.remove(second);
    }
    Ok(term)
}

/// Sums over the axes whose labels are not needed.
fn summed(node: &mut Node<'_, '_>, term: Term, needed: &dyn Fn(&Label) -> bool) -> Result<Term> {
    let (kept, dropped): (Vec<usize>, Vec<usize>) =
        (0..term.labels.len()).partition(|&i| needed(&term.labels[i]));
    let x = sum_over(node, term.x, dropped.into_iter().map(|it| it as i64).collect())?;
    Ok(Term { x, labels: kept.into_iter().map(|i| term.labels[i]).collect() })
}

/// The product of two terms, summed over labels that are not needed elsewhere: a batch of matrix products.
fn combined(node: &mut Node<'_, '_>, a: Term, b: &Term, needed: &dyn Fn(&Label) -> bool) -> Result<Term> {
    let a = summed(node, a, &|label| needed(label) || b.labels.contains(label))?;
    let b = Term { x: b.x.clone(), labels: b.labels.clone() };
    let b = summed(node, b, &|label| needed(label) || a.labels.contains(label))?;
    let shared = |label: &&Label| b.labels.contains(label);
    let (batch, inner): (Vec<Label>, Vec<Label>) =
        a.labels.iter().filter(shared).partition(|label| needed(label));
    let own = |labels: &[Label], other: &[Label]| -> Vec<Label> {
        labels.iter().filter(|label| !other.contains(label)).copied().collect()
    };
    let (rows, columns) = (own(&a.labels, &b.labels), own(&b.labels, &a.labels));
    let (left, outer_a, kept_rows, _) = matrices(node, &a, &batch, &rows, &inner)?;
    let (right, outer_b, _, kept_columns) = matrices(node, &b, &batch, &inner, &columns)?;
    let res = node.call("matmul", &[left, right])?;
    let wider = |(a, b): (&PrimExpr, &PrimExpr)| if a.is_const(1) { b.clone() } else { a.clone() };
    let mut extents: Vec<PrimExpr> = outer_a.iter().zip(&outer_b).map(wider).collect();
    extents.extend(kept_rows.into_iter().chain(kept_columns));
    let x = node.reshape(&res, &extents)?;
    Ok(Term { x, labels: [batch, rows, columns].concat() })
}

/// The extents of some axes.
type Extents = Vec<PrimExpr>;

/// Reshapes a term to matrices of `rows` × `columns` per `batch`; also returns the extents of all three groups.
fn matrices(
    node: &mut Node<'_, '_>,
    term: &Term,
    batch: &[Label],
    rows: &[Label],
    columns: &[Label],
) -> Result<(Arg, Extents, Extents, Extents)> {
    let order: Vec<i64> = (batch.iter().chain(rows).chain(columns))
        .filter_map(|label| term.labels.iter().position(|it| it == label))
        .map(|it| it as i64)
        .collect();
    let x = permuted(node, term.x.clone(), order)?;
    let shape = node.shape(&x)?;
    let (outer, rest) = shape.split_at(batch.len());
    let (high, wide) = rest.split_at(rows.len());
    let extents = [outer, &[product(high), product(wide)]].concat();
    Ok((node.reshape(&x, &extents)?, outer.to_vec(), high.to_vec(), wide.to_vec()))
}
