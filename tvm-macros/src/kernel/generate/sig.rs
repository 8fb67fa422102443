//! The constant signature of a kernel.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};

use super::expr::dtype;
use super::source_text;
use crate::kernel::ast::{Dim, ParamKind, PrimFunc};
use crate::paths;

/// The value of `SIG`.
pub(super) fn sig(func: &PrimFunc) -> TokenStream {
    let (script, runtime) = (paths::script(Span::call_site()), paths::runtime(Span::call_site()));
    let name = func.options.name.as_ref().map_or_else(|| func.name.to_string(), syn::LitStr::value);
    let params = func.params.iter().map(|param| {
        let name = param.name.to_string();
        let (kind, ty, dims): (_, _, &[Dim]) = match &param.kind {
            ParamKind::Tensor { output: true, dtype, dims, .. } => (quote!(Out), dtype, dims),
            ParamKind::Tensor { dtype, dims, .. } => (quote!(In), dtype, dims),
            ParamKind::Scalar { dtype } => (quote!(Scalar), dtype, &[]),
        };
        let (dtype, dims) = (dtype(&ty.0), dims.iter().map(dim));
        quote! {
            #script::ParamSpec {
                name: #name,
                kind: #runtime::ParamKind::#kind,
                dtype: #dtype,
                dims: &[#(#dims),*],
            }
        }
    });
    quote!(#script::FuncSig { name: #name, params: &[#(#params),*] })
}

fn dim(dim: &Dim) -> TokenStream {
    let script = paths::script(Span::call_site());
    match dim {
        Dim::Var(name) => {
            let name = name.to_string();
            quote!(#script::DimSpec::Var(#name))
        }
        Dim::Host(expr) => quote!(#script::DimSpec::Const((#expr) as i64)),
        Dim::Expr(expr, _) => {
            let text = expr_text(expr);
            quote!(#script::DimSpec::Expr(#text))
        }
    }
}

/// Source text of a dimension.
pub(super) fn expr_text(expr: &syn::Expr) -> String {
    source_text(&expr.to_token_stream())
}
