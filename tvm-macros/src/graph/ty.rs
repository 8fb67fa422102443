//! Types of graph functions: what they say, and the tokens that build them.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, GenericArgument, Lit, PathArguments, ReturnType, Type};

use crate::dims::DTYPES;
use crate::error::Errors;
use crate::paths;

/// Symbolic dimensions in order of first use.
#[derive(Default)]
pub(crate) struct Dims(pub(crate) Vec<Ident>);

impl Dims {
    pub(crate) fn contains(&self, name: &Ident) -> bool {
        self.0.contains(name)
    }
}

/// How new dimension names are met.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewDims {
    /// They are bound here.
    Bind,
    /// They are an error: a result names what its parameters bind.
    Refuse,
}

/// The tokens of an `ir::Type`.
pub(crate) fn tokens(ty: &Type, dims: &mut Dims, new: NewDims, errors: &mut Errors) -> TokenStream {
    let span = ty.span();
    let (ir, graph) = (paths::ir(span), paths::graph(span));
    let unsupported = |errors: &mut Errors| {
        let help = "types are Tensor<f32, n, 10>, TensorDyn<f32>, scalars, tuples, fn(A) -> B and #[relay::adt] types";
        errors.push(ty, "this type is not supported in a graph function", help);
        quote!(#ir::Type::Object)
    };
    match ty {
        Type::Paren(it) => tokens(&it.elem, dims, new, errors),
        Type::Group(it) => tokens(&it.elem, dims, new, errors),
        Type::Tuple(it) => {
            let fields: Vec<TokenStream> =
                it.elems.iter().map(|field| tokens(field, dims, new, errors)).collect();
            quote_spanned!(span=> #ir::Type::Tuple(::std::vec![#(#fields),*].into()))
        }
        Type::BareFn(it) => {
            let params: Vec<TokenStream> =
                it.inputs.iter().map(|arg| tokens(&arg.ty, dims, new, errors)).collect();
            let ret = match &it.output {
                ReturnType::Default => quote!(#ir::Type::unit()),
                ReturnType::Type(_, ret) => tokens(ret, dims, new, errors),
            };
            quote_spanned! {span=>
                #ir::Type::Func(::std::sync::Arc::new(#ir::FuncType {
                    type_params: ::std::vec![].into(),
                    params: ::std::vec![#(#params),*].into(),
                    ret: #ret,
                    pure: true,
                }))
            }
        }
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return unsupported(errors) };
            let args: Vec<&GenericArgument> = match &last.arguments {
                PathArguments::AngleBracketed(it) => it.args.iter().collect(),
                PathArguments::None | PathArguments::Parenthesized(_) => Vec::new(),
            };
            let name = last.ident.to_string();
            match (name.as_str(), &args[..]) {
                ("Tensor", [dtype, extents @ ..]) => {
                    let Some(dtype) = dtype_of(dtype, errors) else { return quote!(#ir::Type::Object) };
                    let extents: Vec<TokenStream> =
                        extents.iter().map(|it| dim(it, dims, new, errors)).collect();
                    quote_spanned!(span=> #ir::Type::tensor(::std::vec![#(#extents),*], #dtype))
                }
                ("TensorDyn", [dtype]) => {
                    let Some(dtype) = dtype_of(dtype, errors) else { return quote!(#ir::Type::Object) };
                    quote_spanned!(span=> #ir::Type::Tensor(#ir::TensorType::unknown(::std::option::Option::Some(#dtype))))
                }
                ("Box", [GenericArgument::Type(inner)]) => tokens(inner, dims, new, errors),
                (_, []) => match dtype(&last.ident) {
                    Some(dtype) => quote_spanned!(span=> #ir::Type::Prim(#dtype)),
                    None if name == "Tensor" || name == "TensorDyn" => {
                        errors.push(
                            ty,
                            format!("`{name}` needs an element type"),
                            "write Tensor<f32, n, 10>",
                        );
                        quote!(#ir::Type::Object)
                    }
                    None => quote_spanned!(span=> <#path as #graph::AdtDef>::ty()),
                },
                _ => unsupported(errors),
            }
        }
        _ => unsupported(errors),
    }
}

/// `DataType::F32` for `f32`.
pub(crate) fn dtype(name: &Ident) -> Option<TokenStream> {
    let text = name.to_string();
    let runtime = paths::runtime(name.span());
    DTYPES.contains(&text.as_str()).then(|| {
        let constant = Ident::new(&text.to_uppercase(), name.span());
        quote!(#runtime::DataType::#constant)
    })
}

fn dtype_of(arg: &GenericArgument, errors: &mut Errors) -> Option<TokenStream> {
    let found = match arg {
        GenericArgument::Type(Type::Path(path)) => path.path.get_ident().and_then(dtype),
        _ => None,
    };
    if found.is_none() {
        let help = format!("element types are {}", DTYPES.join(" "));
        errors.push(arg, format!("`{}` is not an element type", quote!(#arg)), &help);
    }
    found
}

/// The tokens of one extent, a `PrimExpr`.
fn dim(arg: &GenericArgument, dims: &mut Dims, new: NewDims, errors: &mut Errors) -> TokenStream {
    match arg {
        GenericArgument::Type(Type::Path(path)) if path.path.get_ident().is_some() => {
            let Some(name) = path.path.get_ident() else { return TokenStream::new() };
            dim_name(name, dims, new, errors)
        }
        GenericArgument::Const(expr) => dim_expr(expr, dims, errors),
        _ => {
            errors.push(
                arg,
                "an extent is a name, a number or an expression in braces",
                "write n, 10 or { n * 2 }",
            );
            quote!(0i64.into())
        }
    }
}

fn dim_name(name: &Ident, dims: &mut Dims, new: NewDims, errors: &mut Errors) -> TokenStream {
    let (tir, span) = (paths::tir(name.span()), name.span());
    if is_constant(name) {
        return quote_spanned!(span=> #tir::PrimExpr::index(#name as i64));
    }
    if !dims.contains(name) {
        match new {
            NewDims::Bind => dims.0.push(name.clone()),
            NewDims::Refuse => {
                let message = format!("dimension `{name}` is not bound by a parameter");
                errors.push(
                    name,
                    message,
                    "name it in the type of a parameter, or use match_cast in the body",
                );
                dims.0.push(name.clone());
            }
        }
    }
    quote_spanned!(span=> #tir::PrimExpr::clone(&#name))
}

/// True for names that are constants of the host program.
fn is_constant(name: &Ident) -> bool {
    let text = name.to_string();
    text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)
}

fn dim_expr(expr: &Expr, dims: &mut Dims, errors: &mut Errors) -> TokenStream {
    let tir = paths::tir(expr.span());
    match expr {
        Expr::Lit(lit) if matches!(lit.lit, Lit::Int(_)) => quote!(#tir::PrimExpr::index(#lit)),
        Expr::Path(path) if path.path.get_ident().is_some() => match path.path.get_ident() {
            Some(name) => dim_name(name, dims, NewDims::Refuse, errors),
            None => TokenStream::new(),
        },
        Expr::Paren(it) => dim_expr(&it.expr, dims, errors),
        Expr::Block(it) => match &it.block.stmts[..] {
            [syn::Stmt::Expr(inner, None)] => dim_expr(inner, dims, errors),
            _ => {
                errors.push(expr, "an extent is one expression", "write { n * 2 }");
                quote!(#tir::PrimExpr::index(0))
            }
        },
        Expr::Binary(it) => {
            let (a, b) = (dim_expr(&it.left, dims, errors), dim_expr(&it.right, dims, errors));
            match it.op {
                syn::BinOp::Add(_) => quote!((#a + #b)),
                syn::BinOp::Sub(_) => quote!((#a - #b)),
                syn::BinOp::Mul(_) => quote!((#a * #b)),
                syn::BinOp::Div(_) => quote!(#a.floordiv(#b)),
                syn::BinOp::Rem(_) => quote!(#a.floormod(#b)),
                _ => {
                    errors.push(expr, "extents are made with + - * / %", "");
                    quote!(#tir::PrimExpr::index(0))
                }
            }
        }
        _ => {
            errors.push(
                expr,
                "an extent is a name, a number or an expression of these",
                "write n, 10 or { n * 2 }",
            );
            quote!(#tir::PrimExpr::index(0))
        }
    }
}
