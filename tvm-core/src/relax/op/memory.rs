//! Operators that exist only between lowering steps: memory, explicit kernel calls, closures, index checks, views.
//!
//! None has a tensor program: [`vm_codegen`](crate::relax::vm) translates each to instructions.
//!
//! TVM counterpart: Relay's `memory.*` and `vm.*` dialects, Relax's `builtin.alloc_tensor`.

use tvm_runtime::DataType;

use super::def::{arg, attr, required, tensor};
use super::device::DEVICE;
use crate::ir::{
    ArgKind, AttrKind, Attrs, InferContext, IrError, MemoryEffect, Op, OpDef, ShapeType, TensorShape,
    TensorType, Type,
};
use crate::relax::{Arg, Call, Callee, Expr};

/// `builtin.alloc_tensor`: a new tensor in memory of its own.
pub const ALLOC: &str = "builtin.alloc_tensor";
/// `memory.alloc_storage`: a block of memory.
pub const ALLOC_STORAGE: &str = "memory.alloc_storage";
/// `memory.alloc_tensor`: a tensor inside a block of memory.
pub const ALLOC_TENSOR: &str = "memory.alloc_tensor";
/// Attribute of [`ALLOC_TENSOR`]: the number of bytes that the tensor may take, if its shape is not constant. More is an
/// error at run time.
pub const MAX_BYTES: &str = "max_bytes";
/// `memory.kill`: ends the lifetime of a value.
pub const KILL: &str = "memory.kill";
/// `vm.invoke_tvm_op`: runs a tensor program on tensors that are already allocated.
pub const INVOKE_TVM_OP: &str = "vm.invoke_tvm_op";
/// `vm.invoke_dps_packed`: runs a packed function that fills tensors that are already allocated.
pub const INVOKE_DPS_PACKED: &str = "vm.invoke_dps_packed";
/// `memory.make_unique`: a tensor that nothing else uses, with the elements of another.
pub const MAKE_UNIQUE: &str = "memory.make_unique";
/// `vm.alloc_closure`: a closure of a function of the module and captured values.
pub const ALLOC_CLOSURE: &str = "vm.alloc_closure";
/// `vm.reshape_tensor`: a view of a tensor with another shape.
pub const RESHAPE_TENSOR: &str = "vm.reshape_tensor";

/// `vm.check_indices`: checks a tensor of indices against extents, and returns the same tensor.
pub const CHECK_INDICES: &str = "vm.check_indices";

/// Table of the operators of this module.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        ALLOC,
        "a tensor of a shape and element type in memory of its own (Relax `builtin.alloc_tensor`)",
        |ctx| tensor_of(ctx, 0),
    )
    .args(&[arg("shape", ArgKind::Shape)])
    .attrs(&[required("dtype", AttrKind::DType), attr(DEVICE, AttrKind::Str).default("the device of the target")])
    .memory(MemoryEffect::Fresh)
    .impure(),
    OpDef::new(ALLOC_STORAGE, "a block of memory of some bytes (Relay `memory.alloc_storage`)", |_| {
        Ok(Type::Object)
    })
    .args(&[arg("size", ArgKind::Prim)])
    .attrs(&[attr(DEVICE, AttrKind::Str).default("the device of the target")])
    .impure(),
    OpDef::new(
        ALLOC_TENSOR,
        "a tensor inside a block of memory, some bytes from its start (Relay `memory.alloc_tensor`)",
        |ctx| tensor_of(ctx, 2),
    )
    .args(&[arg("storage", ArgKind::Any), arg("offset", ArgKind::Prim), arg("shape", ArgKind::Shape)])
    .attrs(&[required("dtype", AttrKind::DType), attr(MAX_BYTES, AttrKind::Int).default("no maximum")])
    .memory(MemoryEffect::Fresh)
    .impure(),
    OpDef::new(KILL, "the value is not used any more (Relay `memory.kill`)", |_| Ok(Type::unit()))
        .args(&[arg("value", ArgKind::Any)])
        .memory(MemoryEffect::Reads)
        .impure(),
    OpDef::new(
        INVOKE_TVM_OP,
        "runs a tensor program: function, tuple of inputs and scalars, tuple of outputs (Relay `vm.invoke_tvm_op`)",
        |_| Ok(Type::unit()),
    )
    .args(&[arg("func", ArgKind::Any), arg("inputs", ArgKind::Any), arg("outputs", ArgKind::Any)])
    .memory(MemoryEffect::Reads)
    .impure(),
    OpDef::new(
        INVOKE_DPS_PACKED,
        "runs a packed function: name, tuple of inputs, tuple of outputs that it fills (Relax `call_dps_packed`)",
        |_| Ok(Type::unit()),
    )
    .args(&[arg("func", ArgKind::Any), arg("inputs", ArgKind::Any), arg("outputs", ArgKind::Any)])
    .impure(),
    OpDef::new(
        MAKE_UNIQUE,
        "the tensor itself, if its last use is here and nothing else uses its memory; otherwise a copy (not in TVM)",
        |ctx| Ok(ctx.types.first().cloned().unwrap_or(Type::Object)),
    )
    .args(&[tensor("tensor")])
    .attrs(&[required("last_use", AttrKind::Bool)])
    .memory(MemoryEffect::Forwards)
    .impure(),
    OpDef::new(
        ALLOC_CLOSURE,
        "a closure: a function of the module and the values of its first parameters (Relay `AllocClosure`)",
        |_| Ok(Type::Object),
    )
    .args(&[arg("func", ArgKind::Any), arg("captured", ArgKind::Any)]),
    OpDef::new(
        CHECK_INDICES,
        "the tensor of indices itself, once every index is inside of the axis that it is for (not in TVM)",
        |ctx| Ok(ctx.types.first().cloned().unwrap_or(Type::Object)),
    )
    .args(&[tensor("indices"), arg("extents", ArgKind::Shape)])
    .attrs(&[required("op", AttrKind::Str)])
    .memory(MemoryEffect::Forwards),
    OpDef::new(
        RESHAPE_TENSOR,
        "the same elements under another shape, without a copy (Relay `vm.reshape_tensor`)",
        |ctx| {
            let mut ty =
                ctx.types.first().and_then(Type::as_tensor).cloned().unwrap_or(TensorType::unknown(None));
            ty.shape = shape_of_arg(ctx, 1);
            Ok(Type::Tensor(ty))
        },
    )
    .args(&[tensor("tensor"), arg("shape", ArgKind::Shape)])
    .memory(MemoryEffect::Reshapes),
];

fn shape_of_arg(ctx: &InferContext<'_>, index: usize) -> TensorShape {
    match (ctx.args.get(index), ctx.types.get(index)) {
        (Some(Arg::Shape(values)), _) => TensorShape::Known(values.clone()),
        (_, Some(Type::Shape(ShapeType { values: Some(values), .. }))) => TensorShape::Known(values.clone()),
        (_, Some(Type::Shape(ShapeType { ndim: Some(ndim), .. }))) => TensorShape::Rank(*ndim),
        _ => TensorShape::Unknown,
    }
}

fn tensor_of(ctx: &InferContext<'_>, shape: usize) -> Result<Type, IrError> {
    let dtype = ctx.attrs.dtype("dtype").ok_or_else(|| missing(ctx, "dtype"))?;
    Ok(Type::Tensor(TensorType { shape: shape_of_arg(ctx, shape), dtype: Some(dtype), vdevice: None }))
}

fn missing(ctx: &InferContext<'_>, attr: &str) -> IrError {
    IrError::new(format!("`{}` needs the attribute `{attr}`", ctx.op.name), ctx.span)
}

/// A call of the operator `name` with an empty span.
///
/// # Errors
/// When there is no such operator.
pub fn call(name: &str, args: impl Into<std::sync::Arc<[Arg]>>, attrs: Attrs) -> Result<Expr, IrError> {
    let callee = Callee::Op(Op::get(name)?);
    Ok(Call { callee, args: args.into(), attrs, ret: None, span: crate::ir::Span::none() }.into())
}

/// The element type of an allocation.
pub(crate) fn dtype_of(call: &Call) -> Result<DataType, IrError> {
    let dtype = call.attrs.dtype("dtype");
    dtype.ok_or_else(|| IrError::new("an allocation needs the attribute `dtype`", &call.span))
}

/// The attributes that `builtin.alloc_tensor` and `memory.alloc_tensor` require: the element type.
pub fn dtype_attr(dtype: DataType) -> Attrs {
    Attrs::new().with("dtype", dtype)
}
