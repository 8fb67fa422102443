//! Builder calls for expressions: each is a `script::Value`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::BinOp;

use super::location;
use crate::kernel::ast::{DType, Expr, ExprKind};
use crate::paths;

/// The local variable of the builder function that stands for the user's `name`.
pub(crate) fn local(name: &Ident) -> Ident {
    let text = name.to_string();
    format_ident!("__v_{}", text.trim_start_matches("r#"), span = Span::mixed_site())
}

/// `(line, column)`
pub(super) fn loc(span: Span) -> TokenStream {
    let (line, column) = location(span);
    quote!((#line, #column))
}

/// The `DataType` of an element type.
pub(crate) fn dtype(name: &Ident) -> TokenStream {
    if name.to_string().starts_with(DType::PARAM) {
        return quote!(#name);
    }
    let runtime = paths::runtime(Span::call_site());
    let name = Ident::new(&name.to_string(), name.span().resolved_at(Span::call_site()));
    quote!(<#name as #runtime::Element>::DTYPE)
}

/// The value of `expr`.
pub(super) fn value(expr: &Expr) -> TokenStream {
    let script = paths::script(Span::call_site());
    let tir = paths::tir(Span::call_site());
    let new = quote!(#script::KernelValue);
    match &expr.kind {
        ExprKind::Int(value, None) => match i64::try_from(*value) {
            Ok(value) => quote!(#new::int(#value)),
            // Only `u64` has this value.
            Err(_) => {
                let (value, dtype) = (*value as i64, dtype(&Ident::new("u64", expr.span)));
                quote!(#new::int_of(#value, #dtype))
            }
        },
        ExprKind::Int(value, Some(suffix)) if suffix == "usize" => {
            let value = *value as i64;
            quote!(#new::int(#value).cast_index())
        }
        ExprKind::Int(value, Some(suffix)) => {
            let (value, dtype) = (*value as i64, dtype(suffix));
            quote!(#new::int_of(#value, #dtype))
        }
        ExprKind::Float(value, None) => quote!(#new::float(#value)),
        ExprKind::Float(value, Some(suffix)) => {
            let dtype = dtype(suffix);
            quote!(#new::constant(#value, #dtype))
        }
        ExprKind::FloatNear(_, odd, None) => quote!(#new::float_near(#odd)),
        ExprKind::FloatNear(nearest, odd, Some(suffix)) => {
            let value = if suffix == "f64" { nearest } else { odd };
            let dtype = dtype(suffix);
            quote!(#new::constant(#value, #dtype))
        }
        ExprKind::Bool(value) => quote!(#new::bool(#value)),
        ExprKind::Var(name) => {
            let name = local(name);
            quote!(#name.clone())
        }
        ExprKind::Host(path) => quote!(#script::HostConst::to_value(#path)),
        ExprKind::HostLoad(path, indices) => {
            let (b, loc, indices) = (paths::own("b"), loc(expr.span), values(indices));
            let name = path.segments.iter().map(|it| it.ident.to_string()).collect::<Vec<_>>().join("_");
            quote!(#b.table(#loc, #name, &#path, [#(#indices),*]))
        }
        ExprKind::Load { buffer, indices } => {
            let (b, buffer, loc, indices) = (paths::own("b"), local(buffer), loc(expr.span), values(indices));
            quote!(#b.load(#loc, &#buffer, [#(#indices),*]))
        }
        ExprKind::Neg(a) => {
            let a = value(a);
            quote!(#a.neg())
        }
        ExprKind::Not(a) => {
            let a = value(a);
            quote!(#a.not())
        }
        ExprKind::Binary(op @ (BinOp::And(_) | BinOp::Or(_)), a, b) => {
            let (op, a, b) = (binary_op(op), value(a), value(b));
            quote!(#a.lazy(#tir::BinaryOp::#op, #b))
        }
        ExprKind::Binary(op, a, b) => {
            let (op, a, b) = (binary_op(op), value(a), value(b));
            quote!(#a.binary(#tir::BinaryOp::#op, #b))
        }
        ExprKind::Cast(a, ty) => {
            let a = value(a);
            if ty == "usize" {
                quote!(#a.cast_index())
            } else {
                let dtype = dtype(ty);
                quote!(#a.cast(#dtype))
            }
        }
        ExprKind::Call(variant, args) => {
            let (variant, args) = (format_ident!("{variant}"), values(args));
            quote!(#new::call(#tir::Intrinsic::#variant, [#(#args),*]))
        }
        ExprKind::Extremum(op, a, b) => {
            let (method, op) = match op.strip_suffix("OfNumbers") {
                Some(op) => ("extremum_of_numbers", op),
                None => ("binary", *op),
            };
            let (method, op) = (format_ident!("{method}"), format_ident!("{op}"));
            let (a, b) = (value(a), value(b));
            quote!(#a.#method(#tir::BinaryOp::#op, #b))
        }
        ExprKind::Helper(name, args) => {
            let (name, args) = (local(name), values(args));
            quote!(#name(#(#args),*))
        }
        ExprKind::Inline(path, args) => {
            let (b, args, at) = (paths::own("b"), values(args), loc(expr.span));
            let path = without_args(path);
            quote!(<#path>::__value(&#b, #at, &[#(#args),*]))
        }
        ExprKind::CallC(path, args) => c_call(path, args, expr.span),
        ExprKind::Block(lets, result, _) => lets.iter().rev().fold(value(result), |rest, it| {
            let (name, bound) = (local(&it.name), value(&it.value));
            match &it.params {
                Some(params) => {
                    let helper = helper(params, &it.value);
                    quote!({ let #name = #helper; #rest })
                }
                None => {
                    let text = it.name.to_string();
                    let method = format_ident!("{}", if it.keep { "named_in" } else { "let_in" });
                    quote!(#bound.#method(#text, |#name: #new| #rest))
                }
            }
        }),
        ExprKind::Select(c, a, b) => {
            let (c, a, b) = (value(c), value(a), value(b));
            quote!(#c.select(#a, #b))
        }
        ExprKind::If(c, a, b) => {
            let (c, a, b) = (value(c), value(a), value(b));
            quote!(#c.choose(#a, #b))
        }
        ExprKind::Error => quote!(#new::int(0)),
    }
}

/// The builder call for a call of a C function, whose types are those of its declaration.
fn c_call(path: &syn::Path, args: &[Expr], span: Span) -> TokenStream {
    let (b, args, at) = (paths::own("b"), values(args), loc(span));
    let symbol = path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default();
    let params = args.iter().map(|_| quote!(_));
    let function = quote!(#path as unsafe extern "C" fn(#(#params),*) -> _);
    quote!(#b.call_c(#at, #symbol, &(#function), [#(#args),*]))
}

/// The closure of a helper; each argument is evaluated once.
pub(super) fn helper(params: &[Ident], result: &Expr) -> TokenStream {
    let script = paths::script(Span::call_site());
    let locals = params.iter().map(local);
    let body = bound(params, result);
    quote!(|#(#locals: #script::KernelValue),*| #body)
}

/// The value of `result`, in which each of `params` is the local variable of its name, evaluated once.
pub(crate) fn bound(params: &[Ident], result: &Expr) -> TokenStream {
    let script = paths::script(Span::call_site());
    params.iter().rev().fold(value(result), |rest, name| {
        let (local, text) = (local(name), name.to_string());
        quote!(#local.let_in(#text, |#local: #script::KernelValue| #rest))
    })
}

/// `path` without the generic arguments of its last segment.
pub(crate) fn without_args(path: &syn::Path) -> syn::Path {
    let mut path = path.clone();
    path.segments.iter_mut().last().into_iter().for_each(|it| it.arguments = syn::PathArguments::None);
    path
}

pub(super) fn values(exprs: &[Expr]) -> Vec<TokenStream> {
    exprs.iter().map(value).collect()
}

/// The name of the variant of `BinaryOp`.
pub(super) fn binary_op(op: &BinOp) -> Ident {
    let name = match op {
        BinOp::Add(_) | BinOp::AddAssign(_) => "Add",
        BinOp::Sub(_) | BinOp::SubAssign(_) => "Sub",
        BinOp::Mul(_) | BinOp::MulAssign(_) => "Mul",
        BinOp::Div(_) | BinOp::DivAssign(_) => "Div",
        BinOp::Rem(_) | BinOp::RemAssign(_) => "Mod",
        BinOp::And(_) => "And",
        BinOp::Or(_) => "Or",
        BinOp::BitXor(_) | BinOp::BitXorAssign(_) => "BitXor",
        BinOp::BitAnd(_) | BinOp::BitAndAssign(_) => "BitAnd",
        BinOp::BitOr(_) | BinOp::BitOrAssign(_) => "BitOr",
        BinOp::Shl(_) | BinOp::ShlAssign(_) => "Shl",
        BinOp::Shr(_) | BinOp::ShrAssign(_) => "Shr",
        BinOp::Eq(_) => "Eq",
        BinOp::Lt(_) => "Lt",
        BinOp::Le(_) => "Le",
        BinOp::Ne(_) => "Ne",
        BinOp::Ge(_) => "Ge",
        _ => "Gt",
    };
    Ident::new(name, Span::call_site())
}
