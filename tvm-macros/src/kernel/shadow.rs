//! The shadow: the user's body as an ordinary Rust function over the small runtime of `script::shadow`.
//!
//! The user's tokens are kept as they are, with these exceptions. Attributes of statements are removed (Rust allows none
//! there), the `init`s of blocks move to where they run, and calls of kernels and helpers become calls of their `__run`.
//! If an element type has no Rust literals (a type parameter, half precision), float literals, casts and operators become
//! calls. `.max`, `.min`, `.abs` and differences always become calls, and so do operators if there are integers, which wrap.

mod init;
mod matched;

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{VisitMut, visit_expr_mut, visit_local_mut};
use syn::{BinOp, Block, Expr, Generics, Ident, Lit, PathArguments, UnOp};

use crate::dims::{DTYPES, is_half, is_type_param};
use crate::kernel::ast::{DType, Helper, ParamKind, PrimFunc};
use crate::kernel::parse::Assertion;
use crate::paths;
use crate::rounding::rounded_to_odd;

/// `impl matmul { fn __shadow(..) { body } }`
pub(crate) fn shadow(func: &PrimFunc, body: &Block, for_editor: bool) -> TokenStream {
    let mut body = body.clone();
    init::place_inits(&mut body);
    let types = func.params.iter().map(|param| match &param.kind {
        ParamKind::Tensor { dtype, .. } | ParamKind::Scalar { dtype } => dtype,
    });
    let integers = mentions_integers(types, &body);
    let tensors = func.params.iter().filter_map(|param| match &param.kind {
        ParamKind::Tensor { output, .. } => {
            Some((param.name.clone(), if *output { Local::Output } else { Local::Input }))
        }
        ParamKind::Scalar { .. } => None,
    });
    let locals = tensors.collect();
    let generics = &func.generics;
    Rewrite { soft_literals: func.soft_literals, integers, generics, locals }.visit_block_mut(&mut body);
    let params = func.params.iter().map(|param| {
        let name = &param.name;
        match &param.kind {
            ParamKind::Tensor { output, dtype, dims, span } => {
                let (rank, dtype) = (dims.len(), &dtype.0);
                if *output {
                    let view = paths::view_mut(*span);
                    quote_spanned!(*span=> #name: &mut #view<'_, #dtype, #rank>)
                } else {
                    let view = paths::view(*span);
                    quote_spanned!(*span=> #name: &#view<'_, #dtype, #rank>)
                }
            }
            ParamKind::Scalar { dtype } => {
                let dtype = &dtype.0;
                quote!(#name: #dtype)
            }
        }
    });
    let dims = &func.dims;
    let name = &func.name;
    let shadow = paths::shadow(proc_macro2::Span::call_site());
    let header = crate::kernel::generate::impl_header(func, &quote!(#name));
    let fn_name = format_ident!("__shadow", span = name.span());
    let rust = quote! {
        use #shadow::kernel::*;
        #header {
            #[doc(hidden)]
            fn #fn_name(#(#params,)* #(#dims: usize),*) #body
        }
    };
    scope(&rust, for_editor)
}

/// `items` in a scope of their own; `for_editor` hides them from rustc, which would report the errors of a kernel twice.
pub(crate) fn scope(items: &TokenStream, for_editor: bool) -> TokenStream {
    let items =
        if for_editor { quote!(#[cfg(rust_analyzer)] const _: () = { #items };) } else { items.clone() };
    quote! {
        #[allow(
            unused, unexpected_cfgs, non_upper_case_globals, unstable_name_collisions, clippy::all, clippy::pedantic, clippy::restriction,
            reason = "the body of the kernel, run as plain Rust"
        )]
        const _: () = { #items };
    }
}

/// The body of an inline helper.
pub(crate) fn helper(helper: &Helper, body: &Block) -> Block {
    let mut body = body.clone();
    let types = || helper.params.iter().map(|(_, dtype)| dtype).chain([&helper.ret]);
    let integers = mentions_integers(types(), &body);
    let generics = &helper.generics;
    let soft = |dtype: &DType| {
        is_half(&dtype.name()) || is_type_param(&Ident::new(&dtype.name(), dtype.0.span()), generics)
    };
    let soft_literals = types().any(soft);
    Rewrite { soft_literals, integers, generics, locals: vec![] }.visit_block_mut(&mut body);
    body
}

/// What a name in a body stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Local {
    Input,
    Output,
    Buffer,
    /// It matches a region of the buffer that is this local.
    Matched(usize),
    Other,
}

struct Rewrite<'a> {
    soft_literals: bool,
    /// True if operators become calls, because Rust's panic when integers overflow.
    integers: bool,
    generics: &'a Generics,
    /// Tensor parameters and the names that `let` declares, innermost last.
    locals: Vec<(Ident, Local)>,
}

impl Rewrite<'_> {
    fn local(&self, name: &Ident) -> Option<Local> {
        self.locals.iter().rev().find(|(it, _)| it == name).map(|(_, it)| *it)
    }

    /// Rewrites calls of kernels and helpers: the function to call is hidden in the type of the same name.
    fn call(&self, call: &mut syn::ExprCall) {
        let Expr::Path(func) = &*call.func else { return };
        if !self.is_called(&func.path) {
            return;
        }
        let is_kernel = call.args.iter().any(|arg| self.tensor(arg).is_some());
        for arg in &mut call.args {
            let Some((name, local)) = self.tensor(arg) else { continue };
            let (name, span) = (name.clone(), arg.span());
            let mutability = if let Expr::Reference(it) = &*arg { Some(it.mutability) } else { None };
            *arg = match (local, mutability) {
                (Local::Output, Some(mutability)) => syn::parse_quote_spanned!(span=> &#mutability *#name),
                (Local::Input | Local::Output, _) => syn::parse_quote_spanned!(span=> #name),
                (Local::Buffer | Local::Matched(_) | Local::Other, _) => continue,
            };
        }
        let mut path = func.path.clone();
        let span = path.span();
        let run = format_ident!("__run", span = span);
        let args = match path.segments.last_mut() {
            Some(last) if !is_kernel => std::mem::take(&mut last.arguments),
            _ => PathArguments::None,
        };
        *call.func = syn::parse_quote_spanned!(span=> <#path>::#run #args);
    }

    /// The call that replaces `assert!(condition, "message")`.
    fn assertion(&mut self, it: &syn::Macro) -> Option<Expr> {
        let assertion: Assertion = it.path.is_ident("assert").then(|| it.parse_body().ok())??;
        let (span, message) = (it.path.span(), assertion.text(it)?);
        let mut condition = assertion.condition;
        self.visit_expr_mut(&mut condition);
        let shadow = paths::shadow(span);
        Some(syn::parse_quote_spanned!(span=> #shadow::assertion(#condition, #message)))
    }

    /// Turns an access to a matched buffer into one to its source; the error if another buffer hides the source.
    fn source(&self, it: &mut syn::ExprIndex) -> Option<Expr> {
        let position = |name: &Ident| self.locals.iter().rposition(|(it, _)| it == name);
        let mut at =
            position(if let Expr::Path(path) = &*it.expr { path.path.get_ident()? } else { return None })?;
        while let (name, Local::Matched(from)) = &self.locals[at] {
            let source = &self.locals[*from].0;
            if position(source) != Some(*from) {
                return Some(matched::hidden(name, source));
            }
            matched::access(it, name, source);
            at = *from;
        }
        None
    }

    /// True for the path of a kernel or helper: it is neither a built-in function of kernels nor a local name.
    fn is_called(&self, path: &syn::Path) -> bool {
        const STATEMENTS: [&str; 9] = ["block", "init", "grid", "alloc", "bind", "S", "R", "O", "Q"];
        if let [one] = path.segments.iter().collect::<Vec<_>>().as_slice() {
            let text = one.ident.to_string();
            let known = || {
                STATEMENTS.contains(&text.as_str()) || crate::kernel::intrinsics::function(&text).is_some()
            };
            return self.local(&one.ident).is_none() && !known();
        }
        let of = path.segments.iter().rev().nth(1).map(|it| &it.ident);
        !of.is_some_and(|it| {
            it == "cmp" || DTYPES.contains(&it.to_string().as_str()) || is_type_param(it, self.generics)
        })
    }

    /// The tensor that an argument names.
    fn tensor<'e>(&self, arg: &'e Expr) -> Option<(&'e Ident, Local)> {
        match arg {
            Expr::Path(it) => {
                let name = it.path.get_ident()?;
                let local = self.local(name).filter(|it| !matches!(it, Local::Matched(_) | Local::Other));
                Some((name, local?))
            }
            Expr::Reference(it) => self.tensor(&it.expr),
            Expr::Paren(it) => self.tensor(&it.expr),
            _ => None,
        }
    }
}

/// Whether one of `types`, or the text of `body`, mentions integer types other than `usize`.
fn mentions_integers<'a>(mut types: impl Iterator<Item = &'a DType>, body: &Block) -> bool {
    const NAMES: [&str; 8] = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"];
    fn any(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => any(group.stream()),
            TokenTree::Ident(ident) => NAMES.iter().any(|name| ident == name),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                NAMES.iter().any(|name| text.ends_with(name))
            }
            TokenTree::Punct(_) => false,
        })
    }
    types.any(|dtype| NAMES.contains(&dtype.name().as_str())) || any(body.to_token_stream())
}

impl VisitMut for Rewrite<'_> {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let outer = self.locals.len();
        for stmt in &mut block.stmts {
            if let syn::Stmt::Macro(it) = stmt
                && let Some(call) = self.assertion(&it.mac)
            {
                *stmt = syn::Stmt::Expr(call, Some(syn::Token![;](it.mac.path.span())));
                continue;
            }
            if let syn::Stmt::Local(local) = stmt
                && let Some((name, source, mut region)) = matched::matched(local)
            {
                region.iter_mut().for_each(|part| self.visit_expr_mut(part));
                *stmt = matched::keep(&name, &region);
                let source = self.locals.iter().rposition(|(it, _)| *it == source);
                self.locals.push((name, source.map_or(Local::Other, Local::Matched)));
                continue;
            }
            self.visit_stmt_mut(stmt);
            let syn::Stmt::Local(local) = stmt else { continue };
            let pat = if let syn::Pat::Type(it) = &local.pat { &*it.pat } else { &local.pat };
            if let syn::Pat::Ident(pat) = pat {
                let what = if allocates(local).is_some() { Local::Buffer } else { Local::Other };
                self.locals.push((pat.ident.clone(), what));
            }
        }
        self.locals.truncate(outer);
    }

    fn visit_local_mut(&mut self, local: &mut syn::Local) {
        local.attrs.clear();
        // A local buffer is written through its name, so it must be `mut`.
        if allocates(local).is_some()
            && let syn::Pat::Ident(pat) = &mut local.pat
        {
            pat.mutability.get_or_insert(syn::Token![mut](pat.ident.span()));
        }
        if let Some(init) = &mut local.init
            && let Expr::Call(call) = &mut *init.expr
            && let Expr::Path(path) = &mut *call.func
            && let Some(segment) = path.path.segments.last_mut()
            && segment.ident == "alloc"
            && let PathArguments::AngleBracketed(args) = &mut segment.arguments
        {
            // The rank, which rustc infers from the shape.
            args.args.push(syn::parse_quote!(_));
        }
        visit_local_mut(self, local);
    }

    fn visit_item_mut(&mut self, _item: &mut syn::Item) {
        // Items are not rewritten: constants contain no calls.
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::ForLoop(syn::ExprForLoop { attrs, .. }) | Expr::Call(syn::ExprCall { attrs, .. }) = expr
        {
            attrs.clear();
        }
        if let Expr::Cast(it) = expr
            && self.soft_literals
        {
            let (span, ty) = (it.span(), it.ty.clone());
            let shadow = paths::shadow(span);
            let (negative, inner) = match &*it.expr {
                Expr::Unary(it) if matches!(it.op, UnOp::Neg(_)) => (Some(it.op), &*it.expr),
                other => (None, other),
            };
            if let Expr::Lit(value) = inner {
                let value = match value.lit {
                    Lit::Int(_) => quote!(#negative #value as f64),
                    _ => quote!(#negative #value),
                };
                *expr = syn::parse_quote_spanned!(span=> #shadow::cast::<#ty>(#value));
            } else {
                let mut inner = (*it.expr).clone();
                self.visit_expr_mut(&mut inner);
                *expr = syn::parse_quote_spanned!(span=> #shadow::cast::<#ty>(#inner));
            }
            return;
        }
        if let Expr::Lit(it) = expr
            && let Lit::Float(value) = &it.lit
            && self.soft_literals
            && value.suffix().is_empty()
        {
            let shadow = paths::shadow(value.span());
            let nearest = value.base10_parse().unwrap_or(0.0);
            *expr = match rounded_to_odd(value.base10_digits(), nearest) {
                None => syn::parse_quote_spanned!(value.span()=> #shadow::lit(#value)),
                Some(odd) => syn::parse_quote_spanned!(value.span()=> #shadow::lit_near(#value, #odd)),
            };
            return;
        }
        if let Expr::Unsafe(it) = expr {
            // A call of a C function stays as it is.
            if let [syn::Stmt::Expr(Expr::Call(call), None)] = it.block.stmts.as_mut_slice() {
                call.args.iter_mut().for_each(|arg| self.visit_expr_mut(arg));
            }
            return;
        }
        if let Expr::Macro(it) = expr
            && let Some(call) = self.assertion(&it.mac)
        {
            *expr = call;
            return;
        }
        visit_expr_mut(self, expr);
        if let Expr::Index(it) = expr
            && let Some(error) = self.source(it)
        {
            *expr = error;
            return;
        }
        if let Expr::Call(it) = expr {
            self.call(it);
        }
        if let Some(call) = method(expr) {
            *expr = call;
        }
        if (self.soft_literals || is_difference(expr) || self.integers && !is_comparison(expr))
            && let Some(call) = call_of_operator(expr)
        {
            *expr = call;
        }
    }
}

/// `let t = alloc::<f32>([n]);`
fn allocates(local: &syn::Local) -> Option<()> {
    let Expr::Call(call) = &*local.init.as_ref()?.expr else { return None };
    let Expr::Path(path) = &*call.func else { return None };
    (path.path.segments.last()?.ident == "alloc").then_some(())
}

/// True for a comparison of numbers, which means the same in Rust as in kernels.
fn is_comparison(expr: &Expr) -> bool {
    let Expr::Binary(it) = expr else { return false };
    matches!(it.op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

/// True for a difference, which may be an index below 0: Rust's operator checks it in debug builds only.
fn is_difference(expr: &Expr) -> bool {
    matches!(expr, Expr::Binary(it) if matches!(it.op, BinOp::Sub(_) | BinOp::SubAssign(_)))
}

/// Replaces methods with calls: which of two zeros Rust's `a.max(b)` and `a.min(b)` return depends on how they are
/// compiled, and its `a.abs()` panics on integer overflow.
fn method(expr: &Expr) -> Option<Expr> {
    let Expr::MethodCall(it) = expr else { return None };
    let name = match (it.method.to_string().as_str(), it.args.len()) {
        ("max", 1) => "max_of_numbers",
        ("min", 1) => "min_of_numbers",
        ("abs", 0) => "abs",
        _ => return None,
    };
    let (span, a, args) = (it.method.span(), &it.receiver, &it.args);
    let (shadow, name) = (paths::shadow(span), format_ident!("{name}", span = span));
    let comma = (!args.is_empty()).then(|| quote!(,));
    Some(syn::parse_quote_spanned!(span=> #shadow::#name(#a #comma #args)))
}

/// The call that replaces an operator, so that a literal takes the type of the other side and integers wrap.
fn call_of_operator(expr: &Expr) -> Option<Expr> {
    match expr {
        // A negative literal stays one literal: the least value of a type has no positive literal.
        Expr::Unary(it) if matches!(&*it.expr, Expr::Lit(lit) if matches!(lit.lit, Lit::Int(_))) => None,
        Expr::Unary(it) if matches!(it.op, UnOp::Neg(_)) => {
            let (span, value) = (it.op.span(), &it.expr);
            let shadow = paths::shadow(span);
            Some(syn::parse_quote_spanned!(span=> #shadow::neg(#value)))
        }
        Expr::Binary(it) => {
            let (span, a, b) = (it.op.span(), &it.left, &it.right);
            let (name, assigns) = match it.op {
                BinOp::Add(_) => ("add", false),
                BinOp::Sub(_) => ("sub", false),
                BinOp::Mul(_) => ("mul", false),
                BinOp::Div(_) => ("div", false),
                BinOp::Rem(_) => ("rem", false),
                BinOp::Eq(_) => ("eq", false),
                BinOp::Ne(_) => ("ne", false),
                BinOp::Lt(_) => ("lt", false),
                BinOp::Le(_) => ("le", false),
                BinOp::Gt(_) => ("gt", false),
                BinOp::Ge(_) => ("ge", false),
                BinOp::AddAssign(_) => ("add_assign", true),
                BinOp::SubAssign(_) => ("sub_assign", true),
                BinOp::MulAssign(_) => ("mul_assign", true),
                BinOp::DivAssign(_) => ("div_assign", true),
                BinOp::RemAssign(_) => ("rem_assign", true),
                _ => return None,
            };
            let (shadow, name) = (paths::shadow(span), format_ident!("{name}", span = span));
            let value = paths::own("value");
            Some(if assigns {
                syn::parse_quote_spanned!(span=> { let #value = #b; #shadow::#name(&mut #a, #value) })
            } else {
                syn::parse_quote_spanned!(span=> #shadow::#name(#a, #b))
            })
        }
        _ => None,
    }
}
