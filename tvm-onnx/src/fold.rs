//! Constant folding of shape arithmetic at import. Computations on shapes (`Shape`, `Gather`, `Concat`, `Mul`, …) are
//! evaluated on symbolic expressions, so that the shape of a final `Reshape` is expressed in the dimensions of the inputs.
//!
//! An operator is folded if all its inputs are small integer tensors whose elements are known, at least symbolically.
//! Truth values are 0 and 1; one that depends on dimensions is a choice between them.

use tvm_core::relax::analysis::{prove_equal, prove_unequal, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::error::OnnxError;
use crate::node::Node;
use crate::proto::AttributeType;
use crate::tensor::dtype_from_onnx;
use crate::value::{Ints, MAX_INTS, is_large};

type Folded = Result<Option<Ints>, OnnxError>;

/// The result, if it can be folded; `None` leaves the node to its converter.
pub(crate) fn fold(node: &Node<'_, '_>) -> Folded {
    if !FOLDED.contains(&node.op_type()) {
        return Ok(None);
    }
    let mut inputs = Vec::new();
    for i in 0..node.num_inputs() {
        match node.known(i) {
            Some(ints) if TYPES.contains(&ints.dtype) => {
                inputs.push(Some(ints));
            }
            None if !node.has(i) => inputs.push(None),
            _ => return Ok(None),
        }
    }
    let Some(Some(first)) = inputs.first() else { return Ok(None) };
    let given = |i: usize| inputs.get(i).and_then(Option::as_ref);
    let res = match node.op_type() {
        "Gather" => gather(node, first, given(1))?,
        "Concat" => concat(node, &inputs)?,
        "Slice" => slice(node, first)?,
        "Transpose" => transpose(node, first)?,
        "Reshape" => reshape(node, first)?,
        "Unsqueeze" | "Squeeze" => redim(node, first)?,
        "Expand" => expand(first, given(1)),
        "Cast" => cast(node, first)?,
        // Whole numbers stay what they are.
        "Ceil" | "Floor" | "Round" => Some(first.clone()),
        // There is no -0 among integers.
        "Neg" if first.dtype == DataType::F32 && first.values.iter().any(|it| it.is_const(0)) => None,
        "Neg" => map(first, |x| PrimExpr::index(0) - x),
        "Abs" => map(first, |x| x.clone().less(0).select(PrimExpr::index(0) - x, x.clone())),
        "Not" => map(first, |x| truth(x.clone().equal(0))),
        "Where" => select(first, given(1), given(2)),
        "ReduceProd" => reduce(node, first, Some(1), |a, b| a * b)?,
        "ReduceSum" => reduce(node, first, Some(0), |a, b| a + b)?,
        "ReduceMax" => reduce(node, first, None, |a, b| a.max(b))?,
        "ReduceMin" => reduce(node, first, None, |a, b| a.min(b))?,
        op @ ("Max" | "Min") => {
            inputs[1..].iter().try_fold(first.clone(), |res, it| binary(op, &res, it.as_ref()?))
        }
        op => given(1).filter(|_| inputs.len() == 2).and_then(|second| binary(op, first, second)),
    };
    let small = |it: &Ints| it.values.len() <= MAX_INTS && !it.values.iter().any(is_large);
    let res = res.filter(small).map(|mut it| {
        it.values.iter_mut().for_each(|value| *value = node.decided(&simplify_dim(value)));
        it
    });
    Ok(res.filter(small).filter(Ints::is_exact))
}

/// Element types of the operands. Floats are whole numbers; exporters compute extents with them as well.
const TYPES: &[DataType] = &[DataType::I64, DataType::I32, DataType::BOOL, DataType::F32];

const FOLDED: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "Cast",
    "Ceil",
    "Concat",
    "Div",
    "Equal",
    "Expand",
    "Floor",
    "Gather",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "Reshape",
    "Round",
    "Slice",
    "Squeeze",
    "Sub",
    "Transpose",
    "Unsqueeze",
    "Where",
    "Xor",
];

/// A condition as an element: 0 or 1.
fn truth(condition: PrimExpr) -> PrimExpr {
    match condition.as_int() {
        Some(known) => PrimExpr::index((known != 0).into()),
        None => condition.select(PrimExpr::index(1), PrimExpr::index(0)),
    }
}

fn map(x: &Ints, f: impl Fn(&PrimExpr) -> PrimExpr) -> Option<Ints> {
    Some(Ints { dims: x.dims.clone(), values: x.values.iter().map(f).collect(), dtype: x.dtype })
}

/// Number of elements of a tensor of extents `dims`, if it is small enough to be tracked.
fn count(dims: &[i64]) -> Option<usize> {
    let n = dims.iter().try_fold(1i64, |n, &dim| n.checked_mul(dim))?;
    usize::try_from(n).ok().filter(|&n| n <= MAX_INTS)
}

/// The tensor of extents `dims` whose elements are those of `data` at the positions that `source` computes from indices.
fn rearranged(data: &Ints, dims: Vec<i64>, source: impl Fn(&[i64]) -> Option<usize>) -> Option<Ints> {
    let mut index = vec![0; dims.len()];
    let mut values = Vec::new();
    for _ in 0..count(&dims)? {
        values.push(data.values.get(source(&index)?)?.clone());
        for (at, &dim) in index.iter_mut().zip(&dims).rev() {
            *at += 1;
            if *at < dim {
                break;
            }
            *at = 0;
        }
    }
    Some(Ints { dims, values, dtype: data.dtype })
}

/// Position of the element with the given indices.
fn position(dims: &[i64], index: impl IntoIterator<Item = i64>) -> Option<usize> {
    let at = dims.iter().zip(index).fold(0, |at, (dim, index)| at * dim + index);
    usize::try_from(at).ok()
}

/// Extents of the result of two operands by the rules of broadcasting.
fn joined(a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
    let rank = a.len().max(b.len());
    let from_end = |dims: &[i64], i: usize| (i + dims.len()).checked_sub(rank).map_or(1, |i| dims[i]);
    let extent = |i| match (from_end(a, i), from_end(b, i)) {
        (x, 1) => Some(x),
        (1, y) => Some(y),
        (x, y) => (x == y).then_some(x),
    };
    (0..rank).map(extent).collect()
}

/// `data` with the extents `dims`, to which its own are broadcast.
fn broadcast(data: &Ints, dims: &[i64]) -> Option<Ints> {
    if data.dims == dims {
        return Some(data.clone());
    }
    let before = dims.len().checked_sub(data.dims.len())?;
    rearranged(data, dims.to_vec(), |index| {
        let own = index[before..].iter().zip(&data.dims);
        position(&data.dims, own.map(|(&at, &dim)| if dim == 1 { 0 } else { at }))
    })
}

fn binary(op: &str, a: &Ints, b: &Ints) -> Option<Ints> {
    let dims = joined(&a.dims, &b.dims)?;
    let (x, y) = (broadcast(a, &dims)?, broadcast(b, &dims)?);
    let holds = |x: &PrimExpr| x.clone().not_equal(0);
    let value = |(x, y): (&PrimExpr, &PrimExpr)| match op {
        "Add" => Some(x + y),
        "Sub" => Some(x - y),
        // A product of 0 and a negative float is -0.
        "Mul" if a.dtype == DataType::F32 && [x, y].iter().any(|it| it.as_int().is_some_and(|it| it < 0)) => {
            None
        }
        "Mul" => Some(x * y),
        // The quotient of floats may be no whole number.
        "Div" if a.dtype == DataType::F32 => {
            let (x, y) = (x.as_int()?, y.as_int().filter(|it| *it != 0)?);
            (x % y == 0 && (x != 0 || y > 0)).then(|| PrimExpr::index(x / y))
        }
        "Div" if y.as_int().is_none_or(|it| it != 0) => Some(x / y),
        // The remainder has the sign of the divisor, because `fmod` is not set.
        "Mod" if a.dtype != DataType::F32 && y.as_int().is_some_and(|it| it > 0) => {
            Some(x.clone().floormod(y))
        }
        "Min" => Some(x.clone().min(y)),
        "Max" => Some(x.clone().max(y)),
        "Equal" if prove_equal(x, y) => Some(PrimExpr::index(1)),
        "Equal" if prove_unequal(x, y) => Some(PrimExpr::index(0)),
        "Equal" => Some(truth(x.clone().equal(y))),
        "Less" => Some(truth(x.clone().less(y))),
        "LessOrEqual" => Some(truth(x.clone().less_equal(y))),
        "Greater" => Some(truth(x.clone().greater(y))),
        "GreaterOrEqual" => Some(truth(x.clone().greater_equal(y))),
        "And" => Some(truth(holds(x).and(holds(y)))),
        "Or" => Some(truth(holds(x).or(holds(y)))),
        "Xor" => Some(truth(x.clone().not_equal(y))),
        _ => None,
    };
    let values = x.values.iter().zip(&y.values).map(value).collect::<Option<Vec<_>>>()?;
    let arithmetic = matches!(op, "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Min" | "Max");
    Some(Ints { dims, values, dtype: if arithmetic { a.dtype } else { DataType::BOOL } })
}

fn select(cond: &Ints, yes: Option<&Ints>, no: Option<&Ints>) -> Option<Ints> {
    let (yes, no) = (yes?, no?);
    let dims = joined(&joined(&cond.dims, &yes.dims)?, &no.dims)?;
    let (cond, yes, no) = (broadcast(cond, &dims)?, broadcast(yes, &dims)?, broadcast(no, &dims)?);
    let value = |((cond, yes), no): ((&PrimExpr, &PrimExpr), &PrimExpr)| match cond.as_int() {
        Some(0) => no.clone(),
        Some(_) => yes.clone(),
        None => cond.clone().not_equal(0).select(yes.clone(), no.clone()),
    };
    let values = cond.values.iter().zip(&yes.values).zip(&no.values).map(value).collect();
    Some(Ints { dims, values, dtype: yes.dtype })
}

fn expand(data: &Ints, shape: Option<&Ints>) -> Option<Ints> {
    broadcast(data, &joined(&data.dims, &shape?.as_const()?)?)
}

fn gather(node: &Node<'_, '_>, data: &Ints, indices: Option<&Ints>) -> Folded {
    let Some((indices, extents)) = indices.and_then(|it| Some((it.as_const()?, &it.dims))) else {
        return Ok(None);
    };
    let axis = node.axis(node.int_or("axis", 0)?, data.dims.len())?;
    let n = data.dims[axis];
    if let Some(index) = indices.iter().find(|it| !(-n..n).contains(*it)) {
        return Err(node.malformed(format!("index {index} is outside of {n} elements")));
    }
    let dims = [&data.dims[..axis], &extents[..], &data.dims[axis + 1..]].concat();
    let inner = axis + extents.len();
    Ok(rearranged(data, dims, |at| {
        let index = indices.get(position(extents, at[axis..inner].iter().copied())?)?.rem_euclid(n);
        let own = at[..axis].iter().chain([&index]).chain(&at[inner..]);
        position(&data.dims, own.copied())
    }))
}

fn concat(node: &Node<'_, '_>, inputs: &[Option<Ints>]) -> Folded {
    let parts: Option<Vec<&Ints>> = inputs.iter().map(Option::as_ref).collect();
    let Some(parts) = parts else { return Ok(None) };
    let rank = parts[0].dims.len();
    let axis = node.axis(node.int_or("axis", if node.opset < 4 { 1 } else { 0 })?, rank)?;
    let mut dims = parts[0].dims.clone();
    let fits = |it: &&Ints| it.dims.len() == rank && (0..rank).all(|i| i == axis || it.dims[i] == dims[i]);
    if !parts.iter().all(fits) {
        return Ok(None);
    }
    dims[axis] = parts.iter().map(|it| it.dims[axis]).sum();
    let inner = |it: &Ints| it.dims[axis..].iter().product::<i64>() as usize;
    let outer = dims[..axis].iter().product::<i64>() as usize;
    let mut values = Vec::new();
    for i in 0..outer {
        for part in &parts {
            let size = inner(part);
            values.extend(part.values.iter().skip(i * size).take(size).cloned());
        }
    }
    Ok(Some(Ints { dims, values, dtype: parts[0].dtype }))
}

fn slice(node: &Node<'_, '_>, data: &Ints) -> Folded {
    let list = |i: usize, name: &str| node.ints_or_attr(i, name, 10);
    let (Ok(Some(starts)), Ok(Some(ends)), Ok(axes), Ok(steps)) =
        (list(1, "starts"), list(2, "ends"), list(3, "axes"), list(4, "steps"))
    else {
        return Ok(None);
    };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let axes = node.axes(&axes, data.dims.len())?;
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Ok(None);
    }
    let mut dims = data.dims.clone();
    let mut taken: Vec<Option<Vec<i64>>> = vec![None; dims.len()];
    for (i, &axis) in axes.iter().enumerate() {
        let axis = axis as usize;
        let Some(range) = slice_range(starts[i], ends[i], steps[i], data.dims[axis]) else { return Ok(None) };
        let range: Vec<i64> = range.collect();
        dims[axis] = range.len() as i64;
        taken[axis] = Some(range);
    }
    Ok(rearranged(data, dims, |at| {
        let own = at.iter().zip(&taken).map(|(&at, taken)| taken.as_ref().map_or(at, |it| it[at as usize]));
        position(&data.dims, own)
    }))
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

fn transpose(node: &Node<'_, '_>, data: &Ints) -> Folded {
    let rank = data.dims.len();
    let perm = match node.attr_ints("perm")? {
        Some(perm) => node.axes(perm, rank)?,
        None => (0..rank as i64).rev().collect(),
    };
    if perm.len() != rank {
        return Ok(None);
    }
    let dims = perm.iter().map(|&axis| data.dims[axis as usize]).collect();
    Ok(rearranged(data, dims, |at| {
        let mut own = vec![0; rank];
        perm.iter().zip(at).for_each(|(&axis, &at)| own[axis as usize] = at);
        position(&data.dims, own)
    }))
}

fn reshape(node: &Node<'_, '_>, data: &Ints) -> Folded {
    let shape = if node.opset < 5 {
        node.attr_ints("shape")?.map(<[i64]>::to_vec)
    } else {
        node.known(1).and_then(|it| it.as_const())
    };
    let (Some(mut dims), keep_zero) = (shape, node.flag("allowzero", false)?) else { return Ok(None) };
    for (i, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| **dim == 0 && !keep_zero) {
        let Some(own) = data.dims.get(i) else { return Ok(None) };
        *dim = *own;
    }
    let n = data.values.len() as i64;
    if let Some(at) = dims.iter().position(|&dim| dim == -1) {
        dims[at] = 1;
        match count(&dims) {
            None | Some(0) => return Ok(None),
            Some(others) => dims[at] = n / others as i64,
        }
    }
    Ok((count(&dims) == Some(n as usize)).then(|| Ints { dims, ..data.clone() }))
}

/// The same elements with axes of extent 1 added or removed.
fn redim(node: &Node<'_, '_>, data: &Ints) -> Folded {
    let Ok(axes) = node.ints_or_attr(1, "axes", 13) else { return Ok(None) };
    let dims = match (node.op_type(), axes) {
        ("Unsqueeze", Some(axes)) => {
            let rank = data.dims.len() + axes.len();
            let (axes, mut rest) = (node.axes(&axes, rank)?, data.dims.iter());
            let extent = |i: usize| if axes.contains(&(i as i64)) { Some(1) } else { rest.next().copied() };
            (0..rank).map(extent).collect::<Option<Vec<i64>>>()
        }
        ("Squeeze", axes) => {
            let all = || (0..data.dims.len() as i64).filter(|&it| data.dims[it as usize] == 1).collect();
            let axes = axes.map_or_else(|| Ok(all()), |axes| node.axes(&axes, data.dims.len()))?;
            let kept = |i: &usize| !axes.contains(&(*i as i64));
            let fits = axes.iter().all(|&axis| data.dims[axis as usize] == 1);
            fits.then(|| (0..data.dims.len()).filter(kept).map(|i| data.dims[i]).collect())
        }
        _ => None,
    };
    Ok(dims.map(|dims| Ints { dims, ..data.clone() }))
}

fn cast(node: &Node<'_, '_>, data: &Ints) -> Folded {
    if node.attr_type("to") != Some(AttributeType::Int) {
        return Ok(None);
    }
    let to = node.int_or("to", 0)?;
    if crate::narrow::Narrow::from_onnx(to).is_some() {
        return Ok(None);
    }
    Ok(match dtype_from_onnx(to)? {
        DataType::BOOL => {
            map(data, |x| truth(x.clone().not_equal(0))).map(|it| Ints { dtype: DataType::BOOL, ..it })
        }
        dtype @ (DataType::I64 | DataType::I32 | DataType::F32) => Some(Ints { dtype, ..data.clone() }),
        _ => None,
    })
}

/// Reduces a whole vector; `unit` is the result for an empty one.
fn reduce(
    node: &Node<'_, '_>,
    data: &Ints,
    unit: Option<i64>,
    f: impl Fn(PrimExpr, &PrimExpr) -> PrimExpr,
) -> Folded {
    let since = if node.op_type() == "ReduceSum" { 13 } else { 18 };
    let Ok(axes) = node.ints_or_attr(1, "axes", since) else { return Ok(None) };
    let keeps_all = axes.as_ref().is_some_and(Vec::is_empty) && node.flag("noop_with_empty_axes", false)?;
    if data.dims.len() != 1 || keeps_all || axes.is_some_and(|axes| !matches!(axes[..], [] | [0 | -1])) {
        return Ok(None);
    }
    let mut values = unit.map(PrimExpr::index).into_iter().chain(data.values.iter().cloned());
    let Some(first) = values.next() else { return Ok(None) };
    let value = values.fold(first, |a, b| f(a, &b));
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
