//! The type named like the kernel, its typed entry points, and the function that runs the shadow.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::GenericParam;

use super::sig::{expr_text, sig};
use super::{generic_args, generics, impl_header, source_text};
use crate::kernel::ast::{Dim, ParamKind, PrimFunc};
use crate::paths;

/// The type and its `impl`s.
pub(super) fn wrapper(func: &PrimFunc) -> TokenStream {
    let private = paths::private(Span::call_site());
    let (script, ir, tir, runtime) = (
        paths::script(Span::call_site()),
        paths::ir(Span::call_site()),
        paths::tir(Span::call_site()),
        paths::runtime(Span::call_site()),
    );
    let (name, vis, docs) = (&func.name, &func.vis, &func.docs);
    let params = func.generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(it) => Some(it.ident.to_token_stream()),
        GenericParam::Const(it) => {
            let (name, ty) = (&it.ident, &it.ty);
            Some(quote!(const #name: #ty))
        }
        GenericParam::Lifetime(_) => None,
    });
    let types = func.generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(it) => Some(&it.ident),
        GenericParam::Const(_) | GenericParam::Lifetime(_) => None,
    });
    let text = format!("Kernel: `{}`.", signature_text(func));
    let args = args(func);
    let sig = sig(func);
    let own = impl_header(func, &quote!(#name));
    let def = impl_header(func, &quote!(#script::PrimFuncDef for #name));
    quote! {
        #(#docs)*
        #[doc = ""]
        #[doc = #text]
        #[allow(non_camel_case_types, dead_code, reason = "named like the kernel")]
        #vis struct #name<#(#params),*> {
            __types: ::core::marker::PhantomData<(#(#types,)*)>,
        }
        #[automatically_derived]
        #def {
            type Args = (#(#args,)*);
            const SIG: #script::FuncSig = #sig;
            fn prim_func() -> ::core::result::Result<#tir::PrimFunc, #ir::IrError> {
                Self::__emit().finish()
            }
        }
        #[allow(dead_code, reason = "not every kernel is used in every way")]
        #own {
            /// Builds the program.
            #vis fn prim_func() -> ::core::result::Result<#tir::PrimFunc, #ir::IrError> {
                Self::__emit().finish()
            }

            /// A module of this one program.
            #vis fn module() -> ::core::result::Result<#ir::IRModule, #ir::IrError> {
                <Self as #script::PrimFuncDef>::module()
            }

            /// Compiles the program for `target`.
            #vis fn compile(
                target: &#private::Target,
            ) -> ::core::result::Result<#runtime::CompiledFn<(#(#args,)*)>, #private::CompileError> {
                #private::compile::<Self>(target)
            }

            /// The signature, in the form that the runtime uses.
            #vis fn signature() -> #runtime::KernelSig {
                <Self as #script::PrimFuncDef>::SIG.to_kernel_sig()
            }
        }
    }
}

/// The types of the arguments of a typed call.
fn args(func: &PrimFunc) -> Vec<TokenStream> {
    let runtime = paths::runtime(Span::call_site());
    let types = func.params.iter().map(|param| match &param.kind {
        ParamKind::Tensor { output, dtype, dims, .. } => {
            let (dtype, rank) = (&dtype.0, dims.len());
            let marker = format_ident!("{}", if *output { "Out" } else { "In" });
            quote!(#runtime::#marker<#dtype, #rank>)
        }
        ParamKind::Scalar { dtype } => dtype.0.to_token_stream(),
    });
    types.collect()
}

/// `fn matmul(..)` and `matmul::reference(..)`, which run the shadow.
pub(super) fn run(func: &PrimFunc) -> TokenStream {
    let shadow = paths::shadow(Span::call_site());
    let runtime = paths::runtime(Span::call_site());
    let func_name = func.name.to_string();
    let raw: Vec<Ident> = (0..func.params.len()).map(|i| paths::own(&format!("a{i}"))).collect();
    let patterns = func.params.iter().zip(&raw).map(|(param, raw)| match &param.kind {
        ParamKind::Tensor { output: true, .. } => quote!(#runtime::HostArg::Out(#raw)),
        ParamKind::Tensor { .. } => quote!(#runtime::HostArg::In(#raw)),
        ParamKind::Scalar { .. } => quote!(#raw),
    });
    let binds = binds(func, &raw);
    let checks = checks(func, &raw, |raw| quote!(#shadow::scalar(#func_name, #raw)?));
    let values = func.params.iter().zip(&raw).map(|(param, raw)| match &param.kind {
        ParamKind::Tensor { output: true, .. } => quote!(&mut #shadow::ViewMut::new(#raw)?),
        ParamKind::Tensor { .. } => quote!(&#shadow::View::new(#raw)?),
        ParamKind::Scalar { .. } => quote!(#shadow::scalar(#func_name, #raw)?),
    });
    let (dims, args) = (&func.dims, paths::own("args"));
    let body = quote! {
        #shadow::reference::<Self>(|#args| {
            let [#(#patterns),*] = #args else {
                return ::core::result::Result::Err(#shadow::arg_error(#func_name));
            };
            #binds
            #checks
            Self::__shadow(#(#values,)* #(#dims),*);
            ::core::result::Result::Ok(())
        })
    };
    run_with(func, &body, &called(func))
}

/// The body of `__run`, which runs the shadow of a kernel that another kernel calls.
fn called(func: &PrimFunc) -> TokenStream {
    let shadow = paths::shadow(Span::call_site());
    let runtime = paths::runtime(Span::call_site());
    let func_name = func.name.to_string();
    let names: Vec<Ident> = func.params.iter().map(|param| param.name.clone()).collect();
    let views = func.params.iter().filter_map(|param| {
        let name = &param.name;
        match &param.kind {
            ParamKind::Tensor { output: true, .. } => {
                Some(quote!(let #name = &mut #shadow::AsViewMut::as_view_mut(#name);))
            }
            ParamKind::Tensor { .. } => Some(quote!(let #name = &#shadow::AsView::as_view(#name);)),
            ParamKind::Scalar { .. } => None,
        }
    });
    let extents = func.params.iter().filter_map(|param| {
        let ParamKind::Tensor { dims, .. } = &param.kind else { return None };
        let (name, text) = (&param.name, param.name.to_string());
        let checks = dims.iter().enumerate().map(|(axis, dim)| {
            let (expected, text_of_dim) = match dim {
                Dim::Var(dim) => (quote!(#dim), dim.to_string()),
                Dim::Host(expr) => (quote!(((#expr) as usize)), expr_text(expr)),
                Dim::Expr(..) => return quote!(),
            };
            quote!(#shadow::check_extent(#func_name, #text, (#axis, #text_of_dim), #expected, #name.shape().as_ref())?;)
        });
        Some(quote!(#(#checks)*))
    });
    let (binds, checks, dims) = (binds(func, &names), checks(func, &names, |name| quote!(#name)), &func.dims);
    let checked = paths::own("checked");
    quote! {
        let __guard = #shadow::enter::<Self>(#func_name);
        #(#views)*
        #binds
        let #checked = || -> ::core::result::Result<(), #runtime::RuntimeError> {
            #(#extents)*
            #checks
            ::core::result::Result::Ok(())
        };
        #shadow::expect(#checked());
        Self::__shadow(#(#names,)* #(#dims),*)
    }
}

/// [`run`] for a kernel that has errors: calls of it return an error.
pub(super) fn run_stub(func: &PrimFunc) -> TokenStream {
    let (shadow, func_name) = (paths::shadow(Span::call_site()), func.name.to_string());
    run_with(func, &quote!(::core::result::Result::Err(#shadow::arg_error(#func_name))), &quote!())
}

fn run_with(func: &PrimFunc, body: &TokenStream, called: &TokenStream) -> TokenStream {
    let shadow = paths::shadow(Span::call_site());
    let runtime = paths::runtime(Span::call_site());
    let (name, vis) = (&func.name, &func.vis);
    let (generics, generic_args) = (generics(func), generic_args(func));
    let own = impl_header(func, &quote!(#name));
    let types = args(func);
    let names: Vec<&Ident> = func.params.iter().map(|param| &param.name).collect();
    let graph = paths::graph(Span::call_site());
    let hides = crate::operators::hide(name, &quote!(#graph::KernelCall), &quote!(#graph::KernelCall));
    let views = func.params.iter().map(|param| {
        let name = &param.name;
        match &param.kind {
            ParamKind::Tensor { output: true, dtype, dims, .. } => {
                let (dtype, rank) = (&dtype.0, dims.len());
                quote!(#name: &mut impl #shadow::AsViewMut<#dtype, #rank>)
            }
            ParamKind::Tensor { dtype, dims, .. } => {
                let (dtype, rank) = (&dtype.0, dims.len());
                quote!(#name: &impl #shadow::AsView<#dtype, #rank>)
            }
            ParamKind::Scalar { dtype } => {
                let dtype = &dtype.0;
                quote!(#name: #dtype)
            }
        }
    });
    let header = quote!((#(#names: impl #runtime::TypedArg<#types>),*) -> ::core::result::Result<(), #runtime::RuntimeError>);
    quote! {
        #[allow(unused, clippy::all, clippy::pedantic, clippy::restriction, reason = "not every kernel is run as plain Rust")]
        #own {
            #[doc(hidden)]
            fn __reference() -> ::core::result::Result<
                #runtime::CompiledFn<(#(#types,)*)>,
                #runtime::RuntimeError,
            > {
                #body
            }

            #[doc(hidden)]
            #[track_caller]
            #vis fn __run(#(#views),*) {
                #called
            }

            /// Runs the body as plain Rust; takes the arguments of a compiled call.
            #vis fn reference #header {
                Self::__reference()?.call(#(#names),*)
            }
        }
        #hides
        /// Runs the body of the kernel as plain Rust.
        #[allow(dead_code, clippy::all, clippy::pedantic, clippy::restriction, reason = "not every kernel is run as plain Rust")]
        #vis fn #name<#(#generics),*> #header {
            #name::<#(#generic_args),*>::__reference()?.call(#(#names),*)
        }
    }
}

/// `let n = ..;` for each symbolic dimension, from the first extent that is the dimension alone.
fn binds(func: &PrimFunc, raw: &[Ident]) -> TokenStream {
    let shadow = paths::shadow(Span::call_site());
    let binds = func.dims.iter().filter_map(|dim| {
        let (i, axis) = place(func, dim)?;
        let (arg, axis) = (&raw[i], axis?);
        Some(quote!(let #dim = #shadow::extent(#arg.shape().as_ref(), #axis);))
    });
    binds.collect()
}

/// The parameter and the axis that bind the dimension `dim`; no axis if `dim` is a scalar.
fn place(func: &PrimFunc, dim: &Ident) -> Option<(usize, Option<usize>)> {
    func.params.iter().enumerate().find_map(|(i, param)| match &param.kind {
        ParamKind::Tensor { dims, .. } => {
            let axis = dims.iter().position(|it| matches!(it, Dim::Var(name) if name == dim))?;
            Some((i, Some(axis)))
        }
        ParamKind::Scalar { .. } => (param.name == *dim).then_some((i, None)),
    })
}

/// Checks of extents that are expressions, and of the bounds of dimensions. `scalar` is the value of a scalar in `raw`.
fn checks(func: &PrimFunc, raw: &[Ident], scalar: impl Fn(&Ident) -> TokenStream) -> TokenStream {
    let (shadow, func_name) = (paths::shadow(Span::call_site()), func.name.to_string());
    let mut res = TokenStream::new();
    for (param, raw) in func.params.iter().zip(raw) {
        let ParamKind::Tensor { dims, .. } = &param.kind else { continue };
        let arg = param.name.to_string();
        for (axis, dim) in dims.iter().enumerate() {
            if let Dim::Expr(expr, _) = dim {
                let (text, expected) = (expr_text(expr), paths::own("expected"));
                res.extend(quote! {
                    let #expected = {
                        use #shadow::kernel::*;
                        #expr
                    };
                    #shadow::check_extent(#func_name, #arg, (#axis, #text), #expected, #raw.shape().as_ref())?;
                });
            }
        }
    }
    for dim in func.options.bounds.dims() {
        let Some((i, axis)) = place(func, dim) else { continue };
        let (arg, name, bound) =
            (func.params[i].name.to_string(), dim.to_string(), func.options.bounds.of(dim));
        let (axis, value) = match axis {
            Some(axis) => (quote!(::core::option::Option::Some(#axis)), quote!(#dim as i64)),
            None => (quote!(::core::option::Option::None), scalar(&raw[i])),
        };
        res.extend(quote!(#shadow::check_bound(#func_name, (#arg, #axis), #name, #bound, #value)?;));
    }
    res
}

/// The signature as the user wrote it.
fn signature_text(func: &PrimFunc) -> String {
    let dim = |dim: &Dim| match dim {
        Dim::Var(name) => name.to_string(),
        Dim::Host(expr) => expr_text(expr),
        Dim::Expr(expr, _) => format!("{{ {} }}", expr_text(expr)),
    };
    let params = func.params.iter().map(|param| match &param.kind {
        ParamKind::Tensor { output, dtype, dims, .. } => {
            let list: String = dims.iter().map(|it| format!(", {}", dim(it))).collect();
            let reference = if *output { "&mut " } else { "&" };
            format!("{}: {reference}Tensor<{}{list}>", param.name, dtype.name())
        }
        ParamKind::Scalar { dtype } => format!("{}: {}", param.name, dtype.name()),
    });
    let params: Vec<String> = params.collect();
    let generics = source_text(&func.generics.to_token_stream());
    format!("fn {}{generics}({})", func.name, params.join(", "))
}
