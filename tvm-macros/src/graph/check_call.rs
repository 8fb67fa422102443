//! Checks of calls in a graph function that rustc evaluates: `const` assertions over `script::graph::misuse` and
//! `wrong_call`, which know the operators and what the names in scope stand for.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, Lit, Path, UnOp};

use super::body::Body;
use crate::{dims, paths};

impl Body<'_> {
    /// Checks the call `name(args..)`; `call` is its expansion, with the arguments in a variable `args`.
    pub(super) fn check_named<'e>(
        &mut self,
        name: &str,
        place: &impl ToTokens,
        call: &TokenStream,
        args: impl Iterator<Item = &'e Expr>,
    ) {
        let graph = paths::graph(Span::call_site());
        let items = self.written(args);
        let wrong = quote!(#graph::wrong_call(#name, &|args: #graph::Args| #call, &[#(#items),*]));
        self.assert_none(place, &wrong);
    }

    /// Checks a call of the operator `name`; `receiver` is the first argument of a method.
    pub(super) fn check_operator<'e>(
        &mut self,
        name: &Ident,
        receiver: Option<&'e Expr>,
        args: impl Iterator<Item = &'e Expr>,
    ) {
        let (mut items, mut named) = (receiver.into_iter().collect::<Vec<_>>(), Vec::new());
        for arg in args {
            match arg {
                Expr::Assign(it) => {
                    let Expr::Path(path) = &*it.left else { return };
                    let Some(attr) = path.path.get_ident() else { return };
                    let (attr, value) = (attr.to_string(), self.kind(&it.right));
                    named.push(quote!((#attr, #value)));
                }
                _ => items.push(arg),
            }
        }
        let (graph, text) = (paths::graph(Span::call_site()), name.to_string());
        let items = self.written(items.into_iter());
        self.assert_none(name, &quote!(#graph::misuse(#text, &[#(#items),*], &[#(#named),*])));
    }

    /// Checks `call_tir(kernel, inputs)`.
    pub(super) fn check_call_tir(&mut self, kernel: &Path, inputs: &Expr) {
        let Expr::Tuple(tuple) = inputs else { return };
        let (graph, count) = (paths::graph(Span::call_site()), tuple.elems.len());
        self.assert_none(tuple, &quote!(#graph::wrong_call_tir::<#kernel>(#count)));
    }

    fn assert_none(&mut self, place: &impl ToTokens, wrong: &TokenStream) {
        let graph = paths::graph(Span::call_site());
        let span = place.to_token_stream().into_iter().next().map_or_else(Span::call_site, |it| it.span());
        self.checks.extend(quote_spanned! {span=>
            const _: () = {
                let wrong = #wrong;
                ::core::assert!(wrong.is_none(), "{}", #graph::Text::of(&wrong))
            };
        });
    }

    fn written<'e>(&self, args: impl Iterator<Item = &'e Expr>) -> Vec<TokenStream> {
        args.map(|arg| self.kind(arg)).collect()
    }

    /// The `Written` of an expression.
    fn kind(&self, expr: &Expr) -> TokenStream {
        let graph = paths::graph(Span::call_site());
        let name = match expr {
            Expr::Lit(it) => match it.lit {
                Lit::Int(_) => "Int",
                Lit::Float(_) => "Float",
                Lit::Bool(_) => "Bool",
                Lit::Str(_) => "Str",
                _ => "Unknown",
            },
            Expr::Unary(it) if matches!(it.op, UnOp::Neg(_)) && matches!(&*it.expr, Expr::Lit(_)) => {
                return self.kind(&it.expr);
            }
            Expr::Paren(it) => return self.kind(&it.expr),
            Expr::Group(it) => return self.kind(&it.expr),
            Expr::Array(it) => {
                let items = self.written(it.elems.iter());
                return quote!(#graph::Written::List(&[#(#items),*]));
            }
            Expr::Path(it) => match it.path.get_ident() {
                Some(name) if !self.is_local(name) && dims::dtype(name).is_some() => "DType",
                _ => "Unknown",
            },
            _ => "Unknown",
        };
        let name = Ident::new(name, Span::call_site());
        quote!(#graph::Written::#name)
    }
}
