//! The shadow: the user's body as an ordinary Rust function over the small runtime of `script::shadow`.
//!
//! The user's tokens are kept as they are, with these exceptions: loop attributes go (Rust has none there), and where an
//! element type has no Rust literals (a type parameter, half precision), float literals and casts become calls.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{VisitMut, visit_expr_mut};
use syn::{Block, Expr, Lit};

use crate::ast::{ParamKind, PrimFunc};
use crate::paths;

/// `impl matmul { fn __shadow(..) { body } }`
pub(crate) fn shadow(func: &PrimFunc, body: &Block) -> TokenStream {
    let mut body = body.clone();
    Rewrite { soft_literals: func.soft_literals }.visit_block_mut(&mut body);
    let params = func.params.iter().map(|param| {
        let name = &param.name;
        match &param.kind {
            ParamKind::Tensor { output, dtype, dims, span } => {
                let (rank, dtype) = (dims.len(), &dtype.0);
                if *output {
                    let view = paths::view_mut(*span);
                    quote_spanned!(*span=> #name: &mut #view<'_, #dtype, #rank>)
                } else {
                    let view = paths::view(*span);
                    quote_spanned!(*span=> #name: &#view<'_, #dtype, #rank>)
                }
            }
            ParamKind::Scalar { dtype } => {
                let dtype = &dtype.0;
                quote!(#name: #dtype)
            }
        }
    });
    let dims = &func.dims;
    let name = &func.name;
    let shadow = paths::shadow(proc_macro2::Span::call_site());
    let header = crate::generate::impl_header(func, &quote!(#name));
    let fn_name = format_ident!("__shadow", span = name.span());
    quote! {
        #[allow(
            unused, non_upper_case_globals, clippy::all, clippy::pedantic, clippy::restriction,
            reason = "the body of the kernel, run as plain Rust"
        )]
        #header {
            #[doc(hidden)]
            fn #fn_name(#(#params,)* #(#dims: usize),*) {
                use #shadow::{Math as _, *};
                #body
            }
        }
    }
}

struct Rewrite {
    soft_literals: bool,
}

impl VisitMut for Rewrite {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::ForLoop(it) = expr {
            it.attrs.clear();
        }
        if let Expr::Cast(it) = expr
            && self.soft_literals
        {
            let (span, ty) = (it.span(), it.ty.clone());
            let shadow = paths::shadow(span);
            if let Expr::Lit(value) = &*it.expr {
                let value =
                    if matches!(value.lit, Lit::Int(_)) { quote!(#value as f64) } else { quote!(#value) };
                *expr = syn::parse_quote_spanned!(span=> #shadow::cast::<#ty>(#value));
            } else {
                let mut inner = (*it.expr).clone();
                self.visit_expr_mut(&mut inner);
                *expr = syn::parse_quote_spanned!(span=> #shadow::cast::<#ty>(#inner));
            }
            return;
        }
        if let Expr::Lit(it) = expr
            && let Lit::Float(value) = &it.lit
            && self.soft_literals
            && value.suffix().is_empty()
        {
            let shadow = paths::shadow(value.span());
            *expr = syn::parse_quote_spanned!(value.span()=> #shadow::lit(#value));
            return;
        }
        visit_expr_mut(self, expr);
    }
}
