//! Operators whose results have as many elements as a condition holds for: the number is read when the program runs.

use tvm_core::ir::{Attrs, ShapeType, Type, Var};
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{product, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::iterate::{Loop, Step, iterate};
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("Compress", 9, With(compress)),
    row("NonMaxSuppression", 10, With(non_max_suppression)),
    row("NonZero", 9, With(non_zero)),
    row("Unique", 11, With(unique)),
];

type Results = Result<Vec<Value>, OnnxError>;

/// The places where the vector `flags` of bools is true, in order.
pub(super) fn places(node: &mut Node<'_, '_>, flags: &Arg) -> Result<Arg, OnnxError> {
    let n = node.extent(flags, 0)?;
    let ones = node.cast(flags, DataType::I64)?;
    let upto = node.over("cumsum", &ones, 0)?;
    let slot = node.with_dim("subtract", &upto, 1)?;
    // What is not chosen is written to a place after the last one.
    let slot = node.choice(flags, &slot, &Arg::Prim(n.clone()))?;
    let all = node.full(&[simplify_dim(&(&n + 1i64))], 0.0, DataType::I64)?;
    let own = node.count(&n, DataType::I64)?;
    let attrs = Attrs::new().with("axis", 0i64).with("reduction", "update");
    let all = node.op("scatter_elements", &[all, slot, own], attrs)?;
    let total = node.over("sum", &ones, 0)?;
    let total = node.reshape(&total, &[PrimExpr::index(1)])?;
    let count = read_count(node, &total)?;
    first(node, &all, &count)
}

/// The number in a vector of one element that is not negative, as a dimension.
fn read_count(node: &mut Node<'_, '_>, total: &Arg) -> Result<PrimExpr, OnnxError> {
    let shape = node.call("tensor_to_shape", std::slice::from_ref(total))?;
    let count = PrimExpr::from(&Var::index("chosen"));
    let ty = Type::Shape(ShapeType { values: Some([count.clone()].into()), ndim: Some(1) });
    let span = node.span().clone();
    node.importer().builder.emit_match_cast("chosen", shape, ty, &span);
    Ok(count)
}

/// The first `count` elements of a vector that has at least as many.
fn first(node: &mut Node<'_, '_>, x: &Arg, count: &PrimExpr) -> Result<Arg, OnnxError> {
    let part = node.part(x, 0, 0, count.clone())?;
    node.reshape(&part, std::slice::from_ref(count))
}

fn flat(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg, OnnxError> {
    let n = product(&node.shape(x)?);
    node.reshape(x, &[n])
}

fn non_zero(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let (shape, dtype) = (node.shape(&x)?, node.dtype(&x)?);
    let x = flat(node, &x)?;
    let flags = if dtype.is_bool() { x } else { node.with("not_equal", &x, 0.0)? };
    let places = places(node, &flags)?;
    let count = node.extent(&places, 0)?;
    let mut rows = Vec::new();
    for axis in 0..shape.len() {
        let stride = simplify_dim(&product(&shape[axis + 1..]).max(1));
        let at = node.with_dim("floor_divide", &places, stride)?;
        let at = node.with_dim("floor_mod", &at, simplify_dim(&shape[axis].clone().max(1)))?;
        rows.push(node.reshape(&at, &[1.into(), count.clone()])?);
    }
    if rows.is_empty() {
        // A scalar counts as one element of a vector.
        return one(node.reshape(&places, &[1.into(), count]));
    }
    one(node.joined(rows, 0))
}

fn compress(node: &mut Node<'_, '_>) -> Results {
    let (x, flags) = (node.arg(0)?, node.arg(1)?);
    let (x, axis) = match node.attr_int("axis")? {
        Some(axis) => {
            let axis = node.axis(axis, node.rank(&x)?)?;
            (x, axis)
        }
        None => (flat(node, &x)?, 0),
    };
    let flags = flat(node, &flags)?;
    let places = places(node, &flags)?;
    one(node.take(&x, &places, axis))
}

/// For each slice along the first axis of `rows` (n, width): -1, 0 or 1 for each other slice, as that one is larger, equal or
/// smaller in lexicographic order.
fn order_of_rows(node: &mut Node<'_, '_>, rows: &Arg) -> Result<Arg, OnnxError> {
    let shape = node.shape(rows)?;
    let (n, width) = (&shape[0], &shape[1]);
    let a = node.reshape(rows, &[n.clone(), 1.into(), width.clone()])?;
    let b = node.reshape(rows, &[1.into(), n.clone(), width.clone()])?;
    let (more, less) = (node.apply("greater", &a, &b)?, node.apply("less", &a, &b)?);
    let (more, less) = (node.cast(&more, DataType::I64)?, node.cast(&less, DataType::I64)?);
    let sign = node.apply("subtract", &more, &less)?;
    // The first element that differs decides.
    let differs = node.map("abs", &sign)?;
    let place = node.op("argmax", &[differs], Attrs::new().with("axis", 2i64).with("keepdims", true))?;
    let decided = node.op("gather_elements", &[sign, place], Attrs::new().with("axis", 2i64))?;
    node.reshape(&decided, &[n.clone(), n.clone()])
}

/// Distinct elements, or distinct slices along an axis.
fn unique(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let sorted = node.flag("sorted", true)?;
    let axis = match node.attr_int("axis")? {
        Some(axis) => Some(node.axis(axis, node.rank(&x)?)?),
        None => None,
    };
    // Slices as rows, and the row of each in order.
    let (slices, n, order) = match axis {
        None => {
            let x = flat(node, &x)?;
            let n = node.extent(&x, 0)?;
            let attrs = Attrs::new().with("axis", 0i64).with("dtype", DataType::I64);
            let order = node.op("argsort", std::slice::from_ref(&x), attrs)?;
            (x, n, order)
        }
        Some(axis) => {
            let mut axes: Vec<i64> = (0..node.rank(&x)? as i64).collect();
            let moved = axes.remove(axis);
            axes.insert(0, moved);
            let x = node.permuted(&x, &axes)?;
            let shape = node.shape(&x)?;
            let rows = node.reshape(&x, &[shape[0].clone(), product(&shape[1..])])?;
            let signs = order_of_rows(node, &rows)?;
            // The place of a row is the number of smaller rows, and of equal ones before it.
            let own = node.count(&shape[0], DataType::I64)?;
            let (i, j) = (node.along(&own, 0, 2)?, node.along(&own, 1, 2)?);
            let smaller = node.with_dim("equal", &signs, 1)?;
            let same = node.with_dim("equal", &signs, 0)?;
            let before = node.apply("less", &j, &i)?;
            let same = node.apply("logical_and", &same, &before)?;
            let counted = node.apply("logical_or", &smaller, &same)?;
            let counted = node.cast(&counted, DataType::I64)?;
            let rank = node.over("sum", &counted, 1)?;
            let attrs = Attrs::new().with("axis", 0i64).with("dtype", DataType::I64);
            let order = node.op("argsort", &[rank], attrs)?;
            (rows, shape[0].clone(), order)
        }
    };
    let in_order = node.take(&slices, &order, 0)?;
    let own = node.count(&n, DataType::I64)?;
    let previous = node.with_dim("subtract", &own, 1)?;
    let previous = node.with_dim("maximum", &previous, 0)?;
    let previous = node.take(&in_order, &previous, 0)?;
    let mut new = node.apply("not_equal", &in_order, &previous)?;
    if axis.is_some() {
        let differs = node.cast(&new, DataType::I64)?;
        let any = node.over("max", &differs, 1)?;
        new = node.cast(&any, DataType::BOOL)?;
    }
    let first_one = node.with_dim("equal", &own, 0)?;
    let new = node.apply("logical_or", &new, &first_one)?;
    let starts = places(node, &new)?;
    let group = node.cast(&new, DataType::I64)?;
    let group = node.over("cumsum", &group, 0)?;
    let group = node.with_dim("subtract", &group, 1)?;
    let update = || Attrs::new().with("axis", 0i64).with("reduction", "update");
    let zeros = node.full(std::slice::from_ref(&n), 0.0, DataType::I64)?;
    let mut inverse =
        node.op("scatter_elements", &[zeros.clone(), order.clone(), group.clone()], update())?;
    let ones = node.full(std::slice::from_ref(&n), 1.0, DataType::I64)?;
    let add = Attrs::new().with("axis", 0i64).with("reduction", "add");
    let counts = node.op("scatter_elements", &[zeros, group, ones], add)?;
    let count = node.extent(&starts, 0)?;
    let mut counts = first(node, &counts, &count)?;
    let mut firsts = node.take(&order, &starts, 0)?;
    if !sorted {
        // In the order of first occurrence.
        let attrs = || Attrs::new().with("axis", 0i64).with("dtype", DataType::I64);
        let by_place = node.op("argsort", std::slice::from_ref(&firsts), attrs())?;
        let rank = node.op("argsort", std::slice::from_ref(&by_place), attrs())?;
        (firsts, counts) = (node.take(&firsts, &by_place, 0)?, node.take(&counts, &by_place, 0)?);
        inverse = node.take(&rank, &inverse, 0)?;
    }
    let values = match axis {
        None => node.take(&slices, &firsts, 0)?,
        Some(axis) => node.take(&x, &firsts, axis)?,
    };
    Ok([values, firsts, inverse, counts].map(Value::from).to_vec())
}

/// Boxes in order of their scores, without those that overlap one chosen before: one after the other, for all batches and
/// classes side by side.
fn non_max_suppression(node: &mut Node<'_, '_>) -> Results {
    let (boxes, scores) = (node.arg(0)?, node.arg(1)?);
    let [batch, classes, count] = &node.shape(&scores)?[..] else {
        return Err(node.malformed("the scores have three axes"));
    };
    let most = if node.has(2) { node.dim(2)? } else { PrimExpr::index(0) };
    let most = simplify_dim(&most.min(count).max(0));
    let threshold = |node: &mut Node<'_, '_>, i: usize| -> Result<Option<Arg>, OnnxError> {
        let Some(value) = node.opt_arg(i)? else { return Ok(None) };
        node.reshape(&value, &[]).map(Some)
    };
    let (overlap, least) = (threshold(node, 3)?, threshold(node, 4)?);
    let dtype = node.dtype(&boxes)?;
    let zero = node.scalar(0.0, dtype)?;
    let overlap = overlap.unwrap_or_else(|| zero.clone());
    // Lower and upper limits of the boxes along both axes.
    let part = |node: &mut Node<'_, '_>, i: i64| {
        let part = node.part(&boxes, 2, i, i + 1)?;
        node.reshape(&part, &[batch.clone(), count.clone()])
    };
    let mut limits = Vec::new();
    let centred = node.int_or("center_point_box", 0)? != 0;
    for axis in 0..2 {
        let (a, b) = (part(node, axis)?, part(node, axis + 2)?);
        if centred {
            let half = node.with("multiply", &b, 0.5)?;
            limits.push([node.apply("subtract", &a, &half)?, node.apply("add", &a, &half)?]);
        } else {
            limits.push([node.apply("minimum", &a, &b)?, node.apply("maximum", &a, &b)?]);
        }
    }
    let extents = |node: &mut Node<'_, '_>, [low, high]: &[Arg; 2]| node.apply("subtract", high, low);
    let (height, width) = (extents(node, &limits[0])?, extents(node, &limits[1])?);
    let area = node.apply("multiply", &height, &width)?;
    let of_all = [batch.clone(), 1.into(), count.clone()];
    let of_one = [batch.clone(), classes.clone(), 1.into()];
    let lowest = node.scalar(f64::NEG_INFINITY, node.dtype(&scores)?)?;
    let alive = match &least {
        Some(least) => {
            let enough = node.apply("greater", &scores, least)?;
            node.choice(&enough, &scores, &lowest)?
        }
        None => scores.clone(),
    };
    let own = node.count(count, DataType::I64)?;
    let own = node.along(&own, 2, 3)?;
    let it = Loop { trip: Some(most.clone()), cond: None, carried: vec![alive], reversed: vec![false] };
    let chosen = iterate(node, it, &mut |node, _, _, carried| {
        let alive = &carried[0];
        let keep = Attrs::new().with("axis", 2i64).with("keepdims", true);
        let best = node.op("argmax", std::slice::from_ref(alive), keep)?;
        let top =
            node.op("gather_elements", &[alive.clone(), best.clone()], Attrs::new().with("axis", 2i64))?;
        let found = node.apply("greater", &top, &lowest)?;
        let none = node.full(&of_one, -1.0, DataType::I64)?;
        let row = node.choice(&found, &best, &none)?;
        // The overlap of each box with the chosen one of its batch and class.
        let at = node.reshape(&best, &[batch.clone(), classes.clone()])?;
        let gathered = |node: &mut Node<'_, '_>, x: &Arg| {
            let x = node.op("gather_elements", &[x.clone(), at.clone()], Attrs::new().with("axis", 1i64))?;
            node.reshape(&x, &of_one)
        };
        let mut common: Option<Arg> = None;
        for [low, high] in &limits {
            let (own_low, own_high) = (gathered(node, low)?, gathered(node, high)?);
            let (low, high) = (node.reshape(low, &of_all)?, node.reshape(high, &of_all)?);
            let from = node.apply("maximum", &low, &own_low)?;
            let to = node.apply("minimum", &high, &own_high)?;
            let length = node.apply("subtract", &to, &from)?;
            let length = node.apply("maximum", &length, &zero)?;
            common = Some(match common {
                Some(common) => node.apply("multiply", &common, &length)?,
                None => length,
            });
        }
        let common = common.ok_or_else(|| node.malformed("there are no axes"))?;
        let (own_area, areas) = (gathered(node, &area)?, node.reshape(&area, &of_all)?);
        let union = node.apply("add", &areas, &own_area)?;
        let union = node.apply("subtract", &union, &common)?;
        let allowed = node.apply("multiply", &union, &overlap)?;
        let over = node.apply("greater", &common, &allowed)?;
        let itself = node.apply("equal", &own, &best)?;
        let gone = node.apply("logical_or", &over, &itself)?;
        let alive = node.choice(&gone, &lowest, alive)?;
        Ok(Step { cond: None, carried: vec![alive], rows: vec![row] })
    })?;
    // (iterations, batch, class, 1) in the order of batches, classes and scores.
    let chosen = node.permuted(&chosen.rows[0], &[1, 2, 0, 3])?;
    let chosen = flat(node, &chosen)?;
    let found = node.with_dim("greater_equal", &chosen, 0)?;
    let places = places(node, &found)?;
    let rows = node.extent(&places, 0)?;
    let boxes = node.take(&chosen, &places, 0)?;
    let pair = node.with_dim("floor_divide", &places, simplify_dim(&most.max(1)))?;
    let classes = simplify_dim(&classes.clone().max(1));
    let (b, c) =
        (node.with_dim("floor_divide", &pair, classes.clone())?, node.with_dim("floor_mod", &pair, classes)?);
    let mut columns = Vec::new();
    for column in [b, c, boxes] {
        columns.push(node.reshape(&column, &[rows.clone(), 1.into()])?);
    }
    one(node.joined(columns, 1))
}
