//! Constant folding of shape arithmetic at import. Computations on shapes (`Shape`, `Gather`, `Concat`, `Mul`, …) are
//! evaluated on symbolic expressions, so that the shape of a final `Reshape` is expressed in the dimensions of the inputs.
//!
//! An operator is folded if all its inputs are small integer tensors whose elements are known, at least symbolically.

use tvm_core::relax::analysis::{prove_equal, prove_unequal, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::error::OnnxError;
use crate::node::Node;
use crate::proto::AttributeType;
use crate::tensor::dtype_from_onnx;
use crate::value::{Ints, MAX_INTS};

/// The result, if it can be folded; `None` leaves the node to its converter.
pub(crate) fn fold(node: &Node<'_, '_>) -> Result<Option<Ints>, OnnxError> {
    if !FOLDED.contains(&node.op_type()) {
        return Ok(None);
    }
    let mut inputs = Vec::new();
    for i in 0..node.num_inputs() {
        match node.known(i) {
            Some(ints) if matches!(ints.dtype, DataType::I64 | DataType::I32 | DataType::BOOL) => {
                inputs.push(Some(ints));
            }
            None if !node.has(i) => inputs.push(None),
            _ => return Ok(None),
        }
    }
    let Some(Some(first)) = inputs.first().cloned() else { return Ok(None) };
    let given = |i: usize| inputs.get(i).and_then(Option::as_ref);
    let res = match node.op_type() {
        "Gather" => gather(node, &first, given(1))?,
        "Concat" => concat(node, &inputs)?,
        "Slice" => slice(node, &first)?,
        "Unsqueeze" | "Squeeze" | "Reshape" => redim(node, &first)?,
        "Cast" => cast(node, first)?,
        "Neg" => map(&first, |x| Some(PrimExpr::index(0) - x)),
        "Not" => map(&first, |x| Some(PrimExpr::index((x.as_int()? == 0).into()))),
        "Where" => select(&first, given(1), given(2)),
        "ReduceProd" => reduce(node, &first, 1, |a, b| a * b)?,
        "ReduceSum" => reduce(node, &first, 0, |a, b| a + b)?,
        op => given(1).filter(|_| inputs.len() == 2).and_then(|second| binary(op, &first, second)),
    };
    Ok(res.filter(|it| it.values.len() <= MAX_INTS).map(|mut it| {
        it.values.iter_mut().for_each(|value| *value = simplify_dim(value));
        it
    }))
}

const FOLDED: &[&str] = &[
    "Add",
    "And",
    "Cast",
    "Concat",
    "Div",
    "Equal",
    "Gather",
    "Greater",
    "Less",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "ReduceProd",
    "ReduceSum",
    "Reshape",
    "Slice",
    "Squeeze",
    "Sub",
    "Unsqueeze",
    "Where",
];

fn map(x: &Ints, f: impl Fn(&PrimExpr) -> Option<PrimExpr>) -> Option<Ints> {
    let values = x.values.iter().map(f).collect::<Option<Vec<_>>>()?;
    Some(Ints { dims: x.dims.clone(), values, dtype: x.dtype })
}

/// Extents of the result of two operands, if one of them has one element or both have the same extents.
fn joined<'a>(a: &'a Ints, b: &'a Ints) -> Option<&'a [i64]> {
    match () {
        () if a.dims == b.dims => Some(&a.dims),
        () if b.values.len() == 1 && b.dims.len() <= a.dims.len() => Some(&a.dims),
        () if a.values.len() == 1 && a.dims.len() <= b.dims.len() => Some(&b.dims),
        () => None,
    }
}

fn at(ints: &Ints, i: usize) -> Option<&PrimExpr> {
    if ints.values.len() == 1 { ints.values.first() } else { ints.values.get(i) }
}

fn binary(op: &str, a: &Ints, b: &Ints) -> Option<Ints> {
    let dims = joined(a, b)?;
    let n = a.values.len().max(b.values.len()) * usize::from(!dims.contains(&0));
    let truth = |yes: bool| Some(PrimExpr::index(yes.into()));
    let order = |x: &PrimExpr, y: &PrimExpr| Some(x.as_int()?.cmp(&y.as_int()?));
    let value = |i: usize| {
        let (x, y) = (at(a, i)?, at(b, i)?);
        match op {
            "Add" => Some(x + y),
            "Sub" => Some(x - y),
            "Mul" => Some(x * y),
            "Div" if y.as_int().is_none_or(|it| it != 0) => Some(x / y),
            // The remainder has the sign of the divisor, because `fmod` is not set.
            "Mod" if y.as_int().is_some_and(|it| it > 0) => Some(x.clone().floormod(y)),
            "Min" => Some(x.clone().min(y)),
            "Max" => Some(x.clone().max(y)),
            "Equal" if prove_equal(x, y) => truth(true),
            "Equal" if prove_unequal(x, y) => truth(false),
            "Less" => truth(order(x, y)?.is_lt()),
            "Greater" => truth(order(x, y)?.is_gt()),
            "And" => truth(x.as_int()? != 0 && y.as_int()? != 0),
            "Or" => truth(x.as_int()? != 0 || y.as_int()? != 0),
            _ => None,
        }
    };
    let values = (0..n).map(value).collect::<Option<Vec<_>>>()?;
    let compares = matches!(op, "Equal" | "Less" | "Greater" | "And" | "Or");
    let dtype = if compares { DataType::BOOL } else { a.dtype };
    Some(Ints { dims: dims.to_vec(), values, dtype })
}

fn select(cond: &Ints, yes: Option<&Ints>, no: Option<&Ints>) -> Option<Ints> {
    let (yes, no) = (yes?, no?);
    let dims = joined(yes, no)?.to_vec();
    let shape = Ints { dims, values: yes.values.clone(), dtype: yes.dtype };
    let n = yes.values.len().max(no.values.len()).max(cond.values.len());
    let dims = if cond.dims.len() > shape.dims.len() || cond.values.len() == n && n > 1 {
        cond.dims.clone()
    } else {
        shape.dims
    };
    if dims.iter().product::<i64>() != n as i64 {
        return None;
    }
    let value = |i: usize| at(if at(cond, i)?.as_int()? != 0 { yes } else { no }, i).cloned();
    Some(Ints { dims, values: (0..n).map(value).collect::<Option<Vec<_>>>()?, dtype: yes.dtype })
}

fn gather(node: &Node<'_, '_>, data: &Ints, indices: Option<&Ints>) -> Result<Option<Ints>, OnnxError> {
    let Some(indices) = indices.and_then(|it| Some((it.as_const()?, it.dims.clone()))) else {
        return Ok(None);
    };
    if data.dims.len() != 1 {
        return Ok(None);
    }
    node.axis(node.int_or("axis", 0)?, 1)?;
    let n = data.values.len() as i64;
    let mut values = Vec::new();
    for index in indices.0 {
        let inside = if index < 0 { index.checked_add(n) } else { Some(index) };
        let value = inside.and_then(|it| data.values.get(usize::try_from(it).ok()?));
        let message = || format!("index {index} is outside of {n} elements");
        values.push(value.cloned().ok_or_else(|| OnnxError::malformed(message()))?);
    }
    Ok(Some(Ints { dims: indices.1, values, dtype: data.dtype }))
}

fn concat(node: &Node<'_, '_>, inputs: &[Option<Ints>]) -> Result<Option<Ints>, OnnxError> {
    let parts: Option<Vec<&Ints>> = inputs.iter().map(Option::as_ref).collect();
    let Some(parts) = parts.filter(|it| it.iter().all(|part| part.dims.len() == 1)) else { return Ok(None) };
    node.axis(node.int_or("axis", 0)?, 1)?;
    let dtype = parts[0].dtype;
    let values: Vec<PrimExpr> = parts.iter().flat_map(|part| part.values.iter().cloned()).collect();
    Ok(Some(Ints { dims: vec![values.len() as i64], values, dtype }))
}

fn slice(node: &Node<'_, '_>, data: &Ints) -> Result<Option<Ints>, OnnxError> {
    if data.dims.len() != 1 {
        return Ok(None);
    }
    let list = |i: usize, name: &str| node.ints_or_attr(i, name, 10);
    let (Ok(starts), Ok(ends), Ok(steps)) = (list(1, "starts"), list(2, "ends"), list(4, "steps")) else {
        return Ok(None);
    };
    let (Some([start]), Some([end])) = (starts.as_deref(), ends.as_deref()) else { return Ok(None) };
    let step = match steps.as_deref() {
        None => 1,
        Some([step]) => *step,
        Some(_) => return Ok(None),
    };
    let n = data.values.len() as i64;
    let Some(range) = slice_range(*start, *end, step, n) else { return Ok(None) };
    let values: Vec<PrimExpr> = range.filter_map(|i| data.values.get(i as usize).cloned()).collect();
    Ok(Some(Ints { dims: vec![values.len() as i64], values, dtype: data.dtype }))
}

/// The indices that a slice of an axis of `n` elements selects; `None` for step 0.
fn slice_range(start: i64, end: i64, step: i64, n: i64) -> Option<impl Iterator<Item = i64>> {
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let limit = |at: i64| if at < 0 { at.saturating_add(n) } else { at }.clamp(low, high);
    let (start, end) = (limit(start), limit(end));
    let count = match step {
        0 => return None,
        1.. => (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()),
        _ => (start - end).max(0).unsigned_abs().div_ceil(step.unsigned_abs()),
    };
    Some((0..count as i64).map(move |i| start + i * step))
}

/// The same elements with other extents.
fn redim(node: &Node<'_, '_>, data: &Ints) -> Result<Option<Ints>, OnnxError> {
    let n = data.values.len() as i64;
    let dims = match node.op_type() {
        "Reshape" => {
            let Some(shape) = node.known(1).and_then(|it| it.as_const()) else { return Ok(None) };
            match shape[..] {
                [] if n == 1 => vec![],
                [-1] => vec![n],
                [extent] if extent == n => vec![n],
                _ => return Ok(None),
            }
        }
        "Unsqueeze" if data.dims.is_empty() => vec![1],
        "Squeeze" if data.dims == [1] => vec![],
        _ => return Ok(None),
    };
    Ok(Some(Ints { dims, ..data.clone() }))
}

fn cast(node: &Node<'_, '_>, data: Ints) -> Result<Option<Ints>, OnnxError> {
    if node.attr_type("to") != Some(AttributeType::Int) {
        return Ok(None);
    }
    let dtype = dtype_from_onnx(node.int_or("to", 0)?)?;
    let whole = |ty| matches!(ty, DataType::I64 | DataType::I32);
    Ok((whole(dtype) && whole(data.dtype)).then_some(Ints { dtype, ..data }))
}

/// Reduces a whole vector.
fn reduce(
    node: &Node<'_, '_>,
    data: &Ints,
    unit: i64,
    f: impl Fn(PrimExpr, &PrimExpr) -> PrimExpr,
) -> Result<Option<Ints>, OnnxError> {
    let axes = match node.op_type() {
        "ReduceSum" => node.ints_or_attr(1, "axes", 13)?,
        _ => node.ints_or_attr(1, "axes", 18)?,
    };
    if data.dims.len() != 1 || axes.is_some_and(|axes| !matches!(axes[..], [0 | -1])) {
        return Ok(None);
    }
    let value = data.values.iter().fold(PrimExpr::index(unit), f);
    let dims = if node.flag("keepdims", true)? { vec![1] } else { vec![] };
    Ok(Some(Ints { dims, values: vec![value], dtype: data.dtype }))
}

#[cfg(test)]
mod tests {
    use super::slice_range;

    #[test]
    fn slices() {
        let cases: &[(i64, i64, i64, &[i64])] = &[
            (0, 3, 1, &[0, 1, 2]),
            (-2, i64::MAX, 1, &[2, 3]),
            (0, -1, 2, &[0, 2]),
            (3, i64::MIN, -1, &[3, 2, 1, 0]),
            (-1, 0, -2, &[3, 1]),
            (9, 0, 1, &[]),
            (2, 2, 1, &[]),
        ];
        for (start, end, step, want) in cases {
            assert_eq!(slice_range(*start, *end, *step, 4).unwrap().collect::<Vec<_>>(), *want);
        }
        assert!(slice_range(0, 1, 0, 4).is_none());
    }
}
