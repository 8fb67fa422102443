//! Operators that change the element type.
//!
//! TVM counterpart: `src/relax/op/tensor/datatype.cc`.

use super::context::single;
use super::def::{required, tensor};
use crate::ir::{AttrKind, OpDef, TensorType, Type};
use crate::tir::{Intrinsic, PrimExpr};
use crate::topi;

pub(super) static OPS: &[OpDef] = &[ASTYPE, BITCAST];

const ASTYPE: OpDef = OpDef::new("astype", "x converted to another element type; ONNX `Cast`", |cx| {
    let ty = cx.tensor(0)?;
    Ok(Type::Tensor(TensorType { dtype: cx.attrs.dtype("dtype"), ..ty.clone() }))
})
.args(&[tensor("x")])
.attrs(&[required("dtype", AttrKind::DType)])
.tensor_program(|cx| {
    let dtype = cx.out_dtype(0)?;
    single(cx, |x| Ok(topi::map("cast", &x[0], |it| topi::cast(it, dtype))))
})
.elementwise();

const BITCAST: OpDef =
    OpDef::new("bitcast", "the bits of x as another element type of the same size; ONNX `BitCast`", |cx| {
        let (ty, to) = (cx.tensor(0)?, cx.attrs.dtype("dtype"));
        if let (Some(from), Some(to)) = (ty.dtype, to)
            && (from.bits() != to.bits() || from.is_bool() != to.is_bool())
        {
            return Err(cx.error(format!("the elements of {from} are not as large as those of {to}")));
        }
        Ok(Type::Tensor(TensorType { dtype: to, ..ty.clone() }))
    })
    .args(&[tensor("x")])
    .attrs(&[required("dtype", AttrKind::DType)])
    .tensor_program(|cx| {
        let dtype = cx.out_dtype(0)?;
        single(cx, |x| {
            Ok(topi::map("bitcast", &x[0], |it| PrimExpr::call(Intrinsic::Reinterpret, [it], dtype)))
        })
    });
