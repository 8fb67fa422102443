//! Statements of a kernel.

use quote::format_ident;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    BinOp, Block, Expr as SynExpr, ExprCall, ExprClosure, ExprIf, Ident, Local, Pat, PathArguments,
    Stmt as SynStmt,
};

use super::Parser;
use super::scope::{Name, ValueKind, Written};
use crate::kernel::ast::{DType, Expr, ExprKind, Stmt};

/// Names of the memory scopes of local buffers, and the variants of `Scope`.
const SCOPES: [(&str, &str); 5] = [
    ("global", "Global"),
    ("shared", "Shared"),
    ("shared.dyn", "SharedDyn"),
    ("local", "Local"),
    ("warp", "Warp"),
];

pub(super) const MACRO_HELP: &str =
    "a kernel has `assert!(condition, \"message\")` as a statement; print where it is called";

const SCOPE_HELP: &str =
    "write `#[scope(\"shared\")]`; scopes are global, shared, shared.dyn, local and warp";

impl Parser<'_> {
    /// The statements of `block` in a scope of their own.
    pub(super) fn block(&mut self, block: &Block) -> Vec<Stmt> {
        self.scopes.open();
        let mut res = Vec::new();
        for (i, stmt) in block.stmts.iter().enumerate() {
            res.extend(self.stmt(stmt, &block.stmts[i + 1..]));
        }
        self.scopes.close();
        res
    }

    fn stmt(&mut self, stmt: &SynStmt, rest: &[SynStmt]) -> Option<Stmt> {
        match stmt {
            SynStmt::Local(local) => self.local(local, rest),
            SynStmt::Expr(expr, _) => self.expr_stmt(expr),
            SynStmt::Item(syn::Item::ForeignMod(item)) => {
                self.c_functions(item);
                None
            }
            SynStmt::Item(item) => {
                self.errors.push(item, "items are not supported in a kernel", "declare it outside");
                if let syn::Item::Fn(it) = item {
                    self.scopes.declare(&it.sig.ident, Name::Unknown);
                }
                None
            }
            SynStmt::Macro(it) if it.mac.path.is_ident("assert") => {
                self.no_attributes(&it.attrs);
                self.assert(&it.mac)
            }
            SynStmt::Macro(it) => {
                self.errors.push(&it.mac.path, "macros are not supported in a kernel", MACRO_HELP);
                None
            }
        }
    }

    pub(super) fn expr_stmt(&mut self, expr: &SynExpr) -> Option<Stmt> {
        match expr {
            SynExpr::ForLoop(it) => self.for_loop(it),
            SynExpr::If(it) => self.if_stmt(it),
            SynExpr::While(it) => {
                let condition = self.condition(&it.cond);
                Some(Stmt::While { condition, body: self.block(&it.body), span: it.while_token.span })
            }
            SynExpr::Block(it) => Some(Stmt::Scope(self.block(&it.block))),
            SynExpr::Assign(it) => self.assign(&it.left, None, &it.right),
            SynExpr::Binary(it) => match assigning(&it.op) {
                Some(op) => self.assign(&it.left, Some(op), &it.right),
                None => self.no_effect(expr),
            },
            SynExpr::Call(it) => match called(it).as_deref() {
                Some("block") => self.block_stmt(it),
                Some("init") => self.init(it),
                _ => self.call_stmt(it),
            },
            SynExpr::Macro(it) if it.mac.path.is_ident("assert") => {
                self.no_attributes(&it.attrs);
                self.assert(&it.mac)
            }
            SynExpr::Unsafe(_) => {
                self.expr(expr);
                self.no_effect(expr)
            }
            SynExpr::Loop(it) => {
                self.errors.push(
                    &it.loop_token,
                    "`loop` is not supported in a kernel",
                    "use `for i in 0..n` or `while`",
                );
                None
            }
            SynExpr::Break(_) | SynExpr::Continue(_) | SynExpr::Return(_) => {
                self.errors.push(expr, "kernels have no jumps", "put the rest under an `if`");
                None
            }
            SynExpr::Match(it) => {
                self.errors.push(
                    &it.match_token,
                    "`match` is not supported in a kernel",
                    "use `if` and `else`",
                );
                None
            }
            SynExpr::Lit(_)
            | SynExpr::Path(_)
            | SynExpr::Index(_)
            | SynExpr::Paren(_)
            | SynExpr::MethodCall(_) => self.no_effect(expr),
            _ => {
                self.errors.push(
                    expr,
                    "this statement is not supported in a kernel",
                    "kernels have loops, blocks, stores `c[[i]] = e`, `let`, `if` and `while`",
                );
                None
            }
        }
    }

    /// Reports an attribute other than documentation.
    fn no_attributes(&mut self, attrs: &[syn::Attribute]) {
        if let Some(attr) = attrs.iter().find(|attr| !attr.path().is_ident("doc")) {
            self.errors.push(attr, "attributes are for loops and local buffers", "remove it");
        }
    }

    pub(super) fn no_effect(&mut self, expr: &SynExpr) -> Option<Stmt> {
        self.errors.push(expr, "this has no effect", "store it: `c[[i]] = ..;`");
        None
    }

    /// `let x = e;`, `let mut x = e;`, `let mut t = alloc::<f32>([n]);`, `let f = |x| e;`
    pub(super) fn local(&mut self, local: &Local, rest: &[SynStmt]) -> Option<Stmt> {
        let (pat, ty) = match &local.pat {
            Pat::Type(it) => (&*it.pat, Some(&*it.ty)),
            pat => (pat, None),
        };
        let Pat::Ident(pat) = pat else {
            self.errors.push(pat, "`let` binds one name", "write one `let` for each");
            pattern_names(pat).iter().for_each(|name| self.scopes.declare(name, Name::Unknown));
            return None;
        };
        let name = pat.ident.clone();
        let Some(init) = &local.init else {
            let help = format!("give it one: `let mut {name} = 0.0;`");
            self.errors.push(&name, format!("`{name}` has no value"), &help);
            self.scopes.declare(&name, Name::Unknown);
            return None;
        };
        if let Some((_, diverge)) = &init.diverge {
            self.errors.push(diverge, "`let .. else` is not supported in a kernel", "use `if`");
            return None;
        }
        if let SynExpr::Closure(closure) = &*init.expr {
            return self.helper(name, closure);
        }
        if let SynExpr::Call(call) = &*init.expr
            && called(call).as_deref() == Some("alloc")
        {
            return self.alloc(name, call, &local.attrs);
        }
        self.no_attributes(&local.attrs);
        if let SynExpr::Call(call) = &*init.expr
            && called(call).as_deref() == Some("match_buffer")
        {
            return self.match_buffer(name, call);
        }
        if let SynExpr::Macro(it) = &*init.expr
            && it.mac.path.is_ident("vec")
        {
            let help = format!("write `let mut {name} = alloc::<f32>([n]);`, and `{name}[[i]]`");
            self.errors.push(&it.mac.path, "a kernel has no `Vec`", &help);
            self.scopes.declare(&name, Name::Unknown);
            return None;
        }
        let kept = match &*init.expr {
            SynExpr::Call(call) if called(call).as_deref() == Some("bind") && call.args.len() == 1 => {
                call.args.first().filter(|_| !self.is_declared("bind"))
            }
            _ => None,
        };
        let mut value = self.expr(kept.unwrap_or(&init.expr));
        if matches!(value.kind, ExprKind::Error) {
            self.scopes.declare(&name, Name::Unknown);
            return None;
        }
        let mut dtype = match ty {
            Some(syn::Type::Path(it)) if it.path.is_ident("usize") => it.path.get_ident().cloned().map(DType),
            Some(ty) => Some(self.dtype(ty)?),
            None => None,
        };
        if let Some(dtype) = &dtype {
            if self.dtype_of(&value).is_none() {
                self.expect(&value, dtype);
            }
            let span = value.span;
            value = Expr::new(ExprKind::Cast(Box::new(value), dtype.0.clone()), span);
        }
        dtype = dtype.or_else(|| self.dtype_of(&value));
        if pat.mutability.is_none() {
            self.scopes.declare(&name, Name::Value { dtype, kind: ValueKind::Let });
            return Some(Stmt::Let { name, value, keep: kept.is_some() });
        }
        let Some(dtype) = dtype.or_else(|| self.infer_from_use(&name, rest)) else {
            if !matches!(value.kind, ExprKind::Error) {
                let help = format!("write it: `let mut {name}: f32 = ..`");
                self.errors.push(&name, format!("the type of `{name}` is not known here"), &help);
            }
            self.scopes.declare(&name, Name::Scalar { dtype: DType(format_ident!("f32")) });
            return None;
        };
        if self.dtype_of(&value).is_none() {
            self.expect(&value, &dtype);
        }
        self.scopes.declare(&name, Name::Scalar { dtype: dtype.clone() });
        Some(Stmt::Alloc {
            name,
            dtype,
            shape: vec![],
            value: Some(value),
            scope: "Local",
            strides: vec![],
            offset: None,
        })
    }

    fn helper(&mut self, name: Ident, closure: &ExprClosure) -> Option<Stmt> {
        let mut params = Vec::new();
        self.scopes.open();
        for input in &closure.inputs {
            let (pat, ty) = match input {
                Pat::Type(it) => (&*it.pat, Some(&*it.ty)),
                pat => (pat, None),
            };
            let Pat::Ident(pat) = pat else {
                self.errors.push(pat, "a parameter of a helper is a plain name", "");
                continue;
            };
            let dtype = match ty {
                Some(ty) => self.dtype(ty),
                None => None,
            };
            self.scopes.declare(&pat.ident, Name::Value { dtype, kind: ValueKind::Let });
            params.push(pat.ident.clone());
        }
        let value = self.expr(&closure.body);
        self.scopes.close();
        self.scopes.declare(&name, Name::Helper { arity: params.len() });
        Some(Stmt::Helper { name, params, value })
    }

    /// `alloc::<f32>([m, n])`
    fn alloc(&mut self, name: Ident, call: &ExprCall, attrs: &[syn::Attribute]) -> Option<Stmt> {
        const HELP: &str = "write `let mut t = alloc::<f32>([m, n]);`";
        let SynExpr::Path(path) = &*call.func else { return None };
        let dtype = match path.path.segments.last().map(|it| &it.arguments) {
            Some(PathArguments::AngleBracketed(args)) => match args.args.first() {
                Some(syn::GenericArgument::Type(ty)) => self.dtype(ty)?,
                _ => {
                    self.errors.push(&call.func, "the element type is missing", HELP);
                    return None;
                }
            },
            _ => {
                self.errors.push(&call.func, "the element type is missing", HELP);
                return None;
            }
        };
        let (1, Some(SynExpr::Array(shape))) = (call.args.len(), call.args.first()) else {
            self.errors.push(call, "the shape is an array of extents", HELP);
            return None;
        };
        let shape: Vec<Expr> = shape.elems.iter().map(|it| self.expr(it)).collect();
        shape.iter().for_each(|it| self.expect_index(it));
        let (scope, strides, offset) = self.memory(attrs);
        if !strides.is_empty() && strides.len() != shape.len() {
            let message = format!(
                "`{name}` has {}, but {} strides",
                super::expr::count(shape.len(), "dimension"),
                strides.len()
            );
            self.errors.push(&name, message, "give each dimension one stride");
        }
        let (rank, dtype_of) = (shape.len(), dtype.clone());
        let tensor = Name::Tensor { rank, dtype: dtype_of, written: Written::Local, matched: false };
        self.scopes.declare(&name, tensor);
        Some(Stmt::Alloc { name, dtype, shape, value: None, scope, strides, offset })
    }

    /// `#[scope("shared")]`, `#[strides(8, 1)]`, `#[offset(4)]` on a local buffer: the variant of `Scope`, strides, offset.
    fn memory(&mut self, attrs: &[syn::Attribute]) -> (&'static str, Vec<Expr>, Option<Expr>) {
        let (mut scope, mut strides, mut offset) = ("Global", Vec::new(), None);
        for attr in attrs.iter().filter(|attr| !attr.path().is_ident("doc")) {
            let exprs = |attr: &syn::Attribute| {
                attr.parse_args_with(Punctuated::<SynExpr, syn::Token![,]>::parse_terminated).ok()
            };
            let name = attr.path().get_ident().map(Ident::to_string).unwrap_or_default();
            let known = match name.as_str() {
                "scope" => attr.parse_args::<syn::LitStr>().ok().and_then(|name| {
                    let (_, variant) = SCOPES.iter().find(|(text, _)| *text == name.value())?;
                    scope = variant;
                    Some(())
                }),
                "strides" => {
                    exprs(attr).map(|exprs| strides = exprs.iter().map(|it| self.expr(it)).collect())
                }
                "offset" => exprs(attr)
                    .filter(|exprs| exprs.len() == 1)
                    .map(|exprs| offset = exprs.first().map(|it| self.expr(it))),
                _ => None,
            };
            if known.is_none() {
                self.errors.push(attr, "unknown attribute of a local buffer", SCOPE_HELP);
            }
        }
        strides.iter().chain(&offset).for_each(|it| self.expect_index(it));
        (scope, strides, offset)
    }

    /// True when the kernel declares `name`.
    pub(super) fn is_declared(&self, name: &str) -> bool {
        self.scopes.lookup(&format_ident!("{name}")).is_some()
    }

    fn assign(&mut self, target: &SynExpr, op: Option<BinOp>, value: &SynExpr) -> Option<Stmt> {
        let span = target.span();
        let (buffer, indices) = match target {
            SynExpr::Index(it) => {
                let accessed = self.access(&it.expr, &it.index);
                if let Some((name, _)) = &accessed {
                    self.check_written(name);
                }
                let Some(accessed) = accessed else {
                    self.expr(value);
                    return None;
                };
                accessed
            }
            SynExpr::Path(it) if it.path.get_ident().is_some() => {
                let name = it.path.get_ident()?.clone();
                match self.scopes.lookup(&name) {
                    Some(Name::Scalar { .. }) => (name, vec![]),
                    Some(Name::Value { kind, .. }) => {
                        let help = match kind {
                            ValueKind::Let => format!("declare it with `let mut {name}`"),
                            _ => "use a `let mut` of another name".to_string(),
                        };
                        let message = format!("cannot assign to `{name}`: it is {}", kind.describe());
                        self.errors.push(&name, message, &help);
                        return None;
                    }
                    _ => {
                        self.expr(target);
                        return None;
                    }
                }
            }
            _ => {
                self.errors.push(
                    target,
                    "this cannot be assigned to",
                    "assign to `c[[i, j]]` or to a `let mut` scalar",
                );
                return None;
            }
        };
        let syn_value = value;
        let value = self.expr(value);
        let shift = matches!(op, Some(BinOp::Shl(_) | BinOp::Shr(_)));
        if let Some(Name::Tensor { dtype, .. } | Name::Scalar { dtype }) =
            self.scopes.lookup(&buffer).cloned()
            && self.dtype_of(&value).is_none()
            && !shift
        {
            self.expect(&value, &dtype);
        }
        if let (Some(Name::Tensor { dtype, .. } | Name::Scalar { dtype }), Some(got)) =
            (self.scopes.lookup(&buffer), self.dtype_of(&value))
            && dtype.0 != got.0
        {
            let message = format!("`{buffer}` holds {}, but the value is {}", dtype.name(), got.name());
            let help = format!("convert the value: `.. as {}`", dtype.name());
            self.errors.push(syn_value, message, &help);
        }
        Some(Stmt::Store { buffer, indices, op, value, span })
    }

    /// Reports a write to an input.
    fn check_written(&mut self, name: &Ident) {
        if let Some(Name::Tensor { written: Written::Input, .. }) = self.scopes.lookup(name) {
            let help = format!("declare it as an output: `{name}: &mut Tensor<..>`");
            self.errors.push(name, format!("cannot write to `{name}`: it is an input"), &help);
        }
    }

    fn if_stmt(&mut self, it: &ExprIf) -> Option<Stmt> {
        let condition = self.condition(&it.cond);
        let then = self.block(&it.then_branch);
        let otherwise = match &it.else_branch {
            Some((_, branch)) => match &**branch {
                SynExpr::Block(it) => Some(self.block(&it.block)),
                SynExpr::If(it) => Some(self.if_stmt(it).into_iter().collect()),
                _ => None,
            },
            None => None,
        };
        Some(Stmt::If { condition, then, otherwise, span: it.if_token.span })
    }
}

/// The names that a pattern binds.
pub(super) fn pattern_names(pat: &Pat) -> Vec<Ident> {
    struct Names(Vec<Ident>);
    impl<'ast> syn::visit::Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, it: &'ast syn::PatIdent) {
            self.0.push(it.ident.clone());
        }
    }
    let mut names = Names(vec![]);
    syn::visit::Visit::visit_pat(&mut names, pat);
    names.0
}

/// Name of the function that `call` calls.
pub(super) fn called(call: &ExprCall) -> Option<String> {
    match &*call.func {
        SynExpr::Path(path) if path.path.segments.len() == 1 => Some(path.path.segments[0].ident.to_string()),
        _ => None,
    }
}

/// The operation of `+=` and the like.
fn assigning(op: &BinOp) -> Option<BinOp> {
    Some(match op {
        BinOp::AddAssign(it) => BinOp::Add(syn::Token![+](it.spans[0])),
        BinOp::SubAssign(it) => BinOp::Sub(syn::Token![-](it.spans[0])),
        BinOp::MulAssign(it) => BinOp::Mul(syn::Token![*](it.spans[0])),
        BinOp::DivAssign(it) => BinOp::Div(syn::Token![/](it.spans[0])),
        BinOp::RemAssign(it) => BinOp::Rem(syn::Token![%](it.spans[0])),
        BinOp::BitAndAssign(it) => BinOp::BitAnd(syn::Token![&](it.spans[0])),
        BinOp::BitOrAssign(it) => BinOp::BitOr(syn::Token![|](it.spans[0])),
        BinOp::BitXorAssign(it) => BinOp::BitXor(syn::Token![^](it.spans[0])),
        BinOp::ShlAssign(it) => BinOp::Shl(syn::Token![<<]([it.spans[0], it.spans[1]])),
        BinOp::ShrAssign(it) => BinOp::Shr(syn::Token![>>]([it.spans[0], it.spans[1]])),
        _ => return None,
    })
}
