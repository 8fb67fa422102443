//! Local functions: closures whose parameters and result all have types.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprClosure, Pat, ReturnType};

use super::body::Body;
use super::function::{GraphParam, declarations};
use super::ty::{self, NewDims};
use crate::{options, paths};

/// The parameters, when the closure is a local function.
pub(super) fn params(it: &ExprClosure) -> Option<Vec<GraphParam>> {
    if matches!(it.output, ReturnType::Default) {
        return None;
    }
    let param = |input: &Pat| match input {
        Pat::Type(typed) => match &*typed.pat {
            Pat::Ident(name) => Some(GraphParam { name: name.ident.clone(), ty: (*typed.ty).clone() }),
            _ => None,
        },
        _ => None,
    };
    it.inputs.iter().map(param).collect()
}

/// The closure and its parameters, when `expr` is a local function.
pub(super) fn function(expr: &Expr) -> Option<(&ExprClosure, Vec<GraphParam>)> {
    let Expr::Closure(it) = expr else { return None };
    Some((it, params(it)?))
}

impl Body<'_> {
    /// The local function `name`, which may call itself.
    pub(super) fn local(
        &mut self,
        it: &ExprClosure,
        params: &[GraphParam],
        name: &Ident,
        attrs: &[Attribute],
    ) -> TokenStream {
        let (graph, d) = (paths::graph(it.or1_token.span()), paths::own("d"));
        let mut options = options::Options::default();
        for attr in attrs {
            let (path, known) = (attr.path(), ["impure", "dims", "attrs"]);
            let is_func = path.segments.last().is_some_and(|segment| segment.ident == "func");
            match &attr.meta {
                syn::Meta::List(list) if is_func => {
                    let own = options::options(list.tokens.clone(), &known, self.errors);
                    options.impure |= own.impure;
                    options.attrs.extend(own.attrs);
                    options.bounds = own.bounds;
                }
                _ => self.errors.push(
                    attr,
                    "an attribute is not supported here",
                    "write #[relax::func(impure)]",
                ),
            }
        }
        let ReturnType::Type(_, ret) = &it.output else { return TokenStream::new() };
        let outer = self.names.clone();
        let (declare, dims) = declarations(params, &options.bounds, outer, self.errors);
        let new: Vec<Ident> = dims.names[self.names.names.len()..].to_vec();
        let text = name.to_string();
        let body = self.scoped(|this| {
            new.iter().for_each(|dim| this.declare(dim));
            let ret = ty::tokens(ret, &mut this.names, NewDims::Refuse, this.errors);
            params.iter().for_each(|param| this.declare(&param.name));
            this.declare(name);
            let body = this.expr(&it.body);
            let set = options.set();
            let hidden = params.iter().any(|param| param.name == *name).then(|| quote!(_));
            let own = hidden.unwrap_or_else(|| quote!(#name));
            let begin = quote_spanned!(name.span()=> let #own = #d.begin_local(#ret););
            quote!(#set #declare #begin #graph::item(#body).into_value())
        });
        quote_spanned! {it.or1_token.span()=>
            #graph::local(#text, |#d: &mut #graph::Definition| -> #graph::GraphValue { #body })
        }
    }
}
