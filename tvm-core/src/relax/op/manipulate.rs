//! Operators that rearrange elements: reshapes, permutations of axes, concatenation and splits, repetition.
//!
//! TVM counterpart: `src/relax/op/tensor/manipulate.cc`.

use super::context::{known, rank, single, tensor_type};
use super::create::shape_argument;
use super::def::{arg, attr, required, tensor};
use crate::ir::{
    ArgDef, ArgKind, AttrKind, InferContext, IrError, LegalizeContext, MemoryEffect, OpDef, TensorShape,
    TensorType, Type,
};
use crate::relax::analysis::{differ, product, show_dim, show_dims, simplify_dim};
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi::{self, Operand};

const X: &[ArgDef] = &[tensor("x")];

pub(super) static OPS: &[OpDef] = &[
    OpDef::new("broadcast_to", "x broadcast to a shape; ONNX `Expand`", infer_broadcast_to)
        .args(&[tensor("x"), arg("shape", ArgKind::Shape)])
        .tensor_program(|cx| {
            let shape = cx.out_shape(0)?;
            single(cx, |x| {
                Ok(topi::broadcast("broadcast_to", shape, &[Operand::from(&x[0])], |it| it[0].clone()))
            })
        }),
    OpDef::new(
        "reshape",
        "the elements in their order under a shape, one extent of which may be -1; ONNX `Reshape`",
        infer_reshape,
    )
    .args(&[tensor("x"), arg("shape", ArgKind::Shape)])
    .memory(MemoryEffect::Reshapes)
    .tensor_program(lower_reshape),
    OpDef::new("flatten", "all axes as one", |cx| {
        let ty = cx.tensor(0)?;
        let shape = match ty.known_shape() {
            Some(dims) => known(vec![product(dims)]),
            None => TensorShape::Rank(1),
        };
        Ok(tensor_type(shape, ty.dtype))
    })
    .args(X)
    .memory(MemoryEffect::Reshapes)
    .tensor_program(lower_reshape),
    OpDef::new("nn.batch_flatten", "all axes but the first as one; ONNX `Flatten` of axis 1", |cx| {
        let ty = cx.tensor(0)?;
        let shape = match ty.known_shape() {
            Some([]) => return Err(cx.error("expected rank 1 or more, got rank 0")),
            Some([first, rest @ ..]) => known(vec![first.clone(), product(rest)]),
            None => TensorShape::Rank(2),
        };
        Ok(tensor_type(shape, ty.dtype))
    })
    .args(X)
    .memory(MemoryEffect::Reshapes)
    .tensor_program(lower_reshape),
    OpDef::new(
        "expand_dims",
        "new axes of extent 1 at positions of the result; ONNX `Unsqueeze`",
        infer_expand_dims,
    )
    .args(X)
    .attrs(&[required("axis", AttrKind::Ints)])
    .memory(MemoryEffect::Reshapes)
    .tensor_program(lower_reshape),
    OpDef::new(
        "squeeze",
        "without axes of extent 1 (all of them when none is named); ONNX `Squeeze`",
        infer_squeeze,
    )
    .args(X)
    .attrs(&[attr("axis", AttrKind::Ints).default("all axes of extent 1")])
    .memory(MemoryEffect::Reshapes)
    .tensor_program(lower_reshape),
    OpDef::new(
        "permute_dims",
        "axes in another order (reversed when none is given); ONNX `Transpose`",
        infer_permute,
    )
    .args(X)
    .attrs(&[attr("axes", AttrKind::Ints).default("all axes, reversed")])
    .tensor_program(|cx| single(cx, |x| Ok(topi::permute(&x[0], &permutation(&cx.infer(), x[0].ndim())?)))),
    OpDef::new("concat", "tensors one after another along an axis; ONNX `Concat`", infer_concat)
        .args(&[arg("tensors", ArgKind::Variadic)])
        .attrs(&[attr("axis", AttrKind::Int).default("0")])
        .tensor_program(|cx| {
            let shape = cx.out_shape(0)?;
            let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(0), shape.len())?;
            single(cx, |xs| Ok(topi::concat(xs, axis, shape)))
        }),
    OpDef::new("stack", "tensors of one shape side by side along a new axis", infer_stack)
        .args(&[arg("tensors", ArgKind::Variadic)])
        .attrs(&[attr("axis", AttrKind::Int).default("0")])
        .tensor_program(|cx| {
            let shape = cx.out_shape(0)?;
            let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(0), shape.len())?;
            single(cx, |xs| Ok(topi::stack(xs, axis, shape)))
        }),
    OpDef::new(
        "split",
        "parts along an axis: a number (the last may be smaller) or cut at indices; ONNX `Split`",
        infer_split,
    )
    .args(X)
    .attrs(&[required("indices_or_sections", AttrKind::Ints), attr("axis", AttrKind::Int).default("0")])
    .tensor_program(lower_split),
    OpDef::new("tile", "x repeated as a whole along every axis; ONNX `Tile`", infer_tile)
        .args(X)
        .attrs(&[required("repeats", AttrKind::Ints)])
        .tensor_program(|cx| {
            let shape = cx.out_shape(0)?;
            single(cx, |x| Ok(topi::tile(&x[0], shape)))
        }),
    OpDef::new("repeat", "every element repeated along an axis", infer_repeat)
        .args(X)
        .attrs(&[required("repeats", AttrKind::Int), required("axis", AttrKind::Int)])
        .tensor_program(|cx| {
            let (shape, times) = (cx.out_shape(0)?, cx.attrs.int("repeats").unwrap_or(1));
            let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(0), shape.len())?;
            single(cx, |x| Ok(topi::repeat(&x[0], times, axis, shape)))
        }),
    OpDef::new("flip", "backwards along axes (all of them when none is named)", |cx| {
        let ty = cx.tensor(0)?;
        ty.ndim().map(|ndim| cx.axes("axis", ndim)).transpose()?;
        Ok(Type::Tensor(ty.clone()))
    })
    .args(X)
    .attrs(&[attr("axis", AttrKind::Ints).default("all axes")])
    .tensor_program(|cx| single(cx, |x| Ok(topi::flip(&x[0], &cx.infer().axes("axis", x[0].ndim())?)))),
];

fn lower_reshape(cx: &LegalizeContext<'_>) -> Result<PrimFunc, IrError> {
    let shape = cx.out_shape(0)?;
    single(cx, |x| Ok(topi::reshape(&x[0], shape)))
}

fn infer_broadcast_to(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    let shape = shape_argument(ctx, 1);
    if let (Some(from), TensorShape::Known(to)) = (ty.known_shape(), &shape) {
        let offset = to.len().checked_sub(from.len());
        let fits = offset.is_some_and(|offset| {
            let mut pairs = from.iter().zip(&to[offset..]);
            pairs.all(|(from, to)| from.is_const(1) || !differ(from, to))
        });
        if !fits {
            let (from, to) = (show_dims(from), show_dims(to));
            return Err(ctx.error(format!("{from} does not broadcast to {to}")));
        }
    }
    Ok(tensor_type(shape, ty.dtype))
}

fn infer_reshape(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    let TensorShape::Known(target) = shape_argument(ctx, 1) else {
        return Ok(tensor_type(shape_argument(ctx, 1), ty.dtype));
    };
    let open: Vec<usize> = (0..target.len()).filter(|&i| target[i].is_const(-1)).collect();
    if open.len() > 1 || target.iter().any(|dim| dim.as_int().is_some_and(|it| it < -1)) {
        let message = format!("{} is no shape: one extent may be -1, none less", show_dims(&target));
        return Err(ctx.error(message));
    }
    let Some(dims) = ty.known_shape() else {
        let shape = if open.is_empty() { known(target.to_vec()) } else { TensorShape::Rank(target.len()) };
        return Ok(tensor_type(shape, ty.dtype));
    };
    let total = product(dims);
    let mut target = target.to_vec();
    let misfit = |target: &[PrimExpr]| {
        let (from, to) = (show_dims(dims), show_dims(target));
        Err(ctx.error(format!("{from} has another number of elements than {to}")))
    };
    if let [axis] = open[..] {
        let others: Vec<PrimExpr> =
            target.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, dim)| dim.clone()).collect();
        let others = product(&others);
        match (total.as_int(), others.as_int()) {
            (Some(total), Some(others)) if others == 0 || total % others != 0 => return misfit(&target),
            _ => target[axis] = simplify_dim(&total.floordiv(others)),
        }
    } else if differ(&total, &product(&target)) {
        return misfit(&target);
    }
    Ok(tensor_type(known(target), ty.dtype))
}

fn infer_expand_dims(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    let count = ctx.attrs.int_list("axis").map_or(0, |it| it.len());
    let Some(ndim) = ty.ndim() else { return Ok(tensor_type(TensorShape::Unknown, ty.dtype)) };
    let axes = ctx.axes("axis", ndim + count)?;
    let Some(dims) = ty.known_shape() else {
        return Ok(tensor_type(TensorShape::Rank(ndim + count), ty.dtype));
    };
    let mut dims = dims.to_vec();
    axes.into_iter().for_each(|axis| dims.insert(axis, PrimExpr::index(1)));
    Ok(tensor_type(TensorShape::Known(dims.into()), ty.dtype))
}

fn infer_squeeze(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    let named = ctx.attrs.get("axis").is_some();
    let Some(ndim) = ty.ndim() else { return Ok(tensor_type(TensorShape::Unknown, ty.dtype)) };
    let axes = ctx.axes("axis", ndim)?;
    let Some(dims) = ty.known_shape() else {
        return Ok(tensor_type(rank(named.then(|| ndim - axes.len())), ty.dtype));
    };
    let mut kept = Vec::new();
    for (axis, dim) in dims.iter().enumerate() {
        if !(axes.contains(&axis) && (named || dim.is_const(1))) {
            kept.push(dim.clone());
        } else if differ(dim, &PrimExpr::index(1)) {
            let message = format!("axis {axis} of {} has not extent 1", show_dims(dims));
            return Err(ctx.error(message));
        }
    }
    Ok(tensor_type(TensorShape::Known(kept.into()), ty.dtype))
}

fn permutation(ctx: &InferContext<'_>, ndim: usize) -> Result<Vec<usize>, IrError> {
    let Some(given) = ctx.attrs.int_list("axes") else { return Ok((0..ndim).rev().collect()) };
    let axes = given.iter().map(|&axis| ctx.axis(axis, ndim)).collect::<Result<Vec<_>, _>>()?;
    if axes.len() != ndim || (0..ndim).any(|axis| !axes.contains(&axis)) {
        return Err(ctx.error(format!("attribute `axes` is no order of {ndim} axes: {given:?}")));
    }
    Ok(axes)
}

fn infer_permute(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    let given = ctx.attrs.int_list("axes").map(|it| it.len());
    let Some(ndim) = ty.ndim().or(given) else { return Ok(tensor_type(TensorShape::Unknown, ty.dtype)) };
    let axes = permutation(ctx, ndim)?;
    let shape = match ty.known_shape() {
        Some(dims) => TensorShape::Known(axes.iter().map(|&axis| dims[axis].clone()).collect()),
        None => TensorShape::Rank(ndim),
    };
    Ok(tensor_type(shape, ty.dtype))
}

fn infer_concat(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (tensors, dtype) = (ctx.tensors(), ctx.same_dtype()?);
    if tensors.is_empty() {
        return Err(ctx.error("expected at least one tensor"));
    }
    let Some(ndim) = tensors.iter().find_map(|ty| ty.ndim()) else {
        return Ok(tensor_type(TensorShape::Unknown, dtype));
    };
    if let Some(other) = tensors.iter().filter_map(|ty| ty.ndim()).find(|&it| it != ndim) {
        return Err(ctx.error(format!("the tensors have different ranks: {ndim} and {other}")));
    }
    let axis = ctx.axis(ctx.attrs.int("axis").unwrap_or(0), ndim)?;
    let Some(shapes) = tensors.iter().map(|ty| ty.known_shape()).collect::<Option<Vec<_>>>() else {
        return Ok(tensor_type(TensorShape::Rank(ndim), dtype));
    };
    let mut dims = shapes[0].to_vec();
    for shape in &shapes[1..] {
        for (k, (dim, other)) in dims.iter_mut().zip(shape.iter()).enumerate() {
            if k == axis {
                *dim = &*dim + other;
            } else if differ(dim, other) {
                let (a, b) = (show_dims(shapes[0]), show_dims(shape));
                let message =
                    format!("{a} and {b} differ at axis {k}, which is not the axis {axis} of concat");
                return Err(ctx.error(message));
            } else if other.as_int().is_some() {
                *dim = other.clone();
            }
        }
    }
    Ok(tensor_type(known(dims), dtype))
}

fn infer_stack(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (tensors, dtype) = (ctx.tensors(), ctx.same_dtype()?);
    let Some(first) = tensors.first() else { return Err(ctx.error("expected at least one tensor")) };
    let Some(dims) = first.known_shape() else {
        return Ok(tensor_type(rank(first.ndim().map(|it| it + 1)), dtype));
    };
    for other in tensors.iter().filter_map(|ty| ty.known_shape()) {
        let same = other.len() == dims.len() && other.iter().zip(dims).all(|(a, b)| !differ(a, b));
        if !same {
            let (a, b) = (show_dims(dims), show_dims(other));
            return Err(ctx.error(format!("the tensors have different shapes: {a} and {b}")));
        }
    }
    let axis = ctx.axis(ctx.attrs.int("axis").unwrap_or(0), dims.len() + 1)?;
    let mut dims = dims.to_vec();
    dims.insert(axis, PrimExpr::index(tensors.len() as i64));
    Ok(tensor_type(TensorShape::Known(dims.into()), dtype))
}

/// The positions where the parts of a split of an axis of `extent` start. Attribute `indices_or_sections` is either the
/// number of parts or the list of cuts.
fn split_starts(ctx: &InferContext<'_>, extent: &PrimExpr) -> Result<Vec<PrimExpr>, IrError> {
    if let Some(sections) = ctx.attrs.int("indices_or_sections") {
        if sections < 1 {
            return Err(ctx.error(format!("the number of parts is positive, got {sections}")));
        }
        let size = topi::ceil_div(extent.clone(), &PrimExpr::index(sections));
        return Ok((0..sections).map(|i| simplify_dim(&(&size * i)).min(extent)).collect());
    }
    let indices = ctx.attrs.ints("indices_or_sections").unwrap_or_default();
    let cuts = [&[0], &indices[..]].concat();
    let inside = |it: i64| extent.as_int().is_none_or(|extent| it <= extent);
    if cuts.windows(2).any(|pair| pair[0] > pair[1]) || !cuts.iter().all(|&it| inside(it)) {
        let extent = show_dim(extent);
        return Err(ctx.error(format!("the cuts {indices:?} do not increase within the extent {extent}")));
    }
    Ok(cuts.into_iter().map(PrimExpr::index).collect())
}

fn infer_split(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    let unknown = PrimExpr::index(i64::MAX);
    let axis = ctx.attrs.int("axis").unwrap_or(0);
    let Some(dims) = ty.known_shape() else {
        let parts = split_starts(ctx, &unknown)?.len();
        let part = tensor_type(rank(ty.ndim()), ty.dtype);
        return Ok(Type::Tuple(vec![part; parts].into()));
    };
    let axis = ctx.axis(axis, dims.len())?;
    let mut ends = split_starts(ctx, &dims[axis])?;
    let starts = ends.clone();
    ends.remove(0);
    ends.push(dims[axis].clone());
    let part = |(start, end): (&PrimExpr, PrimExpr)| {
        let mut dims = dims.to_vec();
        dims[axis] = end - start;
        Type::Tensor(TensorType { shape: known(dims), ..ty.clone() })
    };
    Ok(Type::Tuple(starts.iter().zip(ends).map(part).collect()))
}

fn lower_split(cx: &LegalizeContext<'_>) -> Result<PrimFunc, IrError> {
    let inputs = cx.inputs()?;
    let x = &inputs[0];
    let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(0), x.ndim())?;
    let starts = split_starts(&cx.infer(), &x.shape()[axis])?;
    let shapes = (0..starts.len()).map(|i| cx.out_shape(i)).collect::<Result<Vec<_>, _>>()?;
    cx.finish(&inputs, &topi::split(x, axis, &starts, &shapes))
}

fn infer_tile(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let ty = ctx.tensor(0)?;
    let repeats = ctx.attrs.int_list("repeats").unwrap_or_default();
    if repeats.iter().any(|&it| it < 0) {
        return Err(ctx.error(format!("a number of repeats is negative: {repeats:?}")));
    }
    let Some(dims) = ty.known_shape() else {
        return Ok(tensor_type(rank(ty.ndim().map(|it| it.max(repeats.len()))), ty.dtype));
    };
    let ndim = dims.len().max(repeats.len());
    let at = |axis: usize| {
        let dim = (axis + dims.len()).checked_sub(ndim).map_or(PrimExpr::index(1), |k| dims[k].clone());
        dim * (axis + repeats.len()).checked_sub(ndim).map_or(1, |k| repeats[k])
    };
    Ok(tensor_type(known((0..ndim).map(at).collect()), ty.dtype))
}

fn infer_repeat(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (ty, times) = (ctx.tensor(0)?, ctx.attrs.int("repeats").unwrap_or(1));
    if times < 0 {
        return Err(ctx.error(format!("the number of repeats is negative: {times}")));
    }
    let Some(dims) = ty.known_shape() else { return Ok(tensor_type(rank(ty.ndim()), ty.dtype)) };
    let axis = ctx.axis(ctx.attrs.int("axis").unwrap_or(0), dims.len())?;
    let mut dims = dims.to_vec();
    dims[axis] = &dims[axis] * times;
    Ok(tensor_type(known(dims), ty.dtype))
}
