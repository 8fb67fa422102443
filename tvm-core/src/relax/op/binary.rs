//! Binary element-wise operators with NumPy broadcasting.
//!
//! Kernels do not trap: integer division by zero gives 0, and a shift by the bit width or more gives 0, or the sign for
//! right shifts of signed integers.
//!
//! TVM counterpart: `src/relax/op/tensor/binary.cc`, `python/tvm/relax/transform/legalize_ops/binary.py`.

use tvm_runtime::DataType;

use super::def::arg;
use crate::ir::{
    ArgDef, ArgKind, InferContext, IrError, LegalizeContext, OpDef, TensorShape, TensorType, Type,
};
use crate::relax::analysis::show_type;
use crate::tir::{BinaryOp, Intrinsic, PrimExpr, PrimFunc, binary};
use crate::topi;

/// The arguments: each is a tensor or a scalar.
const ARGS: &[ArgDef] = &[arg("x1", ArgKind::Any), arg("x2", ArgKind::Any)];

/// Element types that an operator accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Any,
    Number,
    Integer,
    Bool,
    IntegerOrBool,
    Float,
}

/// Element type of the result.
#[derive(Clone, Copy)]
enum Gives {
    Same,
    Bool,
}

macro_rules! table {
    ($($name:literal $doc:literal $takes:ident $gives:ident |$a:ident, $b:ident| $body:expr;)*) => {
        pub(super) static OPS: &[OpDef] = &[$(
            OpDef::new($name, $doc, |cx| infer(cx, Takes::$takes, Gives::$gives))
                .args(ARGS)
                .tensor_program(|cx| lower(cx, |$a, $b| $body))
                .elementwise()
        ),*];
    };
}

table! {
    "add" "x1 + x2; ONNX `Add`" Number Same |a, b| a + b;
    "subtract" "x1 - x2; ONNX `Sub`" Number Same |a, b| a - b;
    "multiply" "x1 * x2; ONNX `Mul`" Number Same |a, b| a * b;
    "divide" "x1 / x2, integers toward zero; ONNX `Div`" Number Same |a, b| guarded(BinaryOp::Div, a, b);
    "floor_divide" "x1 / x2 rounded down" Number Same |a, b| floor_divide(a, b);
    "mod" "remainder with the sign of x1; ONNX `Mod` with fmod" Number Same |a, b| guarded(BinaryOp::Mod, a, b);
    "floor_mod" "remainder with the sign of x2; ONNX `Mod`" Number Same |a, b| floor_mod(a, b);
    "power" "x1 to the x2; ONNX `Pow`" Number Same |a, b| power(a, b);
    "maximum" "the larger, NaN if either is; ONNX `Max`" Number Same |a, b| a.max(b);
    "minimum" "the smaller, NaN if either is; ONNX `Min`" Number Same |a, b| a.min(b);
    "atan2" "angle of the point (x2, x1)" Float Same |a, b| {
        let dtype = a.dtype();
        PrimExpr::call(Intrinsic::Atan2, [a, b], dtype)
    };
    "log_add_exp" "log(exp(x1) + exp(x2))" Float Same |a, b| log_add_exp(a, b);
    "equal" "x1 == x2; ONNX `Equal`" Any Bool |a, b| a.equal(b);
    "not_equal" "x1 != x2" Any Bool |a, b| a.not_equal(b);
    "less" "x1 < x2; ONNX `Less`" Number Bool |a, b| a.less(b);
    "less_equal" "x1 <= x2; ONNX `LessOrEqual`" Number Bool |a, b| a.less_equal(b);
    "greater" "x1 > x2; ONNX `Greater`" Number Bool |a, b| a.greater(b);
    "greater_equal" "x1 >= x2; ONNX `GreaterOrEqual`" Number Bool |a, b| a.greater_equal(b);
    "logical_and" "both; ONNX `And`" Bool Same |a, b| a.and(b);
    "logical_or" "either; ONNX `Or`" Bool Same |a, b| a.or(b);
    "logical_xor" "exactly one; ONNX `Xor`" Bool Same |a, b| a.not_equal(b);
    "bitwise_and" "bitwise and; ONNX `BitwiseAnd`" IntegerOrBool Same |a, b| bitwise(BinaryOp::BitAnd, a, b);
    "bitwise_or" "bitwise or; ONNX `BitwiseOr`" IntegerOrBool Same |a, b| bitwise(BinaryOp::BitOr, a, b);
    "bitwise_xor" "bitwise exclusive or; ONNX `BitwiseXor`" IntegerOrBool Same
        |a, b| bitwise(BinaryOp::BitXor, a, b);
    "left_shift" "x1 shifted left by x2; ONNX `BitShift`" Integer Same |a, b| shift(BinaryOp::Shl, a, b);
    "right_shift" "x1 shifted right by x2; ONNX `BitShift`" Integer Same |a, b| shift(BinaryOp::Shr, a, b);
}

fn infer(ctx: &InferContext<'_>, takes: Takes, gives: Gives) -> Result<Type, IrError> {
    let dtype = operand_dtype(ctx)?;
    if let Some(dtype) = dtype {
        takes.check(ctx, dtype)?;
    }
    let shapes: Vec<TensorShape> = (ctx.types.iter())
        .map(|ty| ty.as_tensor().map_or_else(|| TensorShape::Known([].into()), |ty| ty.shape.clone()))
        .collect();
    let shape = ctx.broadcast(&shapes.iter().collect::<Vec<_>>())?;
    let dtype = match gives {
        Gives::Same => dtype,
        Gives::Bool => Some(DataType::BOOL),
    };
    let vdevice = ctx.tensors().iter().find_map(|ty| ty.vdevice);
    Ok(Type::Tensor(TensorType { shape, dtype, vdevice }))
}

/// The common element type of the two arguments, tensors or scalars; `None` when one is unknown.
fn operand_dtype(ctx: &InferContext<'_>) -> Result<Option<DataType>, IrError> {
    let mut dtypes = Vec::new();
    for (def, ty) in ctx.op.args.iter().zip(ctx.types) {
        match ty {
            Type::Tensor(ty) => dtypes.push(ty.dtype),
            Type::Prim(dtype) => dtypes.push(Some(*dtype)),
            _ => {
                let got = show_type(ty);
                return Err(ctx.error(format!("argument `{}` is a tensor or scalar, got {got}", def.name)));
            }
        }
    }
    match dtypes[..] {
        [Some(a), Some(b)] if a != b => {
            let (a, b) = (show_type(&ctx.types[0]), show_type(&ctx.types[1]));
            let err = ctx.error(format!("the arguments have different element types: {a} and {b}"));
            Err(err.help("convert one with `astype`"))
        }
        [Some(a), Some(_)] => Ok(Some(a)),
        _ => Ok(None),
    }
}

impl Takes {
    fn check(self, ctx: &InferContext<'_>, dtype: DataType) -> Result<(), IrError> {
        let (fits, expected) = match self {
            Takes::Any => (true, "any"),
            Takes::Number => (dtype.is_float() || dtype.is_integer(), "number"),
            Takes::Integer => (dtype.is_integer(), "integer"),
            Takes::Bool => (dtype.is_bool(), "bool"),
            Takes::IntegerOrBool => (dtype.is_integer() || dtype.is_bool(), "integer or bool"),
            Takes::Float => (dtype.is_float(), "float"),
        };
        if fits {
            return Ok(());
        }
        let message = format!("expected {expected} elements, got {dtype}");
        Err(ctx.error(message).help("convert the arguments with `astype`"))
    }
}

fn lower(
    cx: &LegalizeContext<'_>,
    f: impl FnOnce(PrimExpr, PrimExpr) -> PrimExpr,
) -> Result<PrimFunc, IrError> {
    let inputs = cx.inputs()?;
    let operands = cx.operands(&inputs);
    let out = topi::broadcast(cx.op.name, cx.out_shape(0)?, &operands, |values| {
        f(values[0].clone(), values[1].clone())
    });
    cx.finish(&inputs, &[out])
}

/// `a op b` for a division or remainder `op`; for integers, 0 where `b` is 0.
fn guarded(op: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let dtype = a.dtype();
    if !dtype.is_integer() || b.as_int().is_some_and(|it| it != 0) {
        return binary(op, a, b);
    }
    let zero = b.clone().equal(0);
    let divisor = zero.clone().select(PrimExpr::int(1, dtype), b);
    zero.select(PrimExpr::int(0, dtype), binary(op, a, divisor))
}

fn floor_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr {
    if a.dtype().is_float() { (a / b).unary(Intrinsic::Floor) } else { guarded(BinaryOp::FloorDiv, a, b) }
}

fn floor_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr {
    if !a.dtype().is_float() {
        return guarded(BinaryOp::FloorMod, a, b);
    }
    // `fmod` has the sign of the dividend; adding the divisor gives the sign of the divisor.
    let rest = binary(BinaryOp::Mod, a, b.clone());
    let other_sign = rest.clone().less(0).not_equal(b.clone().less(0));
    rest.clone().not_equal(0).and(other_sign).select(rest.clone() + b, rest)
}

fn power(a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let dtype = a.dtype();
    if dtype.is_float() {
        return PrimExpr::call(Intrinsic::Pow, [a, b], dtype);
    }
    let (a, b) = (a.cast(DataType::F64), b.cast(DataType::F64));
    PrimExpr::call(Intrinsic::Pow, [a, b], DataType::F64).cast(dtype)
}

/// `high + log1p(exp(low - high))`, where `high` is the larger argument. Equal arguments give `b + ln 2` instead, so that
/// two infinities of the same sign give that infinity, not NaN.
fn log_add_exp(a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let (high, low) = (a.clone().max(&b), a.clone().min(&b));
    let rest = (low - &high).unary(Intrinsic::Exp).unary(Intrinsic::Log1p);
    a.equal(&b).select(b.clone() + PrimExpr::float(std::f64::consts::LN_2, b.dtype()), high + rest)
}

fn bitwise(op: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    match (op, a.dtype().is_bool()) {
        (BinaryOp::BitAnd, true) => a.and(b),
        (BinaryOp::BitOr, true) => a.or(b),
        (BinaryOp::BitXor, true) => a.not_equal(b),
        _ => binary(op, a, b),
    }
}

fn shift(op: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let dtype = a.dtype();
    let last = PrimExpr::int(i64::from(dtype.bits()) - 1, dtype);
    let inside = b.clone().less_equal(&last).and(b.clone().greater_equal(0));
    let amount = inside.clone().select(b, last);
    let shifted = binary(op, a, amount);
    if op == BinaryOp::Shr && dtype.is_int() {
        return shifted;
    }
    inside.select(shifted, PrimExpr::int(0, dtype))
}
