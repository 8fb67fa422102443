//! Scalar expressions: extents in types, elements of shapes, `prim(..)`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, Lit, Path, UnOp};

use super::ty::{Dims, NewDims, is_constant};
use crate::error::Errors;
use crate::rounding::rounded_to_odd;
use crate::{dims, paths};

const HELP: &str = "write n, 10 or { n * 2 }";

/// The tokens of a `PrimExpr`. `new` determines how names that are not bound yet are treated.
pub(super) fn tokens(expr: &Expr, dims: &mut Dims, new: NewDims, errors: &mut Errors) -> TokenStream {
    let tir = paths::tir(expr.span());
    let found = match expr {
        Expr::Lit(it) => literal(&it.lit),
        Expr::Path(it) => match it.path.get_ident() {
            Some(name) => Some(self::name(name, dims, new, errors)),
            None => constant(&it.path),
        },
        Expr::Paren(it) => return tokens(&it.expr, dims, new, errors),
        Expr::Group(it) => return tokens(&it.expr, dims, new, errors),
        Expr::Block(it) => match &it.block.stmts[..] {
            [syn::Stmt::Expr(inner, None)] => return tokens(inner, dims, new, errors),
            _ => None,
        },
        Expr::Unary(it) => {
            let value = tokens(&it.expr, dims, new, errors);
            match it.op {
                UnOp::Neg(_) => Some(quote!((-#value))),
                UnOp::Not(_) => Some(quote!((!#value))),
                _ => None,
            }
        }
        Expr::Binary(it) => operator(&it.op).map(|op| {
            let (a, b) = (tokens(&it.left, dims, new, errors), tokens(&it.right, dims, new, errors));
            let op = Ident::new(op, Span::call_site());
            quote!(#tir::binary(#tir::BinaryOp::#op, #a, #b))
        }),
        Expr::Cast(it) => {
            let dtype = match &*it.ty {
                syn::Type::Path(path) => path.path.get_ident().and_then(dims::dtype),
                _ => None,
            };
            let value = tokens(&it.expr, dims, new, errors);
            dtype.map(|dtype| quote!(#value.cast(#dtype)))
        }
        Expr::Call(it) => {
            let name = if let Expr::Path(path) = &*it.func { path.path.get_ident() } else { None };
            let args: Vec<TokenStream> = it.args.iter().map(|arg| tokens(arg, dims, new, errors)).collect();
            match (name.map(Ident::to_string).as_deref(), &args[..]) {
                (Some(name), [a, b]) => function(name).map(|op| {
                    let op = Ident::new(op, Span::call_site());
                    quote!(#tir::binary(#tir::BinaryOp::#op, #a, #b))
                }),
                (Some("select"), [condition, a, b]) => Some(quote!(#condition.select(#a, #b))),
                _ => None,
            }
        }
        _ => None,
    };
    found.unwrap_or_else(|| {
        errors.push(expr, "an extent is a name, a number or an expression of these", HELP);
        quote!(#tir::PrimExpr::index(0))
    })
}

/// The `BinaryOp` of an operator; division rounds down.
fn operator(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Add(_) => "Add",
        BinOp::Sub(_) => "Sub",
        BinOp::Mul(_) => "Mul",
        BinOp::Div(_) => "FloorDiv",
        BinOp::Rem(_) => "FloorMod",
        BinOp::And(_) => "And",
        BinOp::Or(_) => "Or",
        BinOp::BitAnd(_) => "BitAnd",
        BinOp::BitOr(_) => "BitOr",
        BinOp::BitXor(_) => "BitXor",
        BinOp::Shl(_) => "Shl",
        BinOp::Shr(_) => "Shr",
        BinOp::Eq(_) => "Eq",
        BinOp::Ne(_) => "Ne",
        BinOp::Lt(_) => "Lt",
        BinOp::Le(_) => "Le",
        BinOp::Gt(_) => "Gt",
        BinOp::Ge(_) => "Ge",
        _ => return None,
    })
}

/// The `BinaryOp` of a function of two arguments; `div` and `rem` round toward zero.
fn function(name: &str) -> Option<&'static str> {
    Some(match name {
        "min" => "Min",
        "max" => "Max",
        "div" => "Div",
        "rem" => "Mod",
        _ => return None,
    })
}

/// A literal; without a suffix, an integer is an extent (`i64`) and a float is `f32`.
fn literal(lit: &Lit) -> Option<TokenStream> {
    let tir = paths::tir(lit.span());
    let dtype = |suffix: &str| dims::dtype(&Ident::new(suffix, lit.span()));
    match lit {
        Lit::Bool(it) => Some(quote!(#tir::PrimExpr::bool(#it))),
        Lit::Int(it) if matches!(it.suffix(), "" | "usize") => {
            Some(quote!(#tir::PrimExpr::index(#it as i64)))
        }
        Lit::Int(it) => dtype(it.suffix()).map(|dtype| quote!(#tir::PrimExpr::int(#it as i64, #dtype))),
        Lit::Float(it) => {
            let dtype = dtype(if it.suffix().is_empty() { "f32" } else { it.suffix() })?;
            let nearest: f64 = it.base10_parse().ok()?;
            let odd = rounded_to_odd(it.base10_digits(), nearest).filter(|_| it.suffix() != "f64");
            let value = odd.unwrap_or(nearest);
            Some(quote!(#tir::PrimExpr::float(#value, #dtype)))
        }
        _ => None,
    }
}

/// `i64::MIN`, `f32::NAN`, …
fn constant(path: &Path) -> Option<TokenStream> {
    let tir = paths::tir(path.span());
    let (first, last) = (path.segments.first()?, path.segments.last()?);
    let (name, dtype) = (&last.ident, dims::dtype(&first.ident)?);
    Some(if first.ident.to_string().contains('f') {
        quote!(#tir::PrimExpr::float(f64::#name, #dtype))
    } else {
        quote!(#tir::PrimExpr::int(#path as i64, #dtype))
    })
}

/// A dimension, a scalar, or a constant of the host program.
pub(super) fn name(name: &Ident, dims: &mut Dims, new: NewDims, errors: &mut Errors) -> TokenStream {
    let (tir, graph) = (paths::tir(name.span()), paths::graph(name.span()));
    if is_constant(name) {
        return quote!(#tir::PrimExpr::index(#name as i64));
    }
    if !dims.contains(name) {
        match new {
            NewDims::Bind => dims.names.push(name.clone()),
            NewDims::Collect => {}
            NewDims::Refuse => {
                let message = format!("dimension `{name}` is not bound by a parameter");
                let help = "name it in the type of a parameter, or use match_cast in the body";
                errors.push(name, message, help);
                dims.names.push(name.clone());
            }
        }
    }
    quote!(#graph::scalar(&#name))
}
