//! The function that builds the program: one builder call per statement.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};

use super::expr::{binary_op, dtype, loc, local, value, values};
use super::{file, impl_header, source_text};
use crate::kernel::ast::{
    Attrs, Axis, CallArg, Dim, Expr, LoopKind, LoopRange, Param, ParamKind, PrimFunc, Stmt,
};
use crate::paths;

/// `impl matmul { fn __emit() -> FuncBuilder { .. } }`
pub(super) fn builder(func: &PrimFunc) -> TokenStream {
    let (script, at) = (paths::script(Span::call_site()), loc(func.name.span()));
    let (b, sig) = (paths::own("b"), paths::own("sig"));
    let file = file(func.name.span());
    let dims = func.dims.iter().map(|dim| {
        let (var, at, name) = (local(dim), loc(dim.span()), dim.to_string());
        quote!(let #var = #b.dim(#at, #name);)
    });
    let params = func.params.iter().map(param);
    let bounds = func.options.bounds.dims().map(|dim| {
        let (name, bound) = (dim.to_string(), func.options.bounds.of(dim));
        quote!(#b.bound(#name, #bound);)
    });
    let body = stmts(&func.body);
    let attrs = func.options.attrs.iter().map(|(name, value)| quote!(#b.attr(#name, #value);));
    let root = annotate(&func.options.root);
    let c_functions = &func.c_functions;
    let body = quote! {
        #(#c_functions)*
        let #sig = <Self as #script::PrimFuncDef>::SIG;
        let #b = #script::FuncBuilder::new(&#sig, #file, #at);
        #(#bounds)*
        #(#dims)*
        #(#params)*
        #(#attrs)*
        #root
        #body
        #b
    };
    in_impl(func, &body)
}

/// [`builder`] for a kernel that has errors: building it reports that it does not compile.
pub(super) fn stub(func: &PrimFunc) -> TokenStream {
    let script = paths::script(Span::call_site());
    let message = format!("the kernel `{}` does not compile", func.name);
    in_impl(func, &quote!(#script::FuncBuilder::failed(#message)))
}

fn in_impl(func: &PrimFunc, body: &TokenStream) -> TokenStream {
    let script = paths::script(Span::call_site());
    let name = &func.name;
    let (header, vis) = (impl_header(func, &quote!(#name)), &func.vis);
    quote! {
        #[allow(unused, trivial_casts, clippy::all, clippy::pedantic, clippy::restriction, reason = "builder calls for the kernel")]
        #header {
            #[doc(hidden)]
            #vis fn __emit() -> #script::FuncBuilder {
                #body
            }
        }
    }
}

fn param(param: &Param) -> TokenStream {
    let b = paths::own("b");
    let (var, at, name) = (local(&param.name), loc(param.name.span()), param.name.to_string());
    match &param.kind {
        ParamKind::Tensor { output, dtype: ty, dims, .. } => {
            let method = format_ident!("{}", if *output { "output" } else { "input" });
            let (dtype, dims) = (dtype(&ty.0), dims.iter().map(dim));
            quote!(let #var = #b.#method(#at, #name, #dtype, [#(#dims),*]);)
        }
        ParamKind::Scalar { dtype: ty } => {
            let dtype = dtype(&ty.0);
            quote!(let #var = #b.scalar(#at, #name, #dtype);)
        }
    }
}

fn dim(dim: &Dim) -> TokenStream {
    let script = paths::script(Span::call_site());
    match dim {
        Dim::Var(name) => {
            let name = local(name);
            quote!(#name.clone())
        }
        Dim::Host(expr) => quote!(#script::HostConst::to_value((#expr) as usize)),
        Dim::Expr(_, expr) => value(expr),
    }
}

fn stmts(stmts: &[Stmt]) -> TokenStream {
    stmts.iter().map(stmt).collect()
}

fn stmt(stmt: &Stmt) -> TokenStream {
    let b = paths::own("b");
    let (script, tir) = (paths::script(Span::call_site()), paths::tir(Span::call_site()));
    match stmt {
        Stmt::For { vars, range, kind, attrs, body, span } => {
            let (at, spec, body) = (loc(*span), loop_spec(kind, attrs), stmts(body));
            let names: Vec<String> = vars.iter().map(ToString::to_string).collect();
            let locals: Vec<_> = vars.iter().map(local).collect();
            match range {
                LoopRange::Range { min, end, inclusive } => {
                    let (min, mut end) = (value(min), value(end));
                    if *inclusive {
                        end = quote!(#end.binary(#tir::BinaryOp::Add, #script::KernelValue::int(1)));
                    }
                    let range = quote!((#min, #end));
                    let body = closure(&quote!(#(#locals)*), &quote!(#script::KernelValue), &body);
                    quote!(#b.for_range(#at, #spec, #(#names)*, #range, #body);)
                }
                LoopRange::Grid(extents) => {
                    let extents = values(extents);
                    let count = names.len();
                    let body =
                        closure(&quote!([#(#locals),*]), &quote!([#script::KernelValue; #count]), &body);
                    quote!(#b.for_grid(#at, &#spec, [#(#names),*], [#(#extents),*], #body);)
                }
            }
        }
        Stmt::Block { name, attrs, axes, body, span } => block(name, attrs, axes, body, *span),
        Stmt::Init { body, span } => {
            let (at, body) = (loc(*span), stmts(body));
            let body = closure(&quote!(), &quote!(), &body);
            quote!(#b.init(#at, #body);)
        }
        Stmt::Store { buffer, indices, op, value: new, span } => {
            let (buffer, at, indices, new) = (local(buffer), loc(*span), values(indices), value(new));
            match op {
                None => quote!(#b.store(#at, &#buffer, [#(#indices),*], #new);),
                Some(op) => {
                    let op = binary_op(op);
                    quote!(#b.update(#at, &#buffer, [#(#indices),*], #tir::BinaryOp::#op, #new);)
                }
            }
        }
        Stmt::Let { name, value: bound, keep } => {
            let (var, at, text, bound) = (local(name), loc(name.span()), name.to_string(), value(bound));
            let method = format_ident!("{}", if *keep { "keep" } else { "bind" });
            quote!(let #var = #b.#method(#at, #text, #bound);)
        }
        Stmt::Helper { name, params, value: result } => {
            let (name, helper) = (local(name), super::expr::helper(params, result));
            quote!(let #name = #helper;)
        }
        Stmt::Alloc { name, dtype: ty, shape, value: first, scope, strides, offset } => {
            let scope = format_ident!("{scope}");
            let (var, at, text) = (local(name), loc(name.span()), name.to_string());
            let dtype = if ty.0 == "usize" { quote!(#script::INDEX) } else { dtype(&ty.0) };
            match first {
                Some(first) => {
                    let (first, value) = (value(first), paths::own("first"));
                    quote! {
                        let #value = #first;
                        let #var = #b.alloc(#at, #text, #dtype, [], #tir::Scope::#scope);
                        #b.store(#at, &#var, [], #value);
                    }
                }
                None => {
                    let shape = values(shape);
                    let (strides, offset) = (values(strides), offset.iter().map(value));
                    quote!(let #var = #b.alloc_laid_out(
                        #at, #text, #dtype, [#(#shape),*], #tir::Scope::#scope,
                        ::std::vec![#(#strides),*], ::std::vec![#(#offset),*],
                    );)
                }
            }
        }
        Stmt::If { condition, then, otherwise, span } => {
            let (at, condition, then) = (loc(*span), value(condition), stmts(then));
            let otherwise = match otherwise {
                Some(it) => {
                    let it = stmts(it);
                    quote!(::core::option::Option::Some(&mut || { #it }))
                }
                None => quote!(::core::option::Option::None),
            };
            let then = closure(&quote!(), &quote!(), &then);
            quote!(#b.if_else(#at, #condition, #then, #otherwise);)
        }
        Stmt::While { condition, body, span } => {
            let (at, condition, body) = (loc(*span), value(condition), stmts(body));
            let body = closure(&quote!(), &quote!(), &body);
            quote!(#b.while_loop(#at, #condition, #body);)
        }
        Stmt::Call { path, args, span } => call(path, args, *span),
        Stmt::Assert { condition, message, span } => {
            let (at, condition) = (loc(*span), value(condition));
            quote!(#b.assert(#at, #condition, #message);)
        }
        Stmt::Match { name, source, region } => matched(name, source, region),
        Stmt::Scope(body) => {
            let body = stmts(body);
            quote!({ #body })
        }
    }
}

/// The builder call for a block.
fn block(name: &syn::LitStr, attrs: &Attrs, axes: &[Axis], body: &[Stmt], span: Span) -> TokenStream {
    let (b, script, tir) = (paths::own("b"), paths::script(Span::call_site()), paths::tir(Span::call_site()));
    let (at, body, attrs) = (loc(span), stmts(body), annotate(attrs));
    let count = axes.len();
    let locals = axes.iter().map(|axis| local(&axis.var));
    let domains = axes.iter().map(|axis| match &axis.dom {
        Some((min, end)) => {
            let (min, end) = (value(min), value(end));
            quote!(::core::option::Option::Some((#min, #end)))
        }
        None => quote!(::core::option::Option::None),
    });
    let (method, domains) = if axes.iter().any(|axis| axis.dom.is_some()) {
        (format_ident!("block_within"), quote!([#(#domains),*],))
    } else {
        (format_ident!("block"), TokenStream::new())
    };
    let axes = axes.iter().map(|axis| {
        let kind = format_ident!("{}", axis.kind.variant());
        let (name, bound) = (axis.var.to_string(), value(&axis.value));
        quote!((#tir::IterKind::#kind, #name, #bound))
    });
    let body =
        closure(&quote!([#(#locals),*]), &quote!([#script::KernelValue; #count]), &quote!(#attrs #body));
    quote!(#b.#method(#at, #name, [#(#axes),*], #domains #body);)
}

/// `|param| { body }` as a trait object, so that deeply nested bodies do not instantiate nested generics.
fn closure(param: &TokenStream, ty: &TokenStream, body: &TokenStream) -> TokenStream {
    let typed = (!ty.is_empty()).then(|| quote!(#param: #ty));
    quote!((&mut |#typed| { #body }) as &mut dyn ::core::ops::FnMut(#ty))
}

/// The builder call that adds the statements of another kernel.
fn call(path: &syn::Path, args: &[CallArg], span: Span) -> TokenStream {
    let (b, script) = (paths::own("b"), paths::script(Span::call_site()));
    let (at, name, values) = (loc(span), source_text(&path.to_token_stream()), paths::own("args"));
    let args = args.iter().map(|arg| match arg {
        CallArg::Tensor(name) => {
            let buffer = local(name);
            quote!(#script::CallArg::Buffer(#buffer.clone()))
        }
        CallArg::Value(arg) => {
            let arg = value(arg);
            quote!(#script::CallArg::Value(#arg))
        }
    });
    quote! {
        let #values = ::std::vec![#(#args),*];
        #b.call::<#path>(#at, #name, <#path>::__emit, #values);
    }
}

/// The builder call for a buffer that matches a region.
fn matched(name: &Ident, source: &Ident, region: &[(Expr, Option<Expr>)]) -> TokenStream {
    let b = paths::own("b");
    let (var, at, text, source) = (local(name), loc(name.span()), name.to_string(), local(source));
    let region = region.iter().map(|(begin, end)| {
        let begin = value(begin);
        let end = match end.as_ref().map(value) {
            Some(end) => quote!(::core::option::Option::Some(#end)),
            None => quote!(::core::option::Option::None),
        };
        quote!((#begin, #end))
    });
    quote!(let #var = #b.match_buffer(#at, #text, &#source, [#(#region),*]);)
}

/// Builder calls that set attributes of the open block.
fn annotate(attrs: &Attrs) -> TokenStream {
    let b = paths::own("b");
    attrs.iter().map(|(name, value)| quote!(#b.annotate(#name, #value);)).collect()
}

fn loop_spec(kind: &LoopKind, attrs: &Attrs) -> TokenStream {
    let (script, tir) = (paths::script(Span::call_site()), paths::tir(Span::call_site()));
    let kind = match kind {
        LoopKind::Serial => quote!(Serial),
        LoopKind::Parallel => quote!(Parallel),
        LoopKind::Vectorized => quote!(Vectorized),
        LoopKind::Unrolled => quote!(Unrolled),
        LoopKind::Thread(tag) => {
            let tag: String = tag.split('.').map(capitalised).collect();
            let tag = format_ident!("{tag}");
            quote!(ThreadBinding(#tir::ThreadTag::#tag))
        }
    };
    let attrs = attrs.iter().map(|(name, value)| quote!(.with(#name, #value)));
    quote!(#script::LoopSpec::new(#tir::ForKind::#kind) #(#attrs)*)
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
