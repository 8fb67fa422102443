//! Operators on shapes as values: shapes of tensors, conversions between shapes and tensors.
//!
//! TVM counterpart: `shape_of` (`src/relax/op/op.cc`), `shape_to_tensor`, `tensor_to_shape`, `size`.

use tvm_runtime::DataType;

use super::context::tensor_type;
use super::def::{arg, tensor};
use crate::ir::{ArgKind, MemoryEffect, OpDef, ShapeType, TensorShape, TensorType, Type};
use crate::relax::analysis::product;
use crate::te;
use crate::tir::PrimExpr;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new("shape_of", "the shape of a tensor", |cx| {
        let ty = cx.tensor(0)?;
        Ok(Type::Shape(ShapeType { values: ty.known_shape().map(Into::into), ndim: ty.ndim() }))
    })
    .args(&[tensor("x")])
    .memory(MemoryEffect::Reads),
    OpDef::new("shape_to_tensor", "the values of a shape as a tensor of i64; ONNX `Shape`", |cx| {
        let ndim = if let Type::Shape(ty) = &cx.types[0] { ty.ndim } else { None };
        let shape = ndim
            .map_or(TensorShape::Rank(1), |ndim| TensorShape::Known([PrimExpr::index(ndim as i64)].into()));
        Ok(tensor_type(shape, Some(DataType::I64)))
    })
    .args(&[arg("shape", ArgKind::Shape)])
    .tensor_program(|cx| {
        let ctx = cx.infer();
        let values = ctx.shape(0).ok_or_else(|| ctx.error("the values of the shape are not known"))?;
        let out = te::compute("shape_to_tensor", cx.out_shape(0)?, &[], |i| {
            let zero = PrimExpr::index(0);
            (values.iter().enumerate())
                .fold(zero, |rest, (k, value)| i[0].clone().equal(k as i64).select(value.clone(), rest))
        });
        cx.finish(&[], &[out])
    }),
    OpDef::new("tensor_to_shape", "a tensor of i64 as a shape", |cx| {
        let dims = cx.dims(0, 1)?;
        let ndim = dims.and_then(|dims| dims[0].as_int()).and_then(|it| usize::try_from(it).ok());
        if let Some(got) = cx.tensor(0)?.dtype.filter(|it| *it != DataType::I64) {
            return Err(cx.error(format!("expected i64 elements, got {got}")));
        }
        Ok(Type::Shape(ShapeType { values: None, ndim }))
    })
    .args(&[tensor("x")]),
    OpDef::new("size", "number of elements of a tensor as a tensor of rank 0 of i64; ONNX `Size`", |_| {
        Ok(Type::Tensor(TensorType::new([], DataType::I64)))
    })
    .args(&[tensor("x")])
    .tensor_program(|cx| {
        let inputs = cx.inputs()?;
        let out = te::compute("size", [], &[], |_| product(inputs[0].shape()));
        cx.finish(&inputs, &[out])
    }),
];
