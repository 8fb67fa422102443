//! Sorting along an axis. NaN is larger than every number; equal elements keep their order.
//!
//! TVM counterpart: `src/relax/op/tensor/sorting.cc`.

use tvm_runtime::DataType;

use super::context::{rank, tensor_type};
use super::def::{attr, required, tensor};
use crate::ir::{
    ArgDef, AttrDef, AttrKind, InferContext, IrError, LegalizeContext, OpDef, TensorShape, TensorType, Type,
};
use crate::te::TensorExpr;
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi;

const X: &[ArgDef] = &[tensor("data")];
const AXIS: AttrDef = attr("axis", AttrKind::Int).default("-1");
const DESCENDING: AttrDef = attr("descending", AttrKind::Bool).default("false");

pub(super) static OPS: &[OpDef] = &[
    OpDef::new("sort", "the elements in order along an axis", |cx| {
        axis(cx)?;
        Ok(Type::Tensor(cx.tensor(0)?.clone()))
    })
    .args(X)
    .attrs(&[AXIS, DESCENDING])
    .tensor_program(|cx| lower(cx, cx.attrs.bool("descending").unwrap_or(false), true, false)),
    OpDef::new("argsort", "positions of the elements in order along an axis", |cx| {
        axis(cx)?;
        Ok(tensor_type(cx.tensor(0)?.shape.clone(), Some(index_dtype(cx))))
    })
    .args(X)
    .attrs(&[AXIS, DESCENDING, attr("dtype", AttrKind::DType).default("i64")])
    .tensor_program(|cx| lower(cx, cx.attrs.bool("descending").unwrap_or(false), false, true)),
    OpDef::new(
        "topk",
        "the first k elements in order along an axis and their positions; ONNX `TopK`",
        infer_topk,
    )
    .args(X)
    .attrs(&[
        required("k", AttrKind::Int),
        AXIS,
        attr("ret_type", AttrKind::Str).default("\"both\""),
        attr("largest", AttrKind::Bool).default("true"),
        attr("dtype", AttrKind::DType).default("i64"),
    ])
    .tensor_program(|cx| {
        let (values, indices) = wanted(&cx.infer())?;
        lower(cx, cx.attrs.bool("largest").unwrap_or(true), values, indices)
    }),
];

fn axis(ctx: &InferContext<'_>) -> Result<Option<usize>, IrError> {
    ctx.tensor(0)?.ndim().map(|ndim| ctx.axis(ctx.attrs.int("axis").unwrap_or(-1), ndim)).transpose()
}

fn index_dtype(ctx: &InferContext<'_>) -> DataType {
    ctx.attrs.dtype("dtype").unwrap_or(DataType::I64)
}

/// Whether `topk` returns values, and whether it returns indices.
fn wanted(ctx: &InferContext<'_>) -> Result<(bool, bool), IrError> {
    match ctx.attrs.str("ret_type").unwrap_or("both") {
        "both" => Ok((true, true)),
        "values" => Ok((true, false)),
        "indices" => Ok((false, true)),
        other => Err(ctx.error(format!("attribute `ret_type` is both, values or indices, got `{other}`"))),
    }
}

fn infer_topk(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (ty, k) = (ctx.tensor(0)?, ctx.attrs.int("k").unwrap_or(1));
    let shape = match (ty.known_shape(), axis(ctx)?) {
        (Some(dims), Some(axis)) => {
            if k < 0 || dims[axis].as_int().is_some_and(|extent| k > extent) {
                return Err(ctx.error(format!("attribute `k` is {k}, outside of axis {axis}")));
            }
            let mut dims = dims.to_vec();
            dims[axis] = PrimExpr::index(k);
            TensorShape::Known(dims.into())
        }
        _ => rank(ty.ndim()),
    };
    let values = Type::Tensor(TensorType { shape: shape.clone(), ..ty.clone() });
    let indices = tensor_type(shape, Some(index_dtype(ctx)));
    Ok(match wanted(ctx)? {
        (true, false) => values,
        (false, _) => indices,
        (true, true) => Type::Tuple([values, indices].into()),
    })
}

fn lower(
    cx: &LegalizeContext<'_>,
    descending: bool,
    values: bool,
    indices: bool,
) -> Result<PrimFunc, IrError> {
    let inputs = cx.inputs()?;
    let (x, shape) = (&inputs[0], cx.out_shape(0)?);
    let axis = cx.infer().axis(cx.attrs.int("axis").unwrap_or(-1), x.ndim())?;
    let positions = topi::sorted_positions(x, axis, descending, shape);
    let mut outputs: Vec<TensorExpr> = Vec::new();
    if values {
        outputs.push(crate::te::compute("sorted", shape, &[x, &positions], |i| {
            let mut at = i.to_vec();
            at[axis] = positions.at(i);
            x.at(at)
        }));
    }
    if indices {
        let dtype = cx.out_dtype(outputs.len())?;
        outputs.push(if dtype == DataType::I64 {
            positions
        } else {
            topi::map("positions", &positions, |it| it.cast(dtype))
        });
    }
    cx.finish(&inputs, &outputs)
}
