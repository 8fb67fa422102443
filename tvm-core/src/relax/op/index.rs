//! Operators that select or update elements by index.
//!
//! A negative element of an index tensor counts from the end of the axis. An index outside of its axis is a run-time
//! error: each is checked once, before the tensor program runs ([`check_indices`]). With `mode = "clip"`, `take` and
//! `gather_elements` clamp indices to the axis instead, as in TVM.
//!
//! TVM counterpart: `src/relax/op/tensor/index.cc`, `search.cc`.

use tvm_runtime::DataType;

use super::context::{known, rank, single, tensor_type};
use super::def::{arg, attr, tensor};
use super::memory;
use crate::ir::{
    ArgDef, ArgKind, AttrDef, AttrKind, Attrs, InferContext, IrError, LegalizeContext, OpDef, TensorShape,
    TensorType, Type,
};
use crate::relax::analysis::{differ, show_dims, simplify_dim};
use crate::relax::{Arg, Expr};
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi;

const MODE: AttrDef = attr("mode", AttrKind::Str).default("\"raise\"");
const REDUCTION: AttrDef = attr("reduction", AttrKind::Str).default("\"update\"");
const SCATTER: &[ArgDef] = &[tensor("data"), tensor("indices"), tensor("updates")];

pub(super) static OPS: &[OpDef] = &[
    OpDef::new("take", "the elements that indices name along an axis; ONNX `Gather`", infer_take)
        .args(&[tensor("x"), tensor("indices")])
        .attrs(&[attr("axis", AttrKind::Int).default("the only axis, for rank 1"), MODE])
        .index_extents(take_extents)
        .tensor_program(|cx| {
            let shape = cx.out_shape(0)?;
            single(cx, |x| Ok(topi::take(&x[0], &x[1], take_axis(&cx.infer(), x[0].ndim())?, shape)))
        }),
    OpDef::new(
        "gather_elements",
        "for every index, the element that it names along an axis; ONNX `GatherElements`",
        |cx| {
            let (data, indices) = (cx.tensor(0)?, indices(cx)?);
            if let (Some(a), Some(b)) = (data.ndim(), indices.ndim()) {
                cx.axis(cx.attrs.int("axis").unwrap_or(0), a)?;
                if a != b {
                    return Err(cx.error(format!("data and indices have different ranks: {a} and {b}")));
                }
            }
            within(cx, data, indices)?;
            Ok(tensor_type(indices.shape.clone(), data.dtype))
        },
    )
    .args(&[tensor("data"), tensor("indices")])
    .attrs(&[attr("axis", AttrKind::Int).default("0"), MODE])
    .index_extents(axis_extents)
    .tensor_program(|cx| {
        single(cx, |x| {
            let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(0), x[0].ndim())?;
            Ok(topi::gather_elements(&x[0], &x[1], axis))
        })
    }),
    OpDef::new("gather_nd", "the slices that the rows of indices name; ONNX `GatherND`", infer_gather_nd)
        .args(&[tensor("data"), tensor("indices")])
        .attrs(&[attr("batch_dims", AttrKind::Int).default("0")])
        .index_extents(row_extents)
        .tensor_program(|cx| {
            let (shape, batch) = (cx.out_shape(0)?, cx.attrs.int("batch_dims").unwrap_or(0) as usize);
            single(cx, |x| {
                let depth = x[1].dim(x[1].ndim() - 1).as_int().unwrap_or(0) as usize;
                Ok(topi::gather_nd(&x[0], &x[1], batch, depth, shape))
            })
        }),
    OpDef::new(
        "scatter_elements",
        "data with the elements that indices name along an axis replaced or combined; ONNX `ScatterElements`",
        |cx| {
            let (data, indices, updates) = (cx.tensor(0)?, indices(cx)?, cx.tensor(2)?);
            reduction(cx)?;
            if let (Some(a), Some(b)) = (indices.known_shape(), updates.known_shape())
                && (a.len() != b.len() || a.iter().zip(b).any(|(a, b)| differ(a, b)))
            {
                let (a, b) = (show_dims(a), show_dims(b));
                return Err(cx.error(format!("indices and updates have different shapes: {a} and {b}")));
            }
            if let (Some(a), Some(b)) = (data.ndim(), indices.ndim())
                && a != b
            {
                return Err(cx.error(format!("data and indices have different ranks: {a} and {b}")));
            }
            within(cx, data, indices)?;
            Ok(Type::Tensor(data.clone()))
        },
    )
    .args(SCATTER)
    .attrs(&[attr("axis", AttrKind::Int).default("0"), REDUCTION])
    .index_extents(axis_extents)
    .tensor_program(|cx| {
        let combine = reduction(&cx.infer())?;
        single(cx, |x| {
            let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(0), x[0].ndim())?;
            Ok(topi::scatter_elements(&x[0], &x[1], &x[2], axis, combine))
        })
    }),
    OpDef::new(
        "scatter_nd",
        "data with the slices that the rows of indices name replaced or combined; ONNX `ScatterND`",
        |cx| {
            reduction(cx)?;
            infer_scatter_nd(cx)
        },
    )
    .args(SCATTER)
    .attrs(&[REDUCTION])
    .index_extents(row_extents)
    .tensor_program(|cx| {
        let (combine, depth) = (reduction(&cx.infer())?, row_length(&cx.infer())?.unwrap_or(0));
        single(cx, |x| Ok(topi::scatter_nd(&x[0], &x[1], &x[2], depth, combine)))
    }),
    OpDef::new(
        "strided_slice",
        "x[begin..end; stride] along axes (the first ones when none is named); ONNX `Slice`",
        |cx| {
            let ty = cx.tensor(0)?;
            let Some(dims) = ty.known_shape() else { return Ok(tensor_type(rank(ty.ndim()), ty.dtype)) };
            match slices(cx, dims)? {
                None => Ok(tensor_type(TensorShape::Rank(dims.len()), ty.dtype)),
                Some(slices) => {
                    let extents = slices.into_iter().map(|slice| slice.extent).collect();
                    Ok(tensor_type(known(extents), ty.dtype))
                }
            }
        },
    )
    .args(&[
        tensor("x"),
        arg("begin", ArgKind::Shape),
        arg("end", ArgKind::Shape),
        arg("strides", ArgKind::Shape),
    ])
    .attrs(&[attr("axes", AttrKind::Ints).default("the first ones")])
    .tensor_program(lower_slice),
    OpDef::new(
        "where",
        "x1 where the condition holds, x2 elsewhere, all broadcast; ONNX `Where`",
        infer_where,
    )
    .function("select")
    .args(&[tensor("condition"), arg("x1", ArgKind::Any), arg("x2", ArgKind::Any)])
    .tensor_program(|cx| {
        let inputs = cx.inputs()?;
        let out = topi::broadcast("where", cx.out_shape(0)?, &cx.operands(&inputs), |it| {
            it[0].clone().select(it[1].clone(), it[2].clone())
        });
        cx.finish(&inputs, &[out])
    })
    .elementwise(),
];

/// The type of argument 1, the indices, whose elements must be integers.
fn indices<'a>(ctx: &InferContext<'a>) -> Result<&'a crate::ir::TensorType, IrError> {
    let ty = ctx.tensor(1)?;
    match ty.dtype {
        Some(dtype) if !dtype.is_integer() => {
            Err(ctx.error(format!("indices have integer elements, got {dtype}")))
        }
        Some(_) | None => Ok(ty),
    }
}

/// The call that checks the indices of `ctx` (argument 1) at run time and returns them. `None` when nothing is checked: the
/// operator takes no indices or clamps them, the extents are not known, or all indices are constants inside of their axes.
pub(crate) fn check_indices(ctx: &InferContext<'_>) -> Result<Option<Expr>, IrError> {
    let clip = match ctx.attrs.str("mode").unwrap_or("raise") {
        "raise" => false,
        "clip" => true,
        other => return Err(ctx.error(format!("attribute `mode` is raise or clip, got `{other}`"))),
    };
    let Some(index_extents) = ctx.op.index_extents.filter(|_| !clip) else { return Ok(None) };
    let Some(extents) = index_extents(ctx)? else { return Ok(None) };
    let indices = &ctx.args[1];
    if extents.is_empty() || indices.as_const().is_some_and(|it| all_inside(it, &extents)) {
        return Ok(None);
    }
    let attrs = Attrs::new().with("op", ctx.op.name);
    memory::call(memory::CHECK_INDICES, [indices.clone(), Arg::Shape(extents.into())], attrs).map(Some)
}

/// The extent of the axis along which `take` selects elements.
fn take_extents(ctx: &InferContext<'_>) -> Result<Option<Vec<PrimExpr>>, IrError> {
    let Some(dims) = ctx.tensor(0)?.known_shape() else { return Ok(None) };
    Ok(Some(vec![dims[take_axis(ctx, dims.len())?].clone()]))
}

/// The extent of the axis that attribute `axis` names, by default the first axis.
fn axis_extents(ctx: &InferContext<'_>) -> Result<Option<Vec<PrimExpr>>, IrError> {
    let Some(dims) = ctx.tensor(0)?.known_shape() else { return Ok(None) };
    Ok(Some(vec![dims[ctx.axis(ctx.attrs.int("axis").unwrap_or(0), dims.len())?].clone()]))
}

/// The extents of the axes that a row of indices addresses: those that follow the batch axes.
fn row_extents(ctx: &InferContext<'_>) -> Result<Option<Vec<PrimExpr>>, IrError> {
    let Some(dims) = ctx.tensor(0)?.known_shape() else { return Ok(None) };
    let batch = ctx.attrs.int("batch_dims").unwrap_or(0) as usize;
    Ok(Some(dims.iter().skip(batch).take(row_length(ctx)?.unwrap_or(0)).cloned().collect()))
}

/// True when all constant `indices` are known to be inside of their axes. Element `i` in row-major order is an index into an
/// axis of extent `i` modulo the number of `extents`.
fn all_inside(indices: &tvm_runtime::Tensor, extents: &[PrimExpr]) -> bool {
    let Ok(values) = indices.to_f64s() else { return false };
    let inside = |(i, value): (usize, &f64)| {
        let extent = extents[i % extents.len()].as_int().map(|it| it as f64);
        extent.is_some_and(|extent| (-extent..extent).contains(value))
    };
    values.iter().enumerate().all(inside)
}

fn take_axis(ctx: &InferContext<'_>, ndim: usize) -> Result<usize, IrError> {
    match ctx.attrs.int("axis") {
        Some(axis) => ctx.axis(axis, ndim),
        None if ndim == 1 => Ok(0),
        None => Err(ctx.error(format!("attribute `axis` must be given for a tensor of rank {ndim}"))),
    }
}

fn infer_take(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (x, indices) = (ctx.tensor(0)?, indices(ctx)?);
    let axis = x.ndim().map(|ndim| take_axis(ctx, ndim)).transpose()?;
    let shape = match (x.known_shape(), indices.known_shape(), axis) {
        (Some(dims), Some(picked), Some(axis)) => {
            TensorShape::Known([&dims[..axis], picked, &dims[axis + 1..]].concat().into())
        }
        _ => rank(x.ndim().zip(indices.ndim()).map(|(a, b)| a - 1 + b)),
    };
    Ok(tensor_type(shape, x.dtype))
}

/// Extent of the last axis of the indices, which must be constant; `None` when their shape is not known.
fn row_length(ctx: &InferContext<'_>) -> Result<Option<usize>, IrError> {
    match indices(ctx)?.known_shape() {
        None => Ok(None),
        Some(dims) => {
            let last = dims.last().and_then(PrimExpr::as_int).and_then(|it| usize::try_from(it).ok());
            let message = "the last axis of indices has a constant extent";
            last.map(Some).ok_or_else(|| ctx.error(message))
        }
    }
}

fn infer_gather_nd(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (data, indices) = (ctx.tensor(0)?, indices(ctx)?);
    let batch = usize::try_from(ctx.attrs.int("batch_dims").unwrap_or(0))
        .map_err(|_| ctx.error("attribute `batch_dims` is not negative"))?;
    let (Some(dims), Some(rows), Some(depth)) = (data.known_shape(), indices.known_shape(), row_length(ctx)?)
    else {
        return Ok(tensor_type(TensorShape::Unknown, data.dtype));
    };
    if batch + depth > dims.len() || batch >= rows.len() {
        let message = format!("rows of {depth} indices are too long for data of rank {}", dims.len());
        return Err(ctx.error(message));
    }
    if (0..batch).any(|k| differ(&dims[k], &rows[k])) {
        let (dims, rows) = (show_dims(dims), show_dims(rows));
        return Err(ctx.error(format!("data {dims} and indices {rows} differ in their {batch} batch axes")));
    }
    let shape = [&rows[..rows.len() - 1], &dims[batch + depth..]].concat();
    Ok(tensor_type(TensorShape::Known(shape.into()), data.dtype))
}

/// Checks that no axis of the indices is longer than that of the data, except the one that attribute `axis` names.
fn within(ctx: &InferContext<'_>, data: &TensorType, indices: &TensorType) -> Result<(), IrError> {
    let (Some(dims), Some(given)) = (data.known_shape(), indices.known_shape()) else { return Ok(()) };
    let axis = ctx.axis(ctx.attrs.int("axis").unwrap_or(0), dims.len())?;
    let past = |k: &usize| simplify_dim(&(&given[*k] - &dims[*k])).as_int().is_some_and(|it| it > 0);
    match (0..dims.len()).find(|k| *k != axis && past(k)) {
        None => Ok(()),
        Some(k) => {
            let (given, dims) = (show_dims(given), show_dims(dims));
            Err(ctx.error(format!("indices of shape {given} reach past axis {k} of data of shape {dims}")))
        }
    }
}

fn infer_scatter_nd(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (data, indices, updates) = (ctx.tensor(0)?, ctx.tensor(1)?, ctx.tensor(2)?);
    if let (Some(depth), Some(dims), Some(rows)) =
        (row_length(ctx)?, data.known_shape(), indices.known_shape())
    {
        if depth > dims.len() {
            let message = format!("rows of {depth} indices are too long for data of rank {}", dims.len());
            return Err(ctx.error(message));
        }
        let expected = [&rows[..rows.len() - 1], &dims[depth..]].concat();
        if let Some(got) = updates.known_shape()
            && (got.len() != expected.len() || got.iter().zip(&expected).any(|(a, b)| differ(a, b)))
        {
            let (expected, got) = (show_dims(&expected), show_dims(got));
            return Err(ctx.error(format!("argument `updates` has shape {expected}, got {got}")));
        }
    }
    Ok(Type::Tensor(data.clone()))
}

/// The function that combines an element with its update, by attribute `reduction`.
fn reduction(ctx: &InferContext<'_>) -> Result<fn(PrimExpr, PrimExpr) -> PrimExpr, IrError> {
    match ctx.attrs.str("reduction").unwrap_or("update") {
        "update" => Ok(|_, update| update),
        "add" => Ok(|element, update| element + update),
        "mul" => Ok(|element, update| element * update),
        "max" => Ok(|element, update| element.max(update)),
        "min" => Ok(|element, update| element.min(update)),
        other => {
            let message = format!("attribute `reduction` is update, add, mul, max or min, got `{other}`");
            Err(ctx.error(message))
        }
    }
}

/// The slice of one axis: positions `begin + i * stride` for `i` below `extent`.
struct Slice {
    begin: PrimExpr,
    stride: i64,
    extent: PrimExpr,
}

/// One slice per axis; `None` when begins, ends or strides are not known.
fn slices(ctx: &InferContext<'_>, dims: &[PrimExpr]) -> Result<Option<Vec<Slice>>, IrError> {
    let (Some(begins), Some(ends), Some(strides)) = (ctx.shape(1), ctx.shape(2), ctx.shape(3)) else {
        return Ok(None);
    };
    let axes = match ctx.attrs.int_list("axes") {
        Some(given) => given.iter().map(|&axis| ctx.axis(axis, dims.len())).collect::<Result<Vec<_>, _>>()?,
        None => (0..begins.len()).collect(),
    };
    let lengths = [axes.len(), begins.len(), ends.len(), strides.len()];
    if lengths.iter().any(|&it| it != lengths[0]) || axes.len() > dims.len() {
        let message = format!("axes, begin, end and strides have {lengths:?} values for {} axes", dims.len());
        return Err(ctx.error(message));
    }
    let whole = |extent: &PrimExpr| Slice { begin: PrimExpr::index(0), stride: 1, extent: extent.clone() };
    let mut slices: Vec<Slice> = dims.iter().map(whole).collect();
    for (i, &axis) in axes.iter().enumerate() {
        let stride = strides[i].as_int().filter(|&it| it != 0 && it.unsigned_abs() < 1 << 31);
        let stride = stride.ok_or_else(|| ctx.error("a stride is a constant other than 0"))?;
        slices[axis] = slice(&dims[axis], &begins[i], &ends[i], stride);
    }
    Ok(Some(slices))
}

/// The slice of one axis by NumPy's rules: negative positions count from the end, and positions outside are clamped. With
/// a symbolic extent and a positive stride, a begin that counts from the front and an end that counts from the back are
/// assumed to be inside, so that `x[1..]` and `x[..-1]` have extent `n - 1`. If they are not, the result has a negative
/// extent at run time and the call fails.
fn slice(extent: &PrimExpr, begin: &PrimExpr, end: &PrimExpr, stride: i64) -> Slice {
    /// Larger than any extent: a position from here on, or from `-FAR` down, means the end of the axis on that side.
    const FAR: i64 = i32::MAX as i64;
    let symbolic = extent.as_int().is_none();
    // Positions lie in `low..=high`.
    let (low, high) = if stride > 0 {
        (PrimExpr::index(0), extent.clone())
    } else {
        (PrimExpr::index(-1), simplify_dim(&(extent - 1i64)))
    };
    let position = |value: &PrimExpr, is_begin: bool| match value.as_int() {
        Some(value) if value >= FAR => high.clone(),
        Some(value) if value <= -FAR => low.clone(),
        Some(at) if stride > 0 && symbolic && (at < 0) != is_begin => {
            if is_begin {
                value.clone()
            } else {
                extent + at
            }
        }
        Some(at) if at < 0 => (extent + at).max(&low),
        Some(_) => value.clone().min(&high),
        None => {
            let counted = value.clone().less(0).select(value + extent, value.clone());
            counted.max(&low).min(&high)
        }
    };
    let (begin, end) = (simplify_dim(&position(begin, true)), simplify_dim(&position(end, false)));
    let distance = if stride > 0 { &end - &begin } else { &begin - &end };
    let count = simplify_dim(&topi::ceil_div(distance, &PrimExpr::index(stride.abs())));
    let from_the_back = simplify_dim(&(&end - extent)).as_int().is_some();
    let inside = stride > 0 && symbolic && begin.as_int().is_some() && from_the_back;
    let extent = if inside { count } else { count.max(0) };
    Slice { begin, stride, extent }
}

fn lower_slice(cx: &LegalizeContext<'_>) -> Result<PrimFunc, IrError> {
    let shape = cx.out_shape(0)?;
    single(cx, |x| {
        let slices = slices(&cx.infer(), x[0].shape())?
            .ok_or_else(|| cx.infer().error("begin, end and strides are not known"))?;
        let slices: Vec<(PrimExpr, i64)> = slices.into_iter().map(|it| (it.begin, it.stride)).collect();
        Ok(topi::strided_slice(&x[0], &slices, shape))
    })
}

fn infer_where(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let condition = ctx.tensor(0)?;
    if let Some(dtype) = condition.dtype
        && dtype != DataType::BOOL
    {
        let err = ctx.error(format!("the condition has bool elements, got {dtype}"));
        return Err(err.help("compare with `not_equal`"));
    }
    let mut shapes = vec![condition.shape.clone()];
    let mut dtypes = Vec::new();
    for ty in &ctx.types[1..] {
        match ty {
            Type::Tensor(ty) => {
                shapes.push(ty.shape.clone());
                dtypes.push(ty.dtype);
            }
            Type::Prim(dtype) => dtypes.push(Some(*dtype)),
            _ => return Err(ctx.error("the values are tensors or scalars")),
        }
    }
    let dtype = match dtypes[..] {
        [Some(a), Some(b)] if a != b => {
            let err = ctx.error(format!("the values have different element types: {a} and {b}"));
            return Err(err.help("convert one with `astype`"));
        }
        [a, b] => a.and(b),
        _ => None,
    };
    let shape = ctx.broadcast(&shapes.iter().collect::<Vec<_>>())?;
    Ok(tensor_type(shape, dtype))
}
