//! Operators that exist only between lowering steps: memory, explicit kernel calls, closures, views.
//!
//! TVM counterpart: Relay's `memory.*` and `vm.*` dialects, Relax's `builtin.alloc_tensor`. None has a tensor program:
//! [`vm_codegen`](crate::relax::vm) turns each into instructions.

use tvm_runtime::DataType;

use crate::ir::{
    ArgDef, ArgKind, AttrDef, AttrKind, Attrs, InferContext, IrError, Op, OpDef, ShapeType, TensorShape,
    TensorType, Type,
};
use crate::relax::{Arg, Call, Callee, Expr};

/// `builtin.alloc_tensor`: a new tensor in memory of its own.
pub const ALLOC: &str = "builtin.alloc_tensor";
/// `memory.alloc_storage`: a block of memory.
pub const ALLOC_STORAGE: &str = "memory.alloc_storage";
/// `memory.alloc_tensor`: a tensor inside a block of memory.
pub const ALLOC_TENSOR: &str = "memory.alloc_tensor";
/// `memory.kill`: the end of a value's life.
pub const KILL: &str = "memory.kill";
/// `vm.invoke_tvm_op`: runs a tensor program on tensors that exist.
pub const INVOKE_TVM_OP: &str = "vm.invoke_tvm_op";
/// `vm.alloc_closure`: a function of the module with captured values.
pub const ALLOC_CLOSURE: &str = "vm.alloc_closure";
/// `vm.reshape_tensor`: a view of a tensor under another shape.
pub const RESHAPE_TENSOR: &str = "vm.reshape_tensor";

/// `vm.check_indices`: a tensor of indices, checked against extents.
pub const CHECK_INDICES: &str = "vm.check_indices";

const fn arg(name: &'static str, kind: ArgKind) -> ArgDef {
    ArgDef { name, kind }
}

const fn attr(name: &'static str, kind: AttrKind) -> AttrDef {
    AttrDef { name, kind, required: true }
}

const fn op(
    name: &'static str,
    doc: &'static str,
    args: &'static [ArgDef],
    attrs: &'static [AttrDef],
    infer: fn(&InferContext<'_>) -> Result<Type, IrError>,
    pure: bool,
) -> OpDef {
    OpDef { name, doc, args, attrs, infer, legalize: None, pure }
}

/// The table.
pub static OPS: &[OpDef] = &[
    op(
        ALLOC,
        "a tensor of a shape and element type in memory of its own (Relax `builtin.alloc_tensor`)",
        &[arg("shape", ArgKind::Shape)],
        &[attr("dtype", AttrKind::DType)],
        |ctx| tensor_of(ctx, 0),
        false,
    ),
    op(
        ALLOC_STORAGE,
        "a block of memory of some bytes (Relay `memory.alloc_storage`)",
        &[arg("size", ArgKind::Prim)],
        &[],
        |_| Ok(Type::Object),
        false,
    ),
    op(
        ALLOC_TENSOR,
        "a tensor inside a block of memory, some bytes from its start (Relay `memory.alloc_tensor`)",
        &[arg("storage", ArgKind::Any), arg("offset", ArgKind::Prim), arg("shape", ArgKind::Shape)],
        &[attr("dtype", AttrKind::DType)],
        |ctx| tensor_of(ctx, 2),
        false,
    ),
    op(
        KILL,
        "the value is not used any more (Relay `memory.kill`)",
        &[arg("value", ArgKind::Any)],
        &[],
        |_| Ok(Type::unit()),
        false,
    ),
    op(
        INVOKE_TVM_OP,
        "runs a tensor program: the function, a tuple of inputs and scalars, a tuple of outputs (Relay `vm.invoke_tvm_op`)",
        &[arg("func", ArgKind::Any), arg("inputs", ArgKind::Any), arg("outputs", ArgKind::Any)],
        &[],
        |_| Ok(Type::unit()),
        false,
    ),
    op(
        ALLOC_CLOSURE,
        "a closure: a function of the module and the values of its first parameters (Relay `AllocClosure`)",
        &[arg("func", ArgKind::Any), arg("captured", ArgKind::Any)],
        &[],
        |_| Ok(Type::Object),
        true,
    ),
    op(
        CHECK_INDICES,
        "the tensor of indices itself, once every index is inside of the axis that it is for (no counterpart in TVM)",
        &[arg("indices", ArgKind::Tensor), arg("extents", ArgKind::Shape)],
        &[attr("op", AttrKind::Str)],
        |ctx| Ok(ctx.types.first().cloned().unwrap_or(Type::Object)),
        true,
    ),
    op(
        RESHAPE_TENSOR,
        "the same elements under another shape, without a copy (Relay `vm.reshape_tensor`)",
        &[arg("tensor", ArgKind::Tensor), arg("shape", ArgKind::Shape)],
        &[],
        |ctx| {
            let mut ty =
                ctx.types.first().and_then(Type::as_tensor).cloned().unwrap_or(TensorType::unknown(None));
            ty.shape = shape_of_arg(ctx, 1);
            Ok(Type::Tensor(ty))
        },
        true,
    ),
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

/// A call of the operator `name` of this table.
///
/// # Errors
/// When there is no such operator.
pub fn call(name: &str, args: impl Into<std::sync::Arc<[Arg]>>, attrs: Attrs) -> Result<Expr, IrError> {
    let callee = Callee::Op(Op::get(name)?);
    Ok(Call { callee, args: args.into(), attrs, ret: None, span: crate::ir::Span::none() }.into())
}

/// The attribute that `builtin.alloc_tensor` and `memory.alloc_tensor` need.
pub fn dtype_attr(dtype: DataType) -> Attrs {
    Attrs::new().with("dtype", dtype)
}
