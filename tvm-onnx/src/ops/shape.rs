//! Operators that rearrange elements without computing with them.

use tvm_core::ir::{AttrValue, Attrs};
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{product, prove_equal, prove_unequal, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::split::Split;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("CenterCropPad", 18, With(center_crop_pad)),
    row("Concat", 1, With(concat)),
    row("DepthToSpace", 1, With(depth_to_space)),
    row("Expand", 8, With(expand)),
    row("Flatten", 1, With(flatten)),
    row("Pad", 2, With(pad)),
    row("Reshape", 1, With(reshape)),
    row("SpaceToDepth", 1, With(space_to_depth)),
    row("Split", 2, With(split)),
    row("Squeeze", 1, With(squeeze)),
    row("Tile", 6, With(tile)),
    row("Transpose", 1, With(transpose)),
    row("Unsqueeze", 1, With(unsqueeze)),
];

type Results = Result<Vec<Value>, OnnxError>;

fn concat(node: &mut Node<'_, '_>) -> Results {
    let axis = match node.attr_int("axis")? {
        Some(axis) => axis,
        None if node.opset < 4 => 1,
        None => node.required("axis", None)?,
    };
    let args = node.args()?;
    match &args[..] {
        [] => Err(node.malformed("there is no input")),
        [single] => Ok(vec![single.clone().into()]),
        _ => one(node.op("concat", &[Arg::Tuple(args.into())], Attrs::new().with("axis", axis))),
    }
}

fn transpose(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let rank = node.rank(&x)?;
    let perm = match node.attr_ints("perm")? {
        Some(perm) => node.axes(perm, rank)?,
        None => (0..rank as i64).rev().collect(),
    };
    if perm.len() != rank {
        return Err(node.malformed(format!("attribute `perm` has {} axes, the input {rank}", perm.len())));
    }
    one(node.op("permute_dims", &[x], Attrs::new().with("axes", perm)))
}

fn flatten(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let (axis, rank) = (node.int_or("axis", 1)?, shape.len() as i64);
    if !(-rank..=rank).contains(&axis) {
        return Err(node.malformed(format!("axis {axis} is outside of a tensor of rank {rank}")));
    }
    let at = if axis < 0 { axis + rank } else { axis } as usize;
    let extents = [product(&shape[..at]), product(&shape[at..])];
    one(node.reshape(&x, &extents))
}

fn reshape(node: &mut Node<'_, '_>) -> Results {
    let target = if node.opset < 5 {
        let ints = node.attr_ints("shape")?;
        node.required("shape", ints)?.iter().map(|&it| PrimExpr::index(it)).collect()
    } else {
        node.dims(1)?
    };
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let keep_zero = node.flag("allowzero", false)?;
    if node.opset >= 5 && node.known(1).is_none() {
        return one(node.reshape(&x, &extents_when_run(&shape, &target, keep_zero)));
    }
    let mut extents = Vec::new();
    let mut inferred = None;
    for (i, extent) in target.into_iter().enumerate() {
        match extent.as_int() {
            Some(0) if !keep_zero => {
                let kept = shape.get(i).cloned();
                extents.push(kept.ok_or_else(|| node.malformed(format!("there is no axis {i} to keep")))?);
            }
            Some(-1) if inferred.is_none() => {
                inferred = Some(i);
                extents.push(PrimExpr::index(1));
            }
            Some(value) if value < 0 => {
                return Err(node.malformed(format!("extent {value} of axis {i} is negative")));
            }
            _ => extents.push(extent),
        }
    }
    if let Some(i) = inferred {
        let (total, others) = (product(&shape), product(&extents));
        extents[i] = match (total.as_int(), others.as_int()) {
            (_, Some(0)) => return Err(node.malformed("an extent cannot be inferred beside one of 0")),
            (Some(total), Some(others)) if total % others != 0 => {
                let message = format!("{total} elements do not divide into groups of {others}");
                return Err(node.malformed(message));
            }
            _ => simplify_dim(&total.floordiv(others)),
        };
    }
    one(node.reshape(&x, &extents))
}

/// The extents that `target` requests, if its elements are known only at run time: 0 keeps an extent, and -1 takes the
/// remaining elements.
fn extents_when_run(shape: &[PrimExpr], target: &[PrimExpr], keep_zero: bool) -> Vec<PrimExpr> {
    let kept = |(i, extent): (usize, &PrimExpr)| match shape.get(i) {
        Some(own) if !keep_zero => extent.clone().equal(0).select(own.clone(), extent.clone()),
        _ => extent.clone(),
    };
    let extents: Vec<PrimExpr> = target.iter().enumerate().map(kept).collect();
    let inferred = |it: &PrimExpr| it.clone().equal(-1);
    let others = extents.iter().fold(PrimExpr::index(1), |product, it| {
        product * inferred(it).select(PrimExpr::index(1), it.clone())
    });
    // Without a -1, the quotient is unused, but a divisor of 0 must not stop the program.
    let rest = product(shape).floordiv(others.clone().equal(0).select(PrimExpr::index(1), others));
    extents.iter().map(|it| inferred(it).select(rest.clone(), it.clone())).collect()
}

fn squeeze(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let dropped = match node.axes_at(1, "axes", 13, |_| shape.len())? {
        Some(axes) => axes,
        None => {
            // Which axes are dropped may depend on symbolic extents.
            if let Some(open) = shape.iter().find(|extent| node.is_one(extent).is_none()) {
                let cond = Arg::Prim(open.clone().equal(1));
                node.split = Some(Split { cond, arms: None });
                return Ok(Vec::new());
            }
            (0..shape.len() as i64).filter(|&i| node.is_one(&shape[i as usize]) == Some(true)).collect()
        }
    };
    if let Some(axis) = dropped.iter().find(|&&it| shape[it as usize].as_int().is_some_and(|n| n != 1)) {
        return Err(node.malformed(format!("axis {axis} does not have extent 1")));
    }
    let kept = |(i, _): &(usize, &PrimExpr)| !dropped.contains(&(*i as i64));
    let extents: Vec<PrimExpr> = shape.iter().enumerate().filter(kept).map(|(_, it)| it.clone()).collect();
    one(node.reshape(&x, &extents))
}

fn unsqueeze(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axes = node.axes_at(1, "axes", 13, |added| shape.len() + added)?;
    let added = node.required("axes", axes)?;
    let rank = shape.len() + added.len();
    let mut rest = shape.into_iter();
    let extent = |i: usize| if added.contains(&(i as i64)) { Some(PrimExpr::index(1)) } else { rest.next() };
    let extents: Option<Vec<PrimExpr>> = (0..rank).map(extent).collect();
    let extents = extents.ok_or_else(|| node.malformed("the axes do not fit"))?;
    one(node.reshape(&x, &extents))
}

fn expand(node: &mut Node<'_, '_>) -> Results {
    let target = node.dims(1)?;
    let when_run = node.known(1).is_none();
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let rank = shape.len().max(target.len());
    let from_end = |extents: &[PrimExpr], i: usize| {
        (i + extents.len()).checked_sub(rank).map_or_else(|| PrimExpr::index(1), |i| extents[i].clone())
    };
    let extent = |i| {
        let (own, wanted) = (from_end(&shape, i), from_end(&target, i));
        // An axis with more than one element keeps its extent, whatever extent is requested.
        if wanted.is_const(1) || when_run && !own.is_const(1) { own } else { wanted }
    };
    let extents: Vec<PrimExpr> = (0..rank).map(extent).collect();
    if extents.iter().any(|it| it.as_int().is_some_and(|it| it < 0)) {
        return Err(node.malformed("an extent is negative"));
    }
    one(node.call("broadcast_to", &[x, Arg::Shape(extents.into())]))
}

fn tile(node: &mut Node<'_, '_>) -> Results {
    let (x, repeats) = (node.arg(0)?, node.dims(1)?);
    let rank = node.rank(&x)?;
    if repeats.len() != rank || repeats.iter().any(|it| it.as_int().is_some_and(|it| it < 0)) {
        return Err(node.malformed(format!("repeats are {rank} numbers that are not negative")));
    }
    match repeats.iter().map(PrimExpr::as_int).collect::<Option<Vec<i64>>>() {
        Some(repeats) => one(node.op("tile", &[x], Attrs::new().with("repeats", repeats))),
        None => tile_symbolic(node, &x, &repeats),
    }
}

/// Inserts an axis for the repeats before each axis, then merges both.
fn tile_symbolic(node: &mut Node<'_, '_>, x: &Arg, repeats: &[PrimExpr]) -> Results {
    let shape = node.shape(x)?;
    let pairs = |repeats: &[PrimExpr]| -> Vec<PrimExpr> {
        repeats.iter().zip(&shape).flat_map(|(repeat, extent)| [repeat.clone(), extent.clone()]).collect()
    };
    let split = node.reshape(x, &pairs(&vec![PrimExpr::index(1); shape.len()]))?;
    let repeated = node.call("broadcast_to", &[split, Arg::Shape(pairs(repeats).into())])?;
    let extents: Vec<PrimExpr> = repeats.iter().zip(&shape).map(|(a, b)| simplify_dim(&(a * b))).collect();
    one(node.reshape(&repeated, &extents))
}

fn split(node: &mut Node<'_, '_>) -> Results {
    let sizes = if node.opset < 13 {
        node.attr_ints("split")?.map(|sizes| sizes.iter().map(|&it| PrimExpr::index(it)).collect())
    } else if node.has(1) {
        Some(node.dims(1)?)
    } else {
        None
    };
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axis = node.axis(node.int_or("axis", 0)?, shape.len())?;
    let extent = &shape[axis];
    let parts = node.num_outputs();
    if let Some(got) = node.attr_int("num_outputs")?.filter(|it| *it != parts as i64) {
        return Err(node.malformed(format!("attribute `num_outputs` is {got}, the node has {parts}")));
    }
    let sizes: Vec<PrimExpr> = match sizes {
        Some(sizes) => sizes,
        None => {
            let n = parts.max(1) as i64;
            let size = (extent + (n - 1)).floordiv(n);
            // The last parts are smaller if the extent is not a multiple.
            let part = |i: i64| (extent.clone() - size.clone() * i).max(0).min(&size);
            let equal = extent.clone().floormod(n).is_const(0);
            (0..n).map(|i| simplify_dim(&if equal { size.clone() } else { part(i) })).collect()
        }
    };
    if sizes.len() != parts {
        return Err(node.malformed(format!("there are sizes of {} parts, the node has {parts}", sizes.len())));
    }
    Ok(self::parts(node, &x, axis, &sizes)?.into_iter().map(Value::from).collect())
}

/// Consecutive parts of `x` along `axis`, of the given extents, which must add up to that of `x`.
pub(super) fn parts(
    node: &mut Node<'_, '_>,
    x: &Arg,
    axis: usize,
    sizes: &[PrimExpr],
) -> Result<Vec<Arg>, OnnxError> {
    let mut shape = node.shape(x)?;
    let total = simplify_dim(&sizes.iter().fold(PrimExpr::index(0), |total, size| total + size));
    if sizes.iter().any(|it| it.as_int().is_some_and(|it| it < 0)) || prove_unequal(&total, &shape[axis]) {
        return Err(node.malformed("the sizes of the parts do not add up to the extent of the axis"));
    }
    let Some((_, others)) = sizes.split_last().filter(|(_, others)| !others.is_empty()) else {
        if prove_equal(&total, &shape[axis]) {
            return Ok(vec![x.clone()]);
        }
        shape[axis] = total;
        return Ok(vec![node.reshape(x, &shape)?]);
    };
    let ends = others.iter().scan(PrimExpr::index(0), |end, size| {
        *end = simplify_dim(&(end.clone() + size));
        Some(end.clone())
    });
    let ends: Vec<PrimExpr> = ends.collect();
    if let Some(ends) = ends.iter().map(PrimExpr::as_int).collect::<Option<Vec<i64>>>() {
        let attrs = Attrs::new().with("indices_or_sections", ends).with("axis", axis);
        let tuple = node.op("split", std::slice::from_ref(x), attrs)?;
        return (0..sizes.len()).map(|i| node.field(&tuple, i)).collect();
    }
    let begins = [PrimExpr::index(0)].into_iter().chain(ends.iter().cloned());
    let limits: Vec<_> = begins.zip(ends.iter().cloned().chain([shape[axis].clone()])).collect();
    let mut res = Vec::new();
    for ((begin, end), size) in limits.into_iter().zip(sizes) {
        let part = node.part(x, axis, begin, end)?;
        // The extent of a slice with symbolic limits is an expression that clamps them.
        shape[axis] = size.clone();
        res.push(node.reshape(&part, &shape)?);
    }
    Ok(res)
}

fn pad(node: &mut Node<'_, '_>) -> Results {
    let pads = if node.opset < 11 {
        let pads = node.attr_ints("pads")?;
        node.required("pads", pads)?.iter().map(|&it| PrimExpr::index(it)).collect()
    } else {
        node.dims(1)?
    };
    let mode = node.str_or("mode", "constant")?;
    let x = node.arg(0)?;
    let (rank, dtype) = (node.rank(&x)?, node.dtype(&x)?);
    let axes = node.axes_at(3, "axes", 11, |_| rank)?.unwrap_or_else(|| (0..rank as i64).collect());
    if pads.len() != 2 * axes.len() {
        return Err(node.malformed(format!("pads are {} numbers, got {}", 2 * axes.len(), pads.len())));
    }
    let value = match () {
        () if mode != "constant" => None,
        () if node.opset < 11 => Some(node.scalar(node.float_or("value", 0.0)?, dtype)?),
        () => Some(match node.opt_arg(2)? {
            Some(value) => node.reshape(&value, &[])?,
            None => node.scalar(0.0, dtype)?,
        }),
    };
    let known = pads.iter().map(PrimExpr::as_int).collect::<Option<Vec<i64>>>();
    let number = value.as_ref().map(|value| value.as_const().and_then(super::number));
    let (Some(pads), Some(number)) = (known, number.map_or(Some(None), |it| it.map(Some))) else {
        return pad_when_run(node, x, &axes, &pads, (mode, value));
    };
    let mut widths = vec![0; 2 * rank];
    for (i, &axis) in axes.iter().enumerate() {
        widths[2 * axis as usize] = pads[i];
        widths[2 * axis as usize + 1] = pads[i + axes.len()];
    }
    let x = crop(node, x, &mut widths)?;
    if widths.iter().all(|&it| it == 0) {
        return Ok(vec![x.into()]);
    }
    let mode = match mode {
        "constant" | "reflect" => mode,
        "edge" => "replicate",
        "wrap" => "circular",
        _ => return Err(node.unsupported(format!("mode {}", crate::names::show(mode)))),
    };
    let mut attrs = Attrs::new().with("pad_width", widths).with("pad_mode", mode);
    if let Some(number) = number {
        attrs.set("pad_value", AttrValue::Float(number));
    }
    one(node.op("nn.pad", &[x], attrs))
}

/// Padding by widths, or with a value, that are known only when the program runs: axis by axis, the elements at computed
/// indices.
pub(super) fn pad_when_run(
    node: &mut Node<'_, '_>,
    mut x: Arg,
    axes: &[i64],
    pads: &[PrimExpr],
    (mode, value): (&str, Option<Arg>),
) -> Results {
    for (i, &axis) in axes.iter().enumerate() {
        let (before, after) = (&pads[i], &pads[i + axes.len()]);
        if before.is_const(0) && after.is_const(0) {
            continue;
        }
        let shape = node.shape(&x)?;
        let extent = shape[axis as usize].clone();
        let total = simplify_dim(&(extent.clone() + before + after).max(0));
        let first = simplify_dim(&(PrimExpr::index(0) - before));
        let limits = [first.clone(), simplify_dim(&(first + &total)), PrimExpr::index(1)].map(Arg::Prim);
        let at = node.op("arange", &limits, Attrs::new().with("dtype", DataType::I64))?;
        let number = |value: PrimExpr| Arg::Prim(simplify_dim(&value));
        let last = number(extent.clone() - 1i64);
        let clamped = |node: &mut Node<'_, '_>, at: &Arg| {
            let low = node.call("maximum", &[at.clone(), number(PrimExpr::index(0))])?;
            node.call("minimum", &[low, last.clone()])
        };
        let indices = match mode {
            "constant" | "edge" => clamped(node, &at)?,
            "wrap" => node.call("floor_mod", &[at.clone(), number(extent.clone())])?,
            "reflect" => {
                // One period is the axis forwards, then backwards without its first and last element.
                let period = (extent.clone() * 2i64 - 2i64).max(1);
                let phase = node.call("floor_mod", &[at.clone(), number(period.clone())])?;
                let back = node.call("subtract", &[number(period), phase.clone()])?;
                node.call("minimum", &[phase, back])?
            }
            _ => return Err(node.unsupported(format!("mode {}", crate::names::show(mode)))),
        };
        x = node.op("take", &[x, indices], Attrs::new().with("axis", axis))?;
        if let Some(value) = &value {
            let low = node.call("greater_equal", &[at.clone(), number(PrimExpr::index(0))])?;
            let high = node.call("less", &[at, number(extent)])?;
            let inside = node.call("logical_and", &[low, high])?;
            let mut column = vec![PrimExpr::index(1); shape.len() - axis as usize];
            column[0] = total;
            let inside = node.reshape(&inside, &column)?;
            x = node.call("where", &[inside, x, value.clone()])?;
        }
    }
    Ok(vec![x.into()])
}

/// The middle of the input if it is too large; the input in the middle of zeros if it is too small.
fn center_crop_pad(node: &mut Node<'_, '_>) -> Results {
    let target = node.dims(1)?;
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axes = match node.attr_ints("axes")? {
        Some(axes) => node.axes(axes, shape.len())?,
        None => (0..shape.len() as i64).collect(),
    };
    let known = |it: &PrimExpr| it.as_int();
    if axes.len() != target.len() || target.iter().filter_map(known).any(|it| !(0..1 << 40).contains(&it)) {
        return Err(node.malformed(format!("the shape is {} numbers that are not negative", axes.len())));
    }
    let mut widths = Vec::new();
    for (&axis, wanted) in axes.iter().zip(&target) {
        let missing = simplify_dim(&(wanted.clone() - &shape[axis as usize]));
        // An odd element of padding goes to the end, and so does an odd element that is removed.
        let before = simplify_dim(&match missing.as_int() {
            Some(missing) => PrimExpr::index(missing / 2),
            None => missing.clone() / 2i64,
        });
        widths.push((before.clone(), simplify_dim(&(missing - before))));
    }
    let pads: Vec<PrimExpr> =
        widths.iter().map(|it| it.0.clone()).chain(widths.iter().map(|it| it.1.clone())).collect();
    let zero = node.scalar(0.0, node.dtype(&x)?)?;
    let Some(pads) = pads.iter().map(known).collect::<Option<Vec<i64>>>() else {
        return pad_when_run(node, x, &axes, &pads, ("constant", Some(zero)));
    };
    let mut widths = vec![0; 2 * shape.len()];
    for (i, &axis) in axes.iter().enumerate() {
        (widths[2 * axis as usize], widths[2 * axis as usize + 1]) = (pads[i], pads[i + axes.len()]);
    }
    let x = crop(node, x, &mut widths)?;
    if widths.iter().all(|&it| it == 0) {
        return Ok(vec![x.into()]);
    }
    let attrs = Attrs::new().with("pad_width", widths).with("pad_value", 0.0);
    one(node.op("nn.pad", &[x], attrs))
}

/// Negative padding removes elements; afterwards no width is negative.
fn crop(node: &mut Node<'_, '_>, x: Arg, widths: &mut [i64]) -> Result<Arg, OnnxError> {
    if widths.iter().all(|&it| it >= 0) {
        return Ok(x);
    }
    let shape = node.shape(&x)?;
    let (mut axes, mut begin, mut end) = (Vec::new(), Vec::new(), Vec::new());
    for (axis, extent) in shape.iter().enumerate() {
        let (before, after) = (widths[2 * axis].min(0), widths[2 * axis + 1].min(0));
        if (before, after) != (0, 0) {
            axes.push(axis as i64);
            begin.push(PrimExpr::index(before.saturating_neg()));
            end.push(simplify_dim(&(extent + after)));
        }
    }
    widths.iter_mut().for_each(|it| *it = (*it).max(0));
    super::index::sliced(node, x, &axes, &begin, &end, &vec![1; axes.len()])
}

/// Rearranges blocks of channels to blocks of pixels.
fn depth_to_space(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let (n, c, h, w, b) = image(node, &x)?;
    let depth = simplify_dim(&c.clone().floordiv(&b * &b));
    if c.as_int().zip(b.as_int()).is_some_and(|(c, b)| c % (b * b) != 0) {
        return Err(node.malformed("the channels do not divide into blocks"));
    }
    let (split, axes) = match node.str_or("mode", "DCR")? {
        "CRD" => ([&n, &depth, &b, &b, &h, &w].map(Clone::clone), [0, 1, 4, 2, 5, 3]),
        _ => ([&n, &b, &b, &depth, &h, &w].map(Clone::clone), [0, 3, 4, 1, 5, 2]),
    };
    let x = node.reshape(&x, &split)?;
    let x = node.op("permute_dims", &[x], Attrs::new().with("axes", axes.to_vec()))?;
    one(node.reshape(&x, &[n, depth, simplify_dim(&(h * &b)), simplify_dim(&(w * &b))]))
}

/// Rearranges blocks of pixels to channels.
fn space_to_depth(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let (n, c, h, w, b) = image(node, &x)?;
    let (high, wide) = (simplify_dim(&h.floordiv(&b)), simplify_dim(&w.floordiv(&b)));
    let split = [&n, &c, &high, &b, &wide, &b].map(Clone::clone);
    let x = node.reshape(&x, &split)?;
    let axes = match node.str_or("mode", "DCR")? {
        "CRD" => vec![0i64, 1, 3, 5, 2, 4],
        _ => vec![0i64, 3, 5, 1, 2, 4],
    };
    let x = node.op("permute_dims", &[x], Attrs::new().with("axes", axes))?;
    one(node.reshape(&x, &[n, simplify_dim(&(c * &b * &b)), high, wide]))
}

/// Extents of a batch of images, and the block size.
fn image(
    node: &Node<'_, '_>,
    x: &Arg,
) -> Result<(PrimExpr, PrimExpr, PrimExpr, PrimExpr, PrimExpr), OnnxError> {
    let block = node.attr_int("blocksize")?;
    let block = node.required("blocksize", block)?;
    if !(1..=1 << 20).contains(&block) {
        return Err(node.malformed(format!("attribute `blocksize` is {block}")));
    }
    match &node.shape(x)?[..] {
        [n, c, h, w] => Ok((n.clone(), c.clone(), h.clone(), w.clone(), PrimExpr::index(block))),
        shape => Err(node.malformed(format!("the input has four axes, got {}", shape.len()))),
    }
}
