//! Element types.
//!
//! TVM counterpart: `src/relax/op/tensor/datatype.cc`.

use super::context::single;
use super::def::{required, tensor};
use crate::ir::{AttrKind, OpDef, TensorType, Type};
use crate::topi;

pub(super) static OPS: &[OpDef] = &[OpDef {
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
}];
