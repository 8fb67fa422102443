//! Literals without a suffix: the type that they take, and whether that type has their value.

use syn::{Expr as SynExpr, Ident};

use super::Parser;
use crate::dims::{float_limit, int_limits};
use crate::kernel::ast::{DType, Expr, ExprKind};

impl Parser<'_> {
    /// Reports the literals in `expr` that are not values of type `dtype`.
    pub(super) fn expect(&mut self, expr: &Expr, dtype: &DType) {
        match &expr.kind {
            ExprKind::Int(value, None) => self.int_fits(*value, expr, dtype),
            ExprKind::Float(value, None) | ExprKind::FloatNear(value, _, None) => {
                self.float_fits(*value, expr, dtype)
            }
            ExprKind::Neg(it) => match &it.kind {
                ExprKind::Int(value, None) => self.int_fits(-*value, expr, dtype),
                _ => self.expect(it, dtype),
            },
            ExprKind::Binary(op, a, b) if !super::infer::is_comparison(op) => {
                self.expect(a, dtype);
                if !matches!(op, syn::BinOp::Shl(_) | syn::BinOp::Shr(_)) {
                    self.expect(b, dtype);
                }
            }
            ExprKind::Extremum(_, a, b) | ExprKind::Select(_, a, b) | ExprKind::If(_, a, b) => {
                self.expect(a, dtype);
                self.expect(b, dtype);
            }
            ExprKind::Block(_, value, None) => self.expect(value, dtype),
            ExprKind::Call("IsNan" | "IsInf" | "PopCount" | "Clz", _) => {}
            ExprKind::Call(_, args) => args.iter().for_each(|arg| self.expect(arg, dtype)),
            ExprKind::Int(..)
            | ExprKind::Float(..)
            | ExprKind::FloatNear(..)
            | ExprKind::Bool(_)
            | ExprKind::Var(_)
            | ExprKind::Host(_)
            | ExprKind::HostLoad(..)
            | ExprKind::Load { .. }
            | ExprKind::Not(_)
            | ExprKind::Binary(..)
            | ExprKind::Cast(..)
            | ExprKind::Helper(..)
            | ExprKind::Inline(..)
            | ExprKind::CallC(..)
            | ExprKind::Block(..)
            | ExprKind::Error => {}
        }
    }

    /// [`expect`](Self::expect) for several operands of one type: that of the first operand whose type is known.
    pub(super) fn expect_one_type(&mut self, operands: &[&Expr]) {
        let Some(dtype) = operands.iter().find_map(|it| self.dtype_of(it)) else { return };
        for it in operands {
            if self.dtype_of(it).is_none() {
                self.expect(it, &dtype);
            }
        }
    }

    /// Reports literals that are not indices.
    pub(super) fn expect_index(&mut self, expr: &Expr) {
        if self.dtype_of(expr).is_none() {
            self.expect(expr, &DType(Ident::new("usize", expr.span)));
        }
    }

    /// Reports a condition that is not a bool.
    pub(super) fn expect_bool(&mut self, expr: &Expr, syn: &SynExpr) {
        match self.dtype_of(expr) {
            Some(dtype) if int_limits(&dtype.name()).is_some() || float_limit(&dtype.name()).is_some() => {
                let message = format!("a condition is bool, this is {}", dtype.name());
                self.errors.push(syn, message, "compare it: `.. != 0`");
            }
            Some(_) => {}
            None => self.expect(expr, &DType(Ident::new("bool", expr.span))),
        }
    }

    fn int_fits(&mut self, value: i128, expr: &Expr, dtype: &DType) {
        let name = dtype.name();
        if name == "bool" {
            let message = format!("the literal `{value}` is a number where a bool is expected");
            return self.errors.push_at(expr.span, message, "write `true` or `false`, or compare numbers");
        }
        if let Some((min, max)) = int_limits(&name)
            && !(min..=max).contains(&value)
        {
            let message = format!("the literal `{value}` is no {name}");
            let help = if name == "usize" {
                "an index is not negative: compute with `as i64`, and convert the result with `as usize`"
                    .to_string()
            } else {
                format!("{name} holds {min}..={max}: convert the other side, as in `x as i64`")
            };
            self.errors.push_at(expr.span, message, &help);
        }
        if float_limit(&name).is_some() {
            let message = format!("the literal `{value}` is an integer where {name} is expected");
            self.errors.push_at(expr.span, message, &format!("write `{value}.0`"));
        }
    }

    fn float_fits(&mut self, value: f64, expr: &Expr, dtype: &DType) {
        let name = dtype.name();
        if name == "bool" {
            let message = format!("the literal `{value:?}` is a number where a bool is expected");
            return self.errors.push_at(expr.span, message, "write `true` or `false`, or compare numbers");
        }
        if int_limits(&name).is_some() {
            let message = format!("the literal `{value:?}` is a float where {name} is expected");
            let help = "write an integer, or convert the other side, as in `x as f32`";
            self.errors.push_at(expr.span, message, help);
        }
        if let Some(limit) = float_limit(&name)
            && value.abs() > limit
        {
            let message = format!("the literal `{value:?}` is too large for {name}");
            self.errors.push_at(expr.span, message, &format!("{name} holds numbers up to {limit:?}"));
        }
    }

    /// Reports a literal with a suffix whose type does not have its value.
    pub(super) fn suffix_fits(&mut self, value: i128, span: proc_macro2::Span, suffix: &Ident) {
        let expr = Expr::new(ExprKind::Int(value, None), span);
        if int_limits(&suffix.to_string()).is_some() {
            self.int_fits(value, &expr, &DType(suffix.clone()));
        }
    }
}
