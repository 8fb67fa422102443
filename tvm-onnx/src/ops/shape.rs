//! Operators that rearrange elements without computing with them.

use tvm_core::ir::{AttrValue, Attrs};
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{product, simplify_dim};
use tvm_core::tir::PrimExpr;

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
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
    let axes = node.ints_or_attr(1, "axes", 13)?;
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let dropped = match axes {
        Some(axes) => node.axes(&axes, shape.len())?,
        None => (0..shape.len() as i64).filter(|&i| shape[i as usize].is_const(1)).collect(),
    };
    if let Some(axis) = dropped.iter().find(|&&it| shape[it as usize].as_int().is_some_and(|n| n != 1)) {
        return Err(node.malformed(format!("axis {axis} does not have extent 1")));
    }
    let kept = |(i, _): &(usize, &PrimExpr)| !dropped.contains(&(*i as i64));
    let extents: Vec<PrimExpr> = shape.iter().enumerate().filter(kept).map(|(_, it)| it.clone()).collect();
    one(node.reshape(&x, &extents))
}

fn unsqueeze(node: &mut Node<'_, '_>) -> Results {
    let axes = node.ints_or_attr(1, "axes", 13)?;
    let axes = node.required("axes", axes)?;
    let x = node.arg(0)?;
    let mut rest = node.shape(&x)?.into_iter();
    let rank = rest.len() + axes.len();
    let added = node.axes(&axes, rank)?;
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
    let x = node.arg(0)?;
    let rank = node.rank(&x)?;
    if node.known(1).is_none() {
        return tile_when_run(node, &x);
    }
    let repeats = node.ints(1)?;
    if repeats.len() != rank || repeats.iter().any(|&it| it < 0) {
        return Err(node.malformed(format!("repeats are {rank} numbers that are not negative")));
    }
    one(node.op("tile", &[x], Attrs::new().with("repeats", repeats)))
}

/// Inserts an axis for the repeats before each axis, then merges both.
fn tile_when_run(node: &mut Node<'_, '_>, x: &Arg) -> Results {
    let (repeats, shape) = (node.dims(1)?, node.shape(x)?);
    if repeats.len() != shape.len() {
        return Err(node.malformed(format!("repeats are {} numbers, got {}", shape.len(), repeats.len())));
    }
    let pairs = |repeats: &[PrimExpr]| -> Vec<PrimExpr> {
        repeats.iter().zip(&shape).flat_map(|(repeat, extent)| [repeat.clone(), extent.clone()]).collect()
    };
    let split = node.reshape(x, &pairs(&vec![PrimExpr::index(1); shape.len()]))?;
    let repeated = node.call("broadcast_to", &[split, Arg::Shape(pairs(&repeats).into())])?;
    let extents: Vec<PrimExpr> = repeats.iter().zip(&shape).map(|(a, b)| simplify_dim(&(a * b))).collect();
    one(node.reshape(&repeated, &extents))
}

fn split(node: &mut Node<'_, '_>) -> Results {
    let sizes = node.ints_or_attr(1, "split", 13)?;
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axis = node.axis(node.int_or("axis", 0)?, shape.len())?;
    let parts = match node.attr_int("num_outputs")? {
        Some(parts) if parts == node.num_outputs() as i64 => node.num_outputs(),
        Some(parts) => {
            let message = format!("attribute `num_outputs` is {parts}, the node has {}", node.num_outputs());
            return Err(node.malformed(message));
        }
        None => node.num_outputs(),
    };
    let sizes = match sizes {
        Some(sizes) => sizes,
        None => {
            let known = shape[axis].as_int();
            let extent = known.ok_or_else(|| node.unsupported("equal parts of a symbolic extent"))?;
            let n = parts.max(1) as i64;
            let size = extent / n + i64::from(extent % n != 0);
            (0..n).map(|i| (extent - i * size).clamp(0, size)).collect()
        }
    };
    let total = sizes.iter().try_fold(0i64, |sum, &it| sum.checked_add(it).filter(|_| it >= 0));
    if sizes.len() != parts
        || shape[axis].as_int().is_some_and(|extent| total != Some(extent))
        || total.is_none()
    {
        return Err(node.malformed("the sizes of the parts do not add up to the extent of the axis"));
    }
    if parts == 1 {
        return Ok(vec![x.into()]);
    }
    let mut end = 0;
    let ends = sizes[..parts - 1].iter().map(|size| {
        end += size;
        end
    });
    let ends: Vec<i64> = ends.collect();
    let attrs = Attrs::new().with("indices_or_sections", ends).with("axis", axis);
    let tuple = node.op("split", &[x], attrs)?;
    (0..parts).map(|i| Ok(node.field(&tuple, i)?.into())).collect()
}

fn pad(node: &mut Node<'_, '_>) -> Results {
    let pads = if node.opset < 11 {
        let pads = node.attr_ints("pads")?;
        node.required("pads", pads)?.to_vec()
    } else {
        node.ints(1)?
    };
    let mode = node.str_or("mode", "constant")?;
    let axes = if node.has(3) { Some(node.ints(3)?) } else { None };
    let x = node.arg(0)?;
    let (rank, dtype) = (node.rank(&x)?, node.dtype(&x)?);
    let axes = match axes {
        Some(axes) => node.axes(&axes, rank)?,
        None => (0..rank as i64).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(node.malformed(format!("pads are {} numbers, got {}", 2 * axes.len(), pads.len())));
    }
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
        _ => return Err(node.unsupported(format!("mode {mode}"))),
    };
    let mut attrs = Attrs::new().with("pad_width", widths).with("pad_mode", mode);
    let mut args = vec![x];
    if mode == "constant" {
        let value = if node.opset < 11 {
            node.scalar(node.float_or("value", 0.0)?, dtype)?
        } else {
            match node.opt_arg(2)? {
                Some(value) => node.reshape(&value, &[])?,
                None => node.scalar(0.0, dtype)?,
            }
        };
        match value.as_const().and_then(super::number) {
            Some(number) => attrs.set("pad_value", AttrValue::Float(number)),
            None => return Err(node.unsupported("padding with a value known only at run time")),
        }
    }
    one(node.op("nn.pad", &std::mem::take(&mut args), attrs))
}

/// The middle of the input if it is too large; the input in the middle of zeros if it is too small.
fn center_crop_pad(node: &mut Node<'_, '_>) -> Results {
    let target = node.ints(1)?;
    let x = node.arg(0)?;
    let shape = node.shape(&x)?;
    let axes = match node.attr_ints("axes")? {
        Some(axes) => node.axes(axes, shape.len())?,
        None => (0..shape.len() as i64).collect(),
    };
    if axes.len() != target.len() || target.iter().any(|it| !(0..1 << 40).contains(it)) {
        return Err(node.malformed(format!("the shape is {} numbers that are not negative", axes.len())));
    }
    let mut widths = vec![0; 2 * shape.len()];
    for (&axis, &wanted) in axes.iter().zip(&target) {
        let axis = axis as usize;
        let extent = shape[axis].as_int().ok_or_else(|| node.unsupported("a symbolic extent"))?;
        let missing = wanted - extent;
        // An odd element of padding goes to the end.
        (widths[2 * axis], widths[2 * axis + 1]) = (missing / 2, missing - missing / 2);
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
