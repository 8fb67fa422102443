//! Binary operations and casts, one closure for each pair of operation and type.

use tvm_runtime::DataType;

use super::InterpErrorKind;
use super::machine::{FloatFn, IntFn, Machine, Trap};
use super::math::{self, round_to};
use crate::ir::Span;
use crate::tir::{BinaryOp, bitwise, eval_int, float_to_int, logical, wrap_int};

/// A computation of one value (of one lane, for a vector) that is not a handle.
pub(super) enum Code {
    Int(IntFn),
    Float(FloatFn),
}

/// `a op b` on integers of type `dtype` (scalar).
pub(super) fn int_binary(op: BinaryOp, dtype: DataType, a: IntFn, b: IntFn, span: &Span) -> IntFn {
    let span = span.clone();
    macro_rules! f {
        (|$x:ident, $y:ident| $e:expr) => {
            Box::new(move |m: &mut Machine<'_>| {
                let $x = a(m)?;
                let $y = b(m)?;
                Ok($e)
            })
        };
    }
    // Additions, subtractions and products wrap to 64 bits; for types other than i64 they are then narrowed.
    let wide: Option<IntFn> = match op {
        BinaryOp::Add => return narrow(f!(|x, y| x.wrapping_add(y)), dtype),
        BinaryOp::Sub => return narrow(f!(|x, y| x.wrapping_sub(y)), dtype),
        BinaryOp::Mul => return narrow(f!(|x, y| x.wrapping_mul(y)), dtype),
        BinaryOp::Eq => Some(f!(|x, y| (x == y) as i64)),
        BinaryOp::Ne => Some(f!(|x, y| (x != y) as i64)),
        BinaryOp::And | BinaryOp::BitAnd => Some(f!(|x, y| x & y)),
        BinaryOp::Or | BinaryOp::BitOr => Some(f!(|x, y| x | y)),
        BinaryOp::BitXor => Some(f!(|x, y| x ^ y)),
        BinaryOp::Min if dtype != DataType::U64 => Some(f!(|x, y| x.min(y))),
        BinaryOp::Max if dtype != DataType::U64 => Some(f!(|x, y| x.max(y))),
        BinaryOp::Lt if dtype != DataType::U64 => Some(f!(|x, y| (x < y) as i64)),
        BinaryOp::Le if dtype != DataType::U64 => Some(f!(|x, y| (x <= y) as i64)),
        BinaryOp::Gt if dtype != DataType::U64 => Some(f!(|x, y| (x > y) as i64)),
        BinaryOp::Ge if dtype != DataType::U64 => Some(f!(|x, y| (x >= y) as i64)),
        BinaryOp::FloorDiv if dtype == DataType::I64 => {
            return Box::new(move |m| {
                let x = a(m)?;
                let y = nonzero(b(m)?, m, &span)?;
                Ok(x.wrapping_div(y) - i64::from(x.wrapping_rem(y) != 0 && (x < 0) != (y < 0)))
            });
        }
        BinaryOp::FloorMod if dtype == DataType::I64 => {
            return Box::new(move |m| {
                let x = a(m)?;
                let y = nonzero(b(m)?, m, &span)?;
                let r = x.wrapping_rem(y);
                Ok(if r != 0 && (r < 0) != (y < 0) { r + y } else { r })
            });
        }
        BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge
        | BinaryOp::Div
        | BinaryOp::Mod
        | BinaryOp::FloorDiv
        | BinaryOp::FloorMod
        | BinaryOp::Shl
        | BinaryOp::Shr => {
            return Box::new(move |m| {
                let (x, y) = (a(m)?, b(m)?);
                eval_int(op, x, y, dtype).ok_or_else(|| {
                    let kind = match op {
                        BinaryOp::Shl | BinaryOp::Shr => InterpErrorKind::Shift { dtype, amount: y },
                        _ => InterpErrorKind::DivisionByZero,
                    };
                    m.fail(kind, &span)
                })
            });
        }
    };
    wide.expect("every other operation returned")
}

fn nonzero(value: i64, m: &mut Machine<'_>, span: &Span) -> Result<i64, Trap> {
    if value == 0 { Err(m.fail(InterpErrorKind::DivisionByZero, span)) } else { Ok(value) }
}

/// The value of `f` wrapped to `dtype`.
fn narrow(f: IntFn, dtype: DataType) -> IntFn {
    match dtype {
        DataType::I64 | DataType::U64 => f,
        DataType::I32 => Box::new(move |m| Ok(i64::from(f(m)? as i32))),
        DataType::U8 => Box::new(move |m| Ok(i64::from(f(m)? as u8))),
        _ => Box::new(move |m| Ok(wrap_int(i128::from(f(m)?), dtype))),
    }
}

/// `f` rounded to `dtype`.
pub(super) fn rounded(f: FloatFn, dtype: DataType) -> FloatFn {
    match dtype {
        DataType::F64 => f,
        DataType::F32 => Box::new(move |m| Ok(f64::from(f(m)? as f32))),
        _ => Box::new(move |m| Ok(round_to(f(m)?, dtype))),
    }
}

/// `a op b` on floats of type `dtype` (scalar), computed in `f64` and then rounded, which for these operations equals
/// rounding the exact result. `None` if floats have no such operation.
pub(super) fn float_binary(op: BinaryOp, dtype: DataType, a: FloatFn, b: FloatFn) -> Option<Code> {
    macro_rules! f {
        (|$x:ident, $y:ident| $e:expr) => {
            Box::new(move |m: &mut Machine<'_>| {
                let $x = a(m)?;
                let $y = b(m)?;
                Ok($e)
            })
        };
    }
    // `f32`, the most common type, gets its own closures.
    macro_rules! arith {
        (|$x:ident, $y:ident| $e:expr) => {
            if dtype == DataType::F32 {
                Code::Float(f!(|$x, $y| f64::from(($e) as f32)))
            } else {
                Code::Float(rounded(f!(|$x, $y| $e), dtype))
            }
        };
    }
    Some(match op {
        BinaryOp::Add => arith!(|x, y| x + y),
        BinaryOp::Sub => arith!(|x, y| x - y),
        BinaryOp::Mul => arith!(|x, y| x * y),
        BinaryOp::Div => arith!(|x, y| x / y),
        BinaryOp::Mod => arith!(|x, y| x % y),
        BinaryOp::Min => Code::Float(f!(|x, y| math::min(x, y))),
        BinaryOp::Max => Code::Float(f!(|x, y| math::max(x, y))),
        BinaryOp::Eq => Code::Int(f!(|x, y| (x == y) as i64)),
        BinaryOp::Ne => Code::Int(f!(|x, y| (x != y) as i64)),
        BinaryOp::Lt => Code::Int(f!(|x, y| (x < y) as i64)),
        BinaryOp::Le => Code::Int(f!(|x, y| (x <= y) as i64)),
        BinaryOp::Gt => Code::Int(f!(|x, y| (x > y) as i64)),
        BinaryOp::Ge => Code::Int(f!(|x, y| (x >= y) as i64)),
        BinaryOp::FloorDiv => arith!(|x, y| (x / y).floor()),
        BinaryOp::FloorMod => arith!(|x, y| x - (x / y).floor() * y),
        logical!() | bitwise!() => return None,
    })
}

/// The value of `code`, of type `from`, converted to `to` (scalar types, no handles).
pub(super) fn cast(code: Code, from: DataType, to: DataType) -> Code {
    match code {
        Code::Int(f) if to.is_float() => {
            let wide = move |x: i64| if from == DataType::U64 { i128::from(x as u64) } else { i128::from(x) };
            Code::Float(match to {
                DataType::F32 => Box::new(move |m| Ok(f64::from(wide(f(m)?) as f32))),
                _ => Box::new(move |m| Ok(round_to(wide(f(m)?) as f64, to))),
            })
        }
        Code::Int(f) if from == DataType::U64 => {
            Code::Int(Box::new(move |m| Ok(wrap_int(i128::from(f(m)? as u64), to))))
        }
        Code::Int(f) => Code::Int(Box::new(move |m| Ok(wrap_int(i128::from(f(m)?), to)))),
        Code::Float(f) if to.is_float() => Code::Float(rounded(f, to)),
        Code::Float(f) => Code::Int(Box::new(move |m| Ok(float_to_int(f(m)?, to)))),
    }
}
