//! Expressions of a kernel.

use syn::spanned::Spanned;
use syn::{Expr as SynExpr, ExprCall, ExprIf, ExprLit, ExprMethodCall, ExprPath, Ident, Lit, UnOp};

use super::Parser;
use super::scope::Name;
use super::stmt::MACRO_HELP;
use crate::dims::{DTYPES, is_host_constant, is_type_param};
use crate::error::did_you_mean;
use crate::kernel::ast::{DType, Expr, ExprKind};
use crate::kernel::intrinsics::{FUNCTIONS, Function, MISLEADING_METHODS, function};
use crate::rounding::rounded_to_odd;

impl Parser<'_> {
    /// Parses an expression; an unsupported one is reported and becomes [`ExprKind::Error`].
    pub(super) fn expr(&mut self, expr: &SynExpr) -> Expr {
        let span = match expr {
            SynExpr::Binary(it) => it.op.span(),
            SynExpr::MethodCall(it) => it.method.span(),
            _ => expr.span(),
        };
        Expr::new(self.expr_kind(expr).unwrap_or(ExprKind::Error), span)
    }

    fn boxed(&mut self, expr: &SynExpr) -> Box<Expr> {
        Box::new(self.expr(expr))
    }

    fn exprs<'a>(&mut self, exprs: impl IntoIterator<Item = &'a SynExpr>) -> Vec<Expr> {
        exprs.into_iter().map(|it| self.expr(it)).collect()
    }

    fn expr_kind(&mut self, expr: &SynExpr) -> Option<ExprKind> {
        Some(match expr {
            SynExpr::Lit(it) => return self.literal(it),
            SynExpr::Paren(it) => self.expr(&it.expr).kind,
            SynExpr::Group(it) => self.expr(&it.expr).kind,
            SynExpr::Path(it) => return self.path(it),
            SynExpr::Index(it) => {
                if let Some((path, indices)) = self.host_array(it) {
                    return self.host_load(path, &indices);
                }
                let (buffer, indices) = self.access(&it.expr, &it.index)?;
                ExprKind::Load { buffer, indices }
            }
            SynExpr::Unary(it) => {
                if let (UnOp::Neg(_), SynExpr::Lit(lit)) = (&it.op, &*it.expr)
                    && let Lit::Int(int) = &lit.lit
                {
                    return self.negative(int);
                }
                let value = self.boxed(&it.expr);
                match it.op {
                    UnOp::Neg(_) => ExprKind::Neg(value),
                    UnOp::Not(_) => ExprKind::Not(value),
                    _ => {
                        self.errors.push(expr, "kernels have no pointers", "remove the `*`");
                        return None;
                    }
                }
            }
            SynExpr::Binary(it) => {
                let (a, b) = (self.boxed(&it.left), self.boxed(&it.right));
                self.same_type(it, &a, &b)?;
                ExprKind::Binary(it.op, a, b)
            }
            SynExpr::Cast(it) => {
                let value = self.boxed(&it.expr);
                ExprKind::Cast(value, self.cast_type(&it.ty)?)
            }
            SynExpr::Call(it) => return self.call(it),
            SynExpr::MethodCall(it) => return self.method_call(it),
            SynExpr::If(it) => return self.if_expr(it),
            SynExpr::Unsafe(it) => return self.c_call(it),
            SynExpr::Block(it) if it.label.is_none() => return self.block_value(&it.block).map(|it| it.kind),
            SynExpr::Block(_) => {
                self.errors.push(expr, "kernels have no labels", "remove it");
                return None;
            }
            SynExpr::Macro(it) => {
                self.errors.push(&it.mac.path, "macros are not supported in a kernel", MACRO_HELP);
                return None;
            }
            SynExpr::Match(_) => {
                self.errors.push(expr, "`match` is not supported in a kernel", "use `if` and `else`");
                return None;
            }
            SynExpr::Array(_) | SynExpr::Repeat(_) | SynExpr::Tuple(_) => {
                self.errors.push(
                    expr,
                    "a kernel's values are scalars",
                    "use `alloc::<f32>([..])` for a local buffer",
                );
                return None;
            }
            SynExpr::Closure(_) => {
                self.errors.push(expr, "a closure is no value here", "name it first: `let f = |x| x * x;`");
                return None;
            }
            _ => {
                let text = "this expression is not supported in a kernel";
                self.errors.push(expr, text, "kernels compute with literals, scalars, loads `a[[i, j]]`, operators, casts, math functions and `if`");
                return None;
            }
        })
    }

    /// Reports operands of different types.
    fn same_type(&mut self, it: &syn::ExprBinary, a: &Expr, b: &Expr) -> Option<()> {
        let shift = matches!(it.op, syn::BinOp::Shl(_) | syn::BinOp::Shr(_));
        if !shift {
            self.expect_one_type(&[a, b]);
        }
        let (Some(left), Some(right)) = (self.dtype_of(a), self.dtype_of(b)) else { return Some(()) };
        if shift || left.0 == right.0 {
            return Some(());
        }
        let message = format!("the left side is {}, the right side is {}", left.name(), right.name());
        let help = format!("convert one of them, as in `{} as {}`", text_of(&it.right), left.name());
        self.errors.push(it, message, &help);
        None
    }

    /// `-literal`, read as one literal: the least value of a type has no positive literal.
    fn negative(&mut self, lit: &syn::LitInt) -> Option<ExprKind> {
        let Ok(value) = lit.base10_parse::<u64>() else {
            self.errors.push(lit, "this integer does not fit 64 bits", "");
            return None;
        };
        let value = -i128::from(value);
        let suffix = (!lit.suffix().is_empty()).then(|| Ident::new(lit.suffix(), lit.span()));
        suffix.iter().for_each(|it| self.suffix_fits(value, it.span(), it));
        if value < i64::MIN.into() {
            self.errors.push(lit, "this integer does not fit 64 bits", "");
            return None;
        }
        Some(ExprKind::Int(value, suffix))
    }

    fn literal(&mut self, lit: &ExprLit) -> Option<ExprKind> {
        let suffix = |text: &str, span| (!text.is_empty()).then(|| Ident::new(text, span));
        match &lit.lit {
            Lit::Int(it) => match it.base10_parse::<u64>() {
                Ok(value) => {
                    let suffix = suffix(it.suffix(), it.span());
                    suffix.iter().for_each(|it| self.suffix_fits(value.into(), it.span(), it));
                    Some(ExprKind::Int(value.into(), suffix))
                }
                Err(_) => {
                    self.errors.push(it, "this integer does not fit 64 bits", "");
                    None
                }
            },
            Lit::Float(it) => match it.base10_parse::<f64>() {
                Ok(value) => {
                    let suffix = suffix(it.suffix(), it.span());
                    Some(match rounded_to_odd(it.base10_digits(), value) {
                        None => ExprKind::Float(value, suffix),
                        Some(odd) => ExprKind::FloatNear(value, odd, suffix),
                    })
                }
                Err(_) => {
                    self.errors.push(it, "this is not a float", "");
                    None
                }
            },
            Lit::Bool(it) => Some(ExprKind::Bool(it.value)),
            other => {
                self.errors.push(other, "kernels compute with numbers and bools", "");
                None
            }
        }
    }

    fn path(&mut self, path: &ExprPath) -> Option<ExprKind> {
        let Some(name) = path.path.get_ident() else {
            return Some(ExprKind::Host(path.path.clone()));
        };
        match self.scopes.lookup(name) {
            Some(Name::Value { .. }) => Some(ExprKind::Var(name.clone())),
            Some(Name::Scalar { .. }) => Some(ExprKind::Load { buffer: name.clone(), indices: vec![] }),
            Some(Name::Tensor { rank, .. }) => {
                let help = if *rank == 0 {
                    format!("read its one element: `{name}[[]]`")
                } else {
                    format!(
                        "read one element: `{name}[[{}]]`",
                        ["i", "j", "k", "l", "..", ".."][..(*rank).min(5)].join(", ")
                    )
                };
                self.errors.push(name, format!("`{name}` is a tensor, not a scalar"), &help);
                None
            }
            Some(Name::Helper { .. }) => {
                self.errors.push(
                    name,
                    format!("`{name}` is a helper closure"),
                    &format!("call it: `{name}(x)`"),
                );
                None
            }
            Some(Name::Unknown) => None,
            None if is_host_constant(name, self.generics) => Some(ExprKind::Host(path.path.clone())),
            None => {
                self.unknown(name);
                None
            }
        }
    }

    /// Reports a name that nothing declares.
    fn unknown(&mut self, name: &Ident) {
        let names = self.scopes.names(|_| true);
        let help = did_you_mean(
            &name.to_string(),
            names.iter().map(String::as_str),
            "kernels see their parameters, dimensions and variables, and constants in UPPER_CASE",
        );
        self.errors.push(name, format!("cannot find `{name}` in this kernel"), &help);
    }

    /// Path and indices of `TABLE[i][j]`.
    fn host_array<'a>(&self, it: &'a syn::ExprIndex) -> Option<(&'a syn::Path, Vec<&'a SynExpr>)> {
        let (mut indices, mut base) = (vec![&*it.index], &*it.expr);
        while let SynExpr::Index(inner) = base {
            indices.push(&inner.index);
            base = &inner.expr;
        }
        indices.reverse();
        let SynExpr::Path(path) = base else { return None };
        let host = match path.path.get_ident() {
            Some(name) => self.scopes.lookup(name).is_none() && is_host_constant(name, self.generics),
            None => true,
        };
        host.then_some((&path.path, indices))
    }

    fn host_load(&mut self, path: &syn::Path, indices: &[&SynExpr]) -> Option<ExprKind> {
        let name = crate::kernel::generate::source_text(&quote::ToTokens::to_token_stream(path));
        if let [SynExpr::Array(array)] = indices {
            let plain: Vec<String> = array
                .elems
                .iter()
                .map(|it| {
                    format!(
                        "[{}]",
                        crate::kernel::generate::source_text(&quote::ToTokens::to_token_stream(it))
                    )
                })
                .collect();
            let message = format!("`{name}` is an array of Rust, not a tensor");
            self.errors.push(array, message, &format!("write `{name}{}`", plain.concat()));
            return None;
        }
        let parsed = self.exprs(indices.iter().copied());
        for (index, it) in parsed.iter().zip(indices) {
            self.expect_index(index);
            if let Some(dtype) = self.dtype_of(index).filter(|dtype| dtype.0 != "usize") {
                let help = format!("convert it: `{} as usize`", text_of(it));
                self.errors.push(it, format!("an index is usize, this is {}", dtype.name()), &help);
            }
        }
        Some(ExprKind::HostLoad(path.clone(), parsed))
    }

    /// Buffer and indices of `a[[i, j]]`.
    pub(super) fn access(&mut self, base: &SynExpr, index: &SynExpr) -> Option<(Ident, Vec<Expr>)> {
        if let SynExpr::MethodCall(_) = base {
            self.expr(base);
            return None;
        }
        let Some(name) = (if let SynExpr::Path(path) = base { path.path.get_ident() } else { None }) else {
            self.errors.push(
                base,
                "only tensors can be indexed",
                "index a parameter or local buffer by its name",
            );
            return None;
        };
        let what = self.scopes.lookup(name).cloned();
        if let Some(Name::Unknown) = what {
            return None;
        }
        let indices = match index {
            SynExpr::Array(array) => array.elems.iter().collect::<Vec<_>>(),
            other => {
                let text = match other {
                    SynExpr::Tuple(it) => {
                        crate::kernel::generate::source_text(&quote::ToTokens::to_token_stream(&it.elems))
                    }
                    SynExpr::Paren(it) => {
                        crate::kernel::generate::source_text(&quote::ToTokens::to_token_stream(&it.expr))
                    }
                    other => crate::kernel::generate::source_text(&quote::ToTokens::to_token_stream(other)),
                };
                let help = format!("write `{name}[[{text}]]`: indices stand in an array");
                self.errors.push(other, "tensors are indexed by an array", &help);
                return None;
            }
        };
        let got = indices.len();
        match what {
            Some(Name::Tensor { rank, .. }) if rank == got => {}
            Some(Name::Tensor { rank, .. }) => {
                let message = format!("`{name}` has {}, but {}", count(rank, "dimension"), indexed(got));
                self.errors.push(index, message, &format!("give {}", count(rank, "index")));
                return None;
            }
            Some(Name::Value { .. } | Name::Scalar { .. }) => {
                self.errors.push(
                    base,
                    format!("`{name}` is a scalar, it cannot be indexed"),
                    "use it as it is",
                );
                return None;
            }
            Some(Name::Helper { .. }) => {
                self.errors.push(
                    base,
                    format!("`{name}` is a helper closure"),
                    &format!("call it: `{name}(x)`"),
                );
                return None;
            }
            Some(Name::Unknown) | None => {
                self.unknown(name);
                return None;
            }
        }
        let syn_indices = indices;
        let indices = self.exprs(syn_indices.iter().copied());
        for (index, it) in indices.iter().zip(syn_indices) {
            self.expect_index(index);
            if let Some(dtype) = self.dtype_of(index).filter(|dtype| dtype.0 != "usize") {
                let help = format!("convert it: `{} as usize`", text_of(it));
                self.errors.push(it, format!("an index is usize, this is {}", dtype.name()), &help);
            }
        }
        Some((name.clone(), indices))
    }

    /// The type of `as ..`.
    fn cast_type(&mut self, ty: &syn::Type) -> Option<Ident> {
        if let syn::Type::Path(path) = ty
            && path.path.is_ident("usize")
        {
            return path.path.get_ident().cloned();
        }
        self.dtype(ty).map(|dtype| dtype.0)
    }

    fn call(&mut self, call: &ExprCall) -> Option<ExprKind> {
        let path = match &*call.func {
            SynExpr::Path(path) => Some(&path.path),
            _ => None,
        };
        let Some((path, name)) = path.and_then(|it| Some((it, it.segments.last()?.ident.clone()))) else {
            self.errors.push(&call.func, "only functions with a name can be called", "");
            return None;
        };
        if path.segments.len() > 1 {
            return self.associated_call(call, path, &name);
        }
        let text = name.to_string();
        if let Some(Name::Helper { arity }) = self.scopes.lookup(&name) {
            let arity = *arity;
            self.arity(&name, &text, arity, call.args.len())?;
            return Some(ExprKind::Helper(name, self.exprs(&call.args)));
        }
        match self.scopes.lookup(&name) {
            Some(Name::Unknown) => return None,
            Some(Name::Value { .. } | Name::Scalar { .. } | Name::Tensor { .. }) => {
                let message = format!("`{name}` is a variable here, it cannot be called");
                self.errors.push(&name, message, "give the variable another name");
                return None;
            }
            Some(Name::Helper { .. }) | None => {}
        }
        if let Some(function) = function(&text) {
            self.arity(&name, &text, function.arity, call.args.len())?;
            let args = self.exprs(&call.args);
            return Some(self.intrinsic(function, args));
        }
        let statement = match text.as_str() {
            "block" | "init" => Some(format!("`{text}(..)` is a statement: it has no value")),
            "grid" => Some("`grid([..])` stands in a loop: `for [i, j] in grid([m, n])`".to_string()),
            "alloc" => Some("a buffer needs a name: `let mut t = alloc::<f32>([n]);`".to_string()),
            "S" | "R" => Some(format!("`{text}(..)` stands in the axes of a block")),
            _ => None,
        };
        if let Some(message) = statement {
            self.errors.push(&call.func, message, "");
            return None;
        }
        self.inline_call(call, path)
    }

    /// `f32::max(a, b)` is `a.max(b)`.
    fn associated_call(&mut self, call: &ExprCall, path: &syn::Path, name: &Ident) -> Option<ExprKind> {
        let of: Vec<&Ident> = path.segments.iter().rev().skip(1).map(|it| &it.ident).collect();
        let is_type =
            |it: &Ident| DTYPES.contains(&it.to_string().as_str()) || is_type_param(it, self.generics);
        let known = match of.as_slice() {
            [ty] => is_type(ty) || *ty == "cmp",
            [cmp, _] => *cmp == "cmp",
            _ => false,
        };
        let mut args = call.args.iter();
        match args.next() {
            Some(receiver) if known => self.method(receiver, name, args),
            _ => self.inline_call(call, path),
        }
    }

    fn method_call(&mut self, call: &ExprMethodCall) -> Option<ExprKind> {
        if let SynExpr::Path(it) = &*call.receiver
            && let Some(name) = it.path.get_ident()
            && let Some(Name::Tensor { .. }) = self.scopes.lookup(name)
        {
            let message = format!("`{name}` is a tensor: it has no methods in a kernel");
            let help = "its extents are the dimensions in its type; its elements are read as `x[[i, j]]`";
            self.errors.push(&call.method, message, help);
            return None;
        }
        self.method(&call.receiver, &call.method, call.args.iter())
    }

    fn method<'a>(
        &mut self,
        receiver: &SynExpr,
        method: &Ident,
        args: impl ExactSizeIterator<Item = &'a SynExpr>,
    ) -> Option<ExprKind> {
        let text = method.to_string();
        let receiver = self.expr(receiver);
        if matches!(receiver.kind, ExprKind::Error) {
            return None;
        }
        if let Some((_, help)) = MISLEADING_METHODS.iter().find(|(name, _)| *name == text) {
            self.errors.push(method, format!("`.{text}()` is not supported in a kernel"), help);
            return None;
        }
        if let Some(op) = wrapping(&text) {
            self.arity(method, &text, 1, args.len())?;
            let other = args.map(|it| self.expr(it)).next()?;
            return Some(ExprKind::Binary(op, Box::new(receiver), Box::new(other)));
        }
        let Some(function) = crate::kernel::intrinsics::method(&text) else {
            let names = FUNCTIONS.iter().flat_map(|it| it.methods.iter().copied());
            let help = did_you_mean(
                &text,
                names,
                "kernels call math functions such as `.exp()`, `.sqrt()`, `.max(y)`",
            );
            self.errors.push(method, format!("unknown method `{text}`"), &help);
            return None;
        };
        self.arity(method, &text, function.arity - 1, args.len())?;
        let args = std::iter::once(receiver).chain(self.exprs(args)).collect();
        Some(match self.intrinsic(function, args) {
            ExprKind::Extremum("Max", a, b) => ExprKind::Extremum("MaxOfNumbers", a, b),
            ExprKind::Extremum("Min", a, b) => ExprKind::Extremum("MinOfNumbers", a, b),
            other => other,
        })
    }

    pub(super) fn arity(&mut self, name: &Ident, text: &str, expected: usize, got: usize) -> Option<()> {
        if expected == got {
            return Some(());
        }
        let message = format!("`{text}` takes {}, but {got} given", count(expected, "argument"));
        self.errors.push(name, message, "");
        None
    }

    fn intrinsic(&mut self, function: &'static Function, args: Vec<Expr>) -> ExprKind {
        self.uses_math |= function.math;
        match function.variant {
            "Select" => {
                if let Some(condition) = args.first().filter(|it| self.dtype_of(it).is_none()) {
                    self.expect(condition, &DType(Ident::new("bool", condition.span)));
                }
                self.expect_one_type(&args[1..].iter().collect::<Vec<_>>());
            }
            _ => self.expect_one_type(&args.iter().collect::<Vec<_>>()),
        }
        let mut args = args;
        let mut next = || Box::new(args.remove(0));
        match function.variant {
            "Max" | "Min" | "FloorDiv" | "FloorMod" => ExprKind::Extremum(function.variant, next(), next()),
            "Select" => ExprKind::Select(next(), next(), next()),
            variant => ExprKind::Call(variant, args),
        }
    }

    fn if_expr(&mut self, it: &ExprIf) -> Option<ExprKind> {
        let condition = self.condition(&it.cond);
        let Some((_, otherwise)) = &it.else_branch else {
            self.errors.push(it, "an `if` that is a value needs an `else`", "add `else { .. }`");
            return None;
        };
        let then = Box::new(self.block_value(&it.then_branch)?);
        let otherwise = self.boxed(otherwise);
        self.expect_one_type(&[&then, &otherwise]);
        Some(ExprKind::If(Box::new(condition), then, otherwise))
    }

    /// The condition of an `if` or `while`.
    pub(super) fn condition(&mut self, condition: &SynExpr) -> Expr {
        if let SynExpr::Let(it) = condition {
            self.errors.push(it, "`if let` is not supported in a kernel", "conditions are comparisons");
            return Expr::new(ExprKind::Error, it.span());
        }
        let res = self.expr(condition);
        self.expect_bool(&res, condition);
        res
    }
}

/// The operator for `wrapping_add` and the like: integers wrap in kernels.
fn wrapping(method: &str) -> Option<syn::BinOp> {
    Some(match method {
        "wrapping_add" => syn::parse_quote!(+),
        "wrapping_sub" => syn::parse_quote!(-),
        "wrapping_mul" => syn::parse_quote!(*),
        _ => return None,
    })
}

/// Source text of an operand.
fn text_of(expr: &SynExpr) -> String {
    let text = crate::kernel::generate::source_text(&quote::ToTokens::to_token_stream(expr));
    if matches!(expr, SynExpr::Binary(_)) { format!("({text})") } else { text }
}

/// `1 dimension`, `2 dimensions`, `2 indices`.
pub(super) fn count(n: usize, what: &str) -> String {
    match (n, what) {
        (1, _) => format!("1 {what}"),
        (_, "index") => format!("{n} indices"),
        _ => format!("{n} {what}s"),
    }
}

fn indexed(got: usize) -> String {
    if got == 1 { "1 index is given".to_string() } else { format!("{got} indices are given") }
}
