//! The values of expressions as docs/guide/src/tir.md defines them, computed without the library's constant folding.

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::DataType;

use crate::ir::VarId;
use crate::ir::tensor_program::{BinaryOp, Intrinsic, PrimCallee, PrimExpr};

/// Values of variables; also, which variables are indices, and which are data with wide limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub(super) ints: FxHashMap<VarId, i64>,
    pub(super) indices: FxHashSet<VarId>,
    pub(super) wide: FxHashSet<VarId>,
}

/// Factors up to this belong to index arithmetic.
const SMALL: i128 = 1 << 31;

/// A value, and the kinds of operands that it is computed from.
#[derive(Clone, Copy)]
struct Value {
    /// The value as a number of its type.
    number: i128,
    /// True when it depends on an index variable.
    index: bool,
    /// True when it depends on wide data or a large constant.
    wide: bool,
}

/// The value of an integer or bool expression, as the bits of an `i64`; `None` where index arithmetic overflows, which
/// is assumed not to happen.
pub(super) fn eval(expr: &PrimExpr, values: &Values) -> Option<i64> {
    value(expr, values).map(|it| it.number as i64)
}

fn value(expr: &PrimExpr, values: &Values) -> Option<Value> {
    let plain = |number| Value { number, index: false, wide: false };
    Some(match expr {
        PrimExpr::IntImm(it) => {
            let number = as_number(i128::from(it.value), it.dtype);
            Value { number, index: false, wide: number.abs() > SMALL }
        }
        PrimExpr::Var(var) => Value {
            number: as_number(i128::from(values.ints[&var.id()]), var.dtype()),
            index: values.indices.contains(&var.id()),
            wide: values.wide.contains(&var.id()),
        },
        PrimExpr::Cast(it) => {
            let inner = value(&it.value, values)?;
            let narrow = it.value.dtype().bits() <= 32;
            let number = as_number(inner.number, it.dtype);
            Value { number, index: inner.index && !narrow, wide: inner.wide && !narrow }
        }
        PrimExpr::Not(it) => plain(1 - value(&it.value, values)?.number),
        PrimExpr::Select(it) => {
            let condition = value(&it.condition, values)?;
            let arms = (value(&it.true_value, values)?, value(&it.false_value, values)?);
            choose(condition, arms)
        }
        PrimExpr::Let(it) => {
            let bound = value(&it.value, values)?;
            let mut inner = values.clone();
            inner.ints.insert(it.var.id(), bound.number as i64);
            if bound.index {
                inner.indices.insert(it.var.id());
            }
            if bound.wide {
                inner.wide.insert(it.var.id());
            }
            value(&it.body, &inner)?
        }
        PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
            let condition = value(&it.args[0], values)?;
            choose(condition, (value(&it.args[1], values)?, value(&it.args[2], values)?))
        }
        PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
            value(&it.args[0], values)?
        }
        PrimExpr::Binary(it) => {
            let (a, b) = (value(&it.a, values)?, value(&it.b, values)?);
            let dtype = it.a.dtype();
            let exact = operation(it.op, a.number, b.number, dtype);
            let number = as_number(exact, if it.op.is_comparison() { DataType::BOOL } else { dtype });
            let (index, wide) = (a.index || b.index, a.wide || b.wide);
            if exact != number && index && !wide && dtype == DataType::I64 {
                return None;
            }
            let bool = it.op.is_comparison() || it.op.is_logical();
            Value { number, index: index && !bool, wide: wide && !bool }
        }
        other => panic!("not generated: {other:?}"),
    })
}

fn choose(condition: Value, (a, b): (Value, Value)) -> Value {
    let number = if condition.number != 0 { a.number } else { b.number };
    Value { number, index: a.index || b.index, wide: a.wide || b.wide }
}

/// `value` as a number of type `dtype`.
pub(super) fn as_number(value: i128, dtype: DataType) -> i128 {
    if dtype.is_bool() {
        return i128::from(value != 0);
    }
    let bits = u32::from(dtype.bits());
    let low = value & ((1 << bits) - 1);
    if !dtype.is_uint() && low >> (bits - 1) == 1 { low - (1 << bits) } else { low }
}

/// The result of `a op b` before it wraps.
fn operation(op: BinaryOp, a: i128, b: i128, dtype: DataType) -> i128 {
    let amount = (b & i128::from(dtype.bits() - 1)) as u32;
    let truth = i128::from;
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        // The low bits are right even if the product of two u64 does not fit.
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod if b == 0 => 0,
        BinaryOp::Div => a / b,
        BinaryOp::Mod => a % b,
        BinaryOp::FloorDiv => (a - (a % b + b) % b) / b,
        BinaryOp::FloorMod => (a % b + b) % b,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Eq => truth(a == b),
        BinaryOp::Ne => truth(a != b),
        BinaryOp::Lt => truth(a < b),
        BinaryOp::Le => truth(a <= b),
        BinaryOp::Gt => truth(a > b),
        BinaryOp::Ge => truth(a >= b),
        BinaryOp::And | BinaryOp::BitAnd => a & b,
        BinaryOp::Or | BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Shl => a << amount,
        BinaryOp::Shr => a >> amount,
    }
}
