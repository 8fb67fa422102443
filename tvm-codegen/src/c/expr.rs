//! Scalar expressions. Every method returns C text that is a single operand, parenthesised where necessary.

use std::fmt::Write as _;

use tvm_core::support::with_stack;
use tvm_core::tir::{Binary, BinaryOp, BufferLoad, Cast, FloatImm, IntImm, Let, PrimExpr};
use tvm_runtime::{DTypeCode, DataType};

use super::dialect::Dialect;
use super::function::Function;
use super::{not_supported, types};
use crate::CodegenError;

/// Deeper expressions are split into several statements, because compilers limit the nesting of parentheses.
const MAX_DEPTH: usize = 40;

impl Function<'_> {
    /// Writes `expr` as C text.
    pub(super) fn expr(&mut self, expr: &PrimExpr) -> Result<String, CodegenError> {
        self.depth += 1;
        let text =
            with_stack(|| if expr.dtype().is_scalar() { self.scalar(expr) } else { self.vector(expr) });
        self.depth -= 1;
        let text = text?;
        if self.depth > 0
            && self.depth.is_multiple_of(MAX_DEPTH)
            && self.lazy == 0
            && !expr.dtype().is_handle()
        {
            let ty = self.ty(expr.dtype());
            let name = self.fresh("t");
            self.line(&format!("const {ty} {name} = {text};"));
            return Ok(name);
        }
        Ok(text)
    }

    fn scalar(&mut self, expr: &PrimExpr) -> Result<String, CodegenError> {
        Ok(match expr {
            PrimExpr::IntImm(it) => int_literal(it),
            PrimExpr::FloatImm(it) => float_literal(self.unit.dialect, it),
            PrimExpr::StringImm(it) => format!("\"{}\"", it.escape_default()),
            PrimExpr::Var(it) => self.var(it)?,
            PrimExpr::Cast(it) => self.cast(it)?,
            PrimExpr::Not(it) => format!("(!{})", self.expr(&it.value)?),
            PrimExpr::Binary(it) => self.binary(it)?,
            PrimExpr::Select(it) => {
                let condition = self.expr(&it.condition)?;
                let (a, b) = (self.expr(&it.true_value)?, self.expr(&it.false_value)?);
                format!("({condition} ? {a} : {b})")
            }
            PrimExpr::BufferLoad(it) => self.load(it)?,
            PrimExpr::Let(it) => self.let_in(it)?,
            PrimExpr::Call(it) => self.call_expr(it)?,
            PrimExpr::Shuffle(it) => self.shuffle(it)?,
            PrimExpr::Ramp(_) | PrimExpr::Broadcast(_) => return not_supported("a vector of one lane"),
        })
    }

    /// Writes `let` as a statement expression (a call of a lambda in CUDA), so that nothing is evaluated that the program would not evaluate. A `let`
    /// in its body is part of the same statement expression.
    pub(super) fn let_in(&mut self, it: &Let) -> Result<String, CodegenError> {
        let [open, ..] = self.unit.dialect.statement_expression();
        let mut text = String::from(open);
        let value = self.expr(&it.value)?;
        self.lazy += 1;
        let result = self.let_body(it, value, &mut text);
        self.lazy -= 1;
        result.map(|()| text)
    }

    fn let_body(&mut self, mut it: &Let, mut value: String, text: &mut String) -> Result<(), CodegenError> {
        loop {
            let ty = self.ty(it.var.dtype());
            let name = self.define(&it.var);
            let _ = write!(text, "const {ty} {name} = {value}; ");
            match &it.body {
                PrimExpr::Let(inner) => it = inner,
                body => {
                    let body = self.expr(body)?;
                    let [_, result, close] = self.unit.dialect.statement_expression();
                    let _ = write!(text, "{result}{body}{close}");
                    return Ok(());
                }
            }
            value = self.expr(&it.value)?;
        }
    }

    fn load(&mut self, it: &BufferLoad) -> Result<String, CodegenError> {
        let [index] = &*it.indices else {
            return not_supported(format!("buffer `{}`, which is not flat", it.buffer.name));
        };
        let name = self.buffer(&it.buffer)?;
        Ok(format!("{name}[{}]", self.index(index)?))
    }

    fn cast(&mut self, it: &Cast) -> Result<String, CodegenError> {
        if let PrimExpr::Var(var) = &it.value
            && let Some((name, dtype)) = self.vars.get(&var.id())
            && *dtype == it.dtype
        {
            return Ok(name.clone());
        }
        let value = self.expr(&it.value)?;
        Ok(cast_scalar(it.value.dtype(), it.dtype, &value))
    }

    fn binary(&mut self, it: &Binary) -> Result<String, CodegenError> {
        let dtype = it.a.dtype();
        let a = self.expr(&it.a)?;
        if it.op.is_logical() {
            // The right operand is evaluated only if the left one does not decide the result.
            self.lazy += 1;
        }
        let b = self.expr(&it.b);
        if it.op.is_logical() {
            self.lazy -= 1;
        }
        let b = b?;
        if let Some(text) = self.device_binary(it.op, dtype, &a, &b) {
            return Ok(text);
        }
        match scalar_binary(it.op, dtype, &a, &b) {
            Some(text) => Ok(text),
            None => not_supported(format!("{:?} on {dtype}", it.op)),
        }
    }
}

impl Function<'_> {
    /// Writes the index of an access. Indices are in bounds, so their arithmetic does not wrap.
    pub(super) fn index(&mut self, index: &PrimExpr) -> Result<String, CodegenError> {
        self.in_index += 1;
        let text = self.expr(index);
        self.in_index -= 1;
        text
    }

    /// The text of `a op b` where the dialect has another one than C: in C, signed integers wrap by a switch of the compiler.
    fn device_binary(&self, op: BinaryOp, dtype: DataType, a: &str, b: &str) -> Option<String> {
        let dialect = self.unit.dialect;
        if dialect == Dialect::C {
            return None;
        }
        let wraps = dtype.is_int() && !types::is_narrow(dtype) && self.in_index == 0;
        let (ty, unsigned) = (types::scalar(dtype), if dtype.bits() == 32 { "uint32_t" } else { "uint64_t" });
        let wrapping = |op: &str| Some(format!("(({ty})(({unsigned}){a} {op} ({unsigned}){b}))"));
        match op {
            BinaryOp::Mod if dtype.is_float() => Some(format!("{}({a}, {b})", dialect.math("fmod", dtype))),
            BinaryOp::Add if wraps => wrapping("+"),
            BinaryOp::Sub if wraps => wrapping("-"),
            BinaryOp::Mul if wraps => wrapping("*"),
            _ => None,
        }
    }
}

/// The C text of `a op b`; `None` if the operation has no scalar form in C.
pub(super) fn scalar_binary(op: BinaryOp, dtype: DataType, a: &str, b: &str) -> Option<String> {
    let short = types::short(dtype);
    let wrap = |text: String| {
        if types::is_narrow(dtype) { format!("(({}){text})", types::scalar(dtype)) } else { text }
    };
    let infix = |op: &str| format!("({a} {op} {b})");
    Some(match op {
        BinaryOp::Add => wrap(infix("+")),
        BinaryOp::Sub => wrap(infix("-")),
        BinaryOp::Mul => wrap(infix("*")),
        BinaryOp::Div if dtype.is_float() => infix("/"),
        BinaryOp::Mod if dtype == DataType::F32 => format!("__builtin_fmodf({a}, {b})"),
        BinaryOp::Mod if dtype.is_float() => format!("__builtin_fmod({a}, {b})"),
        BinaryOp::Div => wrap(infix("/")),
        BinaryOp::Mod => wrap(infix("%")),
        BinaryOp::FloorDiv | BinaryOp::FloorMod => return None,
        BinaryOp::Min => format!("tvm_min_{short}({a}, {b})"),
        BinaryOp::Max => format!("tvm_max_{short}({a}, {b})"),
        BinaryOp::Eq => infix("=="),
        BinaryOp::Ne => infix("!="),
        BinaryOp::Lt => infix("<"),
        BinaryOp::Le => infix("<="),
        BinaryOp::Gt => infix(">"),
        BinaryOp::Ge => infix(">="),
        BinaryOp::And => infix("&&"),
        BinaryOp::Or => infix("||"),
        BinaryOp::BitAnd => infix("&"),
        BinaryOp::BitOr => infix("|"),
        BinaryOp::BitXor => infix("^"),
        BinaryOp::Shl => wrap(infix("<<")),
        BinaryOp::Shr => wrap(infix(">>")),
    })
}

/// Converts `value` from type `from` to type `to`.
pub(super) fn cast_scalar(from: DataType, to: DataType, value: &str) -> String {
    let is_short_float = |dtype: DataType| matches!(dtype, DataType::F16 | DataType::BF16);
    if from == to {
        return value.to_string();
    }
    if is_short_float(from) {
        let wide = format!("tvm_cvt_{from}_f32({value})");
        return cast_scalar(DataType::F32, to, &wide);
    }
    if to.is_bool() {
        return format!("({value} != 0)");
    }
    if is_short_float(to) {
        let narrow = cast_scalar(from, DataType::F32, value);
        return format!("tvm_cvt_f32_{to}({narrow})");
    }
    if from.is_float() && to.is_integer() {
        return format!("tvm_cvt_{from}_{to}({value})");
    }
    format!("(({}){value})", types::scalar(to))
}

pub(super) fn int_literal(it: &IntImm) -> String {
    match (it.dtype.code(), it.dtype.bits()) {
        (DTypeCode::Bool, _) => it.value.to_string(),
        (DTypeCode::UInt, 64) => format!("{}ull", it.value as u64),
        (DTypeCode::UInt, 32) => format!("{}u", it.value as u32),
        (_, 64) if it.value == i64::MIN => "INT64_MIN".into(),
        (_, 64) if it.value < 0 => format!("({}ll)", it.value),
        (_, 64) => format!("{}ll", it.value),
        (_, 32) if it.value == i64::from(i32::MIN) => "INT32_MIN".into(),
        (_, 32) if it.value < 0 => format!("({})", it.value),
        (_, 32) => it.value.to_string(),
        _ => format!("(({}){})", types::scalar(it.dtype), it.value),
    }
}

pub(super) fn float_literal(dialect: Dialect, it: &FloatImm) -> String {
    match it.dtype {
        DataType::F16 => return format!("((uint16_t){:#06x})", half::f16::from_f64(it.value).to_bits()),
        DataType::BF16 => return format!("((uint16_t){:#06x})", half::bf16::from_f64(it.value).to_bits()),
        _ => {}
    }
    let negative = it.value.is_sign_negative();
    let magnitude = if it.value.is_nan() {
        dialect.nan(it.dtype)
    } else if it.value.is_infinite() {
        dialect.infinity(it.dtype)
    } else if it.dtype == DataType::F32 {
        format!("{:?}f", it.value.abs() as f32)
    } else {
        format!("{:?}", it.value.abs())
    };
    if negative { format!("(-{magnitude})") } else { magnitude }
}
