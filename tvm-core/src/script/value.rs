//! Values of a kernel under construction: expressions that are untyped literals, indices (`usize`) or of a fixed type.
//!
//! The Rust compiler has checked the types in the shadow. Here an untyped literal takes the type of the other operand, and
//! division of indices (`usize` in the shadow, `i64` here) rounds down, which is the same for all values of a `usize`.

use std::sync::Arc;

use tvm_runtime::DataType;

use super::literal::{self, Literal};
use crate::ir::Var;
use crate::tir::analysis::is_total;
use crate::tir::{Binary, BinaryOp, Intrinsic, PrimCall, PrimExpr, Select, binary};

/// Type of an index: `usize` in the shadow.
pub const INDEX: DataType = DataType::I64;

/// A value of a kernel.
#[derive(Clone, Debug)]
pub struct KernelValue {
    expr: PrimExpr,
    class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Made of literals without a suffix: takes the type of the other operand.
    Literal,
    /// `usize` in the shadow, `i64` here.
    Index,
    /// Of a fixed type.
    Typed,
}

impl KernelValue {
    /// An integer literal without a suffix.
    pub fn int(value: i64) -> KernelValue {
        KernelValue { expr: PrimExpr::index(value), class: Class::Literal }
    }

    /// A float literal without a suffix.
    pub fn float(value: f64) -> KernelValue {
        KernelValue { expr: PrimExpr::float(value, DataType::F64), class: Class::Literal }
    }

    /// A float literal without a suffix whose nearest `f64` is halfway between two values of a narrower type; `odd` is the
    /// neighbouring `f64` that rounds like the literal.
    pub fn float_near(odd: f64) -> KernelValue {
        KernelValue { expr: literal::near(odd), class: Class::Literal }
    }

    /// A bool literal.
    pub fn bool(value: bool) -> KernelValue {
        KernelValue::typed(PrimExpr::bool(value))
    }

    /// A literal with a suffix.
    pub fn constant(value: f64, dtype: DataType) -> KernelValue {
        KernelValue::typed(PrimExpr::constant(value, dtype))
    }

    /// An integer literal with a suffix.
    pub fn int_of(value: i64, dtype: DataType) -> KernelValue {
        KernelValue::typed(PrimExpr::int(value, DataType::I64).cast(dtype))
    }

    /// An index: a loop variable, axis or extent.
    pub fn index(expr: impl Into<PrimExpr>) -> KernelValue {
        KernelValue { expr: expr.into(), class: Class::Index }
    }

    /// An expression of a fixed type.
    pub fn typed(expr: impl Into<PrimExpr>) -> KernelValue {
        KernelValue { expr: expr.into(), class: Class::Typed }
    }

    /// The expression; a literal has its default type (`i64`, `f64`).
    pub fn into_expr(self) -> PrimExpr {
        self.into_own_type()
    }

    pub(super) fn expr(&self) -> &PrimExpr {
        &self.expr
    }

    /// Replaces the expression with another one of the same type.
    pub(super) fn map(self, f: impl FnOnce(PrimExpr) -> PrimExpr) -> KernelValue {
        KernelValue { expr: f(self.expr), class: self.class }
    }

    /// The expression, a literal as `dtype`.
    pub fn into_typed(self, dtype: DataType) -> PrimExpr {
        if self.class == Class::Literal { retype(&self.expr, dtype) } else { self.expr }
    }

    /// The expression as an `i64` index.
    pub fn into_index(self) -> PrimExpr {
        self.into_typed(DataType::I64).cast(DataType::I64)
    }

    /// The type of the variable of a loop over `min..end`; `None` for an index.
    pub(super) fn type_of_range(min: &KernelValue, end: &KernelValue) -> Option<DataType> {
        let ends = [min, end];
        if ends.iter().any(|it| it.class == Class::Index) {
            return None;
        }
        let typed = ends.iter().find(|it| it.class == Class::Typed).map(|it| it.dtype());
        typed.or_else(|| min.expr.as_int().filter(|it| *it < 0).map(|_| DataType::I64))
    }

    /// Its type; for a literal the default one.
    pub fn dtype(&self) -> DataType {
        self.expr.dtype()
    }

    /// True for an index: `usize` in the shadow.
    pub(super) fn is_index(&self) -> bool {
        self.class == Class::Index
    }

    pub(super) fn is_literal(&self) -> bool {
        self.class == Class::Literal
    }

    /// True for literals, constants and variables, which need no name.
    pub(super) fn is_atom(&self) -> bool {
        let atom = matches!(self.expr, PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::Var(_));
        atom || self.class == Class::Literal
    }

    /// `var`, with the class of this value.
    pub(super) fn renamed(&self, var: &Var) -> KernelValue {
        KernelValue { expr: var.into(), class: self.class }
    }

    /// `self op other`.
    pub fn binary(self, op: BinaryOp, other: KernelValue) -> KernelValue {
        let (args, class) = unify([self, other]);
        let [a, b] = args;
        let op = match op {
            BinaryOp::Div if class == Class::Index => BinaryOp::FloorDiv,
            BinaryOp::Mod if class == Class::Index => BinaryOp::FloorMod,
            BinaryOp::BitAnd if a.dtype().is_bool() => BinaryOp::And,
            BinaryOp::BitOr if a.dtype().is_bool() => BinaryOp::Or,
            BinaryOp::BitXor if a.dtype().is_bool() => BinaryOp::Ne,
            op => op,
        };
        let class = if op.is_comparison() || op.is_logical() { Class::Typed } else { class };
        let expr = if class == Class::Literal && a.dtype().is_float() {
            // Not folded, because the literals must be rounded to their type first.
            PrimExpr::Binary(Arc::new(Binary { op, a, b }))
        } else {
            binary(op, a, b)
        };
        KernelValue { expr, class }
    }

    /// `self && other`, `self || other`: `other` is evaluated only if `self` does not decide the result.
    pub fn lazy(self, op: BinaryOp, other: KernelValue) -> KernelValue {
        if is_total(&other.expr) {
            return self.binary(op, other);
        }
        match op {
            BinaryOp::Or => self.choose(KernelValue::bool(true), other),
            _ => self.choose(other, KernelValue::bool(false)),
        }
    }

    /// `self.max(other)`, `self.min(other)` as for Rust's floats: of a NaN and a number, the number; of two equal values,
    /// the second.
    pub fn extremum_of_numbers(self, op: BinaryOp, other: KernelValue) -> KernelValue {
        let ([a, b], class) = unify([self, other]);
        if !a.dtype().is_float() {
            return KernelValue { expr: binary(op, a, b), class };
        }
        let takes = if op == BinaryOp::Max { BinaryOp::Gt } else { BinaryOp::Lt };
        let mut first = binary(takes, a.clone(), b.clone());
        if !is_number(&b) {
            let nan = PrimExpr::call(Intrinsic::IsNan, [b.clone()], DataType::BOOL);
            first = binary(BinaryOp::Or, first, nan);
        }
        KernelValue { expr: first.select(a, b), class }
    }

    /// `-self`
    #[expect(clippy::should_implement_trait, reason = "named like the other operations of expansions")]
    pub fn neg(self) -> KernelValue {
        KernelValue { expr: -self.expr, class: self.class }
    }

    /// `!self`: negation of a bool, complement of an integer.
    #[expect(clippy::should_implement_trait, reason = "named like the other operations of expansions")]
    pub fn not(self) -> KernelValue {
        let expr = if self.dtype().is_bool() { !self.expr } else { self.expr.unary(Intrinsic::BitNot) };
        KernelValue { expr, class: self.class }
    }

    /// `self as dtype`
    pub fn cast(self, dtype: DataType) -> KernelValue {
        KernelValue::typed(self.into_own_type().cast(dtype))
    }

    /// `self as usize`
    pub fn cast_index(self) -> KernelValue {
        KernelValue::index(self.into_own_type().cast(DataType::I64))
    }

    fn into_own_type(self) -> PrimExpr {
        let dtype = self.dtype();
        self.into_typed(dtype)
    }

    /// A call of `intrinsic`.
    pub fn call<const N: usize>(intrinsic: Intrinsic, args: [KernelValue; N]) -> KernelValue {
        let (args, class) = unify(args);
        let of = args.first().map_or(DataType::F32, PrimExpr::dtype);
        let call = |dtype| PrimExpr::call(intrinsic, args, dtype);
        match intrinsic {
            Intrinsic::IsNan | Intrinsic::IsInf => KernelValue::typed(call(DataType::BOOL)),
            Intrinsic::PopCount | Intrinsic::Clz => KernelValue::typed(call(of).cast(DataType::U32)),
            _ => KernelValue { expr: call(of), class },
        }
    }

    /// `if self { a } else { b }`; only the arm that is taken is evaluated.
    pub fn choose(self, a: KernelValue, b: KernelValue) -> KernelValue {
        let ([a, b], class) = unify([a, b]);
        let dtype = a.dtype();
        let expr = match self.expr.as_int() {
            Some(0) => b,
            Some(_) => a,
            None => PrimExpr::call(Intrinsic::IfThenElse, [self.expr, a, b], dtype),
        };
        KernelValue { expr, class }
    }

    /// `if self { a } else { b }` with both arms evaluated.
    pub fn select(self, a: KernelValue, b: KernelValue) -> KernelValue {
        let ([a, b], class) = unify([a, b]);
        KernelValue { expr: self.expr.select(a, b), class }
    }
}

/// True for a literal that is not NaN.
fn is_number(expr: &PrimExpr) -> bool {
    match expr {
        PrimExpr::FloatImm(it) => !it.value.is_nan(),
        PrimExpr::Cast(it) => is_number(&it.value),
        _ => false,
    }
}

/// Gives literals the type of the others.
fn unify<const N: usize>(values: [KernelValue; N]) -> ([PrimExpr; N], Class) {
    let fixed = values.iter().find(|value| value.class != Class::Literal);
    let index = values.iter().any(|value| value.class == Class::Index);
    let float = values.iter().find(|value| value.dtype().is_float());
    let class = match fixed {
        Some(_) if index => Class::Index,
        Some(_) => Class::Typed,
        None => Class::Literal,
    };
    let dtype = fixed.or(float).or(values.first()).map_or(DataType::I64, KernelValue::dtype);
    let typed = |value: KernelValue| match class {
        // Its final type is not known yet.
        Class::Literal if value.dtype() == dtype => value.expr,
        Class::Literal | Class::Index | Class::Typed => value.into_typed(dtype),
    };
    (values.map(typed), class)
}

/// A literal expression as `dtype`.
fn retype(expr: &PrimExpr, dtype: DataType) -> PrimExpr {
    match expr {
        PrimExpr::Binary(it) => binary(it.op, retype(&it.a, dtype), retype(&it.b, dtype)),
        PrimExpr::Call(it) => PrimExpr::Call(Arc::new(PrimCall {
            args: it
                .args
                .iter()
                .map(|arg| if arg.dtype().is_bool() { arg.clone() } else { retype(arg, dtype) })
                .collect(),
            dtype,
            callee: it.callee.clone(),
            span: it.span.clone(),
        })),
        PrimExpr::Select(it) => PrimExpr::Select(Arc::new(Select {
            condition: it.condition.clone(),
            true_value: retype(&it.true_value, dtype),
            false_value: retype(&it.false_value, dtype),
        })),
        PrimExpr::IntImm(it) => {
            literal::remember(Literal::Int(it.value), dtype);
            expr.clone().cast(dtype)
        }
        PrimExpr::FloatImm(it) => {
            literal::remember(Literal::Float(it.value), dtype);
            expr.clone().cast(dtype)
        }
        PrimExpr::Cast(_) => literal::near_as(expr, dtype).unwrap_or_else(|| expr.clone().cast(dtype)),
        PrimExpr::StringImm(_)
        | PrimExpr::Var(_)
        | PrimExpr::Not(_)
        | PrimExpr::BufferLoad(_)
        | PrimExpr::Ramp(_)
        | PrimExpr::Broadcast(_)
        | PrimExpr::Shuffle(_)
        | PrimExpr::Let(_) => expr.clone().cast(dtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_take_the_type_of_the_other_side() {
        let x = || KernelValue::typed(Var::prim("x", DataType::F32));
        let third = KernelValue::float(1.0).binary(BinaryOp::Div, KernelValue::float(3.0));
        let cases = [
            (x().binary(BinaryOp::Mul, KernelValue::float(0.5)), DataType::F32),
            (KernelValue::float(0.5).binary(BinaryOp::Mul, x()), DataType::F32),
            (x().binary(BinaryOp::Add, third), DataType::F32),
            (x().binary(BinaryOp::Lt, KernelValue::float(0.5)), DataType::BOOL),
            (KernelValue::call(Intrinsic::Pow, [x(), KernelValue::float(2.0)]), DataType::F32),
            (KernelValue::int(1).cast(DataType::F16), DataType::F16),
        ];
        for (i, (value, dtype)) in cases.into_iter().enumerate() {
            assert_eq!(value.dtype(), dtype, "case {i}");
        }
    }

    #[test]
    fn index_division_rounds_down() {
        let i = KernelValue::index(Var::index("i"));
        let PrimExpr::Binary(it) = i.binary(BinaryOp::Div, KernelValue::int(4)).into_expr() else {
            panic!("a binary")
        };
        assert_eq!(it.op, BinaryOp::FloorDiv);
    }
}
