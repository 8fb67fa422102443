//! Builds expressions: operators and named constructors, which fold constants and trivial identities.
//!
//! The operands of an operation have one type; integer constants given as Rust `i64` take the type of the other side,
//! and a scalar beside a vector is broadcast. Mixing types is a bug of the caller that `well_formed` reports.
//!
//! TVM counterpart: `tir/op.h`, `const_fold.h`.

use std::ops;
use std::sync::Arc;

use tvm_runtime::{DataType, HostOp};
pub use tvm_runtime::{float_to_int, wide_int, wrap_int};

use super::{Binary, BinaryOp, Broadcast, Cast, Not, PrimCall, PrimCallee, PrimExpr, Ramp, Select};
use super::{Buffer, BufferLoad, Intrinsic};
use crate::ir::{Span, Var};

/// `a op b`, folded when both sides are integer constants, or one is neutral or determines the result.
pub fn binary(op: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let (a, b) = match_lanes(a, b);
    if let Some(folded) = fold_binary(op, &a, &b) {
        return folded;
    }
    PrimExpr::Binary(Arc::new(Binary { op, a, b }))
}

fn match_lanes(a: PrimExpr, b: PrimExpr) -> (PrimExpr, PrimExpr) {
    match (a.dtype().lanes(), b.dtype().lanes()) {
        (1, lanes) if lanes > 1 => (a.broadcast(lanes), b),
        (lanes, 1) if lanes > 1 => {
            let b = b.broadcast(lanes);
            (a, b)
        }
        _ => (a, b),
    }
}

/// Value of `a op b` on integers of type `dtype`; `None` for division by zero and for invalid shift amounts.
pub fn eval_int(op: BinaryOp, a: i64, b: i64, dtype: DataType) -> Option<i64> {
    // Both operands are known.
    let op = match op {
        BinaryOp::And => HostOp::BitAnd,
        BinaryOp::Or => HostOp::BitOr,
        _ => op.on_host()?,
    };
    op.ints(a, b, dtype)
}

fn fold_binary(op: BinaryOp, a: &PrimExpr, b: &PrimExpr) -> Option<PrimExpr> {
    let dtype = a.dtype();
    if let (PrimExpr::IntImm(x), PrimExpr::IntImm(y)) = (a, b) {
        let value = eval_int(op, x.value, y.value, dtype)?;
        return Some(PrimExpr::int(value, if op.is_comparison() { DataType::BOOL } else { dtype }));
    }
    let (x, y) = (a.as_int(), b.as_int());
    if dtype.is_integer() {
        match (op, x, y) {
            (BinaryOp::Add, Some(0), _) | (BinaryOp::Mul, Some(1), _) => return Some(b.clone()),
            (BinaryOp::Add | BinaryOp::Sub, _, Some(0))
            | (BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv, _, Some(1)) => {
                return Some(a.clone());
            }
            (BinaryOp::Mul, Some(0), _) => return Some(a.clone()),
            (BinaryOp::Mul, _, Some(0)) => return Some(b.clone()),
            (BinaryOp::Mod | BinaryOp::FloorMod, _, Some(1)) => return Some(PrimExpr::int(0, dtype)),
            _ => {}
        }
    }
    if dtype == DataType::BOOL {
        match (op, x, y) {
            (BinaryOp::And, Some(1), _) | (BinaryOp::Or, Some(0), _) => return Some(b.clone()),
            (BinaryOp::And, _, Some(1)) | (BinaryOp::Or, _, Some(0)) => return Some(a.clone()),
            (BinaryOp::And, Some(0), _) | (BinaryOp::And, _, Some(0)) => return Some(PrimExpr::bool(false)),
            (BinaryOp::Or, Some(1), _) | (BinaryOp::Or, _, Some(1)) => return Some(PrimExpr::bool(true)),
            _ => {}
        }
    }
    None
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl PrimExpr {
            $($(#[$doc])*
            pub fn $name(self, other: impl IntoOperand) -> PrimExpr {
                let other = other.into_operand(self.dtype());
                binary(BinaryOp::$op, self, other)
            })*
        }
    };
}

methods! {
    /// Integer division toward minus infinity.
    floordiv = FloorDiv;
    /// Remainder of [`floordiv`](Self::floordiv).
    floormod = FloorMod;
    /// The smaller of both.
    min = Min;
    /// The larger of both.
    max = Max;
    /// `self == other`
    equal = Eq;
    /// `self != other`
    not_equal = Ne;
    /// `self < other`
    less = Lt;
    /// `self <= other`
    less_equal = Le;
    /// `self > other`
    greater = Gt;
    /// `self >= other`
    greater_equal = Ge;
    /// Logical and.
    and = And;
    /// Logical or.
    or = Or;
}

impl PrimExpr {
    /// Conversion to `dtype` (a scalar type, or one with the same lanes); no node if the value has that type already.
    pub fn cast(self, dtype: DataType) -> PrimExpr {
        let dtype = dtype.scalar().with_lanes(self.dtype().lanes());
        if self.dtype() == dtype {
            return self;
        }
        match &self {
            PrimExpr::IntImm(it) if dtype.is_float() => {
                let unsigned = it.dtype == DataType::U64;
                let wide = if unsigned { i128::from(it.value as u64) } else { i128::from(it.value) };
                // Convert to `f32` in one step: through `f64` the value would be rounded twice.
                let value = if dtype == DataType::F32 { f64::from(wide as f32) } else { wide as f64 };
                PrimExpr::float(value, dtype)
            }
            PrimExpr::IntImm(it) if dtype.is_integer() || dtype.is_bool() => {
                PrimExpr::int(wrap_int(it.value as i128, dtype), dtype)
            }
            PrimExpr::FloatImm(it) if dtype.is_float() => PrimExpr::float(it.value, dtype),
            _ => PrimExpr::Cast(Arc::new(Cast { dtype, value: self })),
        }
    }

    /// A vector of `lanes` equal lanes; the value itself for one lane.
    pub fn broadcast(self, lanes: u16) -> PrimExpr {
        if lanes == 1 { self } else { PrimExpr::Broadcast(Arc::new(Broadcast { value: self, lanes })) }
    }

    /// The vector `self + stride * (0, 1, …, lanes - 1)`.
    pub fn ramp(self, stride: PrimExpr, lanes: u16) -> PrimExpr {
        if lanes == 1 { self } else { PrimExpr::Ramp(Arc::new(Ramp { base: self, stride, lanes })) }
    }

    /// `if self { a } else { b }` with both arms evaluated.
    pub fn select(self, true_value: PrimExpr, false_value: PrimExpr) -> PrimExpr {
        match self.as_int() {
            Some(0) => false_value,
            Some(_) => true_value,
            None => PrimExpr::Select(Arc::new(Select { condition: self, true_value, false_value })),
        }
    }

    /// A call of `intrinsic` with the result type `dtype`.
    pub fn call(intrinsic: Intrinsic, args: impl Into<Arc<[PrimExpr]>>, dtype: DataType) -> PrimExpr {
        PrimExpr::Call(Arc::new(PrimCall {
            callee: PrimCallee::Intrinsic(intrinsic),
            args: args.into(),
            dtype,
            span: Span::none(),
        }))
    }

    /// A math intrinsic of one argument: the result has the argument's type.
    pub fn unary(self, intrinsic: Intrinsic) -> PrimExpr {
        let dtype = self.dtype();
        PrimExpr::call(intrinsic, [self], dtype)
    }
}

impl Buffer {
    /// Reads `self[indices]`.
    pub fn load(&self, indices: impl Into<Arc<[PrimExpr]>>) -> PrimExpr {
        PrimExpr::BufferLoad(Arc::new(BufferLoad {
            buffer: self.clone(),
            indices: indices.into(),
            predicate: None,
            span: Span::none(),
        }))
    }
}

/// The right operand of an expression operator: an expression, a variable, or an integer that takes the left type.
pub trait IntoOperand {
    /// The operand, for a left operand of type `dtype`.
    fn into_operand(self, dtype: DataType) -> PrimExpr;
}

impl IntoOperand for PrimExpr {
    fn into_operand(self, _: DataType) -> PrimExpr {
        self
    }
}

impl IntoOperand for &PrimExpr {
    fn into_operand(self, _: DataType) -> PrimExpr {
        self.clone()
    }
}

impl IntoOperand for Var {
    fn into_operand(self, _: DataType) -> PrimExpr {
        self.into()
    }
}

impl IntoOperand for &Var {
    fn into_operand(self, _: DataType) -> PrimExpr {
        self.into()
    }
}

impl IntoOperand for i64 {
    fn into_operand(self, dtype: DataType) -> PrimExpr {
        let scalar = dtype.scalar();
        let value = if scalar.is_float() {
            PrimExpr::float(self as f64, scalar)
        } else {
            PrimExpr::int(self, scalar)
        };
        value.broadcast(dtype.lanes())
    }
}

macro_rules! operators {
    ($($tr:ident :: $f:ident = $op:ident;)*) => {
        $(
            impl<R: IntoOperand> ops::$tr<R> for PrimExpr {
                type Output = PrimExpr;
                fn $f(self, other: R) -> PrimExpr {
                    let other = other.into_operand(self.dtype());
                    binary(BinaryOp::$op, self, other)
                }
            }

            impl<R: IntoOperand> ops::$tr<R> for &PrimExpr {
                type Output = PrimExpr;
                fn $f(self, other: R) -> PrimExpr {
                    self.clone().$f(other)
                }
            }

            impl<R: IntoOperand> ops::$tr<R> for &Var {
                type Output = PrimExpr;
                fn $f(self, other: R) -> PrimExpr {
                    PrimExpr::from(self).$f(other)
                }
            }
        )*
    };
}

operators! {
    Add::add = Add;
    Sub::sub = Sub;
    Mul::mul = Mul;
    Div::div = Div;
    Rem::rem = Mod;
}

impl ops::Not for PrimExpr {
    type Output = PrimExpr;

    fn not(self) -> PrimExpr {
        match self.as_int() {
            Some(value) => PrimExpr::bool(value == 0),
            None => PrimExpr::Not(Arc::new(Not { value: self })),
        }
    }
}

impl ops::Neg for PrimExpr {
    type Output = PrimExpr;

    fn neg(self) -> PrimExpr {
        let dtype = self.dtype();
        match &self {
            PrimExpr::FloatImm(it) => PrimExpr::float(-it.value, it.dtype),
            // Unsigned numbers wrap.
            _ if dtype.is_uint() => 0i64.into_operand(dtype) - self,
            // -1 * x keeps the sign of zero, which 0 - x does not.
            _ => (-1i64).into_operand(dtype) * self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_semantics() {
        let cases = [
            (BinaryOp::Div, -7, 2, Some(-3)),
            (BinaryOp::Mod, -7, 2, Some(-1)),
            (BinaryOp::FloorDiv, -7, 2, Some(-4)),
            (BinaryOp::FloorMod, -7, 2, Some(1)),
            (BinaryOp::FloorDiv, 7, -2, Some(-4)),
            (BinaryOp::FloorMod, 7, -2, Some(-1)),
            (BinaryOp::FloorDiv, -8, 2, Some(-4)),
            (BinaryOp::Div, 1, 0, None),
            (BinaryOp::FloorMod, 1, 0, None),
            (BinaryOp::Shl, 1, 64, None),
            (BinaryOp::Add, i64::MAX, 1, Some(i64::MIN)),
        ];
        for (op, a, b, want) in cases {
            assert_eq!(eval_int(op, a, b, DataType::I64), want, "{a} {op:?} {b}");
        }
        assert_eq!(eval_int(BinaryOp::Add, 255, 1, DataType::U8), Some(0));
        assert_eq!(eval_int(BinaryOp::Div, -1, 2, DataType::U64), Some(i64::MAX));
    }

    #[test]
    fn constants_fold_and_neutral_elements_vanish() {
        let x = Var::index("x");
        assert!((&x + 0i64).ptr_eq(&PrimExpr::from(&x)));
        assert!((&x * 1i64).ptr_eq(&PrimExpr::from(&x)));
        assert!((&x * 0i64).is_const(0));
        assert!((PrimExpr::index(6) * 7).is_const(42));
        assert!(PrimExpr::index(3).less(4).is_const(1));
    }
}
