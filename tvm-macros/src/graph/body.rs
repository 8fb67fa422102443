//! Rewrites the user's body where its meaning in Rust is not what a graph needs.

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Block, Expr, ExprCall, ExprClosure, ExprIf, ExprMatch, Lit, Pat, Path, Stmt, UnOp};

use super::ty::Dims;
use super::{Surface, local, pattern};
use crate::error::Errors;
use crate::{dims, operators, paths};

/// Rewrites one body.
pub(super) struct Body<'a> {
    surface: Surface,
    pub(super) errors: &'a mut Errors,
    /// Values and dimensions in scope, and type parameters.
    pub(super) names: Dims,
    /// Name of the function whose body this is, if it has one.
    own: Option<Ident>,
    /// Names that are called, each of an operator unless the user has a function of that name.
    pub(super) operators: Vec<Ident>,
    /// Assertions that check calls.
    pub(super) checks: TokenStream,
}

impl<'a> Body<'a> {
    pub(super) fn new(surface: Surface, own: Option<Ident>, errors: &'a mut Errors) -> Body<'a> {
        Body {
            surface,
            errors,
            names: Dims::default(),
            own,
            operators: Vec::new(),
            checks: TokenStream::new(),
        }
    }

    /// Declares `name` as a value or dimension from here on.
    pub(super) fn declare(&mut self, name: &Ident) {
        self.names.names.push(name.clone());
    }

    pub(super) fn is_local(&self, name: &Ident) -> bool {
        self.names.contains(name)
    }

    /// Runs `f`; the names that it declares are in scope only inside.
    pub(super) fn scoped<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let depth = self.names.names.len();
        let res = f(self);
        self.names.names.truncate(depth);
        res
    }

    pub(super) fn refuse(&mut self, tokens: &impl ToTokens, what: &str, help: &str) -> TokenStream {
        self.errors.push(tokens, format!("{what} not supported in a graph function"), help);
        let graph = paths::graph(Span::call_site());
        quote!(#graph::GraphValue::poison())
    }

    /// The tokens of `expr`, an `impl IntoItem`.
    pub(super) fn expr(&mut self, expr: &Expr) -> TokenStream {
        let graph = paths::graph(expr.span());
        match expr {
            Expr::Lit(it) => literal(&it.lit),
            Expr::Path(it) => self.path(&it.path),
            Expr::Paren(it) => self.expr(&it.expr),
            Expr::Group(it) => self.expr(&it.expr),
            Expr::Reference(it) => self.expr(&it.expr),
            Expr::Call(it) => self.call(it),
            Expr::MethodCall(it) => {
                let receiver = self.expr(&it.receiver);
                let (method, args) = (&it.method, self.args(it.args.iter(), it.method.span()));
                self.check_operator(method, Some(&it.receiver), it.args.iter());
                quote_spanned!(it.method.span()=> (#receiver).#method(#args))
            }
            Expr::Binary(it) => {
                let (a, b) = (self.expr(&it.left), self.expr(&it.right));
                let compare = |name: &str| {
                    let name = Ident::new(name, it.op.span());
                    quote_spanned!(it.op.span()=> #graph::compare::#name(#a, #b))
                };
                match it.op {
                    BinOp::Eq(_) => compare("eq"),
                    BinOp::Ne(_) => compare("ne"),
                    BinOp::Lt(_) => compare("lt"),
                    BinOp::Le(_) => compare("le"),
                    BinOp::Gt(_) => compare("gt"),
                    BinOp::Ge(_) => compare("ge"),
                    BinOp::And(_) => quote_spanned!(it.op.span()=> (#a & #b)),
                    BinOp::Or(_) => quote_spanned!(it.op.span()=> (#a | #b)),
                    BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_) => {
                        let op = &it.op;
                        quote_spanned!(it.op.span()=> (#a #op #b))
                    }
                    BinOp::BitAnd(_) | BinOp::BitOr(_) | BinOp::BitXor(_) => {
                        let op = &it.op;
                        quote_spanned!(it.op.span()=> (#a #op #b))
                    }
                    _ => self.refuse(expr, "this operator is", "assignments: bind a new name with `let`"),
                }
            }
            Expr::Unary(it) => {
                let value = self.expr(&it.expr);
                match it.op {
                    UnOp::Neg(_) => quote_spanned!(it.span()=> (-#value)),
                    UnOp::Not(_) => quote_spanned!(it.span()=> (!#value)),
                    // `*tail` of a boxed field is the field.
                    _ => value,
                }
            }
            Expr::Tuple(it) => {
                let fields = self.items(it.elems.iter());
                quote!(#graph::tuple(::std::vec::Vec::from([#(#fields),*])))
            }
            Expr::Array(it) => {
                let items = self.items(it.elems.iter());
                quote!(#graph::Item::List(::std::vec::Vec::from([#(#items),*])))
            }
            Expr::Field(it) => {
                let value = self.expr(&it.base);
                match &it.member {
                    syn::Member::Unnamed(index) => quote_spanned!(it.span()=> (#value).field(#index)),
                    syn::Member::Named(name) => {
                        self.refuse(name, "a named field is", "tuples have fields .0, .1, ..")
                    }
                }
            }
            Expr::Block(it) => self.block(&it.block),
            Expr::If(it) => self.branch(it),
            Expr::Match(it) => self.match_(it),
            Expr::Closure(it) => self.closure(it),
            Expr::ForLoop(it) => {
                self.refuse(&it.for_token, "a loop is", "use a #[prim_func], or recursion in relay")
            }
            Expr::While(it) => {
                self.refuse(&it.while_token, "a loop is", "use a #[prim_func], or recursion in relay")
            }
            Expr::Loop(it) => {
                self.refuse(&it.loop_token, "a loop is", "use a #[prim_func], or recursion in relay")
            }
            Expr::Index(_) => self.refuse(expr, "indexing is", "use take, strided_slice or a #[prim_func]"),
            Expr::Assign(_) => self.refuse(expr, "an assignment is", "bind a new name with `let`"),
            Expr::Return(_) => self.refuse(expr, "`return` is", "the last expression is the result"),
            Expr::Cast(_) => self.refuse(expr, "`as` is", "use astype(x, f16)"),
            Expr::Macro(_) => {
                self.refuse(expr, "a macro call is", "compute constants outside of the graph function")
            }
            _ => self.refuse(expr, "this expression is", "use operators, calls, let, if, match and closures"),
        }
    }

    pub(super) fn items<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>) -> Vec<TokenStream> {
        exprs
            .map(|expr| {
                let graph = paths::graph(expr.span());
                let value = self.expr(expr);
                quote_spanned!(expr.span()=> #graph::item(#value))
            })
            .collect()
    }

    fn path(&mut self, path: &Path) -> TokenStream {
        let graph = paths::graph(path.span());
        if let Some(name) = path.get_ident() {
            if self.is_local(name) {
                return quote_spanned!(name.span()=> #name.clone());
            }
            return dims::dtype(name).unwrap_or_else(|| quote!(#name));
        }
        match constructor(path) {
            Some((adt, name)) => {
                let (name, ret) = (constructor_name(path, &name, None), self.constructor_args(path));
                quote_spanned!(path.span()=> #graph::construct_unit::<#adt>(#name, #ret))
            }
            None => quote!(#path),
        }
    }

    fn call(&mut self, call: &ExprCall) -> TokenStream {
        let graph = paths::graph(call.span());
        let Expr::Path(callee) = &*call.func else {
            let (callee, args) = (self.expr(&call.func), self.args(call.args.iter(), call.span()));
            return quote_spanned!(call.span()=> (#callee).call(#args));
        };
        let path = &callee.path;
        if let Some(tokens) = self.constant(path, call) {
            return tokens;
        }
        if let Some(name) = path.get_ident() {
            if self.is_local(name) {
                let args = self.args(call.args.iter(), name.span());
                return quote_spanned!(name.span()=> #name.clone().call(#args));
            }
            if self.own.as_ref() == Some(name) {
                // Inside the function, its name stands for it even if an operator has the same name.
                let callee = quote_spanned!(name.span()=> #graph::call_def::<#name>);
                self.check_named(&name.to_string(), name, &quote!(#callee(args)), call.args.iter());
                let args = self.args(call.args.iter(), name.span());
                return quote_spanned!(name.span()=> #graph::result(#callee(#args)));
            }
            if let Some(tokens) = self.special(name, call) {
                return tokens;
            }
            if operators::is_operator(name) {
                let args = self.args(call.args.iter(), name.span());
                // Only operators have named arguments: such a call is the operator's, whatever else has the name.
                if call.args.iter().any(|arg| matches!(arg, Expr::Assign(_))) {
                    self.check_operator(name, None, call.args.iter());
                    return quote_spanned!(name.span()=> #graph::ops::#name(#args));
                }
                if !self.operators.contains(name) {
                    self.operators.push(name.clone());
                }
                let named = operators::call(name, &quote!(args));
                self.check_named(&name.to_string(), name, &named, call.args.iter());
                let call = operators::call(name, &args);
                return quote_spanned!(name.span()=> #graph::result(#call));
            }
        }
        let args = self.args(call.args.iter(), path.span());
        match constructor(path) {
            Some((adt, name)) => {
                let (name, ret) =
                    (constructor_name(path, &name, Some(call.args.len())), self.constructor_args(path));
                quote_spanned!(path.span()=> #graph::construct::<#adt>(#name, #ret, #args))
            }
            None => {
                let name = path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default();
                let callee = quote_spanned!(path.span()=> #path);
                self.check_named(&name, path, &quote!(#callee(args)), call.args.iter());
                quote_spanned!(path.span()=> #graph::result(#callee(#args)))
            }
        }
    }

    /// The arguments of a call; `name = value` is a named one.
    fn args<'e>(&mut self, args: impl Iterator<Item = &'e Expr>, span: Span) -> TokenStream {
        let graph = paths::graph(span);
        let (mut items, mut named) = (Vec::new(), Vec::new());
        for arg in args {
            match arg {
                Expr::Assign(it) => match &*it.left {
                    Expr::Path(path) if path.path.get_ident().is_some() => {
                        let name = path.path.require_ident().map(ToString::to_string).unwrap_or_default();
                        let value = self.expr(&it.right);
                        named.push(quote!((#name, #graph::item(#value))));
                    }
                    left => self.errors.push(left, "the name of an attribute is expected", "write axis = 1"),
                },
                _ => {
                    let value = self.expr(arg);
                    items.push(quote_spanned!(arg.span()=> #graph::item(#value)));
                }
            }
        }
        quote!(#graph::Args { items: ::std::vec::Vec::from([#(#items),*]), named: ::std::vec::Vec::from([#(#named),*]) })
    }

    /// A closure that returns the value of `expr`, for an arm.
    fn arm(&mut self, expr: &Expr) -> TokenStream {
        let graph = paths::graph(expr.span());
        let value = self.scoped(|this| this.expr(expr));
        quote!(|| #graph::item(#value).into_value())
    }

    fn branch(&mut self, it: &ExprIf) -> TokenStream {
        let graph = paths::graph(it.if_token.span());
        if matches!(&*it.cond, Expr::Let(_)) {
            return self.refuse(&it.cond, "`if let` is", "use match");
        }
        let Some((_, otherwise)) = &it.else_branch else {
            return self.refuse(
                &it.if_token,
                "an `if` without `else` is",
                "add an `else`: both arms give the value of the branch",
            );
        };
        let cond = self.expr(&it.cond);
        let then =
            Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block: it.then_branch.clone() });
        let (then, otherwise) = (self.arm(&then), self.arm(otherwise));
        quote_spanned!(it.if_token.span()=> #graph::if_(#cond, #then, #otherwise))
    }

    fn match_(&mut self, it: &ExprMatch) -> TokenStream {
        let graph = paths::graph(it.match_token.span());
        if self.surface == Surface::Relax && it.arms.iter().any(|arm| !matches!(arm.pat, Pat::Tuple(_))) {
            return self.refuse(
                &it.match_token,
                "a match on constructors is",
                "use relay; relax destructures tuples",
            );
        }
        let (value, p) = (self.expr(&it.expr), paths::own("p"));
        let mut arms = Vec::new();
        for arm in &it.arms {
            if let Some((token, _)) = &arm.guard {
                self.errors.push(
                    token,
                    "a guard is not supported in a graph function",
                    "branch with `if` in the arm",
                );
            }
            arms.push(self.scoped(|this| {
                let (pattern, names) = pattern::tokens(&arm.pat, this.errors);
                names.iter().for_each(|name| this.declare(name));
                let body = this.expr(&arm.body);
                let bind = names.iter().enumerate().map(|(i, name)| quote!(let #name = #p[#i].clone();));
                quote! {
                    (#pattern, ::std::boxed::Box::new(|#p: &[#graph::GraphValue]| {
                        #(#bind)*
                        #graph::item(#body).into_value()
                    }) as ::std::boxed::Box<dyn FnOnce(&[#graph::GraphValue]) -> #graph::GraphValue + '_>)
                }
            }));
        }
        let exhaustive = pattern::exhaustive(it);
        quote_spanned!(it.match_token.span()=> { #exhaustive #graph::match_(#value, ::std::vec::Vec::from([#(#arms),*])) })
    }

    fn closure(&mut self, it: &ExprClosure) -> TokenStream {
        if let Some(params) = local::params(it) {
            return self.local(it, &params, &Ident::new("closure", it.or1_token.span()), &[]);
        }
        let (graph, p) = (paths::graph(it.or1_token.span()), paths::own("p"));
        let mut names = Vec::new();
        for input in &it.inputs {
            match input {
                Pat::Ident(name) => names.push(name.ident.clone()),
                Pat::Type(typed) => match &*typed.pat {
                    Pat::Ident(name) => names.push(name.ident.clone()),
                    other => self.errors.push(other, "a parameter of a closure is a name", ""),
                },
                other => self.errors.push(other, "a parameter of a closure is a name", ""),
            }
        }
        let captured: Vec<Ident> = self
            .names
            .names
            .iter()
            .filter(|name| mentions(it.body.to_token_stream(), name))
            .cloned()
            .collect();
        let body = self.scoped(|this| {
            names.iter().for_each(|name| this.declare(name));
            this.expr(&it.body)
        });
        let bind = names.iter().enumerate().map(|(i, name)| quote!(let #name = #p[#i].clone();));
        let arity = names.len();
        let clones = captured.iter().map(|name| quote!(let #name = #name.clone();));
        quote_spanned! {it.or1_token.span()=>
            { #(#clones)* #graph::closure(#arity, move |#p: &[#graph::GraphValue]| { #(#bind)* #graph::item(#body).into_value() }) }
        }
    }

    /// `{ let ..; value }`
    fn block(&mut self, block: &Block) -> TokenStream {
        self.scoped(|this| {
            let last = block.stmts.len().saturating_sub(1);
            let stmts = block.stmts.iter().enumerate().map(|(i, stmt)| this.stmt(stmt, i == last));
            let stmts: Vec<TokenStream> = stmts.collect();
            let unit = match block.stmts.last() {
                Some(Stmt::Expr(_, None)) => None,
                _ => Some(quote!(())),
            };
            quote!({ #(#stmts)* #unit })
        })
    }

    fn stmt(&mut self, stmt: &Stmt, last: bool) -> TokenStream {
        match stmt {
            Stmt::Expr(expr, None) if last => self.expr(expr),
            Stmt::Expr(expr, _) => {
                let value = self.expr(expr);
                quote!(let _ = #value;)
            }
            Stmt::Local(local) => {
                let Some(init) = &local.init else {
                    self.errors.push(local, "a `let` needs a value", "");
                    return TokenStream::new();
                };
                if let (Pat::Ident(name), Some((func, params))) = (&local.pat, local::function(&init.expr)) {
                    let value = self.local(func, &params, &name.ident, &local.attrs);
                    self.declare(&name.ident);
                    let name = &name.ident;
                    return quote!(let #name = #value;);
                }
                if let Some(attr) = local.attrs.first() {
                    let help = "attributes stand on local functions: `let f = |x: Tensor<f32>| -> Tensor<f32> { .. };`";
                    self.errors.push(attr, "an attribute is not supported here", help);
                }
                let dims = self.new_dims(&init.expr);
                let value = self.expr(&init.expr);
                let graph = paths::graph(local.span());
                let binding = match &local.pat {
                    Pat::Ident(name) if name.mutability.is_none() => {
                        let (ident, text) = (&name.ident, name.ident.to_string());
                        self.declare(ident);
                        // Another name for a value that has one already.
                        if matches!(&*init.expr, Expr::Path(_)) {
                            quote!(let #ident = #value;)
                        } else {
                            quote!(let #ident = #graph::named(#text, #value);)
                        }
                    }
                    Pat::Type(typed) if matches!(&*typed.pat, Pat::Ident(it) if it.mutability.is_none()) => {
                        let Pat::Ident(name) = &*typed.pat else { return TokenStream::new() };
                        let (ident, text) = (&name.ident, name.ident.to_string());
                        let ty = self.ty(&typed.ty);
                        self.declare(ident);
                        quote_spanned!(ident.span()=> let #ident = #graph::typed(#text, #ty, #value);)
                    }
                    Pat::Tuple(tuple) => {
                        let mut names = Vec::new();
                        for field in &tuple.elems {
                            match field {
                                Pat::Ident(name) => {
                                    self.declare(&name.ident);
                                    names.push(name.ident.to_token_stream());
                                }
                                Pat::Wild(_) => names.push(quote!(_)),
                                other => self.errors.push(
                                    other,
                                    "a tuple is taken apart into names",
                                    "write let (a, b) = ..",
                                ),
                            }
                        }
                        quote_spanned!(tuple.span()=> let [#(#names),*] = #graph::untuple(#value);)
                    }
                    Pat::Wild(_) => quote!(let _ = #value;),
                    other => {
                        let help = "write `let h = ..;`; values never change";
                        self.errors.push(other, "this `let` is not supported in a graph function", help);
                        TokenStream::new()
                    }
                };
                quote!(#dims #binding)
            }
            Stmt::Item(item) => {
                self.refuse(item, "an item is", "define it outside of the graph function");
                TokenStream::new()
            }
            Stmt::Macro(it) => {
                self.refuse(&it.mac, "a macro call is", "compute constants outside of the graph function");
                TokenStream::new()
            }
        }
    }
}

/// A literal, with a suffix so that operators find its type.
fn literal(lit: &Lit) -> TokenStream {
    let suffixed = |mut literal: Literal, span: Span| {
        literal.set_span(span);
        TokenTree::from(literal).into()
    };
    match lit {
        Lit::Int(it) if it.suffix().is_empty() => match it.base10_parse() {
            Ok(value) => suffixed(Literal::i64_suffixed(value), it.span()),
            Err(_) => quote!(#lit),
        },
        Lit::Float(it) if it.suffix().is_empty() => match it.base10_parse() {
            Ok(value) => suffixed(Literal::f64_suffixed(value), it.span()),
            Err(_) => quote!(#lit),
        },
        _ => quote!(#lit),
    }
}

/// Type and name of a constructor `Type::Name`; names all in capitals are constants, unless they are one letter.
pub(super) fn constructor(path: &Path) -> Option<(TokenStream, Ident)> {
    let name = &path.segments.last()?.ident;
    let text = name.to_string();
    let is_type = |text: &str| {
        text.starts_with(char::is_uppercase) && (text.len() == 1 || text.contains(char::is_lowercase))
    };
    if path.segments.len() < 2 || !is_type(&text) {
        return None;
    }
    let ty = path.segments.iter().take(path.segments.len() - 1).map(|segment| &segment.ident);
    is_type(&path.segments[path.segments.len() - 2].ident.to_string())
        .then(|| (quote!(#(#ty)::*), name.clone()))
}

/// The name of a constructor as a string, in a block in which rustc checks that the constructor exists and takes that many
/// fields: the enum that `#[relay::adt]` emits has fields of unit type.
fn constructor_name(path: &Path, name: &Ident, fields: Option<usize>) -> TokenStream {
    let text = name.to_string();
    // The enum has no type parameters.
    let mut path = path.clone();
    path.segments.iter_mut().for_each(|segment| segment.arguments = syn::PathArguments::None);
    let fields = fields.map(|count| {
        let units = std::iter::repeat_n(quote!(()), count);
        quote_spanned!(name.span()=> (#(#units),*))
    });
    quote!({ let _ = #path #fields; #text })
}

fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(it) => it == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}
