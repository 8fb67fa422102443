//! Printing expressions of tensor programs, with as few parentheses as Rust needs.
//!
//! In the DSL an index is a `usize`: its division rounds down, and conversions to and from numbers of type `i64` are
//! explicit. Each `i64` expression is printed as an index or as a number, whichever its context expects.

use tvm_runtime::DataType;

use super::Printer;
use super::text::{Text, text};
use crate::ir::Var;
use crate::support::with_stack;
use crate::tir::analysis::is_total;
use crate::tir::*;

/// The form in which a context expects an `i64` expression: an index (`usize`) or a number (`i64`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Index,
    Number,
}

/// Precedence of operators, as in Rust, except that `as` is the lowest: inside another operator it gets parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Prec {
    None,
    Cast,
    Or,
    And,
    Compare,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Sum,
    Product,
    Unary,
    Atom,
}

impl Prec {
    /// The precedence that the right operand of an operator of this precedence needs at least.
    pub(super) fn tighter(self) -> Prec {
        match self {
            Prec::Product => Prec::Unary,
            Prec::Sum => Prec::Product,
            Prec::Shift => Prec::Sum,
            Prec::BitAnd => Prec::Shift,
            Prec::BitXor => Prec::BitAnd,
            Prec::BitOr => Prec::BitXor,
            Prec::Compare => Prec::BitOr,
            Prec::And => Prec::Compare,
            Prec::Or => Prec::And,
            Prec::None | Prec::Cast | Prec::Unary | Prec::Atom => Prec::Atom,
        }
    }
}

impl Printer {
    /// `expr` in its own class (see `class`).
    pub(super) fn any_expr(&mut self, expr: &PrimExpr) -> String {
        self.any_text(expr).into()
    }

    fn any_text(&mut self, expr: &PrimExpr) -> Text {
        let class = self.class(expr);
        self.text_in(expr, class, Prec::None)
    }

    /// `expr` in a context that expects an index.
    pub(super) fn index(&mut self, expr: &PrimExpr) -> String {
        self.expr_in(expr, Class::Index, Prec::None)
    }

    /// `expr` in a context that expects a value of its type.
    pub(super) fn value(&mut self, expr: &PrimExpr) -> String {
        self.expr_in(expr, Class::Number, Prec::None)
    }

    /// `exprs` as indices, separated by commas.
    pub(super) fn indices(&mut self, exprs: &[PrimExpr]) -> String {
        self.index_texts(exprs).into()
    }

    fn index_texts(&mut self, exprs: &[PrimExpr]) -> Text {
        Text::list(exprs.iter().map(|expr| self.text_in(expr, Class::Index, Prec::None)), ", ")
    }

    pub(super) fn name_index(&mut self, var: &Var) -> String {
        self.index_vars.insert(var.id());
        self.names.define(var)
    }

    /// `Index` when the value is computed from index variables (free variables count as such), `Number` otherwise.
    /// Variables inside loads, most calls, casts, truncating divisions, comparisons and logical operators do not count.
    pub(super) fn class(&self, expr: &PrimExpr) -> Class {
        with_stack(|| match expr {
            PrimExpr::Var(var) if self.index_vars.contains(&var.id()) || !self.names.knows(var) => {
                Class::Index
            }
            PrimExpr::Binary(it) if it.op.is_comparison() || it.op.is_logical() => Class::Number,
            PrimExpr::Binary(it) if matches!(it.op, BinaryOp::Div | BinaryOp::Mod) => Class::Number,
            PrimExpr::Binary(it) => self.class_of(&it.a, &it.b),
            PrimExpr::Select(it) => self.class_of(&it.true_value, &it.false_value),
            PrimExpr::Call(it)
                if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) && it.args.len() == 3 =>
            {
                self.class_of(&it.args[1], &it.args[2])
            }
            PrimExpr::Let(it) => self.class(&it.body),
            PrimExpr::Ramp(it) => self.class(&it.base),
            PrimExpr::Broadcast(it) => self.class(&it.value),
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Call(_) => Class::Number,
        })
    }

    /// The class of a variable bound to `value`: a literal is an index.
    pub(super) fn binder_class(&self, value: &PrimExpr) -> Class {
        if is_literal(value) { Class::Index } else { self.class(value) }
    }

    fn class_of(&self, a: &PrimExpr, b: &PrimExpr) -> Class {
        if self.class(a) == Class::Index { Class::Index } else { self.class(b) }
    }

    pub(super) fn expr_in(&mut self, expr: &PrimExpr, class: Class, outer: Prec) -> String {
        self.text_in(expr, class, outer).into()
    }

    fn text_in(&mut self, expr: &PrimExpr, class: Class, outer: Prec) -> Text {
        let (text, prec) = with_stack(|| self.expr(expr, class));
        text.parenthesized(prec < outer)
    }

    fn expr(&mut self, expr: &PrimExpr, class: Class) -> (Text, Prec) {
        let scalar_int = expr.dtype() == DataType::I64;
        match expr {
            PrimExpr::IntImm(it) => self.int(*it, class),
            PrimExpr::FloatImm(it) => self.float(*it),
            PrimExpr::StringImm(it) => (format!("{it:?}").into(), Prec::Atom),
            PrimExpr::Var(var) => {
                let text = if self.names.knows(var) { self.names.var(var) } else { self.name_index(var) };
                self.convert(text, scalar_int, self.class(expr), class)
            }
            PrimExpr::Cast(it) => {
                let from = self.class(&it.value);
                if let Some(call) = counted_bits(it) {
                    let arg = self.class(&call.args[0]);
                    let arg = self.typed_text(&call.args[0], arg, Prec::None);
                    let name = if let PrimCallee::Intrinsic(it) = call.callee { it.name() } else { "" };
                    return (text![name, "(", arg, ")"], Prec::Atom);
                }
                let value = self.typed_text(&it.value, from, Prec::Unary);
                let to = if it.dtype == DataType::I64 && class == Class::Index {
                    "usize".to_string()
                } else {
                    it.dtype.to_string()
                };
                (text![value, format!(" as {to}")], Prec::Cast)
            }
            PrimExpr::Not(it) => {
                (text!["!", self.text_in(&it.value, Class::Number, Prec::Unary)], Prec::Unary)
            }
            PrimExpr::Binary(it) => self.binary(it, class),
            PrimExpr::Select(it) => {
                let condition = self.text_in(&it.condition, Class::Number, Prec::None);
                let [a, b] =
                    [&it.true_value, &it.false_value].map(|arm| self.text_in(arm, class, Prec::None));
                (text!["select(", condition, ", ", a, ", ", b, ")"], Prec::Atom)
            }
            PrimExpr::BufferLoad(it) => {
                let mut text =
                    text![self.names.buffer(&it.buffer), "[[", self.index_texts(&it.indices), "]]"];
                if let Some(predicate) = &it.predicate {
                    let predicate = self.text_in(predicate, Class::Number, Prec::None);
                    text = text!["masked(", text, ", ", predicate, ")"];
                }
                self.convert(text, scalar_int, Class::Number, class)
            }
            PrimExpr::Ramp(it) => {
                let [base, stride] = [&it.base, &it.stride].map(|expr| self.text_in(expr, class, Prec::None));
                (text!["ramp(", base, ", ", stride, format!(", {})", it.lanes)], Prec::Atom)
            }
            PrimExpr::Broadcast(it) => {
                let value = self.text_in(&it.value, class, Prec::None);
                (text!["broadcast(", value, format!(", {})", it.lanes)], Prec::Atom)
            }
            PrimExpr::Shuffle(it) => {
                let vectors = Text::list(it.vectors.iter().map(|expr| self.any_text(expr)), ", ");
                (text!["shuffle([", vectors, format!("], {:?})", it.indices)], Prec::Atom)
            }
            PrimExpr::Let(it) => {
                let class_of_value = self.binder_class(&it.value);
                let value = self.typed_text(&it.value, class_of_value, Prec::None);
                let mark = self.names.open();
                if class_of_value == Class::Index {
                    self.index_vars.insert(it.var.id());
                }
                let name = self.names.define(&it.var);
                let body = self.text_in(&it.body, class, Prec::None);
                self.names.close(mark);
                (text![format!("{{ let {name} = bind("), value, "); ", body, " }"], Prec::Atom)
            }
            PrimExpr::Call(it) => self.call(it, class),
        }
    }

    /// Converts the text of an `i64` expression from the class `has` to the class `wants`.
    fn convert(&self, text: impl Into<Text>, is_i64: bool, has: Class, wants: Class) -> (Text, Prec) {
        match (has, wants) {
            (Class::Index, Class::Number) if is_i64 => (text![text.into(), " as i64"], Prec::Cast),
            (Class::Number, Class::Index) if is_i64 => (text![text.into(), " as usize"], Prec::Cast),
            _ => (text.into(), Prec::Atom),
        }
    }

    /// An operand whose type Rust cannot infer from the context: if it has only literals, they get type suffixes.
    pub(super) fn typed_operand(&mut self, expr: &PrimExpr, class: Class, outer: Prec) -> String {
        self.typed_text(expr, class, outer).into()
    }

    fn typed_text(&mut self, expr: &PrimExpr, class: Class, outer: Prec) -> Text {
        let untyped = self.untyped(expr);
        let before = std::mem::replace(&mut self.suffixes, untyped);
        let text = self.text_in(expr, class, outer);
        self.suffixes = before;
        text
    }

    fn int(&self, it: IntImm, class: Class) -> (Text, Prec) {
        let dtype = it.dtype;
        if dtype.is_bool() {
            return ((it.value != 0).to_string().into(), Prec::Atom);
        }
        let index = class == Class::Index && dtype == DataType::I64;
        if dtype.is_uint() {
            // A literal above the range of `i64` always needs its suffix.
            let suffix = if self.suffixes || it.value < 0 { dtype.to_string() } else { String::new() };
            return (format!("{}{suffix}", it.value as u64).into(), Prec::Atom);
        }
        let suffix = match (self.suffixes, index) {
            (true, true) => "usize".to_string(),
            (true, false) => dtype.to_string(),
            (false, _) => String::new(),
        };
        match (it.value < 0, index) {
            (true, true) => (format!("{}i64 as usize", it.value).into(), Prec::Cast),
            (true, false) => (format!("{}{suffix}", it.value).into(), Prec::Unary),
            (false, _) => (format!("{}{suffix}", it.value).into(), Prec::Atom),
        }
    }

    fn float(&self, it: FloatImm) -> (Text, Prec) {
        let dtype = it.dtype;
        let text = match it.value {
            value if value.is_nan() && value.to_bits() != f64::NAN.to_bits() => {
                format!("{dtype}::from_f64_bits({:#x})", value.to_bits())
            }
            value if value.is_nan() => format!("{dtype}::NAN"),
            f64::INFINITY => format!("{dtype}::INFINITY"),
            f64::NEG_INFINITY => format!("{dtype}::NEG_INFINITY"),
            value if dtype == DataType::F32 => format!("{:?}", value as f32),
            value => format!("{value:?}"),
        };
        let prec = if text.starts_with('-') { Prec::Unary } else { Prec::Atom };
        match dtype {
            _ if !self.suffixes || text.contains("::") => (text.into(), prec),
            DataType::F32 | DataType::F64 => (format!("{text}{dtype}").into(), prec),
            // Rust has no literals of the other float types.
            _ => (format!("({text} as {dtype})").into(), Prec::Atom),
        }
    }

    fn binary(&mut self, it: &Binary, class: Class) -> (Text, Prec) {
        let dtype = it.a.dtype();
        let (symbol, prec) = match it.op {
            // The IR evaluates both sides; `&&` and `||` short-circuit and print only where this makes no difference.
            BinaryOp::And if !is_total(&it.b) => operator(BinaryOp::BitAnd),
            BinaryOp::Or if !is_total(&it.b) => operator(BinaryOp::BitOr),
            op => operator(op),
        };
        // The class in which the operands are printed.
        let own = match it.op {
            BinaryOp::Div | BinaryOp::Mod | BinaryOp::And | BinaryOp::Or => Class::Number,
            op if op.is_comparison() => self.class_of(&it.a, &it.b),
            _ => class,
        };
        // Division of indices rounds down, division of numbers truncates.
        let index = dtype == DataType::I64 && class == Class::Index;
        let function = match it.op {
            BinaryOp::Min => Some("min"),
            BinaryOp::Max => Some("max"),
            BinaryOp::FloorDiv if !index => Some("floordiv"),
            BinaryOp::FloorMod if !index => Some("floormod"),
            _ => None,
        };
        let both_literal = self.untyped(&it.a) && self.untyped(&it.b);
        // Comparisons do not chain; the others associate to the left.
        let left = match function {
            Some(_) => Prec::None,
            None if it.op.is_comparison() => Prec::BitOr,
            None => prec,
        };
        let right = if function.is_some() { Prec::None } else { prec.tighter() };
        let a = match both_literal {
            true => self.typed_text(&it.a, own, left),
            false => self.text_in(&it.a, own, left),
        };
        let b = self.text_in(&it.b, own, right);
        let (text, prec) = match function {
            Some(function) => (text![function, "(", a, ", ", b, ")"], Prec::Atom),
            None => (text![a, " ", symbol, " ", b], prec),
        };
        if index && matches!(it.op, BinaryOp::Div | BinaryOp::Mod) {
            return (text!["(", text, ") as usize"], Prec::Cast);
        }
        (text, prec)
    }

    fn call(&mut self, it: &PrimCall, class: Class) -> (Text, Prec) {
        let intrinsic = match &it.callee {
            PrimCallee::Intrinsic(intrinsic) => *intrinsic,
            PrimCallee::PureExtern(symbol) => {
                let arg = |arg| self.text_in(arg, Class::Number, Prec::None);
                let args: Vec<Text> = it.args.iter().map(arg).collect();
                let call = text![format!("unsafe {{ {symbol}("), Text::list(args, ", "), ") }"];
                if it.dtype == DataType::I64 && class == Class::Index {
                    return (text!["(", call, ") as usize"], Prec::Cast);
                }
                // In an operator it stands in parentheses: a statement may not begin with `unsafe { .. } + 1`.
                return (call, Prec::None);
            }
        };
        if intrinsic == Intrinsic::IfThenElse && it.args.len() == 3 {
            let condition = self.text_in(&it.args[0], Class::Number, Prec::None);
            let [a, b] = [&it.args[1], &it.args[2]].map(|arm| self.text_in(arm, class, Prec::None));
            return (text!["if ", condition, " { ", a, " } else { ", b, " }"], Prec::None);
        }
        if intrinsic == Intrinsic::BitNot && it.args.len() == 1 {
            return (text!["!", self.text_in(&it.args[0], class, Prec::Unary)], Prec::Unary);
        }
        let all_literal = it.args.iter().all(|arg| self.untyped(arg));
        let args: Vec<Text> = it
            .args
            .iter()
            .enumerate()
            .map(|(i, arg)| {
                let class = if arg.dtype() == DataType::I64 { self.class(arg) } else { Class::Number };
                if all_literal && i == 0 {
                    self.typed_text(arg, class, Prec::None)
                } else {
                    self.text_in(arg, class, Prec::None)
                }
            })
            .collect();
        let name = match intrinsic {
            Intrinsic::Reinterpret | Intrinsic::ArgScalar => format!("{}::<{}>", intrinsic.name(), it.dtype),
            // In the DSL these return `u32`; their `tir_` forms keep the type of the operand.
            Intrinsic::PopCount | Intrinsic::Clz if it.dtype != DataType::U32 => {
                format!("tir_{}", intrinsic.name())
            }
            _ => intrinsic.name().to_string(),
        };
        (text![name, "(", Text::list(args, ", "), ")"], Prec::Atom)
    }

    /// True when `expr` prints as literals without suffixes only, whose type Rust infers from the context.
    fn untyped(&mut self, expr: &PrimExpr) -> bool {
        if let Some(known) = self.untyped.get(expr) {
            return known;
        }
        let untyped = with_stack(|| match expr {
            PrimExpr::IntImm(it) => !it.dtype.is_bool() && (!it.dtype.is_uint() || it.value >= 0),
            PrimExpr::FloatImm(it) => it.value.is_finite(),
            PrimExpr::Binary(it) => {
                !it.op.is_comparison() && !it.op.is_logical() && self.untyped(&it.a) && self.untyped(&it.b)
            }
            PrimExpr::Select(it) => self.untyped(&it.true_value) && self.untyped(&it.false_value),
            PrimExpr::Call(it) => match it.callee {
                PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                    it.args[1..].iter().all(|it| self.untyped(it))
                }
                PrimCallee::Intrinsic(
                    Intrinsic::IsNan
                    | Intrinsic::IsInf
                    | Intrinsic::PopCount
                    | Intrinsic::Clz
                    | Intrinsic::Reinterpret,
                ) => false,
                PrimCallee::Intrinsic(_) => !it.args.is_empty() && it.args.iter().all(|it| self.untyped(it)),
                PrimCallee::PureExtern(_) => false,
            },
            PrimExpr::StringImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Let(_) => false,
        });
        self.untyped.insert(expr, untyped);
        untyped
    }
}

pub(super) fn operator(op: BinaryOp) -> (&'static str, Prec) {
    match op {
        BinaryOp::Add => ("+", Prec::Sum),
        BinaryOp::Sub => ("-", Prec::Sum),
        BinaryOp::Mul => ("*", Prec::Product),
        BinaryOp::Div | BinaryOp::FloorDiv => ("/", Prec::Product),
        BinaryOp::Mod | BinaryOp::FloorMod => ("%", Prec::Product),
        BinaryOp::Min => ("min", Prec::Atom),
        BinaryOp::Max => ("max", Prec::Atom),
        BinaryOp::Eq => ("==", Prec::Compare),
        BinaryOp::Ne => ("!=", Prec::Compare),
        BinaryOp::Lt => ("<", Prec::Compare),
        BinaryOp::Le => ("<=", Prec::Compare),
        BinaryOp::Gt => (">", Prec::Compare),
        BinaryOp::Ge => (">=", Prec::Compare),
        BinaryOp::And => ("&&", Prec::And),
        BinaryOp::Or => ("||", Prec::Or),
        BinaryOp::BitAnd => ("&", Prec::BitAnd),
        BinaryOp::BitOr => ("|", Prec::BitOr),
        BinaryOp::BitXor => ("^", Prec::BitXor),
        BinaryOp::Shl => ("<<", Prec::Shift),
        BinaryOp::Shr => (">>", Prec::Shift),
    }
}

fn is_literal(expr: &PrimExpr) -> bool {
    matches!(expr, PrimExpr::IntImm(_) | PrimExpr::FloatImm(_))
}

/// The call of a bit count that is cast to `u32`, as the DSL function of that name does.
fn counted_bits(it: &Cast) -> Option<&PrimCall> {
    let PrimExpr::Call(call) = &it.value else { return None };
    let counts = matches!(call.callee, PrimCallee::Intrinsic(Intrinsic::PopCount | Intrinsic::Clz));
    (counts && it.dtype == DataType::U32 && call.args.len() == 1 && call.dtype == call.args[0].dtype())
        .then_some(call)
}
