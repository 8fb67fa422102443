//! Literals without a suffix take the type of the other operand: checks that this type has their value.
//!
//! The macros refuse unfit literals where they know the type; type parameters and graph functions are checked here.

use std::cell::RefCell;
use std::sync::Arc;

use tvm_runtime::DataType;

use crate::tir::{Cast, PrimExpr};

/// A number as written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Literal {
    Int(i64),
    Float(f64),
}

/// Why `literal` is not a value of type `dtype`; `None` if it is one.
pub(crate) fn misfit(literal: Literal, dtype: DataType) -> Option<String> {
    let dtype = dtype.scalar();
    let range = || {
        let (min, max) = dtype.int_range()?;
        Some(format!("{dtype} holds {min}..={max}"))
    };
    let why = match literal {
        _ if dtype.is_bool() => "a bool is `true` or `false`".to_string(),
        Literal::Int(value) if dtype.is_integer() => {
            let (min, max) = dtype.int_range()?;
            if (min..=max).contains(&i128::from(value)) {
                return None;
            }
            range()?
        }
        Literal::Float(value) if dtype.is_integer() => {
            let (min, max) = dtype.int_range()?;
            let fits = value.fract() == 0.0 && (min as f64..=max as f64).contains(&value);
            if fits {
                return None;
            }
            range()?
        }
        Literal::Int(value) => {
            let rounded = rounded(value as f64, dtype);
            // Up to 2^53 an `f64` holds every integer; above, the literal itself must be one that it holds.
            if rounded as i128 == i128::from(value) {
                return None;
            }
            format!("{dtype} does not hold this integer exactly")
        }
        Literal::Float(value) => {
            if rounded(value, dtype).is_finite() || !value.is_finite() {
                return None;
            }
            format!("it is too large for {dtype}")
        }
    };
    let text = match literal {
        Literal::Int(value) => value.to_string(),
        Literal::Float(value) => format!("{value:?}"),
    };
    Some(format!("the literal {text} is no {dtype}: {why}"))
}

/// A float literal that is represented by `odd`, a neighbour of its nearest `f64`: encoded as a conversion to `f64`.
pub(super) fn near(odd: f64) -> PrimExpr {
    let value = PrimExpr::float(odd, DataType::F64);
    PrimExpr::Cast(Arc::new(Cast { value, dtype: DataType::F64 }))
}

/// The literal `expr`, made by [`near`], as `dtype`.
pub(super) fn near_as(expr: &PrimExpr, dtype: DataType) -> Option<PrimExpr> {
    let PrimExpr::Cast(it) = expr else { return None };
    let (PrimExpr::FloatImm(odd), DataType::F64) = (&it.value, it.dtype) else { return None };
    if dtype == DataType::F64 {
        // The nearest `f64` is the neighbour of `odd` whose last two bits are zero.
        let bits = odd.value.to_bits();
        let nearest = if bits & 2 == 0 { bits - 1 } else { bits + 1 };
        return Some(PrimExpr::float(f64::from_bits(nearest), dtype));
    }
    remember(Literal::Float(odd.value), dtype);
    Some(it.value.clone().cast(dtype))
}

fn rounded(value: f64, dtype: DataType) -> f64 {
    match dtype {
        DataType::F32 => f64::from(value as f32),
        DataType::F16 => half::f16::from_f64(value).to_f64(),
        DataType::BF16 => half::bf16::from_f64(value).to_f64(),
        _ => value,
    }
}

thread_local! {
    static MISFITS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Remembers that a literal of the kernel under construction was converted to a type that lacks its value.
pub(super) fn remember(literal: Literal, dtype: DataType) {
    MISFITS.with_borrow_mut(|all| all.extend(misfit(literal, dtype)));
}

/// The messages that were remembered since the last call.
pub(super) fn take() -> Vec<String> {
    MISFITS.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits() {
        use Literal::{Float, Int};
        let cases = [
            (Int(255), DataType::U8, true),
            (Int(256), DataType::U8, false),
            (Int(-1), DataType::U64, false),
            (Int(-128), DataType::I8, true),
            (Int(i64::MIN), DataType::I64, true),
            (Int(1), DataType::BOOL, false),
            (Int(2048), DataType::F16, true),
            (Int(2049), DataType::F16, false),
            (Int(16_777_217), DataType::F32, false),
            (Int(i64::MAX), DataType::F64, false),
            (Float(1.5), DataType::I32, false),
            (Float(2.0), DataType::I32, true),
            (Float(0.1), DataType::BF16, true),
            (Float(65504.0), DataType::F16, true),
            (Float(70000.0), DataType::F16, false),
            (Float(1e39), DataType::F32, false),
            (Float(f64::INFINITY), DataType::F32, true),
        ];
        for (literal, dtype, fits) in cases {
            assert_eq!(misfit(literal, dtype).is_none(), fits, "{literal:?} {dtype}");
        }
    }
}
