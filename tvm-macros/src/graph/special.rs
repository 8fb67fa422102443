//! Special forms: calls that are not calls of a function, because they take kernels, types, scalars or blocks.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, Path, PathArguments, Stmt, Type};

use super::body::Body;
use super::constant;
use super::scalar;
use super::ty::{self, NewDims};
use crate::paths;

/// The special forms, and how each is written.
const FORMS: &[(&str, &str)] = &[
    ("call_tir", "call_tir(kernel, (x, w))"),
    ("call_tir_inplace", "call_tir_inplace(kernel, (x, w), y)"),
    ("call_packed", "call_packed(\"name\", (x, y), Tensor::<f32, n>)"),
    ("call_dps_packed", "call_dps_packed(\"name\", (x, y), Tensor::<f32, n>)"),
    ("match_cast", "match_cast(x, Tensor::<f32, n>)"),
    ("dataflow", "dataflow(|| { .. })"),
    ("shape", "shape([n, 10])"),
    ("prim", "prim(n * 2)"),
    ("function", "function(f)"),
];

/// True for the name of a special form or built-in function: a user's function of that name could not be called.
pub(super) fn is_form(name: &Ident) -> bool {
    const FUNCTIONS: [&str; 8] = [
        "constant",
        "bind",
        "call_op",
        "call_global",
        "ref_create",
        "ref_read",
        "ref_write",
        "tuple_get_item",
    ];
    FUNCTIONS.iter().any(|it| name == it) || FORMS.iter().any(|(form, _)| name == form)
}

impl Body<'_> {
    /// The tokens of the call, if it is a special form.
    pub(super) fn special(&mut self, name: &Ident, call: &ExprCall) -> Option<TokenStream> {
        let graph = paths::graph(name.span());
        let args: Vec<&Expr> = call.args.iter().collect();
        let text = name.to_string();
        Some(match (text.as_str(), &args[..]) {
            ("call_tir", [Expr::Path(kernel), inputs, ret @ ..]) if self.is_type(ret) => {
                let kernel = &kernel.path;
                self.check_call_tir(kernel, inputs);
                let (inputs, ret) = (self.inputs(inputs), self.optional_type(ret));
                quote_spanned!(name.span()=> #graph::#name::<#kernel>(#inputs, #ret))
            }
            ("call_tir_inplace", [Expr::Path(kernel), inputs, initial, ret @ ..]) if self.is_type(ret) => {
                let kernel = &kernel.path;
                self.check_call_tir(kernel, inputs);
                let (inputs, initial) = (self.inputs(inputs), self.inputs(initial));
                let ret = self.optional_type(ret);
                quote_spanned!(name.span()=> #graph::#name::<#kernel>(#inputs, #initial, #ret))
            }
            ("call_packed", [func, inputs, ret @ ..]) if self.is_type(ret) => {
                let (func, inputs, ret) = (self.expr(func), self.inputs(inputs), self.optional_type(ret));
                quote_spanned!(name.span()=> #graph::#name(#func, #inputs, #ret))
            }
            ("call_dps_packed", [func, inputs, ret]) => {
                let (func, inputs, ret) = (self.expr(func), self.inputs(inputs), self.type_arg(ret));
                quote_spanned!(name.span()=> #graph::#name(#func, #inputs, #ret))
            }
            ("match_cast", [value, ty]) => {
                let value = self.expr(value);
                self.scoped(|this| {
                    let (dims, ty) = (this.new_dims(&Expr::Call(call.clone())), this.type_arg(ty));
                    quote_spanned!(name.span()=> { #dims #graph::#name(#value, #ty) })
                })
            }
            ("dataflow", [Expr::Closure(body)]) if body.inputs.is_empty() => {
                let body = self.expr(&body.body);
                quote_spanned!(name.span()=> #graph::#name(|| #graph::item(#body).into_value()))
            }
            ("shape", [Expr::Array(values)]) => {
                let values: Vec<TokenStream> = values.elems.iter().map(|it| self.scalar(it)).collect();
                quote_spanned!(name.span()=> #graph::#name(::std::vec::Vec::from([#(#values),*])))
            }
            ("prim", [value]) => {
                let value = self.scalar(value);
                quote_spanned!(name.span()=> #graph::#name(#value))
            }
            ("function", [Expr::Path(func)]) => {
                quote_spanned!(name.span()=> #graph::#name::<#func>())
            }
            (text, _) => {
                let (_, form) = FORMS.iter().find(|(it, _)| *it == text)?;
                self.errors.push(call, format!("wrong arguments of `{text}`"), &format!("write {form}"));
                quote!(#graph::GraphValue::poison())
            }
        })
    }

    /// `constant::<f32, 2>([1.0, 2.0])`
    pub(super) fn constant(&mut self, path: &Path, call: &ExprCall) -> Option<TokenStream> {
        let [segment] = &path.segments.iter().collect::<Vec<_>>()[..] else { return None };
        let PathArguments::AngleBracketed(args) = &segment.arguments else { return None };
        (segment.ident == "constant" && !self.names.contains(&segment.ident))
            .then(|| constant::tokens(args, call, self.errors))
    }

    /// The arguments of a kernel or packed function: a list, whose numbers take the expected types.
    fn inputs(&mut self, inputs: &Expr) -> TokenStream {
        match inputs {
            Expr::Tuple(it) => {
                let graph = paths::graph(it.span());
                let items = self.items(it.elems.iter());
                quote!(#graph::Item::List(::std::vec::Vec::from([#(#items),*])))
            }
            other => self.expr(other),
        }
    }

    fn scalar(&mut self, expr: &Expr) -> TokenStream {
        scalar::tokens(expr, &mut self.names, NewDims::Refuse, self.errors)
    }

    /// A type, whose dimensions must be in scope.
    pub(super) fn ty(&mut self, ty: &Type) -> TokenStream {
        ty::tokens(ty, &mut self.names, NewDims::Refuse, self.errors)
    }

    /// True for one type or none.
    fn is_type(&self, ret: &[&Expr]) -> bool {
        match ret {
            [] => true,
            [Expr::Path(it)] => !it.path.get_ident().is_some_and(|name| self.names.contains(name)),
            [ret] => type_of(ret).is_some(),
            _ => false,
        }
    }

    fn optional_type(&mut self, ret: &[&Expr]) -> TokenStream {
        match ret {
            [ret] => {
                let ty = self.type_arg(ret);
                quote!(::std::option::Option::Some(#ty))
            }
            _ => quote!(::std::option::Option::None),
        }
    }

    /// A type among the arguments.
    fn type_arg(&mut self, expr: &Expr) -> TokenStream {
        match type_of(expr) {
            Some(ty) => self.ty(&ty),
            None => self.refuse(expr, "this type is", "write Tensor::<f32, n, 10>"),
        }
    }

    /// The arguments of the type in `Type::<A>::Name`, if they are written.
    pub(super) fn constructor_args(&mut self, path: &Path) -> TokenStream {
        let args = &path.segments[path.segments.len() - 2].arguments;
        match ty::type_args(args, &mut self.names, NewDims::Refuse, self.errors) {
            Some(types) => quote!(::std::option::Option::Some(::std::vec::Vec::from([#(#types),*]))),
            None => quote!(::std::option::Option::None),
        }
    }

    /// `let m = ..;` for the dimensions that `match_cast(x, Tensor::<f32, m>)` binds, directly or in a dataflow block. If
    /// the `let`s stand before the statement, the dimensions are visible after it; otherwise in the call alone.
    pub(super) fn new_dims(&mut self, expr: &Expr) -> TokenStream {
        let Expr::Call(call) = expr else { return TokenStream::new() };
        let Expr::Path(callee) = &*call.func else { return TokenStream::new() };
        let args: Vec<&Expr> = call.args.iter().collect();
        match &args[..] {
            [_, ty] if callee.path.is_ident("match_cast") => {
                let graph = paths::graph(call.span());
                let new = self.declare_dims(ty).into_iter().map(|dim| {
                    let text = dim.to_string();
                    quote!(let #dim = #graph::dim(#text, ::core::option::Option::None);)
                });
                new.collect()
            }
            [Expr::Closure(body)] if callee.path.is_ident("dataflow") => match &*body.body {
                Expr::Block(it) => {
                    let inits = it.block.stmts.iter().filter_map(|stmt| match stmt {
                        Stmt::Local(local) => local.init.as_ref(),
                        _ => None,
                    });
                    inits.map(|init| self.new_dims(&init.expr)).collect()
                }
                _ => TokenStream::new(),
            },
            _ => TokenStream::new(),
        }
    }

    /// Declares the dimensions of a type that are new.
    fn declare_dims(&mut self, ty: &Expr) -> Vec<Ident> {
        let known = self.names.names.len();
        if let Some(ty) = type_of(ty) {
            ty::tokens(&ty, &mut self.names, NewDims::Collect, &mut crate::error::Errors::default());
        }
        self.names.names[known..].to_vec()
    }
}

/// A type that is written as an expression: `Tensor::<f32, n>`, `f32`, a tuple of types.
fn type_of(expr: &Expr) -> Option<Type> {
    match expr {
        Expr::Path(it) if it.qself.is_none() => {
            Some(Type::Path(syn::TypePath { qself: None, path: it.path.clone() }))
        }
        Expr::Paren(it) => type_of(&it.expr),
        Expr::Tuple(it) => {
            let elems = it.elems.iter().map(type_of).collect::<Option<_>>()?;
            Some(Type::Tuple(syn::TypeTuple { paren_token: it.paren_token, elems }))
        }
        _ => None,
    }
}
