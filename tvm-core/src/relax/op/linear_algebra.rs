//! Matrix products.
//!
//! TVM counterpart: `src/relax/op/tensor/linear_algebra.cc`.

use super::context::{broadcast_dims, rank, single, tensor_type};
use super::def::{attr, tensor};
use crate::ir::{AttrKind, InferContext, IrError, OpDef, TensorShape, Type};
use crate::relax::analysis::{differ, show_dim, show_dims};
use crate::tir::PrimExpr;
use crate::topi;

pub(super) static OPS: &[OpDef] = &[OpDef::new(
    "matmul",
    "product of the last two axes, the others broadcast, rank 1 as a row or column; ONNX `MatMul`",
    infer,
)
.args(&[tensor("x1"), tensor("x2")])
.attrs(&[attr("out_dtype", AttrKind::DType).default("that of the arguments")])
.tensor_program(|cx| {
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    single(cx, |x| Ok(topi::matmul(&x[0], &x[1], shape, dtype)))
})];

fn infer(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let (a, b) = (ctx.tensor(0)?, ctx.tensor(1)?);
    if let Some(bool) = [a, b].iter().filter_map(|it| it.dtype).find(|it| it.is_bool()) {
        return Err(ctx.error(format!("expected number elements, got {bool}")));
    }
    // The elements are cast to the type of the result: they may have different types if it is given.
    let dtype = match ctx.attrs.dtype("out_dtype") {
        Some(dtype) => Some(dtype),
        None => ctx.same_dtype()?,
    };
    for (name, ty) in [("x1", a), ("x2", b)] {
        if ty.ndim() == Some(0) {
            let err = ctx.error(format!("argument `{name}` has rank 1 or more, got rank 0"));
            return Err(err.help("use `multiply` to scale by a number"));
        }
    }
    let (Some(x), Some(y)) = (a.known_shape(), b.known_shape()) else {
        let ndim =
            a.ndim().zip(b.ndim()).map(|(a, b)| a.max(b).max(2) - usize::from(a == 1) - usize::from(b == 1));
        return Ok(tensor_type(rank(ndim), dtype));
    };
    let (row, column) = (x.len() == 1, y.len() == 1);
    let (x_batch, y_batch) = (&x[..x.len().saturating_sub(2)], &y[..y.len().saturating_sub(2)]);
    let (x_depth, y_depth) = (&x[x.len() - 1], &y[if column { 0 } else { y.len() - 2 }]);
    if differ(x_depth, y_depth) {
        let message = format!(
            "the last axis of `x1` {} has extent {}, the {} of `x2` {} has {}",
            show_dims(x),
            show_dim(x_depth),
            if column { "axis" } else { "last axis but one" },
            show_dims(y),
            show_dim(y_depth)
        );
        return Err(ctx.error(message));
    }
    let mut dims: Vec<PrimExpr> = match broadcast_dims(x_batch, y_batch) {
        Ok(dims) => dims,
        Err(_) => {
            let message =
                format!("the leading axes of {} and {} do not broadcast", show_dims(x), show_dims(y));
            return Err(ctx.error(message));
        }
    };
    if !row {
        dims.push(x[x.len() - 2].clone());
    }
    if !column {
        dims.push(y[y.len() - 1].clone());
    }
    Ok(tensor_type(TensorShape::Known(dims.into()), dtype))
}
