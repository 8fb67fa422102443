//! Constant tensors: `constant::<f32, 2, 2>([1.0, 2.0, 3.0, 4.0])`, with extents as in `Tensor<f32, 2, 2>`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{AngleBracketedGenericArguments, Expr, ExprCall, GenericArgument, Lit, Type, UnOp};

use crate::dims::{self, is_half};
use crate::error::Errors;
use crate::paths;

const FORM: &str = "write constant::<f32, 2, 2>([1.0, 2.0, 3.0, 4.0])";

/// The tokens of the constant.
pub(super) fn tokens(
    args: &AngleBracketedGenericArguments,
    call: &ExprCall,
    errors: &mut Errors,
) -> TokenStream {
    let graph = paths::graph(call.span());
    let found = dtype_and_shape(args).zip(call.args.first());
    if let (Some(((dtype, shape), Expr::Lit(syn::ExprLit { lit: Lit::Str(digits), .. }))), 1) =
        (&found, call.args.len())
    {
        let dtype = dims::dtype(dtype);
        return quote!(#graph::constant_bytes(#dtype, &[#(#shape),*], #digits));
    }
    let (Some(((dtype, shape), Expr::Array(elems))), 1) = (found, call.args.len()) else {
        errors.push(call, "wrong arguments of `constant`", FORM);
        return quote!(#graph::GraphValue::poison());
    };
    let elems: Vec<TokenStream> = elems.elems.iter().map(|it| element(it, &dtype)).collect();
    quote!(#graph::constant::<#dtype>(&[#(#shape),*], ::std::vec::Vec::from([#(#elems),*])))
}

/// Element type and extents.
fn dtype_and_shape(args: &AngleBracketedGenericArguments) -> Option<(Ident, Vec<TokenStream>)> {
    let mut args = args.args.iter();
    let dtype = match args.next()? {
        GenericArgument::Type(Type::Path(it)) => {
            it.path.get_ident().filter(|it| dims::dtype(it).is_some())?
        }
        _ => return None,
    };
    let shape = args.map(|arg| match arg {
        GenericArgument::Const(Expr::Lit(it)) => match &it.lit {
            Lit::Int(it) => it.base10_parse::<i64>().ok().map(|it| quote!(#it)),
            _ => None,
        },
        _ => None,
    });
    Some((dtype.clone(), shape.collect::<Option<_>>()?))
}

/// An element: a number gets the suffix of its type; anything else (`f32::NAN`) is left as it is.
fn element(expr: &Expr, dtype: &Ident) -> TokenStream {
    match expr {
        Expr::Lit(it) => match &it.lit {
            Lit::Int(_) | Lit::Float(_) if is_half(&dtype.to_string()) => {
                let value = suffixed(&it.lit, "f32");
                quote!(#dtype::from_f32(#value))
            }
            lit => suffixed(lit, &dtype.to_string()),
        },
        Expr::Unary(it) if matches!(it.op, UnOp::Neg(_)) => {
            let value = element(&it.expr, dtype);
            quote!(-#value)
        }
        _ => quote!(#expr),
    }
}

fn suffixed(lit: &Lit, suffix: &str) -> TokenStream {
    let text = match lit {
        Lit::Int(it) if it.suffix().is_empty() => format!("{}{suffix}", it.base10_digits()),
        Lit::Float(it) if it.suffix().is_empty() => format!("{}{suffix}", it.base10_digits()),
        _ => return quote!(#lit),
    };
    let literal: Result<proc_macro2::Literal, _> = text.parse();
    literal.map_or_else(
        |_| quote!(#lit),
        |mut it| {
            it.set_span(lit.span());
            quote!(#it)
        },
    )
}
