//! Calls of other kernels (statements) and of inline helpers (values); blocks that are values; `#[prim_helper]` itself.

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr as SynExpr, ExprCall, FnArg, Ident, ItemFn, Pat, ReturnType, Stmt as SynStmt, Type};

use super::Parser;
use super::scope::{Name, Scopes, ValueKind, Written};
use crate::error::Errors;
use crate::kernel::ast::{BlockLet, CallArg, DType, Expr, ExprKind, Helper, Stmt};
use crate::kernel::intrinsics::{FUNCTIONS, function};

const BLOCK_HELP: &str = "write `{ let t = x * x; t + 1.0 }`";

impl Parser<'_> {
    /// `f(x, y);`: a call of another kernel.
    pub(super) fn call_stmt(&mut self, call: &ExprCall) -> Option<Stmt> {
        let path = match &*call.func {
            SynExpr::Path(it) if it.qself.is_none() => &it.path,
            _ => {
                self.expr(&SynExpr::Call(call.clone()));
                return None;
            }
        };
        if let Some(name) = path.get_ident() {
            let is_value = self.scopes.lookup(name).is_some();
            let text = name.to_string();
            if is_value || matches!(text.as_str(), "grid" | "alloc" | "S" | "R" | "bind") {
                let before = self.errors.len();
                self.expr(&SynExpr::Call(call.clone()));
                return if self.errors.len() == before {
                    self.no_effect(&SynExpr::Call(call.clone()))
                } else {
                    None
                };
            }
            if *name == self.name {
                let help = "a kernel is expanded where it is called: use a loop";
                self.errors.push(name, format!("`{name}` calls itself"), help);
                return None;
            }
        }
        if !call.args.iter().any(|it| self.is_tensor(it)) {
            let before = self.errors.len();
            self.expr(&SynExpr::Call(call.clone()));
            return if self.errors.len() == before {
                self.no_effect(&SynExpr::Call(call.clone()))
            } else {
                None
            };
        }
        let args = call.args.iter().filter_map(|arg| self.call_arg(arg)).collect();
        Some(Stmt::Call { path: path.clone(), args, span: path.span() })
    }

    /// True for the name of a tensor, or a reference to it.
    pub(super) fn is_tensor(&self, arg: &SynExpr) -> bool {
        tensor_name(arg)
            .is_some_and(|(name, _)| matches!(self.scopes.lookup(name), Some(Name::Tensor { .. })))
    }

    fn call_arg(&mut self, arg: &SynExpr) -> Option<CallArg> {
        if let Some((name, reference)) = tensor_name(arg)
            && let Some(Name::Tensor { written, matched, .. }) = self.scopes.lookup(name)
        {
            if *matched {
                let help = "pass the buffer itself, or copy the region to a local buffer";
                self.errors.push(name, format!("`{name}` matches a region: it is passed to no kernel"), help);
                return None;
            }
            let writes = matches!(reference, Some(true));
            if writes && *written == Written::Input {
                let help = format!("declare it as an output: `{name}: &mut Tensor<..>`");
                self.errors.push(name, format!("cannot write to `{name}`: it is an input"), &help);
                return None;
            }
            if reference.is_none() && *written == Written::Local {
                let help = format!("write `&{name}` where it is read, `&mut {name}` where it is written");
                self.errors.push(
                    name,
                    format!("`{name}` is a local buffer: it is passed by reference"),
                    &help,
                );
                return None;
            }
            return Some(CallArg::Tensor(name.clone()));
        }
        if let SynExpr::Reference(it) = arg {
            self.errors.push(it, "kernels take references to tensors", "pass a scalar by value");
            return None;
        }
        Some(CallArg::Value(self.expr(arg)))
    }

    /// `f(x)`: a call of an inline helper; rustc reports it if there is none.
    pub(super) fn inline_call(&mut self, call: &ExprCall, path: &syn::Path) -> Option<ExprKind> {
        if let Some(name) = path.get_ident()
            && let Some(meant) = slip_of_function(&name.to_string())
        {
            let help = format!("did you mean `{meant}`?");
            self.errors.push(name, format!("unknown function `{name}`"), &help);
            return None;
        }
        if path.is_ident(&self.name) {
            let help = "a helper is expanded where it is called: it cannot call itself";
            self.errors.push(path, format!("`{}` calls itself", self.name), help);
            return None;
        }
        if let Some(arg) = call.args.iter().find(|it| self.is_tensor(it)) {
            let text = crate::kernel::generate::source_text(&path.to_token_stream());
            let help = format!("pass elements; a kernel is called as a statement: `{text}(..);`");
            self.errors.push(arg, "an inline helper takes scalars", &help);
            return None;
        }
        let args: Vec<Expr> = call.args.iter().map(|it| self.expr(it)).collect();
        Some(ExprKind::Inline(path.clone(), args))
    }

    /// `{ let t = x * x; t + 1.0 }`
    pub(super) fn block_value(&mut self, block: &syn::Block) -> Option<Expr> {
        let Some((SynStmt::Expr(tail, None), stmts)) = block.stmts.split_last() else {
            self.errors.push(block, "a block that is a value ends in an expression", BLOCK_HELP);
            return None;
        };
        if stmts.is_empty() {
            return Some(self.expr(tail));
        }
        self.scopes.open();
        let mut lets = Vec::new();
        for stmt in stmts {
            let mutable = |pat: &Pat| match pat {
                Pat::Ident(it) => it.mutability.is_some(),
                Pat::Type(it) => matches!(&*it.pat, Pat::Ident(it) if it.mutability.is_some()),
                _ => false,
            };
            match stmt {
                SynStmt::Local(local) if !mutable(&local.pat) => match self.local(local, &[]) {
                    Some(Stmt::Let { name, value, keep }) => {
                        lets.push(BlockLet { name, params: None, value, keep });
                    }
                    Some(Stmt::Helper { name, params, value }) => {
                        lets.push(BlockLet { name, params: Some(params), value, keep: false });
                    }
                    Some(_) => {
                        self.errors.push(local, "a block that is a value has no local buffers", BLOCK_HELP);
                    }
                    None => {}
                },
                other => {
                    let message = "a block that is a value has `let`s of values that do not change, and a last expression";
                    self.errors.push(other, message, BLOCK_HELP);
                    self.scopes.close();
                    return None;
                }
            }
        }
        let value = self.expr(tail);
        let dtype = self.dtype_of(&value);
        self.scopes.close();
        Some(Expr::new(ExprKind::Block(lets, Box::new(value), dtype), tail.span()))
    }
}

/// The function of kernels that `name` is one wrong or missing letter away from.
fn slip_of_function(name: &str) -> Option<&'static str> {
    let letters = |name: &str| name.chars().all(|it| it.is_ascii_lowercase());
    let one_off = |name: &str, other: &str| {
        let same = name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
        let rest = |text: &str, from: usize| text.chars().skip(from).collect::<String>();
        rest(other, same + 1) == rest(name, same + 1) || rest(other, same + 1) == rest(name, same)
    };
    let candidates = FUNCTIONS.iter().map(|it| it.name).filter(|it| it.len() >= 5 && letters(it));
    candidates.into_iter().find(|it| letters(name) && one_off(name, it))
}

/// The name in `x`, `&x` (`Some(false)`) or `&mut x` (`Some(true)`).
fn tensor_name(arg: &SynExpr) -> Option<(&Ident, Option<bool>)> {
    match arg {
        SynExpr::Path(it) => Some((it.path.get_ident()?, None)),
        SynExpr::Reference(it) => Some((tensor_name(&it.expr)?.0, Some(it.mutability.is_some()))),
        SynExpr::Paren(it) => tensor_name(&it.expr),
        _ => None,
    }
}

const HELPER_HELP: &str = "a helper has scalars and a result: `fn square(x: f32) -> f32 { x * x }`";

/// Parses the helper `func`; its errors go to `errors`.
pub(crate) fn prim_helper(func: &ItemFn, errors: &mut Errors) -> Helper {
    let (generics, name) = (&func.sig.generics, func.sig.ident.clone());
    let mut parser = Parser {
        errors,
        generics,
        name,
        is_helper: true,
        scopes: Scopes::new(),
        uses_math: false,
        c_functions: vec![],
    };
    let sig = &func.sig;
    if function(&sig.ident.to_string()).is_some() {
        let message = format!("`{}` is a function of kernels", sig.ident);
        parser.errors.push(&sig.ident, message, "give the helper another name");
    }
    parser.plain_function(sig);
    for param in &generics.params {
        if let syn::GenericParam::Const(it) = param {
            parser.errors.push(it, "a helper has no constant parameters", "pass it as `usize`");
        }
    }
    let mut params: Vec<(Ident, DType)> = Vec::new();
    for input in &sig.inputs {
        let FnArg::Typed(input) = input else {
            parser.errors.push(input, "a helper has no `self`", HELPER_HELP);
            continue;
        };
        let Pat::Ident(pat) = &*input.pat else {
            parser.errors.push(&input.pat, "a parameter is a plain name", HELPER_HELP);
            continue;
        };
        if let Some(mutability) = &pat.mutability {
            parser.errors.push(mutability, "a parameter of a helper does not change", "use another `let`");
        }
        let Some(dtype) = parser.scalar_type(&input.ty) else {
            parser.scopes.declare(&pat.ident, Name::Unknown);
            continue;
        };
        let kind = ValueKind::Param;
        parser.scopes.declare(&pat.ident, Name::Value { dtype: Some(dtype.clone()), kind });
        params.push((pat.ident.clone(), dtype));
    }
    let ret = match &sig.output {
        ReturnType::Type(_, ty) => parser.scalar_type(ty),
        ReturnType::Default => {
            let help = "a helper has a result; what writes tensors is a `#[prim_func]`";
            parser.errors.push(&sig.ident, format!("`{}` returns nothing", sig.ident), help);
            None
        }
    };
    let value = if ret.is_some() { parser.block_value(&func.block) } else { None };
    if let (Some(value), Some(ret)) = (&value, &ret)
        && parser.dtype_of(value).is_none()
    {
        parser.expect(value, ret);
    }
    for it in generics.type_params() {
        if parser.errors.is_empty() && !params.iter().any(|(_, dtype)| it.ident == dtype.name()) {
            let message = format!("no parameter of the helper has type `{}`", it.ident);
            parser.errors.push(it, message, "a type parameter takes the type of an argument");
        }
    }
    let (span, uses_math) = (func.block.span(), parser.uses_math);
    Helper {
        generics: generics.clone(),
        params,
        ret: ret.unwrap_or_else(|| DType(Ident::new("f32", span))),
        value: value.unwrap_or_else(|| Expr::new(ExprKind::Error, span)),
        uses_math,
    }
}

impl Parser<'_> {
    /// An element type or `usize`.
    fn scalar_type(&mut self, ty: &Type) -> Option<DType> {
        match ty {
            Type::Path(it) if it.path.is_ident("usize") => it.path.get_ident().cloned().map(DType),
            Type::Reference(it) => {
                self.errors.push(it, "an inline helper takes scalars", HELPER_HELP);
                None
            }
            ty => self.dtype(ty),
        }
    }
}
