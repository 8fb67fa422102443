//! Numbers of the host's part of a program: integers of a width as `i64`, floats of a width as `f64`.

use crate::dtype::DataType;

/// The number that the constant `value` of type `dtype` represents: for `u64`, `value` is its bit pattern.
pub fn wide_int(value: i64, dtype: DataType) -> i128 {
    if dtype.is_uint() { i128::from(value as u64) } else { i128::from(value) }
}

/// The float `value` as an integer of type `to`: rounded towards 0, the nearest value of the type where there is none, 0 for NaN.
pub fn float_to_int(value: f64, to: DataType) -> i64 {
    match to {
        DataType::BOOL => (value != 0.0) as i64,
        DataType::U64 => value as u64 as i64,
        _ => {
            let (low, high) = to.int_range().unwrap_or((0, 0));
            (value as i128).clamp(low, high) as i64
        }
    }
}

/// `value` reduced to the range of `dtype` (two's complement; bool is `!= 0`); `u64` keeps its bit pattern.
pub fn wrap_int(value: i128, dtype: DataType) -> i64 {
    match (dtype.is_bool(), dtype.is_uint(), dtype.bits()) {
        (true, _, _) => (value != 0) as i64,
        (_, true, 8) => value as u8 as i64,
        (_, true, 16) => value as u16 as i64,
        (_, true, 32) => value as u32 as i64,
        (_, false, 8) => value as i8 as i64,
        (_, false, 16) => value as i16 as i64,
        (_, false, 32) => value as i32 as i64,
        _ => value as i64,
    }
}

/// An operation on two numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the operation of its name, as in tensor programs")]
pub enum HostOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    FloorDiv,
    FloorMod,
    Min,
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
}

impl HostOp {
    fn is_comparison(self) -> bool {
        use HostOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    /// The value on integers of type `dtype`; `None` for division by zero and for invalid shift amounts.
    pub fn ints(self, a: i64, b: i64, dtype: DataType) -> Option<i64> {
        let (x, y) = (wide_int(a, dtype), wide_int(b, dtype));
        let value = match self {
            HostOp::Add => x + y,
            HostOp::Sub => x - y,
            HostOp::Mul => x.wrapping_mul(y),
            HostOp::Div => x.checked_div(y)?,
            HostOp::Mod => x.checked_rem(y)?,
            HostOp::FloorDiv => {
                let (q, r) = (x.checked_div(y)?, x.checked_rem(y)?);
                if r != 0 && (r < 0) != (y < 0) { q - 1 } else { q }
            }
            HostOp::FloorMod => {
                let r = x.checked_rem(y)?;
                if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
            }
            HostOp::Min => x.min(y),
            HostOp::Max => x.max(y),
            HostOp::Eq => i128::from(x == y),
            HostOp::Ne => i128::from(x != y),
            HostOp::Lt => i128::from(x < y),
            HostOp::Le => i128::from(x <= y),
            HostOp::Gt => i128::from(x > y),
            HostOp::Ge => i128::from(x >= y),
            HostOp::BitAnd => x & y,
            HostOp::BitOr => x | y,
            HostOp::BitXor => x ^ y,
            HostOp::Shl | HostOp::Shr => {
                if !(0..i128::from(dtype.bits().min(64))).contains(&y) {
                    return None;
                }
                if self == HostOp::Shl { x << y } else { x >> y }
            }
        };
        Some(wrap_int(value, if self.is_comparison() { DataType::BOOL } else { dtype }))
    }

    /// The value on floats of type `dtype`, rounded to it; `None` where the operation is on integers alone.
    pub(super) fn floats(self, a: f64, b: f64, dtype: DataType) -> Option<Number> {
        let value = match self {
            HostOp::Add => a + b,
            HostOp::Sub => a - b,
            HostOp::Mul => a * b,
            HostOp::Div => a / b,
            // NaN where either is; the first of equals.
            HostOp::Min => {
                if b < a || b.is_nan() {
                    b
                } else {
                    a
                }
            }
            HostOp::Max => {
                if b > a || b.is_nan() {
                    b
                } else {
                    a
                }
            }
            HostOp::Eq => return Some(Number::Int((a == b).into())),
            HostOp::Ne => return Some(Number::Int((a != b).into())),
            HostOp::Lt => return Some(Number::Int((a < b).into())),
            HostOp::Le => return Some(Number::Int((a <= b).into())),
            HostOp::Gt => return Some(Number::Int((a > b).into())),
            HostOp::Ge => return Some(Number::Int((a >= b).into())),
            HostOp::Mod
            | HostOp::FloorDiv
            | HostOp::FloorMod
            | HostOp::BitAnd
            | HostOp::BitOr
            | HostOp::BitXor
            | HostOp::Shl
            | HostOp::Shr => return None,
        };
        Some(Number::Float(round_to(value, dtype)))
    }
}

/// What a register holds: a number or a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
    /// The memory of this number.
    Memory(usize),
}

impl Number {
    /// The number as one of type `to`; `None` for a place, and where the types have another kind.
    pub(super) fn cast(self, from: DataType, to: DataType) -> Option<Number> {
        Some(match self {
            Number::Int(value) if to.is_bool() => Number::Int(i64::from(value != 0)),
            Number::Int(value) if to.is_integer() => Number::Int(wrap_int(wide_int(value, from), to)),
            Number::Int(value) if to.is_float() => {
                let value = wide_int(value, from);
                // Rounded once.
                let value = if to == DataType::F32 { f64::from(value as f32) } else { value as f64 };
                Number::Float(round_to(value, to))
            }
            Number::Float(value) if to.is_float() => Number::Float(round_to(value, to)),
            Number::Float(value) if to.is_integer() || to.is_bool() => Number::Int(float_to_int(value, to)),
            _ => return None,
        })
    }

    /// The bits as a number of type `dtype`; `None` for a place.
    pub(super) fn bits(self, dtype: DataType) -> Option<u64> {
        Some(match self {
            Number::Float(value) if dtype == DataType::F32 => u64::from((value as f32).to_bits()),
            Number::Float(value) if dtype == DataType::F16 => u64::from(half::f16::from_f64(value).to_bits()),
            Number::Float(value) if dtype == DataType::BF16 => {
                u64::from(half::bf16::from_f64(value).to_bits())
            }
            Number::Float(value) => value.to_bits(),
            Number::Int(value) => value as u64,
            Number::Memory(_) => return None,
        })
    }
}

/// `value` as a number of type `dtype`.
fn round_to(value: f64, dtype: DataType) -> f64 {
    match dtype {
        DataType::F32 => f64::from(value as f32),
        DataType::F16 => half::f16::from_f64(value).to_f64(),
        DataType::BF16 => half::bf16::from_f64(value).to_f64(),
        _ => value,
    }
}
