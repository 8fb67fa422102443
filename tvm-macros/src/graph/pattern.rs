//! Patterns of matches.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ExprMatch, Pat};

use super::body::constructor;
use crate::error::Errors;
use crate::paths;

/// The tokens of a `graph::Pat` and the names it binds, from left to right.
pub(super) fn tokens(pat: &Pat, errors: &mut Errors) -> (TokenStream, Vec<Ident>) {
    let mut names = Vec::new();
    let tokens = walk(pat, &mut names, errors);
    (tokens, names)
}

fn walk(pat: &Pat, names: &mut Vec<Ident>, errors: &mut Errors) -> TokenStream {
    let graph = paths::graph(pat.span());
    match pat {
        Pat::Wild(_) => quote!(#graph::Pat::Wild),
        Pat::Ident(it) if it.subpat.is_none() && it.by_ref.is_none() && it.mutability.is_none() => {
            names.push(it.ident.clone());
            let text = it.ident.to_string();
            quote!(#graph::Pat::Bind(#text))
        }
        Pat::Paren(it) => walk(&it.pat, names, errors),
        Pat::Tuple(it) => {
            let fields: Vec<TokenStream> = it.elems.iter().map(|field| walk(field, names, errors)).collect();
            quote!(#graph::Pat::Tuple(::std::vec::Vec::from([#(#fields),*])))
        }
        Pat::TupleStruct(it) => match constructor(&it.path) {
            Some((adt, name)) => {
                let fields: Vec<TokenStream> =
                    it.elems.iter().map(|field| walk(field, names, errors)).collect();
                let text = name.to_string();
                quote!(#graph::Pat::Constructor(<#adt as #graph::AdtDef>::NAME, #text, ::std::vec::Vec::from([#(#fields),*])))
            }
            None => unsupported(pat, errors),
        },
        Pat::Path(it) => match constructor(&it.path) {
            Some((adt, name)) => {
                let text = name.to_string();
                quote!(#graph::Pat::Constructor(<#adt as #graph::AdtDef>::NAME, #text, ::std::vec::Vec::from([])))
            }
            None => unsupported(pat, errors),
        },
        _ => unsupported(pat, errors),
    }
}

fn unsupported(pat: &Pat, errors: &mut Errors) -> TokenStream {
    let help = "patterns are Type::Name(a, b), tuples, names and _";
    errors.push(pat, "this pattern is not supported in a graph function", help);
    let graph = paths::graph(pat.span());
    quote!(#graph::Pat::Wild)
}

/// A Rust match of the same patterns, so that rustc reports which patterns are missing. The enum that `#[relay::adt]`
/// emits has the same constructors.
pub(super) fn exhaustive(it: &ExprMatch) -> TokenStream {
    let adt = it.arms.iter().find_map(|arm| match &arm.pat {
        Pat::TupleStruct(it) => constructor(&it.path),
        Pat::Path(it) => constructor(&it.path),
        _ => None,
    });
    let Some((adt, _)) = adt else { return TokenStream::new() };
    let shallow: Option<Vec<TokenStream>> = it.arms.iter().map(|arm| flatten(&arm.pat)).collect();
    let Some(pats) = shallow else { return TokenStream::new() };
    // rustc suggests a further arm after the last one.
    let arms = pats.iter().zip(&it.arms).map(|(pat, arm)| quote_spanned!(arm.body.span()=> #pat => {}));
    let value = Ident::new("__value", Span::call_site().located_at(it.expr.span()));
    quote! {
        #[allow(unused, reason = "asks rustc whether every constructor is there")]
        fn __exhaustive(#value: #adt) {
            match #value { #(#arms)* }
        }
    }
}

/// The pattern with its fields as wildcards; `None` when a field is neither a name nor a wildcard.
fn flatten(pat: &Pat) -> Option<TokenStream> {
    let plain =
        |pat: &Pat| matches!(pat, Pat::Wild(_)) || matches!(pat, Pat::Ident(it) if it.subpat.is_none());
    match pat {
        Pat::TupleStruct(it) if it.elems.iter().all(plain) => {
            let path = &it.path;
            Some(quote!(#path(..)))
        }
        Pat::Path(_) | Pat::Wild(_) => Some(quote!(#pat)),
        Pat::Ident(_) => Some(quote!(_)),
        _ => None,
    }
}
