//! `#[prim_helper]`: a function of scalars that kernels expand where they call it.
//!
//! The expansion is the function as plain Rust, and a type of its name that builds its value in a kernel. The constant
//! `__HELPERS_DO_NOT_CALL_THEMSELVES` is the number of nodes of an expansion. It has no value for a helper that calls
//! itself through others, which rustc reports.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{GenericParam, ItemFn};

use super::{generate, parse, shadow};
use crate::error::Errors;
use crate::kernel::ast::{BlockLet, DType, Expr, ExprKind, Helper};
use crate::paths;

/// The expansion of `item` with the arguments `attr` of the attribute.
pub(crate) fn expand(attr: &TokenStream, item: TokenStream) -> TokenStream {
    let func = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(func) => func,
        Err(_) => return item,
    };
    let mut errors = Errors::default();
    if !attr.is_empty() {
        errors.push(attr, "`prim_helper` takes no arguments", "write `#[prim_helper]`");
    }
    let helper = parse::prim_helper(&func, &mut errors);
    let ok = errors.is_empty();
    let (name, vis) = (&func.sig.ident, &func.vis);
    let docs = func.attrs.iter().filter(|attr| attr.path().is_ident("doc"));
    let (plain, value) = (plain(&func, &helper, ok), value(&helper, ok));
    let errors = errors.to_tokens();
    let nodes = nodes(&helper.value, name);
    let count = Ident::new("__HELPERS_DO_NOT_CALL_THEMSELVES", name.span());
    let counted = quote_spanned!(name.span()=> impl #name {
        #[doc(hidden)]
        #[allow(dead_code, reason = "for helpers that are called")]
        #vis const #count: usize = #nodes;
    });
    quote! {
        #plain
        #(#docs)*
        #[allow(non_camel_case_types, dead_code, reason = "named like the helper")]
        #vis struct #name {}
        #[allow(unused, clippy::all, clippy::pedantic, clippy::restriction, reason = "the expansion of the helper")]
        impl #name {
            #value
        }
        #counted
        const _: usize = <#name>::#count;
        #errors
    }
}

/// The function as plain Rust.
fn plain(func: &ItemFn, helper: &Helper, ok: bool) -> TokenStream {
    let (name, vis, sig) = (&func.sig.ident, &func.vis, &func.sig);
    let scope = paths::shadow(Span::call_site());
    let body = shadow::helper(helper, &func.block);
    let math = if helper.uses_math { quote!(+ #scope::Math) } else { quote!() };
    let generics: Vec<TokenStream> = func
        .sig
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(it) => {
                let (name, bounds) = (&it.ident, it.bounds.iter());
                Some(quote!(#name: #(#bounds +)* #scope::Scalar #math))
            }
            GenericParam::Const(_) | GenericParam::Lifetime(_) => None,
        })
        .collect();
    if !ok && (helper.params.len() != sig.inputs.len() || matches!(sig.output, syn::ReturnType::Default)) {
        // A stub, so that callers have a function to call.
        let (args, types): (Vec<Ident>, Vec<Ident>) =
            (0..sig.inputs.len()).map(|i| (format_ident!("a{i}"), format_ident!("A{i}"))).unzip();
        let header = quote!(<#(#types),*>(#(#args: #types),*) -> f32);
        return quote! {
            #[allow(unused, reason = "stands for a helper with errors")]
            impl #name { #[doc(hidden)] #vis fn __run #header { loop {} } }
            #[allow(unused, reason = "stands for a helper with errors")]
            #vis fn #name #header { loop {} }
        };
    }
    let (inputs, output) = (&sig.inputs, &sig.output);
    let rust = quote! {
        use #scope::kernel::*;
        impl #name {
            #[doc(hidden)]
            #[inline]
            #vis fn __run<#(#generics),*>(#inputs) #output #body
        }
    };
    let args = helper.params.iter().map(|(name, _)| name);
    let docs = func.attrs.iter().filter(|attr| attr.path().is_ident("doc"));
    let call = if ok { quote!(<#name>::__run(#(#args),*)) } else { quote!(loop {}) };
    let (run, run_stub) = (shadow::scope(&rust, !ok), (!ok).then(|| {
        quote!(#[allow(unused, reason = "stands for a helper with errors")] impl #name { #[doc(hidden)] #vis fn __run<#(#generics),*>(#inputs) #output { loop {} } })
    }));
    quote! {
        #run
        #run_stub
        #(#docs)*
        #[allow(unused, clippy::all, clippy::pedantic, clippy::restriction, reason = "the helper as plain Rust")]
        #vis fn #name<#(#generics),*>(#inputs) #output { #call }
    }
}

/// The function that builds the value of a call.
fn value(helper: &Helper, ok: bool) -> TokenStream {
    let script = paths::script(Span::call_site());
    let (b, at, args) = (paths::own("b"), paths::own("at"), paths::own("args"));
    let header = quote! {
        #[doc(hidden)]
        pub fn __value(#b: &#script::FuncBuilder, #at: (u32, u32), #args: &[#script::KernelValue]) -> #script::KernelValue
    };
    if !ok {
        return quote!(#header { #script::KernelValue::int(0) });
    }
    let locals: Vec<Ident> = helper.params.iter().map(|(name, _)| generate::local(name)).collect();
    let of =
        |it: &syn::TypeParam| helper.params.iter().map(|it| &it.1).find(|dtype| it.ident == dtype.name());
    let params: Vec<&DType> = helper.generics.type_params().filter_map(of).collect();
    let types = params.iter().map(|dtype| {
        let (ident, of) = (&dtype.0, helper.params.iter().zip(&locals).filter(|(it, _)| it.1.0 == dtype.0));
        let of = of.map(|(_, local)| local);
        quote!(let #ident = #script::KernelValue::common_type(&[#(#of.clone()),*]);)
    });
    let typed = helper.params.iter().zip(&locals).map(|((_, dtype), local)| {
        let dtype = value_type(dtype);
        quote!(let #local = #local.clone().as_type(#dtype);)
    });
    let names = helper.params.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let body = generate::bound(&names, &helper.value);
    let ret = value_type(&helper.ret);
    quote! {
        #header {
            let [#(#locals),*] = #args else { return #script::KernelValue::int(0) };
            #(#types)*
            #(#typed)*
            (#body).as_type(#ret)
        }
    }
}

/// `Some(dtype)`, or `None` for an index.
fn value_type(dtype: &DType) -> TokenStream {
    if dtype.0 == "usize" {
        return quote!(::core::option::Option::None);
    }
    let dtype = generate::dtype(&dtype.0);
    quote!(::core::option::Option::Some(#dtype))
}

/// Tokens for the number of nodes in the expansion of `expr`.
fn nodes(expr: &Expr, name: &Ident) -> TokenStream {
    let (mut own, mut calls) = (0usize, Vec::new());
    expr.walk(&mut |it| {
        own += 1;
        if let ExprKind::Inline(path, _) = &it.kind {
            calls.push(generate::without_args(path));
        }
        if let ExprKind::Block(lets, ..) = &it.kind {
            own += lets.iter().map(|it: &BlockLet| it.params.iter().len() + 1).sum::<usize>();
        }
    });
    let message = format!("the expansion of `{name}` is too large: helpers that call others twice double");
    let sum = format_ident!("nodes");
    let spans = calls.iter().map(syn::spanned::Spanned::span);
    let calls = calls
        .iter()
        .zip(spans)
        .map(|(it, span)| quote_spanned!(span=> <#it>::__HELPERS_DO_NOT_CALL_THEMSELVES));
    quote!({
        let #sum = #own #(+ #calls)*;
        ::core::assert!(#sum <= 100_000, #message);
        #sum
    })
}
