//! Printing scalar expressions of graph functions: extents, elements of shapes, `prim(..)`.
//!
//! Here a number without a suffix is an `i64`, and division rounds down.

use tvm_runtime::DataType;

use super::Printer;
use super::expr::{Prec, operator};
use super::text::{Text, text};
use crate::support::with_stack;
use crate::tir::{BinaryOp, FloatImm, IntImm, PrimExpr};

impl Printer {
    /// One scalar expression.
    pub(super) fn scalar(&mut self, expr: &PrimExpr) -> String {
        self.scalar_text(expr).into()
    }

    fn scalar_text(&mut self, expr: &PrimExpr) -> Text {
        self.scalar_with_prec(expr).0
    }

    /// Several scalar expressions, separated by commas.
    pub(super) fn scalars(&mut self, exprs: &[PrimExpr]) -> String {
        exprs.iter().map(|expr| self.scalar(expr)).collect::<Vec<_>>().join(", ")
    }

    /// Extents as generic arguments.
    pub(super) fn graph_extents(&mut self, extents: &[PrimExpr]) -> String {
        extents.iter().map(|extent| generic_arg(self.scalar(extent))).collect::<Vec<_>>().join(", ")
    }

    fn scalar_with_prec(&mut self, expr: &PrimExpr) -> (Text, Prec) {
        with_stack(|| match expr {
            PrimExpr::IntImm(it) => int(*it),
            PrimExpr::FloatImm(it) => float(*it),
            PrimExpr::Var(var) => (self.names.var(var).into(), Prec::Atom),
            PrimExpr::Cast(it) => {
                let value = self.scalar_in(&it.value, Prec::Unary);
                (text!["(", value, format!(" as {})", it.dtype)], Prec::Atom)
            }
            PrimExpr::Not(it) => (text!["!", self.scalar_in(&it.value, Prec::Unary)], Prec::Unary),
            PrimExpr::Select(it) => {
                let parts = [&it.condition, &it.true_value, &it.false_value].map(|it| self.scalar_text(it));
                (text!["select(", Text::list(parts, ", "), ")"], Prec::Atom)
            }
            PrimExpr::Binary(it) => {
                let function = match it.op {
                    BinaryOp::Min => "min",
                    BinaryOp::Max => "max",
                    BinaryOp::Div => "div",
                    BinaryOp::Mod => "rem",
                    _ => {
                        let (symbol, prec) = operator(it.op);
                        // Comparisons do not chain; the others associate to the left.
                        let left = if it.op.is_comparison() { prec.tighter() } else { prec };
                        let a = self.scalar_in(&it.a, left);
                        let b = self.scalar_in(&it.b, prec.tighter());
                        return (text![a, " ", symbol, " ", b], prec);
                    }
                };
                let [a, b] = [&it.a, &it.b].map(|it| self.scalar_text(it));
                (text![function, "(", a, ", ", b, ")"], Prec::Atom)
            }
            PrimExpr::StringImm(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_)
            | PrimExpr::Call(_) => (self.any_expr(expr).into(), Prec::None),
        })
    }

    fn scalar_in(&mut self, expr: &PrimExpr, outer: Prec) -> Text {
        let (text, prec) = self.scalar_with_prec(expr);
        text.parenthesized(prec < outer)
    }
}

/// A name or number unchanged; any other expression in braces.
pub(super) fn generic_arg(text: String) -> String {
    let simple = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if simple { text } else { format!("{{ {text} }}") }
}

fn int(it: IntImm) -> (Text, Prec) {
    let dtype = it.dtype;
    if dtype.is_bool() {
        return ((it.value != 0).to_string().into(), Prec::Atom);
    }
    let suffix = if dtype == DataType::I64 { String::new() } else { dtype.to_string() };
    let least = dtype.int_range().is_some_and(|(least, _)| i128::from(it.value) == least);
    let (text, prec) = match it.value {
        _ if dtype.is_uint() => (format!("{}{suffix}", it.value as u64), Prec::Atom),
        _ if least => (format!("{dtype}::MIN"), Prec::Atom),
        value if value < 0 => (format!("{value}{suffix}"), Prec::Unary),
        value => (format!("{value}{suffix}"), Prec::Atom),
    };
    (text.into(), prec)
}

fn float(it: FloatImm) -> (Text, Prec) {
    let dtype = it.dtype;
    let text = match it.value {
        value if value.is_nan() => format!("{dtype}::NAN"),
        f64::INFINITY => format!("{dtype}::INFINITY"),
        f64::NEG_INFINITY => format!("{dtype}::NEG_INFINITY"),
        value if dtype == DataType::F64 => format!("{value:?}f64"),
        value if dtype == DataType::F32 => format!("{:?}", value as f32),
        value => format!("{:?}{dtype}", value as f32),
    };
    let prec = if text.starts_with('-') { Prec::Unary } else { Prec::Atom };
    (text.into(), prec)
}
