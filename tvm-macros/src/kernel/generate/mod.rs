//! Code generation from [`crate::kernel::ast`] to tokens: the shadow, the typed wrapper with the signature, the builder calls.

mod builder;
mod expr;
mod sig;
mod wrapper;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{GenericParam, ItemFn};

use crate::error::Errors;
use crate::kernel::ast::PrimFunc;
use crate::kernel::shadow;

pub(crate) use expr::{bound, dtype, local, without_args};

/// The expansion of a kernel.
pub(crate) fn prim_func(func: &ItemFn, ast: &PrimFunc, errors: &Errors) -> TokenStream {
    let wrapper = wrapper::wrapper(ast);
    let shadow = shadow::shadow(ast, &func.block, !errors.is_empty());
    if errors.is_empty() {
        let build = builder::builder(ast);
        let run = wrapper::run(ast);
        return quote!(#shadow #wrapper #build #run);
    }
    // The shadow is for the editor alone: rustc would report the same errors in other words.
    let (build, run) = (builder::stub(ast), wrapper::run_stub(ast));
    let errors = errors.to_tokens();
    quote!(#shadow #wrapper #build #run #errors)
}

/// `impl<T: ..> name<T>`, or `impl<T: ..> trait for name<T>`; `head` stands before the type's arguments.
pub(crate) fn impl_header(func: &PrimFunc, head: &TokenStream) -> TokenStream {
    let generics = generics(func);
    let args = generic_args(func);
    quote!(impl<#(#generics),*> #head<#(#args),*>)
}

/// The generic parameters; type parameters get the bounds that a kernel needs.
pub(crate) fn generics(func: &PrimFunc) -> Vec<TokenStream> {
    let shadow = crate::paths::shadow(Span::call_site());
    let math = if func.uses_math { quote!(+ #shadow::Math) } else { quote!() };
    let params = func.generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(it) => {
            let (name, bounds) = (&it.ident, it.bounds.iter());
            Some(quote!(#name: #(#bounds +)* #shadow::Scalar + #shadow::ScalarArg #math))
        }
        GenericParam::Const(it) => {
            let (name, ty) = (&it.ident, &it.ty);
            Some(quote!(const #name: #ty))
        }
        GenericParam::Lifetime(_) => None,
    });
    params.collect()
}

/// The names of the generic parameters.
pub(crate) fn generic_args(func: &PrimFunc) -> Vec<TokenStream> {
    let args = func.generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(it) => Some(&it.ident),
        GenericParam::Const(it) => Some(&it.ident),
        GenericParam::Lifetime(_) => None,
    });
    args.map(|name| quote!(#name)).collect()
}

/// Line and column of `span`; zeros outside of the compiler.
pub(crate) fn location(span: Span) -> (u32, u32) {
    if proc_macro::is_available() {
        let span = span.unwrap();
        (span.line() as u32, span.column() as u32)
    } else {
        (0, 0)
    }
}

/// File of `span`; empty outside of the compiler.
pub(crate) fn file(span: Span) -> String {
    if proc_macro::is_available() { span.unwrap().file() } else { String::new() }
}

/// The text of `tokens`, spaced as programmers write it.
pub(crate) fn source_text(tokens: &TokenStream) -> String {
    let mut text = tokens.to_string();
    for (from, to) in [
        (" :: ", "::"),
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" [", "["),
        ("[ ", "["),
        (" ]", "]"),
    ] {
        text = text.replace(from, to);
    }
    text
}
