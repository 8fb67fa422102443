//! Element types.
//!
//! TVM counterpart: `src/relax/op/tensor/datatype.cc`.

use super::context::single;
use super::def::{required, tensor};
use crate::ir::{AttrKind, OpDef, TensorType, Type};
use crate::tir::{Intrinsic, PrimExpr};
use crate::topi;

pub(super) static OPS: &[OpDef] = &[ASTYPE, BITCAST];

const ASTYPE: OpDef = OpDef {
    name: "astype",
    doc: "x converted to another element type; ONNX `Cast`",
    args: &[tensor("x")],
    attrs: &[required("dtype", AttrKind::DType)],
    infer: |cx| {
        let ty = cx.tensor(0)?;
        Ok(Type::Tensor(TensorType { dtype: cx.attrs.dtype("dtype"), ..ty.clone() }))
    },
    legalize: Some(|cx| {
        let dtype = cx.out_dtype(0)?;
        single(cx, |x| Ok(topi::map("cast", &x[0], |it| topi::cast(it, dtype))))
    }),
    pure: true,
};

const BITCAST: OpDef = OpDef {
    name: "bitcast",
    doc: "the bits of x as another element type of the same size; ONNX `BitCast`",
    args: &[tensor("x")],
    attrs: &[required("dtype", AttrKind::DType)],
    infer: |cx| {
        let (ty, to) = (cx.tensor(0)?, cx.attrs.dtype("dtype"));
        if let (Some(from), Some(to)) = (ty.dtype, to)
            && (from.bits() != to.bits() || from.is_bool() != to.is_bool())
        {
            return Err(cx.error(format!("the elements of {from} are not as large as those of {to}")));
        }
        Ok(Type::Tensor(TensorType { dtype: to, ..ty.clone() }))
    },
    legalize: Some(|cx| {
        let dtype = cx.out_dtype(0)?;
        single(cx, |x| {
            Ok(topi::map("bitcast", &x[0], |it| PrimExpr::call(Intrinsic::Reinterpret, [it], dtype)))
        })
    }),
    pure: true,
};
