//! Runtime types of parameters and results.

use tvm_runtime::vm::ValueType;

use crate::ir::Type;
use crate::tir::dim_sig;

/// The runtime type of `ty`, which callers and tools see.
pub fn value_type(ty: &Type) -> ValueType {
    match ty {
        Type::Prim(dtype) if dtype.is_float() => ValueType::Float,
        Type::Prim(_) => ValueType::Int,
        Type::Tensor(tensor) => ValueType::Tensor {
            dtype: tensor.dtype,
            shape: tensor.known_shape().map(|shape| shape.iter().map(dim_sig).collect()),
        },
        Type::Shape(shape) => ValueType::Shape(shape.ndim.map(|ndim| ndim as u32)),
        Type::Tuple(fields) => ValueType::Tuple(fields.iter().map(value_type).collect()),
        Type::Func(func) => {
            ValueType::Func(func.params.iter().map(value_type).collect(), Box::new(value_type(&func.ret)))
        }
        Type::Adt(adt) => ValueType::Adt(adt.name.to_string()),
        Type::Ref(inner) => ValueType::Ref(Box::new(value_type(inner))),
        Type::Param(_) | Type::Object => ValueType::Object,
    }
}
